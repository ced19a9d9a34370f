"""Every exception that tractable raises on purpose.

All derive from ``TractableError`` and from the built-in exception that fits, so both
``except tr.errors.TractableError`` and ``except ValueError`` work.  A message says what was given,
what is wanted and, where it is not obvious, the likely causes (a), (b), (c).
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class TractableError(Exception):
    """The base of all of them."""


# --- what users hand over ---------------------------------------------------------------------


class InvalidInput(TractableError, ValueError):
    """Inputs that the network cannot take."""


class InvalidTarget(TractableError, ValueError):
    """Targets that the likelihood cannot have produced."""


class NotFitted(TractableError, RuntimeError):
    """Something was asked of a learner that has seen no data."""


# --- numbers that are not finite; nothing was changed -----------------------------------------


class NonFiniteError(TractableError, ArithmeticError):
    """A computation gave NaN or infinity, and its result was not used."""


class NonFiniteUpdate(NonFiniteError):
    """An update would have made a parameter infinite or NaN; nothing was changed."""


class NonFiniteGradient(NonFiniteError):
    """A step would have made a parameter infinite or NaN; nothing was changed."""


class NonFiniteMessage(NonFiniteError):
    """An observation sent a message that is NaN or infinite."""


# --- what there is no formula for -------------------------------------------------------------


class ConvergenceError(TractableError, ArithmeticError):
    """A fixed-point iteration did not converge."""


class Unsupported(TractableError):
    """Something that a method, a rule or the compiled kernel does not cover."""


class NoMomentRule(Unsupported, LookupError):
    """A torch function was called on a Gaussian and has no moment rule.

    Not a ``TypeError``, which makes Python try the reflected operator and lose the name.
    """


class UnsupportedLayer(Unsupported, TypeError):
    """A layer that the formulas of derivatives do not cover."""


class UnsupportedByKernel(Unsupported, ValueError):
    """Something that the compiled kernel does not do; ``engine="torch"`` does."""


# --- files and data ---------------------------------------------------------------------------


class InvalidModelFile(TractableError, ValueError):
    """A file that is not a whole model file of this library, or does not fit what is wanted."""


class InvalidResults(TractableError, ValueError):
    """A ``results.json`` that a report cannot be made of."""


class DataNotFound(TractableError, FileNotFoundError):
    """A data file is in none of the places; the message says how to provide it."""


class ChecksumMismatch(TractableError, ValueError):
    """A data file is there, and is not the file it should be."""


# --- work that ends early ---------------------------------------------------------------------


class Cancelled(TractableError, RuntimeError):
    """Training was stopped because a training next to it failed or was interrupted."""


class EnvironmentFault(TractableError, RuntimeError):
    """An environment returned something that is not a finite number."""

    def __init__(self, what: str, step: int) -> None:
        self.what, self.step, self.path = what, step, ""
        super().__init__(f"the environment returned {what} at step {step}")

    def saved_to(self, path: str) -> None:
        """Say where the agent went."""
        self.path = path
        self.args = (
            f"the environment returned {self.what} at step {self.step}; the agent as it was after "
            f"the last update is saved in {path}",
        )


# --- what is not installed --------------------------------------------------------------------


class MissingExtra(TractableError, ImportError):
    """A library that comes with one of tractable's extras is not installed."""


class MatplotlibMissing(MissingExtra):
    """A picture was asked for without matplotlib."""


# --- names that are nearly right --------------------------------------------------------------


def close_names(name: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """The known names that look like this one, nearest first; capitals do not count.

    >>> close_names("tagy", ["TAGI", "BBB", "tag"])
    ['tag', 'TAGI']
    """
    folded = {candidate.lower(): candidate for candidate in known}
    return [folded[near] for near in get_close_matches(name.lower(), folded, limit, cutoff=0.5)]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of an error message: a question about the nearest known name, or nothing.

    >>> did_you_mean("tagy", ["TAGI", "BBB"])
    " Did you mean 'TAGI'?"
    >>> did_you_mean("adam", ["TAGI", "BBB"])
    ''
    """
    return "".join(f" Did you mean {near!r}?" for near in close_names(name, known, 1))
