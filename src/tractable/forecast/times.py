"""Time stamps at even steps: the step is inferred, a gap is missing values, the rest is refused.

Stamps are whole numbers, numbers, or dates.  Dates that all stand at the same day of the month (or
all at its end) are months apart, whatever their number of days; other dates a fixed time apart.
The step is the most frequent distance.  A distance of several steps is a gap; one that is not a
whole number of steps, or none at all, is an error that names the first such stamp.
"""

from __future__ import annotations

from dataclasses import dataclass
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
"""Ticks of each."""
_SEASONS = {_HOUR // 4: 96, _HOUR // 2: 48, _HOUR: 24, _DAY: 7, 7 * _DAY: 52}
_SEASONS_OF_MONTHS = {1: 12, 3: 4, 6: 2}
_CLOSE = 1e-6
"""Of a step: how far a number may be off."""


@dataclass(frozen=True)
class Grid:
    """Even time stamps without an end.

    Attributes:
        kind: ``"number"``, ``"month"`` or ``"time"``.
        start: the first stamp: a number, months or microseconds since 1970.
        step: between stamps.
        late: with months, microseconds from the first of the month (or from its end, if negative).
    """

    kind: str
    start: float
    step: float
    late: int = 0

    def stamps(self, first: int, count: int) -> Array:
        """The stamps of so many steps, from step ``first`` on."""
        at = self.start + self.step * np.arange(first, first + count)
        if self.kind == "number":
            return at.astype(np.int64) if _whole(self.start) and _whole(self.step) else at
        if self.kind == "time":
            return at.astype(np.int64).astype(f"datetime64[{_TICK}]")
        months = at.astype(np.int64) + (1 if self.late < 0 else 0)
        late = np.array(self.late, f"timedelta64[{_TICK}]")
        return months.astype("datetime64[M]").astype(f"datetime64[{_TICK}]") + late

    def places(self, stamps: Array) -> Array:
        """How many steps each stamp is from the first one."""
        kind, at, _ = _numbers(stamps, like=self)
        if kind != self.kind:
            raise InvalidInput(f"time stamps were {self.kind}s, and now are {kind}s")
        steps = (at - self.start) / self.step
        found = np.rint(steps)
        off = np.abs(steps - found) > _CLOSE * np.maximum(np.abs(steps), 1)
        if off.any():
            raise InvalidInput(
                f"irregular time stamps: {stamps[off.argmax()]} is not a whole number of steps of "
                f"{self.words} from {self.stamps(0, 1)[0]}"
            )
        return found.astype(np.int64)

    def same_step(self, other: Grid) -> bool:
        """Whether stamps are as far apart as those of another grid."""
        return self.kind == other.kind and abs(self.step - other.step) <= _CLOSE * other.step

    @property
    def season(self) -> int:
        """The usual season of such steps: a day of hours, a year of months; 1 if none is usual."""
        if self.kind == "month":
            return _SEASONS_OF_MONTHS.get(int(self.step), 1)
        return _SEASONS.get(int(self.step), 1) if self.kind == "time" else 1

    @property
    def words(self) -> str:
        """The step, in words."""
        if self.kind == "month":
            return _counted(int(self.step), "month")
        if self.kind == "time":
            ticks = int(self.step)
            name, size = next((n, s) for n, s in _UNITS.items() if ticks % s == 0)
            return _counted(ticks // size, name)
        return f"{self.step:g}"

    def to_json(self) -> dict[str, Any]:
        """For a file."""
        return {"kind": self.kind, "start": self.start, "step": self.step, "late": self.late}

    @classmethod
    def from_json(cls, held: dict[str, Any]) -> Grid:
        """The grid of a file; steps that nobody gave a time are ``COUNTED`` again."""
        # Only their start is a whole number; that of given stamps is floating point.
        if held == COUNTED.to_json() and type(held["start"]) is int:
            return COUNTED
        return cls(**held)


def steps_after(grid: Grid, now: int, time: Any, rows: int, most: int) -> Array:
    """How many times lie between step ``now`` and the stamp of each row that comes.

    Args:
        grid: the times.
        now: the last step so far.
        time: one stamp, or one a row.
        rows: number of rows.
        most: times that may be left out before a row.

    Raises:
        InvalidInput: stamps of another number than rows, repeated, out of order, off the grid, or
            too far ahead.
    """
    stamps = as_stamps(time if np.ndim(time) else np.array([time]))
    if len(stamps) != rows:
        raise InvalidInput(f"{rows} rows of values and {len(stamps)} time stamps")
    places = grid.places(stamps)
    before = np.r_[now, places[:-1]]
    left_out = places - before - 1
    bad = (left_out < 0) | (left_out > most)
    if bad.any():
        first = int(bad.argmax())
        due = grid.stamps(int(before[first]) + 1, 1)[0]
        if left_out[first] > most:
            raise InvalidInput(
                f"time stamp {stamps[first]} leaves out {left_out[first]:,} times: the next is "
                f"{due}, and at most {most:,} may be missing in a row; check the stamp, or fit "
                f"anew to what comes after the gap"
            )
        word = "repeated" if left_out[first] == -1 else "out of order"
        raise InvalidInput(f"time stamp {stamps[first]} is {word}: the next is {due}")
    found: Array = places - now - 1
    return found


def _counted(count: int, name: str) -> str:
    """1 day, 15 minutes."""
    return f"{count} {name}" if count == 1 else f"{count} {name}s"


COUNTED = Grid("number", 0, 1)
"""Steps that nobody gave a time."""


def infer(stamps: Array, whose: str = "") -> Grid:
    """The grid on which sorted time stamps stand.

    Args:
        stamps: numbers or NumPy dates, in ascending order.
        whose: name of the series, for messages.

    Raises:
        InvalidInput: a stamp is repeated or out of step; the message names the first.
    """
    kind, at, late = _numbers(stamps)
    named = f" of {whose!r}" if whose else ""
    distances = np.diff(at)
    if (distances == 0).any():
        raise InvalidInput(f"repeated time stamp{named}: {stamps[distances.argmin() + 1]}")
    if len(distances) == 0:
        return Grid(kind, float(at[0]), 1, late)
    values, counts = np.unique(distances, return_counts=True)
    step = values[counts.argmax()]
    steps = distances / step
    off = np.abs(steps - np.rint(steps)) > _CLOSE * np.maximum(steps, 1)
    if off.any():
        if kind == "month":
            return _in_time(stamps, whose)
        first = int(off.argmax()) + 1
        grid = Grid(kind, float(at[0]), float(step), late)
        raise InvalidInput(
            f"irregular time stamps{named}: {stamps[first]} comes after {stamps[first - 1]}, and "
            f"the usual step is {grid.words}"
        )
    return Grid(kind, float(at[0]), float(step), late)


def as_stamps(given: Any, what: str = "time") -> Array:
    """Time stamps of a user as numbers or NumPy dates.

    Raises:
        InvalidInput: they are neither, or one is missing.
    """
    stamps = np.asarray(_of_pandas(given))
    if stamps.dtype.kind in "UOT":
        stamps = _parsed(stamps, what)
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


def _of_pandas(given: Any) -> Any:
    """Dates without a time zone, of what pandas calls dates or periods."""
    name = str(getattr(given, "dtype", ""))
    if not name.startswith(("period", "datetime64[")):
        return given
    dates = given.dt if hasattr(given, "dt") else given
    if name.startswith("period"):
        return dates.to_timestamp()
    if name.startswith("datetime64[") and "," in name:
        # One clock for all: the day on which clocks change has 24 hours.
        moved = dates.tz_convert("UTC")
        return (moved.dt if hasattr(moved, "dt") else moved).tz_localize(None)
    return given


def _parsed(texts: Array, what: str) -> Array:
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


def _numbers(stamps: Array, like: Grid | None = None) -> tuple[str, Array, int]:
    """Kind of stamps, the stamps as numbers, and how late in the month they are."""
    if stamps.dtype.kind != "M":
        return "number", stamps.astype(np.float64), 0
    ticks = stamps.astype(f"datetime64[{_TICK}]")
    months = ticks.astype("datetime64[M]")
    late = (ticks - months.astype(f"datetime64[{_TICK}]")).astype(np.int64)
    early = (ticks - (months + 1).astype(f"datetime64[{_TICK}]")).astype(np.int64)
    several = len(stamps) > 2 if like is None else True
    if like is None or like.kind == "month":
        # Dates that are all the 31st, say, are ends of months: not every month has such a day.
        ends = bool((late >= 28 * _DAY).all() and (early >= -_DAY).all())
        for offset in (early, late) if ends else (late, early):
            fits = (offset == (offset[0] if like is None else like.late)).all()
            if several and fits:
                return "month", months.astype(np.int64).astype(np.float64), int(offset[0])
    if like is not None and like.kind == "month":
        wrong = stamps[(late != like.late) & (early != like.late)][0]
        raise InvalidInput(f"irregular time stamps: {wrong} is not a step of {like.words}")
    return "time", ticks.astype(np.int64).astype(np.float64), 0


def _in_time(stamps: Array, whose: str) -> Grid:
    """The grid of dates that only looked like months."""
    ticks = stamps.astype(f"datetime64[{_TICK}]").astype(np.int64).astype(np.float64)
    distances = np.diff(ticks)
    step = distances.min()
    if (np.abs(distances / step - np.rint(distances / step)) > _CLOSE).any():
        raise InvalidInput(f"irregular time stamps of {whose!r}: neither months nor days apart")
    return Grid("time", float(ticks[0]), float(step))


def _whole(value: float) -> bool:
    return float(value).is_integer()
