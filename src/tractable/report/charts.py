"""Charts of a run as the page holds them: drawn by ``tractable.plots``, with their numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from tractable import plots
from tractable.plots.inline import Inline, inline
from tractable.report.results import Calibration, Chart

MOST_POINTS = 300
"""Longer curves are thinned: a screen shows no more."""

Values = Sequence[float | None]


@dataclass(frozen=True)
class Summary:
    """The values of one curve in short; None in all where it has none."""

    name: str
    first: float | None
    last: float | None
    lowest: float | None
    highest: float | None


@dataclass(frozen=True)
class Drawn:
    """A chart in a page.

    Attributes:
        title: above it.
        svg: the drawing.
        key: name of each curve and a sample of its line.
        values: what a reader who does not see the curves is told of them.
    """

    title: str
    svg: Markup
    key: list[tuple[str, Markup]]
    values: list[Summary]


def draw(chart: Chart, salt: str) -> Drawn:
    """A chart of learning curves and the like; the salt tells it from others in the page."""
    scale = "log" if chart.log else "linear"
    made = inline(
        lambda ax: plots.lines(
            chart.curves, xlabel=chart.x_label, ylabel=chart.y_label, scale=scale,
            most=MOST_POINTS, names=False, ax=ax,
        ),
        label=_label(chart), salt=salt,
    )  # fmt: skip
    return _drawn(chart, made)


def draw_calibration(calibration: Calibration, salt: str) -> Drawn:
    """Stated against observed frequencies, with the diagonal on which they are equal."""
    if calibration.kind == "coverage":
        labels = ("Coverage of central intervals", "level stated", "share observed")
    else:
        labels = ("Reliability of the chosen class", "confidence", "accuracy")
    chart = Chart(*labels, curves=calibration.curves)
    made = inline(
        lambda ax: plots.agreement(
            chart.curves, xlabel=chart.x_label, ylabel=chart.y_label, names=False, ax=ax
        ),
        label=_label(chart), salt=salt, size=(4.6, 4.2),
    )  # fmt: skip
    return _drawn(chart, made)


def _label(chart: Chart) -> str:
    return f"{chart.title}: {chart.y_label} over {chart.x_label}"


def _drawn(chart: Chart, made: Inline) -> Drawn:
    # What `inline` gives is markup, with every text in it escaped.
    key = [(name, Markup(sample)) for name, sample in made.key]
    values = [_summary(name, y) for name, (_, y) in chart.curves.items()]
    return Drawn(chart.title, Markup(made.svg), key, values)


def _summary(name: str, values: Values) -> Summary:
    held = [float(value) for value in values if value is not None and math.isfinite(value)]
    if not held:
        return Summary(name, None, None, None, None)
    return Summary(name, held[0], held[-1], min(held), max(held))
