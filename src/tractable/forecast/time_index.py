"""Evenly spaced time stamps: inference of the step, gaps, and checks.

Stamps are numbers or dates. Dates that all lie on the same day of the month (or all at its end)
have a step of whole months, other dates a step of fixed duration. The step is the most frequent
distance between neighbors. A distance of several steps is a gap, that is, missing values. A
repeated stamp, or a distance that is not a whole number of steps, raises an error that names the
first such stamp.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tractable.errors import InvalidInput

Array = npt.NDArray[Any]

_TICK = "us"
_HOUR = 3_600_000_000
_DAY = 24 * _HOUR
_UNITS = {
    "week": 7 * _DAY, "day": _DAY, "hour": _HOUR, "minute": _HOUR // 60,
    "second": _HOUR // 3600, "microsecond": 1,
}  # fmt: skip
"""Microseconds of each unit, longest first."""
_SEASONS = {_HOUR // 4: 96, _HOUR // 2: 48, _HOUR: 24, _DAY: 7, 7 * _DAY: 52}
"""Usual season length by step: a day for steps below a day, a week for days, a year for weeks."""
_SEASONS_OF_MONTHS = {1: 12, 3: 4, 6: 2}
_TOLERANCE = 1e-6  # relative deviation from a whole number of steps, for floating-point stamps


@dataclass(frozen=True)
class TimeGrid:
    """An unlimited sequence of evenly spaced time stamps.

    Attributes:
        kind: ``"number"``, ``"month"`` or ``"time"``.
        start: first stamp: a number, or months or microseconds since 1970.
        step: distance between stamps, in the unit of ``start``.
        month_offset: for months, microseconds after the beginning of the month; if negative, before
            its end.
    """

    kind: str
    start: float
    step: float
    month_offset: int = 0

    def stamps(self, first: int, count: int) -> Array:
        """Return ``count`` stamps from step ``first`` on."""
        at = self.start + self.step * np.arange(first, first + count)
        if self.kind == "number":
            return at.astype(np.int64) if _is_whole(self.start) and _is_whole(self.step) else at
        if self.kind == "time":
            return at.astype(np.int64).astype(f"datetime64[{_TICK}]")
        months = at.astype(np.int64) + (1 if self.month_offset < 0 else 0)
        month_offset = np.array(self.month_offset, f"timedelta64[{_TICK}]")
        return months.astype("datetime64[M]").astype(f"datetime64[{_TICK}]") + month_offset

    def steps_from_start(self, stamps: Array) -> Array:
        """Return the number of steps from ``start`` to each stamp.

        Raises:
            InvalidInput: a stamp is of another kind, or not a whole number of steps from ``start``.
        """
        kind, at, _ = _to_numbers(stamps, like=self)
        if kind != self.kind:
            raise InvalidInput(f"expected time stamps of kind {self.kind!r}, got kind {kind!r}")
        steps = (at - self.start) / self.step
        found = np.rint(steps)
        off = np.abs(steps - found) > _TOLERANCE * np.maximum(np.abs(steps), 1)
        if off.any():
            raise InvalidInput(
                f"irregular time stamps: {stamps[off.argmax()]} is not a whole number of steps of "
                f"{self.step_name} from {self.stamps(0, 1)[0]}"
            )
        return found.astype(np.int64)

    def same_step(self, other: TimeGrid) -> bool:
        """Return whether another grid has the same step."""
        return self.kind == other.kind and abs(self.step - other.step) <= _TOLERANCE * other.step

    @property
    def season_length(self) -> int:
        """Usual season length of this step, e.g. 24 for hours, 12 for months; 1 if none."""
        if self.kind == "month":
            return _SEASONS_OF_MONTHS.get(int(self.step), 1)
        return _SEASONS.get(int(self.step), 1) if self.kind == "time" else 1

    @property
    def step_name(self) -> str:
        """The step as text, such as ``"1 day"`` or ``"15 minutes"``."""
        if self.kind == "month":
            return _quantity(int(self.step), "month")
        if self.kind == "time":
            ticks = int(self.step)
            name, size = next((n, s) for n, s in _UNITS.items() if ticks % s == 0)
            return _quantity(ticks // size, name)
        return f"{self.step:g}"

    def to_json(self) -> dict[str, Any]:
        """Return the time grid as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, held: dict[str, Any]) -> TimeGrid:
        """Return the grid that ``to_json`` described; the same object for ``ROW_NUMBERS``."""
        # Only there is the start a whole number; that of given stamps is floating point.
        if held == ROW_NUMBERS.to_json() and type(held["start"]) is int:
            return ROW_NUMBERS
        return cls(**held)


def steps_until(grid: TimeGrid, now: int, times: Any, rows: int, max_gap: int) -> Array:
    """Return the number of steps between step ``now`` and the stamp of each new row.

    Args:
        grid: time stamps of the series.
        now: last step so far.
        times: one stamp, or one per row.
        rows: number of rows.
        max_gap: number of steps that may be skipped before a row.

    Raises:
        InvalidInput: the number of stamps differs from the number of rows, or a stamp is repeated,
            out of order, not on the grid, or too far ahead.
    """
    stamps = to_timestamps(times if np.ndim(times) else np.array([times]))
    if len(stamps) != rows:
        raise InvalidInput(f"{rows} rows of values and {len(stamps)} time stamps")
    steps = grid.steps_from_start(stamps)
    before = np.r_[now, steps[:-1]]
    skipped = steps - before - 1
    bad = (skipped < 0) | (skipped > max_gap)
    if bad.any():
        first = int(bad.argmax())
        due = grid.stamps(int(before[first]) + 1, 1)[0]
        if skipped[first] > max_gap:
            raise InvalidInput(
                f"time stamp {stamps[first]} skips {skipped[first]:,} times: the next is {due}, "
                f"and at most {max_gap:,} may be missing in a row. Check the stamp, or fit a new "
                f"forecaster to the values after the gap"
            )
        word = "repeated" if skipped[first] == -1 else "out of order"
        raise InvalidInput(f"time stamp {stamps[first]} is {word}: the next is {due}")
    found: Array = steps - now - 1
    return found


def _quantity(count: int, name: str) -> str:
    """Return a number with its unit: ``"1 day"``, ``"15 minutes"``."""
    return f"{count} {name}" if count == 1 else f"{count} {name}s"


ROW_NUMBERS = TimeGrid("number", 0, 1)
"""Row numbers, for series without time stamps."""


def infer_grid(stamps: Array, series_name: str = "") -> TimeGrid:
    """Return the grid of sorted time stamps.

    Args:
        stamps: numbers or NumPy dates, in ascending order.
        series_name: name of the series, for error messages.

    Raises:
        InvalidInput: a stamp is repeated, or its distance to the one before is not a whole number
            of steps; the message names the first.
    """
    kind, at, month_offset = _to_numbers(stamps)
    named = f" of {series_name!r}" if series_name else ""
    distances = np.diff(at)
    if (distances == 0).any():
        raise InvalidInput(f"repeated time stamp{named}: {stamps[distances.argmin() + 1]}")
    if len(distances) == 0:
        return TimeGrid(kind, float(at[0]), 1, month_offset)
    values, counts = np.unique(distances, return_counts=True)
    step = values[counts.argmax()]
    steps = distances / step
    off = np.abs(steps - np.rint(steps)) > _TOLERANCE * np.maximum(steps, 1)
    if off.any():
        if kind == "month":
            return _fixed_step_grid(stamps, series_name)
        first = int(off.argmax()) + 1
        grid = TimeGrid(kind, float(at[0]), float(step), month_offset)
        raise InvalidInput(
            f"irregular time stamps{named}: {stamps[first]} comes after {stamps[first - 1]}, and "
            f"the usual step is {grid.step_name}"
        )
    return TimeGrid(kind, float(at[0]), float(step), month_offset)


def to_timestamps(given: Any, what: str = "time") -> Array:
    """Return time stamps as numbers or NumPy dates.

    Args:
        given: numbers, dates, texts of dates, or a pandas index or series of these.
        what: name of the stamps, for error messages.

    Raises:
        InvalidInput: the stamps are none of these, or one is missing.
    """
    stamps = np.asarray(_from_pandas(given))
    if stamps.dtype.kind in "UOT":
        stamps = _parse(stamps, what)
    if stamps.dtype.kind == "M":
        stamps = stamps.astype(f"datetime64[{_TICK}]")
        missing = np.isnat(stamps)
    elif stamps.dtype.kind in "iuf":
        missing = ~np.isfinite(stamps.astype(np.float64))
    else:
        raise InvalidInput(f"{what} must hold dates or numbers, got {stamps.dtype}")
    if stamps.ndim != 1:
        raise InvalidInput(f"{what} must be one stamp per row, got shape {stamps.shape}")
    if missing.any():
        raise InvalidInput(f"{what} has a missing stamp in row {int(missing.argmax())}")
    return stamps


def _from_pandas(given: Any) -> Any:
    """Return pandas dates and periods as dates without a time zone; others unchanged."""
    name = str(getattr(given, "dtype", ""))
    if not name.startswith(("period", "datetime64[")):
        return given
    dates = given.dt if hasattr(given, "dt") else given
    if name.startswith("period"):
        return dates.to_timestamp()
    if name.startswith("datetime64[") and "," in name:
        # In UTC, so that a day on which clocks change has 24 hours.
        moved = dates.tz_convert("UTC")
        return (moved.dt if hasattr(moved, "dt") else moved).tz_localize(None)
    return given


def _parse(texts: Array, what: str) -> Array:
    try:
        return texts.astype(f"datetime64[{_TICK}]")
    except (ValueError, TypeError):
        pass
    try:
        return texts.astype(np.float64)
    except (ValueError, TypeError):
        row = next(i for i, text in enumerate(texts.tolist()) if not _is_date(text))
        raise InvalidInput(
            f"{what}: {texts.tolist()[row]!r} in row {row} is neither a date such as "
            f"2024-01-31T12:00 nor a number"
        ) from None


def _is_date(text: Any) -> bool:
    try:
        np.array(text, f"datetime64[{_TICK}]")
    except (ValueError, TypeError):
        return False
    return True


def _to_numbers(stamps: Array, like: TimeGrid | None = None) -> tuple[str, Array, int]:
    """Return the kind of stamps, the stamps as numbers, and their month offset.

    With ``like``, months are recognized if they have the same offset as in that grid.
    """
    if stamps.dtype.kind != "M":
        return "number", stamps.astype(np.float64), 0
    ticks = stamps.astype(f"datetime64[{_TICK}]")
    months = ticks.astype("datetime64[M]")
    month_offset = (ticks - months.astype(f"datetime64[{_TICK}]")).astype(np.int64)
    early = (ticks - (months + 1).astype(f"datetime64[{_TICK}]")).astype(np.int64)
    several = len(stamps) > 2 if like is None else True
    if like is None or like.kind == "month":
        # Dates that are all, say, the 31st are ends of months: not every month has a 31st.
        ends = bool((month_offset >= 28 * _DAY).all() and (early >= -_DAY).all())
        for offset in (early, month_offset) if ends else (month_offset, early):
            fits = (offset == (offset[0] if like is None else like.month_offset)).all()
            if several and fits:
                return "month", months.astype(np.int64).astype(np.float64), int(offset[0])
    if like is not None and like.kind == "month":
        wrong = stamps[(month_offset != like.month_offset) & (early != like.month_offset)][0]
        raise InvalidInput(f"irregular time stamps: {wrong} is not a step of {like.step_name}")
    return "time", ticks.astype(np.int64).astype(np.float64), 0


def _fixed_step_grid(stamps: Array, series_name: str) -> TimeGrid:
    """Return the grid of dates that lie on the same day of the month by coincidence."""
    ticks = stamps.astype(f"datetime64[{_TICK}]").astype(np.int64).astype(np.float64)
    distances = np.diff(ticks)
    step = distances.min()
    if (np.abs(distances / step - np.rint(distances / step)) > _TOLERANCE).any():
        raise InvalidInput(
            f"irregular time stamps of {series_name!r}: the step is neither whole months nor days"
        )
    return TimeGrid("time", float(ticks[0]), float(step))


def _is_whole(value: float) -> bool:
    return float(value).is_integer()
