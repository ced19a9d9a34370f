"""All experiments by name; listing them imports none of them.

A new experiment is one more line here, and a module with ``main(argv)`` that takes at least
``--quick``, ``--seed`` and ``--out``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from tractable.errors import close_names

_TAGI = "Goulet, Nguyen & Amiri 2021"
_STATES = "Nguyen & Goulet, hidden-states inference"
_BBB = "Weight uncertainty in neural networks, replication"
_OURS = "our own question, no paper"


class UnknownExperiment(KeyError):
    """No experiment has this name."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True)
class Experiment:
    """One entry.

    Args:
        title: what it shows, in one line.
        source: which table or figure of which paper.
        module: where its ``main`` is.
        arguments: what ``main`` gets before the user's own arguments.
    """

    title: str
    source: str
    module: str
    arguments: tuple[str, ...] = ()

    @property
    def present(self) -> bool:
        """Whether the module is part of this installation."""
        return find_spec(self.module) is not None

    def main(self) -> Callable[[Sequence[str]], None]:
        """The entry point, with the module imported."""
        run = importlib.import_module(self.module).main
        return lambda argv: run([*self.arguments, *argv])


def _entry(title: str, paper: str, part: str, call: str) -> Experiment:
    module, *arguments = call.split()
    source = f"{paper}, {part}" if part else paper
    return Experiment(title, source, f"tractable.experiments.{module}", tuple(arguments))


# fmt: off
EXPERIMENTS: dict[str, Experiment] = {
    "attack-cifar10": _entry("Adversarial CIFAR-10 images", _STATES, "table 1", "attack cifar10"),
    "attack-mnist": _entry("Adversarial MNIST images", _STATES, "table 1", "attack mnist"),
    "batch_rule": _entry("Batch rules over depth and batch size", _OURS, "", "batch_rule"),
    "blackbox": _entry("Regret of black-box optimisers after 100 calls", _OURS, "", "blackbox"),
    "cifar-cnn": _entry("CIFAR-10 with a CNN", _STATES, "table 5", "images cifar-cnn"),
    "control": _entry("Control with continuous actions", _STATES, "table 3", "control"),
    "estimators": _entry("scikit-learn estimators on seven UCI sets", _OURS, "", "estimators"),
    "mnist": _entry("MNIST: error, calibration, pruning, robustness", _BBB, "table 3", "mnist"),
    "mnist-cnn": _entry("MNIST with a CNN", _STATES, "table 4", "images mnist-cnn"),
    "mnist-fnn": _entry("MNIST with two hidden layers", _TAGI, "", "images mnist-fnn"),
    "mushroom": _entry("Contextual bandit on mushrooms", _BBB, "section 4.3", "mushroom"),
    "optimize1d": _entry("Optimum of x^3 - 3x", _STATES, "table 2, figure 3", "optimize1d"),
    "regression": _entry("A curve from a short interval", _BBB, "tables 1 and 2", "regression"),
    "uci": _entry("Seven UCI regression sets", _TAGI, "UCI table", "uci"),
}
# fmt: on


def names() -> list[str]:
    """The experiments whose modules are installed."""
    return [name for name, entry in EXPERIMENTS.items() if entry.present]


def find(name: str) -> Experiment:
    """The experiment of this name.

    Raises:
        UnknownExperiment: there is none; the message suggests the nearest names.
    """
    known = names()
    if name in known:
        return EXPERIMENTS[name]
    near = close_names(name, known)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known)}"
    raise UnknownExperiment(f"no experiment {name!r}: {hint}")
