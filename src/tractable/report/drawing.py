"""Charts as inline SVG: they need no script to be read, and carry their values for one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tractable.report.results import Calibration, Chart
from tractable.report.scale import Axis

WIDTH, HEIGHT = 440.0, 270.0
LEFT, RIGHT, TOP, BOTTOM = 54.0, 12.0, 12.0, 40.0
MOST_POINTS = 300
"""Longer curves are thinned: a screen shows no more."""


@dataclass(frozen=True)
class Line:
    """A curve as it is drawn.

    Attributes:
        name: in the legend.
        style: number of its colour and dash.
        paths: pieces between gaps, as the points of polylines.
        points: value of x, value of y, place of x and place of y, for the script.
        first: its first value.
        last: its last value.
    """

    name: str
    style: int
    paths: list[str]
    points: list[tuple[float, float, float, float]]
    first: float | None
    last: float | None


@dataclass(frozen=True)
class Mark:
    """A round value on an axis."""

    place: float
    text: str


@dataclass(frozen=True)
class Drawing:
    """Everything that the template puts into the SVG."""

    title: str
    x_label: str
    y_label: str
    lines: list[Line]
    x_marks: list[Mark]
    y_marks: list[Mark]
    diagonal: tuple[float, float, float, float] | None
    thinned: bool

    @property
    def data(self) -> list[dict[str, Any]]:
        """The values of the lines, for the script."""
        return [{"name": line.name, "points": line.points} for line in self.lines]

    width, height = WIDTH, HEIGHT
    left, right, top, bottom = LEFT, WIDTH - RIGHT, TOP, HEIGHT - BOTTOM


def draw(chart: Chart) -> Drawing:
    """A chart of learning curves and the like."""
    xs = [x for x, _ in chart.curves.values()]
    ys = [y for _, y in chart.curves.values()]
    across = Axis.over((v for x in xs for v in x), LEFT, WIDTH - RIGHT)
    up = Axis.over((v for y in ys for v in y), HEIGHT - BOTTOM, TOP, chart.log, 0.05)
    return _drawing(chart, across, up, None)


def draw_calibration(calibration: Calibration) -> Drawing:
    """Stated against observed frequencies, with the diagonal on which they are equal."""
    across, up = Axis(0, 1, LEFT, WIDTH - RIGHT), Axis(0, 1, HEIGHT - BOTTOM, TOP)
    if calibration.kind == "coverage":
        labels = ("Coverage of central intervals", "level stated", "share observed")
    else:
        labels = ("Reliability of the chosen class", "confidence", "accuracy")
    chart = Chart(*labels, curves=calibration.curves)
    return _drawing(chart, across, up, (across.start, up.start, across.end, up.end))


def number(value: Any) -> str:
    """A figure for a reader: four digits, a true minus sign.

    >>> number(-0.123456), number(12000.0), number(None)
    ('−0.1235', '12000', '–')
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "–"
    if isinstance(value, float) and value != 0 and 1e4 <= abs(value) < 1e6:
        return f"{value:.0f}".replace("-", "−")
    return f"{value:.4g}".replace("-", "−") if isinstance(value, float) else str(value)


def short(value: float) -> str:
    """A round value for an axis.

    >>> short(-1500000.0), short(20000.0), short(0.25)
    ('−1.5M', '20k', '0.25')
    """
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= 10 * unit or (abs(value) >= unit and letter != "k"):
            return number(value / unit) + letter
    return number(value)


def _drawing(
    chart: Chart, across: Axis, up: Axis, diagonal: tuple[float, float, float, float] | None
) -> Drawing:
    lines = [
        _line(name, style, x, y, across, up)
        for style, (name, (x, y)) in enumerate(chart.curves.items())
    ]
    longest = max((len(x) for x, _ in chart.curves.values()), default=0)
    return Drawing(
        chart.title,
        chart.x_label,
        chart.y_label,
        lines,
        _marks(across, all(float(v).is_integer() for x, _ in chart.curves.values() for v in x)),
        _marks(up),
        diagonal,
        longest > MOST_POINTS,
    )


def _line(
    name: str,
    style: int,
    x: Sequence[float],
    y: Sequence[float | None],
    across: Axis,
    up: Axis,
) -> Line:
    pieces: list[list[str]] = [[]]
    points = []
    for i in _thinned(len(x)):
        value = y[i]
        place, height = across.place(x[i]), up.place(value)
        if value is None or place is None or height is None:
            if pieces[-1]:
                pieces.append([])
            continue
        pieces[-1].append(f"{place:.1f},{height:.1f}")
        points.append((float(x[i]), float(value), round(place, 1), round(height, 1)))
    values = [point[1] for point in points]
    return Line(
        name, style, [" ".join(piece) for piece in pieces if piece], points,
        values[0] if values else None, values[-1] if values else None,
    )  # fmt: skip


def _thinned(count: int) -> list[int]:
    """Indices of the points to draw, ends included."""
    if count <= MOST_POINTS:
        return list(range(count))
    step = (count - 1) / (MOST_POINTS - 1)
    return [round(step * i) for i in range(MOST_POINTS)]


def _marks(axis: Axis, whole: bool = False) -> list[Mark]:
    marks = axis.marks(whole=whole)
    texts = [short(float(mark)) for mark in marks]
    if any(a == b for a, b in pairwise(texts)):  # a narrow range far from zero
        texts = [f"{mark:.8g}".replace("-", "−") for mark in marks]
    placed = ((axis.place(mark), text) for mark, text in zip(marks, texts, strict=True))
    return [Mark(round(place, 1), text) for place, text in placed if place is not None]
