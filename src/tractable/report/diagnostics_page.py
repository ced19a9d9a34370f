"""The HTML page of ``tractable diagnose``: the recommendation, then the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from markupsafe import Markup

from tractable.diagnostics.result import DiagnosticResult, format_cell
from tractable.persistence.atomic import write_text
from tractable.plots.svg import inline_svg
from tractable.report.page import REPORT, template_environment


@dataclass(frozen=True)
class DiagnosticsPage:
    """Content of the page.

    Attributes:
        title: heading of the page.
        recommendation: the sentence at the top of the page.
        results: result of each diagnostic, by heading.
        notes: remarks on how the table was read.
        details: settings, versions and duration.
    """

    title: str
    recommendation: str
    results: Mapping[str, DiagnosticResult]
    notes: Sequence[str] = ()
    details: Mapping[str, str] = field(default_factory=dict)


def render_diagnostics(page: DiagnosticsPage) -> str:
    """Return the page as HTML."""
    parts = []
    for rank, (heading, result) in enumerate(page.results.items()):
        drawn = inline_svg(result.plot, label=heading, salt=f"diagnostic {rank}")
        cells = [[format_cell(cell) for cell in row] for row in result.table_rows()]
        parts.append(
            {
                "heading": heading,
                "recommendation": result.recommendation(),
                "header": result.table_header(),
                "rows": cells,
                "svg": Markup(drawn.svg),  # `inline` escapes all text
            }
        )
    view = {"page": page, "parts": parts}
    return template_environment().get_template("diagnostics.html").render(view)


def write_diagnostics(page: DiagnosticsPage, folder: str | Path) -> Path:
    """Write ``report.html`` atomically into a folder; return its path."""
    return write_text(Path(folder) / REPORT, render_diagnostics(page))
