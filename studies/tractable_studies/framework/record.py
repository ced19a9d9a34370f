"""Results as small JSON files: the metrics, and what it takes to get them again."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from tractable.persistence.atomic import atomic_file
from tractable.report.page import write_report
from tractable.report.provenance import command_line, commit, peak_memory_mib, versions
from tractable.report.results import (
    RESULTS,
    Calibration,
    Chart,
    Comparison,
    ImageFile,
    Results,
    result_path,
)
from tractable_studies.framework.study import Study

#: Dots per inch of pictures: sharp on a screen, small in a page.
DPI = 120


class RunRecord:
    """Collects what a run found and writes it, atomically, with where it came from.

    Args:
        study: what is run.
        seeds: the seeds it used.
        settings: everything that was chosen.
        argv: the arguments of ``main``, if it was called from Python rather than from a shell.

    Attributes:
        metrics: all numbers, in any nesting of dicts and lists.
        comparison: the rows of the table *paper | ours*.
        charts: learning curves and the like.
        calibration: stated against observed frequencies, if it was measured.
        notes: sentences for the reader of the report.
        earlier: seconds spent by runs that this one resumed.
    """

    def __init__(
        self,
        study: Study,
        *,
        seeds: list[int],
        settings: dict[str, Any],
        argv: Sequence[str] | None = None,
    ) -> None:
        self.study, self.seeds, self.settings = study, seeds, settings
        self.metrics: dict[str, Any] = {}
        self.comparison: list[Comparison] = []
        self.charts: list[Chart] = []
        self.calibration: Calibration | None = None
        self.notes: list[str] = []
        self.earlier = 0.0
        self.started = time.time()
        self.commit = commit()
        self.command = command_line(study.module, argv)
        self._images: dict[str, ImageFile] = {}

    def picture(self, folder: str | Path, figure: Any, part: str = "", caption: str = "") -> Path:
        """Save a matplotlib figure as ``<name>-<part>.png`` in the folder of the results."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / (f"{self.study.name}-{part}.png" if part else f"{self.study.name}.png")
        with atomic_file(path) as scratch:
            figure.savefig(scratch, dpi=DPI)
        self._images[path.name] = ImageFile(path.name, caption or part.replace("-", " "))
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
        return Results(
            name=self.study.name,
            title=f"{self.study.title} ({self.study.source})",
            command=self.command,
            seeds=self.seeds,
            settings=self.settings,
            comparison=self.comparison,
            charts=self.charts,
            calibration=self.calibration,
            images=list(self._images.values()),
            notes=self.notes,
            metrics=self.metrics,
            seconds=round(self.earlier + time.time() - self.started, 2),
            peak_memory_mib=peak_memory_mib(),
            threads=torch.get_num_threads(),
            commit=self.commit,
            versions=versions(),
        )

    def write(self, folder: str | Path) -> Path:
        """Write the results, and in a folder of its own the report; return the path of the former.

        The file is ``results.json``, or ``<name>.json`` in a folder that holds the results of
        other studies (see ``tractable.report.results.result_path``).
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        results = self.results()
        path = results.write(result_path(folder, self.study.name))
        if path.name == RESULTS:
            write_report(results, folder)
        return path
