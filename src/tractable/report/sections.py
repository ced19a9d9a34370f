"""What a report answers, question by question: words, a table, a drawing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tractable.report import checks

Numbers = Sequence[float | None]


@dataclass(frozen=True)
class Points:
    """Predicted over observed values, with error bars; None where a number is not finite."""

    x_label: str
    y_label: str
    x: Numbers
    y: Numbers
    low: Numbers = ()
    high: Numbers = ()


@dataclass(frozen=True)
class Bars:
    """Lengths with names and their standard errors; None where a number is not finite."""

    x_label: str
    names: Sequence[str]
    values: Numbers
    errors: Numbers = ()


@dataclass(frozen=True)
class Section:
    """One question and its answer.

    Attributes:
        title: the question.
        words: paragraphs.
        header: of the table.
        rows: its cells, as texts; the first of a row is its name.
        points: a drawing.
        bars: another.
        warnings: what a reader must not miss.
    """

    title: str
    words: Sequence[str] = ()
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    points: Points | None = None
    bars: Bars | None = None
    warnings: Sequence[str] = field(default=())


def check() -> checks.Check:
    """The check of a section in a file."""
    text, texts = checks.text, checks.list_of(checks.text)
    numbers = checks.list_of(checks.gap)
    points = checks.record(
        Points, x_label=text, y_label=text, x=numbers, y=numbers, low=numbers, high=numbers
    )
    bars = checks.record(Bars, x_label=text, names=texts, values=numbers, errors=numbers)

    def fits(value: object, where: str) -> Section:
        found: Section = plain(value, where)
        drawn = found.points
        if drawn is not None and len({len(drawn.x), len(drawn.y)}) > 1:
            raise checks.WrongValue(where, "as many places as values", len(drawn.y))
        for ends in () if drawn is None else (drawn.low, drawn.high):
            if drawn is not None and len(ends) not in (0, len(drawn.x)):
                raise checks.WrongValue(where, "as many ends as values", len(ends))
        lengths = found.bars
        if lengths is not None and not (
            len(lengths.names) == len(lengths.values)
            and len(lengths.errors) in (0, len(lengths.values))
        ):
            raise checks.WrongValue(where, "as many names as values", len(lengths.names))
        return found

    plain = checks.record(
        Section, title=text, words=texts, header=texts, rows=checks.list_of(texts),
        points=checks.optional(points), bars=checks.optional(bars), warnings=texts,
    )  # fmt: skip
    return fits
