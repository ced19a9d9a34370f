"""The page of ``tractable study``: advice first, then what it rests on, one HTML file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from markupsafe import Markup

from tractable.diagnostics.result import DiagnosticResult, format_cell
from tractable.persistence.atomic import write_text
from tractable.plots.inline import inline
from tractable.report.page import REPORT, environment


@dataclass(frozen=True)
class StudyPage:
    """What a page of studies shows.

    Attributes:
        title: what was studied.
        recommendation: the sentence at the top of the page.
        parts: question to the result that answers it.
        notes: how the table was read.
        facts: settings and such, in words.
    """

    title: str
    recommendation: str
    parts: Mapping[str, DiagnosticResult]
    notes: Sequence[str] = ()
    facts: Mapping[str, str] = field(default_factory=dict)


def render_study(page: StudyPage) -> str:
    """The page as HTML."""
    parts = []
    for rank, (question, result) in enumerate(page.parts.items()):
        drawn = inline(result.plot, label=question, salt=f"study {rank}")
        cells = [[format_cell(cell) for cell in row] for row in result.cells()]
        parts.append(
            {
                "question": question,
                "recommendation": result.recommendation(),
                "header": result.header(),
                "rows": cells,
                "svg": Markup(drawn.svg),  # every text in it is escaped where it is made
            }
        )
    view = {"page": page, "parts": parts}
    return environment().get_template("study.html").render(view)


def write_study(page: StudyPage, folder: str | Path) -> Path:
    """Write ``report.html`` into a folder, atomically."""
    return write_text(Path(folder) / REPORT, render_study(page))
