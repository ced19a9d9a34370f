"""Charts of a run as the page holds them: drawn by ``tractable.plots``, with their numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from tractable import plots
from tractable.plots.inline import Inline, inline
from tractable.report.results import Calibration, Chart
from tractable.report.sections import Section

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


@dataclass(frozen=True)
class Answered:
    """A section in a page, with its drawings."""

    title: str
    words: Sequence[str]
    warnings: Sequence[str]
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    drawings: list[Markup]

    @property
    def rows_named(self) -> bool:
        """Whether the first cell of a row is but a number, and wants to be told what of."""
        return all(row and row[0].isdecimal() for row in self.rows)


def answer(part: Section, salt: str) -> Answered:
    """A section with its drawings made; the salt tells them from others in the page."""
    drawings, points, bars = [], part.points, part.bars
    both = [] if points is None else _places(points.x, points.y)
    if points is not None and both:
        x, y, low, high = (
            [values[i] for i in both] if values else None
            for values in map(_floats, (points.x, points.y, points.low, points.high))
        )
        made = inline(
            lambda ax: plots.observed(
                x, y, low, high, xlabel=points.x_label, ylabel=points.y_label, ax=ax
            ),
            label=f"{points.y_label} over {points.x_label}", salt=f"{salt} points",
            size=(4.6, 4.2),
        )  # fmt: skip
        drawings.append(Markup(made.svg))
    if bars is not None and bars.values:
        made = inline(
            lambda ax: plots.ranked(
                bars.names, _floats(bars.values), _floats(bars.errors) or None,
                xlabel=bars.x_label, ax=ax,
            ),
            label=f"{part.title}: {bars.x_label}", salt=f"{salt} bars",
            size=(4.6, 0.9 + 0.3 * len(bars.values)),
        )  # fmt: skip
        drawings.append(Markup(made.svg))
    return Answered(part.title, part.words, part.warnings, part.header, part.rows, drawings)


def _floats(values: Values) -> list[float]:
    """The values, NaN where one is missing or infinite: nothing is drawn there."""
    return [v if v is not None and math.isfinite(v) else math.nan for v in values]


def _places(x: Values, y: Values) -> list[int]:
    """Where both are finite."""
    pairs = zip(_floats(x), _floats(y), strict=True)
    return [i for i, pair in enumerate(pairs) if not any(map(math.isnan, pair))]


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
