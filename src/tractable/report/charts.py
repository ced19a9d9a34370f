"""Charts and sections of a page, drawn as SVG by ``tractable.plots``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from tractable import plots
from tractable.plots.svg import InlineSVG, inline_svg
from tractable.report.results import Calibration, Chart, Section

MAX_POINTS = 300
"""Curves with more points are thinned: a screen shows no more."""

Values = Sequence[float | None]


@dataclass(frozen=True)
class CurveSummary:
    """First, last, lowest and highest value of a curve; None if it has no finite values."""

    name: str
    first: float | None
    last: float | None
    lowest: float | None
    highest: float | None


@dataclass(frozen=True)
class ChartView:
    """A chart of a page.

    Attributes:
        title: heading of the chart.
        svg: the drawing.
        key: name of each curve, and a sample of its line for the legend.
        values: summary of each curve, for readers who cannot see the drawing.
    """

    title: str
    svg: Markup
    key: list[tuple[str, Markup]]
    values: list[CurveSummary]


def draw_chart(chart: Chart, salt: str) -> ChartView:
    """Return a line chart; ``salt`` makes the ids in the SVG unique on the page."""
    scale = "log" if chart.log else "linear"
    made = inline_svg(
        lambda ax: plots.lines(
            chart.curves, xlabel=chart.x_label, ylabel=chart.y_label, scale=scale,
            max_points=MAX_POINTS, show_legend=False, ax=ax,
        ),
        label=_label(chart), salt=salt,
    )  # fmt: skip
    return _chart_view(chart, made)


@dataclass(frozen=True)
class SectionView:
    """A section of a page, with its drawings."""

    title: str
    paragraphs: Sequence[str]
    warnings: Sequence[str]
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    drawings: list[Markup]

    @property
    def has_numbered_rows(self) -> bool:
        """Whether all first cells are numbers, so that they need the name of their column."""
        return all(row and row[0].isdecimal() for row in self.rows)


def render_section(section: Section, salt: str) -> SectionView:
    """Return a section with its drawings; ``salt`` makes the ids in the SVG unique on the page."""
    drawings, scatter, bars = [], section.scatter, section.bars
    finite = [] if scatter is None else _finite_pairs(scatter.x, scatter.y)
    if scatter is not None and finite:
        x, y, low, high = (
            [values[i] for i in finite] if values else None
            for values in map(_floats, (scatter.x, scatter.y, scatter.low, scatter.high))
        )
        made = inline_svg(
            lambda ax: plots.predicted_vs_observed(
                x, y, low, high, xlabel=scatter.x_label, ylabel=scatter.y_label, ax=ax
            ),
            label=f"{scatter.y_label} over {scatter.x_label}", salt=f"{salt} scatter",
            size=(4.6, 4.2),
        )  # fmt: skip
        drawings.append(Markup(made.svg))
    if bars is not None and bars.values:
        made = inline_svg(
            lambda ax: plots.bar_ranking(
                bars.names, _floats(bars.values), _floats(bars.errors) or None,
                xlabel=bars.x_label, ax=ax,
            ),
            label=f"{section.title}: {bars.x_label}", salt=f"{salt} bars",
            size=(4.6, 0.9 + 0.3 * len(bars.values)),
        )  # fmt: skip
        drawings.append(Markup(made.svg))
    return SectionView(
        section.title, section.paragraphs, section.warnings, section.header, section.rows, drawings
    )


def _floats(values: Values) -> list[float]:
    """Return the values with NaN for missing and infinite ones, which are not drawn."""
    return [v if v is not None and math.isfinite(v) else math.nan for v in values]


def _finite_pairs(x: Values, y: Values) -> list[int]:
    """Return the indices at which finite are finite."""
    pairs = zip(_floats(x), _floats(y), strict=True)
    return [i for i, pair in enumerate(pairs) if not any(map(math.isnan, pair))]


def draw_calibration(calibration: Calibration, salt: str) -> ChartView:
    """Return a chart of expected against observed frequencies, with the diagonal."""
    if calibration.kind == "coverage":
        labels = ("Coverage of central intervals", "level stated", "share observed")
    else:
        labels = ("Reliability of the chosen class", "confidence", "accuracy")
    chart = Chart(*labels, curves=calibration.curves)
    made = inline_svg(
        lambda ax: plots.calibration_curve(
            chart.curves, xlabel=chart.x_label, ylabel=chart.y_label, show_legend=False, ax=ax
        ),
        label=_label(chart), salt=salt, size=(4.6, 4.2),
    )  # fmt: skip
    return _chart_view(chart, made)


def _label(chart: Chart) -> str:
    return f"{chart.title}: {chart.y_label} over {chart.x_label}"


def _chart_view(chart: Chart, made: InlineSVG) -> ChartView:
    # Markup, because `inline` escapes all text.
    key = [(name, Markup(sample)) for name, sample in made.key]
    values = [_summary(name, y) for name, (_, y) in chart.curves.items()]
    return ChartView(chart.title, Markup(made.svg), key, values)


def _summary(name: str, values: Values) -> CurveSummary:
    held = [float(value) for value in values if value is not None and math.isfinite(value)]
    if not held:
        return CurveSummary(name, None, None, None, None)
    return CurveSummary(name, held[0], held[-1], min(held), max(held))
