"""Results as small JSON files: the figures, and what it takes to get them again."""

from __future__ import annotations

import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import tractable
from tractable.experiments import registry
from tractable.report.files import whole_file
from tractable.report.results import (
    RESULTS,
    Calibration,
    Chart,
    Comparison,
    Picture,
    Results,
    result_path,
)

#: Dots per inch of pictures: sharp on a screen, small in a page.
DPI = 120

_latest: Path | None = None


def latest() -> Path | None:
    """The results that this process wrote last, for whoever called an experiment."""
    return _latest


class Record:
    """Collects what a run found and writes it, atomically, with where it came from.

    Args:
        name: the experiment, as in the registry.
        seeds: the seeds it used.
        settings: everything that was chosen.
        argv: the arguments of ``main``, if it was called from Python rather than from a shell.

    Attributes:
        figures: all numbers, in any nesting of dicts and lists.
        comparison: the rows of the table *paper | ours*.
        charts: learning curves and the like.
        calibration: stated against observed frequencies, if it was measured.
        notes: sentences for the reader of the report.
        earlier: seconds spent by runs that this one resumed.
    """

    def __init__(
        self,
        name: str,
        *,
        seeds: list[int],
        settings: dict[str, Any],
        argv: Sequence[str] | None = None,
    ) -> None:
        self.name, self.seeds, self.settings = name, seeds, settings
        self.figures: dict[str, Any] = {}
        self.comparison: list[Comparison] = []
        self.charts: list[Chart] = []
        self.calibration: Calibration | None = None
        self.notes: list[str] = []
        self.earlier = 0.0
        self.started = time.time()
        self.commit = commit()
        self._command = command(name, argv)
        self._pictures: dict[str, Picture] = {}

    def picture(self, folder: str | Path, figure: Any, part: str = "", caption: str = "") -> Path:
        """Save a matplotlib figure as ``<name>-<part>.png`` in the folder of the results."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / (f"{self.name}-{part}.png" if part else f"{self.name}.png")
        with whole_file(path) as scratch:
            figure.savefig(scratch, dpi=DPI)
        self._pictures[path.name] = Picture(path.name, caption or part.replace("-", " "))
        return path

    def learning_curves(
        self, histories: Mapping[str, Sequence[Mapping[str, float]]], key: str, **labels: Any
    ) -> Chart | None:
        """A chart of one key of learners' histories over epochs; None if no record has it."""
        curves = {}
        for name, history in histories.items():
            held = [(n, record[key]) for n, record in enumerate(history, 1) if key in record]
            if held:
                epochs, values = zip(*held, strict=True)
                curves[name] = (list(epochs), list(values))
        words = key.replace("_", " ")
        labels = {"title": f"{words} by epoch", "x_label": "epoch", "y_label": words} | labels
        return Chart(curves=curves, **labels) if curves else None

    def results(self) -> Results:
        """Everything, as it is written."""
        entry = registry.EXPERIMENTS.get(self.name)
        return Results(
            experiment=self.name,
            title=f"{entry.title} ({entry.source})" if entry else "",
            command=self._command,
            seeds=self.seeds,
            settings=self.settings,
            comparison=self.comparison,
            charts=self.charts,
            calibration=self.calibration,
            pictures=list(self._pictures.values()),
            notes=self.notes,
            figures=self.figures,
            seconds=round(self.earlier + time.time() - self.started, 2),
            peak_memory_mib=peak_memory_mib(),
            threads=torch.get_num_threads(),
            commit=self.commit,
            versions=versions(),
        )

    def write(self, folder: str | Path) -> Path:
        """Write the results, and in a folder of its own the report; return the path of the former.

        The file is ``results.json``, or ``<name>.json`` in a folder that holds the results of
        other experiments (see ``tractable.report.results.result_path``).
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        results = self.results()
        path = results.write(result_path(folder, self.name))
        global _latest
        _latest = path
        if path.name == RESULTS:
            try:
                from tractable.report import write_report
            except ImportError:  # the page needs Jinja2, of the extra `cli`; the results do not
                return path
            write_report(results, folder)
        return path


def versions() -> dict[str, str]:
    """What the run was computed with."""
    return {
        "tractable": tractable.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def peak_memory_mib() -> float | None:
    """The largest resident size of this process so far; None where the system does not tell."""
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(size / (2**20 if sys.platform == "darwin" else 2**10), 1)


def command(name: str = "", argv: Sequence[str] | None = None) -> str:
    """The command line of this run, as a user would type it.

    Absolute paths are cut to their last part: they belong to one machine.
    """
    module = getattr(getattr(sys.modules["__main__"], "__spec__", None), "name", None) or ""
    module = module.removesuffix(".__main__")
    program = Path(sys.argv[0]).name
    if program == "tractable" or module == "tractable":
        words = ["tractable", *sys.argv[1:]]
    elif argv is not None:
        entry = registry.EXPERIMENTS.get(name)
        words = ["python", "-m", entry.module if entry else name, *argv]
    elif module:
        words = ["python", "-m", module, *sys.argv[1:]]
    else:
        words = ["python", program, *sys.argv[1:]]
    return shlex.join(Path(word).name if Path(word).is_absolute() else word for word in words)


def commit() -> str | None:
    """The commit of the source tree, with a mark if it had changes; None outside a checkout."""
    here = Path(__file__).parent
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            cwd=here,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip()


def table(rows: list[list[str]], header: list[str]) -> str:
    """A plain text table."""
    cells = [header, *rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in cells]
    return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])
