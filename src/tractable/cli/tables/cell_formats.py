"""Formats of numbers and dates, inferred from the cells of a column.

A column has one format.  Ambiguous formats raise an error.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Sequence

from tractable.cli.errors import UsageError

PLAIN, COMMA, POINT = "plain", "comma", "point"
"""Number formats: 1200.5; 1.200,5 (decimal comma); 1,200.5 (commas between thousands)."""
NUMBER_FORMATS = (PLAIN, COMMA, POINT)
MAX_NUMBER = 1e60
"""Larger numbers are refused, because sums of their fourth powers would overflow."""
_SIGNS = "$€£¥%"
_GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")
_DOTTED = re.compile(r"[+-]?\d{1,3}(\.\d{3})+")
_DECIMAL = re.compile(r"[+-]?(\d+|\d{1,3}([. ]\d{3})+)?,\d+([eE][+-]?\d+)?")
_WRITTEN = {
    COMMA: re.compile(r"[+-]? ?(\d+|\d{1,3}([. ]\d{3})+)?(,\d*)?([eE][+-]?\d+)?"),
    POINT: re.compile(r"[+-]? ?(\d+|\d{1,3}([, ]\d{3})+)?(\.\d*)?([eE][+-]?\d+)?"),
}
DATES = ("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%Y%m%d")
_TIMES = (
    "", " %H:%M", " %H:%M:%S", "T%H:%M", "T%H:%M:%S", "T%H:%M:%SZ", " %H:%M:%S%z",
    " %H:%M:%S.%f", "T%H:%M:%S.%f", "T%H:%M:%S%z", " %H:%M:%S.%f%z", "T%H:%M:%S.%f%z",
)  # fmt: skip
DATE_FORMATS = tuple(day + time for day in DATES[:-1] for time in _TIMES)
"""Date formats."""
_ISO = re.compile(r"\d{4}-\d\d-\d\d")
_LOOKED_AT = 200  # number of cells from which a date format is inferred
_EPOCH = dt.datetime(2000, 1, 1)
_DAY = 86_400  # seconds


def check_decimal(sign: str | None) -> None:
    """Raise an error for an invalid decimal separator."""
    if sign not in (None, ",", "."):
        raise UsageError(f"--decimal must be , or ., got {sign!r}")


def parse_number(cell: str, notation: str = PLAIN) -> float | None:
    """Return the number in a cell, or None.

    >>> parse_number("12.5"), parse_number("12,5")
    (12.5, None)
    >>> parse_number("1.200,5", COMMA), parse_number("$1,200.50", POINT)
    (1200.5, 1200.5)
    >>> parse_number("18.01.2023", COMMA), parse_number("1,2,3", POINT)
    (None, None)
    """
    if notation != PLAIN:
        cell = cell.strip(_SIGNS + " \u00a0").replace("\u00a0", " ").replace("'", "")
        if not _WRITTEN[notation].fullmatch(cell):
            return None
        between, sign = (". ", ",") if notation == COMMA else (", ", ".")
        for mark in between:
            cell = cell.replace(mark, "")
        cell = cell.replace(sign, ".")
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


def infer_number_format(
    cells: Sequence[str], decimal: str | None, *, text: bool = False
) -> str | None:
    """Return the number format of a column; None if most cells are not numbers.

    Args:
        cells: cells that are not missing.
        decimal: decimal separator, if the user gave it.
        text: whether the file stores the column as text.  Plain numbers in such a column are names
            (``007``), since the program that wrote the file would have stored numbers as numbers;
            but it may have failed to recognize ``12,5`` or ``$1,200``.

    Raises:
        ValueError: the format is ambiguous.
    """
    if text and _most_are_numbers(cells, PLAIN):
        return None
    if decimal == ",":
        grouped = all(_DOTTED.fullmatch(cell) for cell in cells)
        plain = (
            not grouped
            and not any("," in cell for cell in cells)
            and _most_are_numbers(cells, PLAIN)
        )
        return PLAIN if plain else COMMA if _most_are_numbers(cells, COMMA) else None
    if _most_are_numbers(cells, PLAIN):
        return PLAIN
    bare = [cell.strip(_SIGNS + " \u00a0") for cell in cells]
    commas = [cell for cell in bare if "," in cell]
    if not commas:
        return POINT if _most_are_numbers(cells, POINT) else None
    grouped = all(_GROUPED.fullmatch(cell) for cell in commas)
    decimals = all(_DECIMAL.fullmatch(cell) for cell in commas)
    if grouped and decimals and decimal is None:
        raise ValueError(f"{commas[0]!r} is ambiguous: pass --decimal , or --decimal .")
    chosen = POINT if decimal == "." or (grouped and not decimals) else COMMA
    return chosen if _most_are_numbers(cells, chosen) else None


def has_decimal_comma(cell: str) -> bool:
    """Whether a cell has a comma that must be a decimal comma.

    >>> [has_decimal_comma(cell) for cell in ("12,5", "1,200", "a,b", "1.200,50 €")]
    [True, False, False, True]
    """
    bare = cell.strip(_SIGNS + " \u00a0")
    return bool(_DECIMAL.fullmatch(bare)) and not _GROUPED.fullmatch(bare)


def _most_are_numbers(cells: Sequence[str], notation: str) -> bool:
    return sum(parse_number(cell, notation) is not None for cell in cells) > len(cells) / 2


def infer_date_format(cells: Sequence[str]) -> str | None:
    """Return the date format of a column; None if it has no dates.

    Raises:
        ValueError: day and month are ambiguous.
    """
    few = cells[:: max(len(cells) // _LOOKED_AT, 1)]
    fits = [
        form
        for form in DATE_FORMATS
        if few and all(parse_date_as(cell, form) is not None for cell in few)
    ]
    fits = [
        form for form in fits if all(parse_date_as(cell, form) is not None for cell in cells)
    ] or fits
    if not fits:
        fits = _mixed_with_iso(cells, few)
    if len(fits) > 1 and len({tuple(parse_date(c, form) for c in cells) for form in fits}) > 1:
        raise ValueError(f"dates such as {cells[0]!r} are ambiguous: write them as 2024-12-31")
    return fits[0] if fits else None


def _mixed_with_iso(cells: Sequence[str], few: Sequence[str]) -> list[str]:
    """Return the formats of a column in which some dates are in ISO 8601, the most precise first.

    Timestamps of two files may differ like this, and timestamps of which only some have a time or a
    fraction of a second.
    """
    fits = [
        form
        for form in DATE_FORMATS
        if few and all(parse_date(cell, form) is not None for cell in few)
        and all(parse_date(cell, form) is not None for cell in cells)
        and any(parse_date_as(cell, form) is not None for cell in cells)
    ]  # fmt: skip
    return sorted(fits, key=_resolution)


def parse_date_as(cell: str, form: str) -> dt.datetime | None:
    """Return the time in a cell, or None."""
    try:
        found = dt.datetime.strptime(cell, form)
    except ValueError:
        return None
    return found if found.tzinfo is None else found.astimezone(dt.UTC).replace(tzinfo=None)


def parse_date(cell: str, form: str) -> dt.datetime | None:
    """Return the time in a cell of a column with this format, or None.

    ISO 8601 is also accepted, because timestamps of Excel and Parquet files are converted to it,
    unless it has a time of day or a time zone that the format lacks.

    >>> parse_date("31.12.2024", "%d.%m.%Y"), parse_date("2024-12-31", "%d.%m.%Y")
    (datetime.datetime(2024, 12, 31, 0, 0), datetime.datetime(2024, 12, 31, 0, 0))
    >>> parse_date("2024-12-31 12:00", "%d.%m.%Y"), parse_date("12/31/2024", "%d.%m.%Y")
    (None, None)
    """
    found = parse_date_as(cell, form)
    if found is not None or not _ISO.match(cell):
        return found
    try:
        found = dt.datetime.fromisoformat(cell)
    except ValueError:
        return None
    timed, zoned = found.time() != dt.time.min, found.tzinfo is not None
    if (timed and not has_time(form)) or zoned != form.endswith(("Z", "%z")):
        return None
    return found.astimezone(dt.UTC).replace(tzinfo=None) if zoned else found


def date_features(when: dt.datetime, *, times: bool) -> list[float]:
    """Return days since 2000, and sine and cosine of the day of the year and of the week.

    Args:
        when: the time.
        times: whether to add sine and cosine of the time of day.
    """
    turns = [when.timetuple().tm_yday / 365.25, (when.weekday() + 0.0) / 7]
    if times:
        turns.append((when.hour + when.minute / 60) / 24)
    circles = [f(2 * math.pi * turn) for turn in turns for f in (math.cos, math.sin)]
    return [days_since_2000(when), *circles]


def days_since_2000(when: dt.datetime) -> float:
    """Return days since 2000."""
    return (when - _EPOCH).total_seconds() / _DAY


def format_date(count: float, form: str) -> str:
    """Return a date, given as days since 2000, in a format.

    >>> format_date(8766.4, "%Y-%m-%d"), format_date(8766.5, "%d.%m.%Y %H:%M")
    ('2024-01-01', '01.01.2024 12:00')
    >>> format_date(-1e9, "%Y-%m-%d")
    '0001-01-01'
    >>> format_date(8766 + 0.25 / 86_400, "%Y-%m-%d %H:%M:%S.%f")
    '2024-01-01 00:00:00.250000'
    """
    step = _resolution(form)
    first, last = ((end - _EPOCH) // step for end in (dt.datetime.min, dt.datetime.max))
    steps = min(max(round(count * (dt.timedelta(days=1) / step)), first), last)
    when = (_EPOCH + steps * step).replace(tzinfo=dt.UTC)
    return when.strftime(form.replace("%Y", f"{when.year:04d}"))


def _resolution(form: str) -> dt.timedelta:
    """Return the resolution of a format."""
    if not has_time(form):
        return dt.timedelta(days=1)
    return dt.timedelta(microseconds=1) if "%f" in form else dt.timedelta(seconds=1)


def format_number(value: float, decimals: int, notation: str = PLAIN) -> str:
    """Return a number with this many decimals, in the format of its column.

    >>> format_number(1.25, 2), format_number(1.25, 1, COMMA), format_number(1200.0, 0, POINT)
    ('1.25', '1,2', '1200')
    """
    plain = f"{value:.{decimals}f}"
    return plain.replace(".", ",") if notation == COMMA else plain


def count_decimals(cell: str, notation: str = PLAIN) -> int | None:
    """Return the number of decimals of a cell; None if it has an exponent.

    >>> [count_decimals(cell) for cell in ("1.25", "7", "1e-3")]
    [2, 0, None]
    >>> count_decimals("1.200,5 €", COMMA)
    1
    """
    if "e" in cell.lower():
        return None
    after = cell.partition("," if notation == COMMA else ".")[2]
    return sum(letter.isdecimal() for letter in after)


def has_time(form: str) -> bool:
    """Whether a format includes the time of day."""
    return "%H" in form
