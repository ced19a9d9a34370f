"""What a file must hold before anything of it is used: the right names, sizes and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from tractable.errors import InvalidModelFile

Domain = Literal["finite", "non-negative", "below infinity"]


def matching(mine: Mapping[str, Tensor], theirs: Mapping[str, Tensor], what: str) -> None:
    """Refuse tensors whose names, shapes or types are not those wanted."""
    wanted = {name: _form(tensor) for name, tensor in mine.items()}
    given = {name: _form(tensor) for name, tensor in theirs.items()}
    if wanted != given:
        odd = sorted(n for n in wanted.keys() | given.keys() if wanted.get(n) != given.get(n))
        raise InvalidModelFile(
            f"the file is of another {what}: {odd[0]} is {given.get(odd[0], 'missing')} in the "
            f"file and {wanted.get(odd[0], 'missing')} here"
        )


def numbers(tensors: Mapping[str, Tensor], domains: Mapping[str, Domain]) -> None:
    """Refuse numbers that cannot be: NaN, infinite, or negative where that has no meaning.

    Args:
        tensors: by name; the word before the first ``/`` says what they are.
        domains: domain of each first word; ``"finite"`` for those that are not in it.
    """
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            continue
        domain = domains.get(name.partition("/")[0], "finite")
        top = tensor if domain != "below infinity" else tensor.clamp_min(0)
        if not bool(torch.isfinite(top).all()):
            raise InvalidModelFile(f"{name} has NaN or infinite values in the file")
        if domain == "non-negative" and bool((tensor < 0).any()):
            raise InvalidModelFile(f"{name} has negative values in the file")


def of_type(value: Any, kinds: type | tuple[type, ...], what: str) -> Any:
    """A JSON value of one of these types; a truth value is no number."""
    if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
        raise InvalidModelFile(f"{what} in the file is {value!r}: damaged")
    return value


def at_most(value: Any, limit: int, what: str) -> int:
    """A whole number from 0 to a limit that the rest of the file sets."""
    if not 0 <= of_type(value, int, what) <= limit:
        raise InvalidModelFile(f"{what} in the file is {value}, and there is room for {limit}")
    return int(value)


def _form(tensor: Tensor) -> tuple[tuple[int, ...], str]:
    return tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")
