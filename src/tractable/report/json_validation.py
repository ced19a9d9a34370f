"""Validation of JSON values: functions that return a value or raise an error that locates it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any, TypeVar

from tractable.errors import InvalidResults

T = TypeVar("T")
Check = Callable[[Any, str], Any]
"""Takes a value and its location; returns the value or raises ``InvalidValue``."""


class InvalidValue(InvalidResults):
    """A value of the wrong type in a file; the caller adds the name of the file."""

    def __init__(self, where: str, expected: str, got: Any) -> None:
        shown = repr(got)
        shown = shown if len(shown) <= 40 else f"{shown[:37]}..."
        super().__init__(f"{where} must be {expected}, got {shown}")


def anything(value: Any, where: str) -> Any:
    """Return any value."""
    return value


def string(value: Any, where: str) -> str:
    """Return a string."""
    if not isinstance(value, str):
        raise InvalidValue(where, "a string", value)
    return value


def boolean(value: Any, where: str) -> bool:
    """Return a boolean."""
    if not isinstance(value, bool):
        raise InvalidValue(where, "true or false", value)
    return value


def integer(value: Any, where: str) -> int:
    """Return an integer."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidValue(where, "an integer", value)
    return value


def number(value: Any, where: str) -> float:
    """Return a finite number."""
    found = finite_or_none(value, where)
    if found is None:
        raise InvalidValue(where, "a finite number", value)
    return found


def finite_or_none(value: Any, where: str) -> float | None:
    """Return a number; None if it is missing or not finite."""
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InvalidValue(where, "a number", value)
    try:
        return value if math.isfinite(value) else None
    except OverflowError:  # an integer beyond the floats
        raise InvalidValue(where, "a number that a float can hold", value) from None


def optional(check: Check) -> Check:
    """Return a check that also accepts None."""
    return lambda value, where: None if value is None else check(value, where)


def one_of(*known: str) -> Check:
    """Return a check for one of these strings."""

    def check(value: Any, where: str) -> Any:
        if not isinstance(value, str) or value not in known:
            raise InvalidValue(where, " or ".join(map(repr, known)), value)
        return value

    return check


def list_of(check_entry: Check) -> Check:
    """Return a check for a list whose entries pass the check."""

    def check(value: Any, where: str) -> list[Any]:
        if not isinstance(value, list):
            raise InvalidValue(where, "a list", value)
        return [check_entry(entry, f"{where}[{i}]") for i, entry in enumerate(value)]

    return check


def dict_of(check_entry: Check) -> Check:
    """Return a check for an object whose values pass the check."""

    def check(value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise InvalidValue(where, "an object", value)
        return {key: check_entry(entry, f"{where}[{key!r}]") for key, entry in value.items()}

    return check


def numbers(value: Any, where: str) -> dict[str, float]:
    """Return an object of numbers, without missing and infinite ones."""
    return {name: n for name, n in dict_of(finite_or_none)(value, where).items() if n is not None}


def curve(value: Any, where: str) -> list[list[float | None]]:
    """Return a pair of lists of numbers of equal length."""
    if not isinstance(value, list) or len(value) != 2:
        raise InvalidValue(where, "a pair of lists", value)
    x, y = list_of(list_of(finite_or_none))(value, where)
    if len(x) != len(y):
        raise InvalidValue(where, "a pair of equally long lists", [len(x), len(y)])
    return [x, y]


def record(cls: type[T], **checks: Check) -> Check:
    """Return a check that converts an object to a dataclass, given a check for each field."""
    names = [f.name for f in fields(cls)]  # type: ignore[arg-type]
    required = [
        f.name
        for f in fields(cls)  # type: ignore[arg-type]
        if f.default is MISSING and f.default_factory is MISSING
    ]
    assert set(names) == set(checks), set(names) ^ set(checks)

    def check(value: Any, where: str) -> T:
        held = dict_of(anything)(value, where)
        for name in held.keys() - set(names):
            raise InvalidValue(where, f"an object of {', '.join(names)}", name)
        for name in required:
            if name not in held:
                raise InvalidValue(where, f"an object with {name!r}", value)
        inside = f"{where}." if where else ""
        return cls(**{name: checks[name](entry, f"{inside}{name}") for name, entry in held.items()})

    return check
