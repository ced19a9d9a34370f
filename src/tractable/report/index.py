"""Index page of several runs: commands, comparison with papers, and a table of the learners."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tractable.errors import InvalidResults
from tractable.persistence.atomic import write_text
from tractable.report.formatting import format_number
from tractable.report.page import REPORT, summarize_verdicts, template_environment
from tractable.report.results import RESULTS, Comparison, Results

INDEX = "index.html"


@dataclass(frozen=True)
class RunResults:
    """Results of a run and the path of their file."""

    path: Path
    results: Results

    def label(self, below: Path) -> str:
        """Return the folder of the run, or its file if the folder holds several runs."""
        relative = self.path.relative_to(below)
        name = relative.parent if relative.name == RESULTS else relative.with_suffix("")
        return name.as_posix() if name != Path() else self.results.name

    @property
    def report(self) -> Path | None:
        """Path of the page of the run; None if there is none."""
        page = self.path.with_name(REPORT)
        return page if self.path.name == RESULTS and page.is_file() else None


def find_results(folder: str | Path) -> list[RunResults]:
    """Return all results below a folder, sorted by name and path; ignore other JSON files.

    Args:
        folder: folder that is searched with its subfolders.
    """
    found = []
    for path in sorted(Path(folder).rglob("*.json")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if hidden or not path.is_file():
            continue
        try:
            found.append(RunResults(path, Results.read(path)))
        except InvalidResults:
            if path.name == RESULTS:  # a JSON file of another name may be anything
                raise
    return sorted(found, key=lambda run: (run.results.name, str(run.path)))


def write_index(folder: str | Path, runs: list[RunResults]) -> Path:
    """Write ``index.html`` atomically: one page with the runs below a folder.

    Args:
        folder: folder that the page is written to; names and links are relative to it.
        runs: the results to list, as ``find_results`` returns them.
    """
    folder = Path(folder)
    page = template_environment().get_template("index.html").render(
        folder=folder.resolve().name, runs=[_summary(run, folder) for run in runs],
        has_paper=any(summarize_verdicts(run.results.comparison) for run in runs),
        has_score=any(run.results.kind == "table" for run in runs),
        has_commit=any(run.results.commit for run in runs),
        rows=[(run.label(folder), row)
              for run in runs for row in run.results.comparison if row.paper is not None],
        tables=learner_tables(runs, folder),
    )  # fmt: skip
    return write_text(folder / INDEX, page)


@dataclass(frozen=True)
class LearnerTable:
    """Metrics of the learners of one study: learners in rows, metrics in columns."""

    name: str
    measures: list[str]
    rows: list[tuple[str, list[Comparison | None]]]
    best: list[float | None]


def learner_tables(runs: list[RunResults], folder: Path) -> list[LearnerTable]:
    """Return a table for each study with more than one learner or run."""
    tables = []
    for name in sorted({run.results.name for run in runs}):
        own = [run for run in runs if run.results.name == name]
        cells: dict[str, dict[str, Comparison]] = {}
        measures: dict[str, None] = {}
        for run in own:
            for row in run.results.comparison:
                who = row.learner or name
                who = f"{who} ({run.label(folder)})" if len(own) > 1 else who
                cells.setdefault(who, {}).setdefault(row.measure or row.name, row)
                measures[row.measure or row.name] = None
        # A metric of a single learner cannot be compared.
        shared = [m for m in measures if sum(m in row for row in cells.values()) > 1]
        rows = [(who, [row.get(m) for m in shared]) for who, row in cells.items()]
        rows = [(who, row) for who, row in rows if any(row)]
        if shared:
            best = [_best([row[i] for _, row in rows]) for i in range(len(shared))]
            tables.append(LearnerTable(name, shared, rows, best))
    return tables


def _best(column: list[Comparison | None]) -> float | None:
    """Return the best value of a column; None if its rows do not define what is better."""
    held = [c for c in column if c is not None and c.ours is not None]
    if not held or len({c.better for c in held}) > 1 or not held[0].better:
        return None
    kind, goal = held[0].better, held[0].goal
    values = [c.ours for c in held if c.ours is not None]
    if kind == "nearer":
        return None if goal is None else min(values, key=lambda value: abs(value - goal))
    return min(values) if kind == "smaller" else max(values)


def _score(results: Results) -> str:
    """Return the first metric of a run on a user's table, as text."""
    if results.kind != "table" or not results.comparison:
        return ""
    first = results.comparison[0]
    return f"{first.name} {format_number(first.ours)} {first.unit}".strip()


def _summary(run: RunResults, folder: Path) -> dict[str, Any]:
    page = run.report
    return {
        "label": run.label(folder),
        "run": run.results,
        "verdict": summarize_verdicts(run.results.comparison),
        "score": _score(run.results),
        "link": None if page is None else Path(os.path.relpath(page, folder)).as_posix(),
    }
