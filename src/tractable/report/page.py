"""One run as one HTML file that needs nothing else: no network, no other files, no scripts."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from tractable.persistence.atomic import write_text
from tractable.report.charts import answer, draw, draw_calibration
from tractable.report.pictures import picture_uri
from tractable.report.results import Comparison, Results
from tractable.report.words import duration, number, signed

REPORT = "report.html"


@cache
def environment() -> Environment:
    """The templates, with escaping of everything that is put into them."""
    made = Environment(
        loader=PackageLoader("tractable.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"number": number, "signed": signed, "duration": duration}
    return made


def render_report(results: Results, folder: str | Path) -> str:
    """The page of one run; its pictures are read from the folder."""
    page = "table.html" if results.kind == "table" else "report.html"
    return environment().get_template(page).render(view(results, Path(folder)))


def write_report(results: Results, folder: str | Path) -> Path:
    """Write ``report.html`` beside the results, atomically."""
    return write_text(Path(folder) / REPORT, render_report(results, folder))


def view(results: Results, folder: Path) -> dict[str, Any]:
    """What the template shows of a run."""
    found = [(picture, picture_uri(folder, picture.file)) for picture in results.pictures]
    calibration = results.calibration
    rows = results.comparison
    return {
        "run": results,
        "verdict": verdict(rows),
        "has_paper": any(row.paper is not None for row in rows),
        "has_spread": any(row.spread is not None for row in rows),
        "has_note": any(row.note for row in rows),
        "drawings": [
            draw(chart, f"chart {i}") for i, chart in enumerate(results.charts) if chart.curves
        ],
        "sections": [answer(part, f"section {i}") for i, part in enumerate(results.sections)],
        "calibration": calibration,
        "calibration_drawing": (
            draw_calibration(calibration, "calibration") if calibration else None
        ),
        "pictures": [(p.caption or p.file, uri) for p, uri in found if uri is not None],
        "missing": [p.file for p, uri in found if uri is None],
        "settings": [(key, _words(value)) for key, value in results.settings.items()],
        "metrics": json.dumps(results.metrics, indent=1, ensure_ascii=False),
    }


def verdict(rows: list[Comparison]) -> str:
    """How the rows stand to the paper, in words."""
    counts = Counter(row.verdict for row in rows if row.verdict)
    if not counts:
        return ""
    parts = [f"{counts[word]} {word}" for word in ("better", "equal", "worse") if counts[word]]
    return ", ".join(parts)


def _words(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(_words(entry) for entry in value)
    return "–" if value is None else number(value) if isinstance(value, float) else str(value)
