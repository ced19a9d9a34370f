"""Several runs as one page: what was run, how it went, and the learners side by side."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tractable.errors import InvalidResults
from tractable.persistence.atomic import write_text
from tractable.report.page import REPORT, environment, verdict
from tractable.report.results import RESULTS, Comparison, Results
from tractable.report.words import number

INDEX = "index.html"


@dataclass(frozen=True)
class Run:
    """Results and where they were found."""

    path: Path
    results: Results

    def label(self, below: Path) -> str:
        """Its folder, or its file where several share one."""
        relative = self.path.relative_to(below)
        name = relative.parent if relative.name == RESULTS else relative.with_suffix("")
        return name.as_posix() if name != Path() else self.results.experiment

    @property
    def report(self) -> Path | None:
        """Its own page, if there is one."""
        page = self.path.with_name(REPORT)
        return page if self.path.name == RESULTS and page.is_file() else None


def find_results(folder: str | Path) -> list[Run]:
    """All results below a folder, by experiment and path; other JSON files are passed over."""
    found = []
    for path in sorted(Path(folder).rglob("*.json")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if hidden or not path.is_file():
            continue
        try:
            found.append(Run(path, Results.read(path)))
        except InvalidResults:
            if path.name == RESULTS:  # a foreign JSON file is no concern of ours; this one is
                raise
    return sorted(found, key=lambda run: (run.results.experiment, str(run.path)))


def write_index(folder: str | Path, runs: list[Run]) -> Path:
    """Write ``index.html``, which joins the runs below a folder, atomically."""
    folder = Path(folder)
    page = environment().get_template("index.html").render(
        folder=folder.resolve().name, runs=[_summary(run, folder) for run in runs],
        has_paper=any(verdict(run.results.comparison) for run in runs),
        has_score=any(run.results.kind == "table" for run in runs),
        has_commit=any(run.results.commit for run in runs),
        rows=[(run.results.experiment, run.label(folder), row)
              for run in runs for row in run.results.comparison if row.paper is not None],
        tables=learners(runs, folder),
    )  # fmt: skip
    return write_text(folder / INDEX, page)


@dataclass(frozen=True)
class Table:
    """The learners of one experiment (rows) and what was measured of them (columns)."""

    experiment: str
    measures: list[str]
    rows: list[tuple[str, list[Comparison | None]]]
    best: list[float | None]


def learners(runs: list[Run], folder: Path) -> list[Table]:
    """A table for every experiment in which more than one learner, or run, was measured."""
    tables = []
    for experiment in sorted({run.results.experiment for run in runs}):
        own = [run for run in runs if run.results.experiment == experiment]
        cells: dict[str, dict[str, Comparison]] = {}
        measures: dict[str, None] = {}
        for run in own:
            for row in run.results.comparison:
                who = row.learner or experiment
                who = f"{who} ({run.label(folder)})" if len(own) > 1 else who
                cells.setdefault(who, {}).setdefault(row.measure or row.name, row)
                measures[row.measure or row.name] = None
        # A measure that one learner alone has compares nothing.
        shared = [m for m in measures if sum(m in row for row in cells.values()) > 1]
        rows = [(who, [row.get(m) for m in shared]) for who, row in cells.items()]
        rows = [(who, row) for who, row in rows if any(row)]
        if shared:
            best = [_best([row[i] for _, row in rows]) for i in range(len(shared))]
            tables.append(Table(experiment, shared, rows, best))
    return tables


def _best(column: list[Comparison | None]) -> float | None:
    """The best of a column; None if its rows do not say what is better."""
    held = [c for c in column if c is not None and c.ours is not None]
    if not held or len({c.better for c in held}) > 1 or not held[0].better:
        return None
    kind, goal = held[0].better, held[0].goal
    values = [c.ours for c in held if c.ours is not None]
    if kind == "nearer":
        return None if goal is None else min(values, key=lambda value: abs(value - goal))
    return min(values) if kind == "smaller" else max(values)


def _score(results: Results) -> str:
    """The first measure of a user's own table."""
    if results.kind != "table" or not results.comparison:
        return ""
    first = results.comparison[0]
    return f"{first.name} {number(first.ours)} {first.unit}".strip()


def _summary(run: Run, folder: Path) -> dict[str, Any]:
    page = run.report
    return {
        "label": run.label(folder),
        "run": run.results,
        "verdict": verdict(run.results.comparison),
        "score": _score(run.results),
        "link": None if page is None else Path(os.path.relpath(page, folder)).as_posix(),
    }
