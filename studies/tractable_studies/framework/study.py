"""The description of a study, which is there without importing the study itself.

The ``__init__`` of a study's folder holds one (or one for each row of its table), and the entry
points ``tractable.studies`` of ``pyproject.toml`` name it: so ``tractable list`` shows all of them
and imports none.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

TAGI = "Goulet, Nguyen & Amiri 2021"
STATES = "Nguyen & Goulet, hidden-states inference"
BBB = "Weight uncertainty in neural networks, replication"
OURS = "experiment, no paper"


@dataclass(frozen=True)
class Study:
    """One entry of ``tractable list``.

    Args:
        name: as ``tractable run`` takes it.
        title: what it shows, in one line.
        source: which table or figure of which paper.
        module: where its ``main`` is.
        arguments: what ``main`` gets before the user's own arguments.
    """

    name: str
    title: str
    source: str
    module: str
    arguments: tuple[str, ...] = ()

    def main(self) -> Callable[[Sequence[str]], Path]:
        """The entry point, with the module imported; it gives the path of the results."""
        run = importlib.import_module(self.module).main
        return lambda argv: run([*self.arguments, *argv])
