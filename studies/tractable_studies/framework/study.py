"""Description of a study, which can be read without importing the study.

The ``__init__`` of the folder of a study defines one or several.  The entry points
``tractable.studies`` in ``pyproject.toml`` refer to them, so that ``tractable list`` imports none.
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
        name: name for ``tractable run``.
        title: title, in one line.
        source: table or figure of a paper.
        module: module with its ``main``.
        arguments: arguments of ``main`` before those of the user.
    """

    name: str
    title: str
    source: str
    module: str
    arguments: tuple[str, ...] = ()

    def main(self) -> Callable[[Sequence[str]], Path]:
        """Import the module and return its ``main``, which returns the path of the results."""
        run = importlib.import_module(self.module).main
        return lambda argv: run([*self.arguments, *argv])
