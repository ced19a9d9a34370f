"""The exceptions of the package, and suggestions of similar names.

All exceptions derive from ``TractableError`` and from the built-in exception that fits, so both
``except tr.errors.TractableError`` and ``except ValueError`` work.  A message states what was
passed, what was expected and, where it is not obvious, the likely causes (a), (b), (c).
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class TractableError(Exception):
    """Base class of all exceptions of the package."""


# --- invalid arguments ------------------------------------------------------------------------


class InvalidInput(TractableError, ValueError):
    """Inputs that the network does not accept."""


class InvalidTarget(TractableError, ValueError):
    """Targets outside the support of the likelihood."""


class UnknownArgument(TractableError, TypeError):
    """A keyword argument does not exist; the message names the one to use instead."""


class NotFitted(TractableError, RuntimeError):
    """A learner was used before it was trained."""


# --- results that are not finite; nothing was changed ------------------------------------------


class NonFiniteError(TractableError, ArithmeticError):
    """A computation returned NaN or infinity, and its result was not used."""


class NonFiniteUpdate(NonFiniteError):
    """An update would have made a parameter NaN or infinite; nothing was changed."""


class NonFiniteGradient(NonFiniteError):
    """A gradient step would have made a parameter NaN or infinite; nothing was changed."""


class NonFiniteMessage(NonFiniteError):
    """The message of an observation is NaN or infinite."""


# --- what is not supported ----------------------------------------------------------------------


class ConvergenceError(TractableError, ArithmeticError):
    """A fixed-point iteration did not converge."""


class Unsupported(TractableError):
    """A method, a moment rule or the compiled kernel does not support the request."""


class NoMomentRule(Unsupported, LookupError):
    """A torch function without a moment rule was called with a Gaussian.

    Not a ``TypeError``, because Python would then try the reflected operator and lose the name.
    """


class UnsupportedLayer(Unsupported, TypeError):
    """A layer that the formulas for derivatives do not support."""


class UnsupportedByKernel(Unsupported, ValueError):
    """The compiled kernel does not support this; use ``engine="torch"``."""


# --- files and data ---------------------------------------------------------------------------


class InvalidModelFile(TractableError, ValueError):
    """A file is not a complete model file, or does not match the arguments of ``load``."""


class InvalidResults(TractableError, ValueError):
    """A report cannot be written for a ``results.json``."""


class DataNotFound(TractableError, FileNotFoundError):
    """A data file was not found; the message explains how to provide it."""


class ChecksumMismatch(TractableError, ValueError):
    """A data file exists, but is not the expected file."""


# --- work that ends early ---------------------------------------------------------------------


class Cancelled(TractableError, RuntimeError):
    """Training was stopped because a parallel training failed or was interrupted."""


class EnvironmentFault(TractableError, RuntimeError):
    """An environment returned something that an agent cannot learn from, such as a NaN reward.

    Args:
        what: description of the returned value, for the message.
        step: number of the environment step.
    """

    def __init__(self, what: str, step: int) -> None:
        self.what, self.step, self.path = what, step, ""
        super().__init__(f"the environment returned {what} at step {step}")

    def saved_to(self, path: str) -> None:
        """Add the path of the saved agent to the message."""
        self.path = path
        self.args = (
            f"the environment returned {self.what} at step {self.step}; the agent as it was after "
            f"the last update is saved in {path}",
        )


# --- what is not installed --------------------------------------------------------------------


class MissingExtra(TractableError, ImportError):
    """A library that an extra of the package installs is missing."""


class MatplotlibMissing(MissingExtra):
    """A plot was requested, but matplotlib is not installed."""


# --- similar names ----------------------------------------------------------------------------


def close_names(name: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """Return the known names that are similar to ``name``, the most similar first.

    Args:
        name: a name; case is ignored.
        known: names to compare with.
        limit: maximum number of names.

    >>> close_names("tagy", ["TAGI", "BBB", "tag"])
    ['tag', 'TAGI']
    """
    folded = {candidate.lower(): candidate for candidate in known}
    return [folded[near] for near in get_close_matches(name.lower(), folded, limit, cutoff=0.5)]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of an error message that suggests the most similar name, or nothing.

    >>> did_you_mean("tagy", ["TAGI", "BBB"])
    " Did you mean 'TAGI'?"
    >>> did_you_mean("adam", ["TAGI", "BBB"])
    ''
    """
    return "".join(f" Did you mean {near!r}?" for near in close_names(name, known, 1))
