"""Recording of the results of a study, with what is needed to reproduce them."""

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

DPI = 120
"""Resolution of figures in dots per inch."""


class RunRecord:
    """Collects the results of a run and writes them atomically, with their provenance.

    Args:
        study: description of the study.
        seeds: random seeds.
        settings: options that affect the results.
        argv: arguments of ``main``, if it was called from Python.

    Attributes:
        metrics: all numbers, in nested dicts and lists.
        comparison: metrics, with published values if there are any.
        charts: curves.
        calibration: expected against observed frequencies, if measured.
        notes: remarks for the reader of the report.
        earlier: duration in seconds of the runs that this one resumed.
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
        """Return a chart of one key of the histories by epoch; None if no record has it."""
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
        """Return the results."""
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
        """Write the results, and the report if the folder is theirs; return the former's path.

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
