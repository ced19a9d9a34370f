"""The HTML page of a run: one file without scripts that loads nothing else."""

from __future__ import annotations

import base64
import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from tractable.persistence.atomic import write_text
from tractable.report.charts import draw_calibration, draw_chart, render_section
from tractable.report.formatting import format_duration, format_number, format_signed
from tractable.report.results import Comparison, Results

REPORT = "report.html"


@cache
def template_environment() -> Environment:
    """Return the Jinja environment of the page templates; inserted text is escaped."""
    templates = Environment(
        loader=PackageLoader("tractable.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "number": format_number,
        "signed": format_signed,
        "duration": format_duration,
    }
    return templates


def render_report(results: Results, folder: str | Path) -> str:
    """Return the page of a run as HTML, with its images read from the folder."""
    page = "table.html" if results.kind == "table" else "report.html"
    return template_environment().get_template(page).render(page_context(results, Path(folder)))


def write_report(results: Results, folder: str | Path) -> Path:
    """Write ``report.html`` atomically into the folder of the results; return its path.

    Args:
        results: results of the run.
        folder: folder of the results, with the images that they name.
    """
    return write_text(Path(folder) / REPORT, render_report(results, folder))


def page_context(results: Results, folder: Path) -> dict[str, Any]:
    """Return the variables of the template."""
    images = [(image, image_uri(folder, image.file)) for image in results.images]
    calibration = results.calibration
    rows = results.comparison
    return {
        "run": results,
        "verdict": summarize_verdicts(rows),
        "has_paper": any(row.paper is not None for row in rows),
        "has_std_error": any(row.std_error is not None for row in rows),
        "has_note": any(row.note for row in rows),
        "charts": [
            draw_chart(chart, f"chart {i}")
            for i, chart in enumerate(results.charts)
            if chart.curves
        ],
        "sections": [
            render_section(section, f"section {i}") for i, section in enumerate(results.sections)
        ],
        "calibration": calibration,
        "calibration_chart": (
            draw_calibration(calibration, "calibration") if calibration else None
        ),
        "images": [(image.caption or image.file, uri) for image, uri in images if uri is not None],
        "missing_images": [image.file for image, uri in images if uri is None],
        "settings": [(key, _to_text(value)) for key, value in results.settings.items()],
        "metrics": json.dumps(results.metrics, indent=1, ensure_ascii=False),
    }


def summarize_verdicts(rows: list[Comparison]) -> str:
    """Return how many rows are better than, equal to and worse than the paper, as text."""
    counts = Counter(row.verdict for row in rows if row.verdict)
    if not counts:
        return ""
    parts = [f"{counts[word]} {word}" for word in ("better", "equal", "worse") if counts[word]]
    return ", ".join(parts)


def _to_text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(_to_text(entry) for entry in value)
    return (
        "–" if value is None else format_number(value) if isinstance(value, float) else str(value)
    )


IMAGE_TYPES = {
    ".png": ("image/png", b"\x89PNG\r\n\x1a\n"),
    ".jpg": ("image/jpeg", b"\xff\xd8\xff"),
    ".jpeg": ("image/jpeg", b"\xff\xd8\xff"),
}
"""Media type and first bytes of an image file, by suffix."""


def image_uri(folder: Path, name: str) -> str | None:
    """Return an image as a data URI; None if there is no such image.

    The name comes from a file of unknown origin.  It must be the name of a PNG or JPEG file in this
    folder, without a path and without a symbolic link to another folder.
    """
    media_type, start = IMAGE_TYPES.get(Path(name).suffix.lower(), ("", b""))
    if not media_type or "/" in name or "\\" in name or "\0" in name:
        return None
    path = folder / name
    if not path.is_file() or path.resolve().parent != folder.resolve():
        return None
    content = path.read_bytes()
    if not content.startswith(start):
        return None
    return f"data:{media_type};base64,{base64.b64encode(content).decode('ascii')}"
