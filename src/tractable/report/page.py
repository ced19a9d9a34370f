"""One run as one HTML file that needs nothing else: no network, no other files, no script."""

from __future__ import annotations

import base64
import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tractable.report.drawing import draw, draw_calibration, number
from tractable.report.files import write_text
from tractable.report.results import Comparison, Results

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
    made.globals["asset"] = lambda name: Markup(_asset(name))  # our own files, not data
    return made


def render_report(results: Results, folder: str | Path) -> str:
    """The page of one run; its pictures are read from the folder."""
    return environment().get_template("report.html").render(view(results, Path(folder)))


def write_report(results: Results, folder: str | Path) -> Path:
    """Write ``report.html`` beside the results, atomically."""
    return write_text(Path(folder) / REPORT, render_report(results, folder))


def view(results: Results, folder: Path) -> dict[str, Any]:
    """What the template shows of a run."""
    drawn = [picture for picture in results.pictures if (folder / picture.file).is_file()]
    calibration = results.calibration
    rows = results.comparison
    return {
        "run": results,
        "verdict": verdict(rows),
        "has_paper": any(row.paper is not None for row in rows),
        "has_spread": any(row.spread is not None for row in rows),
        "has_note": any(row.note for row in rows),
        "drawings": [draw(chart) for chart in results.charts if chart.curves],
        "calibration": calibration,
        "calibration_drawing": draw_calibration(calibration) if calibration else None,
        "pictures": [(p.caption or p.file, data_uri(folder / p.file)) for p in drawn],
        "missing": [p.file for p in results.pictures if p not in drawn],
        "settings": [(key, _words(value)) for key, value in results.settings.items()],
        "figures": json.dumps(results.metrics, indent=1, ensure_ascii=False),
    }


def verdict(rows: list[Comparison]) -> str:
    """How the rows stand to the paper, in words."""
    counts = Counter(row.verdict for row in rows if row.verdict)
    if not counts:
        return ""
    parts = [f"{counts[word]} {word}" for word in ("better", "equal", "worse") if counts[word]]
    return ", ".join(parts)


def data_uri(path: Path) -> str:
    """An image as text, for the page to hold."""
    kinds = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg"}
    kind = kinds.get(path.suffix.lower())
    if kind is None:
        raise ValueError(f"pictures must be PNG or JPEG files, got {path.name}")
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"


def signed(value: float | None) -> str:
    """A difference, with its sign."""
    return number(value) if value is None or value <= 0 else f"+{number(value)}"


def duration(seconds: float) -> str:
    """A time for a reader.

    >>> duration(4.23), duration(75), duration(7500)
    ('4.2 s', '1 min 15 s', '2 h 5 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def _asset(name: str) -> str:
    return (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8")


def _words(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(_words(entry) for entry in value)
    return "–" if value is None else number(value) if isinstance(value, float) else str(value)
