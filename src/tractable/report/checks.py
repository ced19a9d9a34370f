"""What a JSON file may hold: checks that return the value, or say where another was wanted."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any, TypeVar

from tractable.errors import InvalidResults

T = TypeVar("T")
Check = Callable[[Any, str], Any]
"""Takes a value and where it stands; returns it, or raises ``WrongValue``."""


class WrongValue(InvalidResults):
    """A value of another kind than is wanted there; whoever knows the file names it as well."""

    def __init__(self, where: str, wanted: str, got: Any) -> None:
        shown = repr(got)
        shown = shown if len(shown) <= 40 else f"{shown[:37]}..."
        super().__init__(f"{where} must be {wanted}, got {shown}")


def anything(value: Any, where: str) -> Any:
    """Any value."""
    return value


def text(value: Any, where: str) -> str:
    """A text."""
    if not isinstance(value, str):
        raise WrongValue(where, "a text", value)
    return value


def flag(value: Any, where: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise WrongValue(where, "true or false", value)
    return value


def whole(value: Any, where: str) -> int:
    """A whole number."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise WrongValue(where, "a whole number", value)
    return value


def number(value: Any, where: str) -> float:
    """A finite number."""
    found = gap(value, where)
    if found is None:
        raise WrongValue(where, "a finite number", value)
    return found


def gap(value: Any, where: str) -> float | None:
    """A number, or None for one that is missing or not finite."""
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise WrongValue(where, "a number", value)
    try:
        return value if math.isfinite(value) else None
    except OverflowError:  # an integer beyond the floats
        raise WrongValue(where, "a number that a float can hold", value) from None


def optional(check: Check) -> Check:
    """What the check wants, or None."""
    return lambda value, where: None if value is None else check(value, where)


def one_of(*known: str) -> Check:
    """One of these texts."""

    def check(value: Any, where: str) -> Any:
        if not isinstance(value, str) or value not in known:
            raise WrongValue(where, " or ".join(map(repr, known)), value)
        return value

    return check


def list_of(check_entry: Check) -> Check:
    """A list, each of whose entries passes the check."""

    def check(value: Any, where: str) -> list[Any]:
        if not isinstance(value, list):
            raise WrongValue(where, "a list", value)
        return [check_entry(entry, f"{where}[{i}]") for i, entry in enumerate(value)]

    return check


def dict_of(check_entry: Check) -> Check:
    """An object, each of whose values passes the check."""

    def check(value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise WrongValue(where, "an object", value)
        return {key: check_entry(entry, f"{where}[{key!r}]") for key, entry in value.items()}

    return check


def numbers(value: Any, where: str) -> dict[str, float]:
    """An object of numbers, without those that are missing or not finite."""
    return {name: n for name, n in dict_of(gap)(value, where).items() if n is not None}


def curve(value: Any, where: str) -> list[list[float | None]]:
    """A pair of lists of numbers, equally long."""
    if not isinstance(value, list) or len(value) != 2:
        raise WrongValue(where, "a pair of lists", value)
    x, y = list_of(list_of(gap))(value, where)
    if len(x) != len(y):
        raise WrongValue(where, "a pair of equally long lists", [len(x), len(y)])
    return [x, y]


def record(cls: type[T], **checks: Check) -> Check:
    """An object as an instance of a dataclass; there is a check for each of its fields."""
    names = [f.name for f in fields(cls)]  # type: ignore[arg-type]
    needed = [
        f.name
        for f in fields(cls)  # type: ignore[arg-type]
        if f.default is MISSING and f.default_factory is MISSING
    ]
    assert set(names) == set(checks), set(names) ^ set(checks)

    def check(value: Any, where: str) -> T:
        held = dict_of(anything)(value, where)
        for name in held.keys() - set(names):
            raise WrongValue(where, f"an object of {', '.join(names)}", name)
        for name in needed:
            if name not in held:
                raise WrongValue(where, f"an object with {name!r}", value)
        inside = f"{where}." if where else ""
        return cls(**{name: checks[name](entry, f"{inside}{name}") for name, entry in held.items()})

    return check
