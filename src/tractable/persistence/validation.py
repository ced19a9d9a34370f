"""Checks of the names, sizes and values in a file before they are used."""

from __future__ import annotations

import inspect
import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor

from tractable.errors import InvalidModelFile

Domain = Literal["finite", "non-negative", "below infinity", "not NaN"]
_FEW = 1 << 10  # maximum number of layers, or of copies of a network
_VARIANCES = ("running_var", "_variance")
"""Suffixes of the names of tensors that cannot be negative in any object."""


def check_same_tensors(mine: Mapping[str, Tensor], theirs: Mapping[str, Tensor], what: str) -> None:
    """Raise an error unless two sets of tensors have the same names, shapes and dtypes."""
    expected = {name: _form(tensor) for name, tensor in mine.items()}
    given = {name: _form(tensor) for name, tensor in theirs.items()}
    if expected != given:
        odd = sorted(n for n in expected.keys() | given.keys() if expected.get(n) != given.get(n))
        raise InvalidModelFile(
            f"the file is of another {what}: {odd[0]} is {given.get(odd[0], 'missing')} in the "
            f"file and {expected.get(odd[0], 'missing')} here"
        )


def check_numbers(tensors: Mapping[str, Tensor], domains: Mapping[str, Domain]) -> None:
    """Raise an error for invalid numbers: NaN, infinite, or negative where that is impossible.

    Args:
        tensors: by name; the word before the first ``/`` is their kind.
        domains: domain of each first word. Default: ``"finite"``.
    """
    for name, tensor in tensors.items():
        if tensor.is_complex():
            tensor = torch.view_as_real(tensor)
        if not tensor.is_floating_point():
            continue
        domain = domains.get(name.partition("/")[0], "finite")
        if bool(torch.isnan(tensor).any()):
            raise InvalidModelFile(f"{name} has NaN values in the file")
        if domain != "not NaN":
            top = tensor if domain != "below infinity" else tensor.clamp_min(0)
            if not bool(torch.isfinite(top).all()):
                raise InvalidModelFile(f"{name} has infinite values in the file")
        if (domain == "non-negative" or name.endswith(_VARIANCES)) and bool((tensor < 0).any()):
            raise InvalidModelFile(f"{name} has negative values in the file")


def check_finite(value: Any, what: str) -> Any:
    """Return JSON values, or raise an error if they contain NaN or infinite numbers."""
    for inner in _leaves(value):
        if isinstance(inner, float) and not math.isfinite(inner):
            raise InvalidModelFile(f"{what} in the file has the number {inner}")
    return value


def check_roundtrip(
    given: tuple[Mapping[str, Tensor], Any], packed: tuple[Mapping[str, Tensor], Any]
) -> None:
    """Raise an error if an object built from a file does not contain everything in the file.

    The object is packed again, as by ``save``.  All tensors and all values of the header must be
    unchanged; only values that the file does not have may be added.

    Args:
        given: tensors and header of the file, or the parts to compare.
        packed: tensors and header of the object.
    """
    check_same_tensors(packed[0], given[0], "kind")
    for name, tensor in given[0].items():
        if not torch.equal(_bytes(tensor), _bytes(packed[0][name])):
            raise InvalidModelFile(f"{name} in the file cannot be taken over as it is")
    _same(given[1], json.loads(json.dumps(packed[1])), "the header")


def require_type(value: Any, kinds: type | tuple[type, ...], what: str) -> Any:
    """Return a JSON value, or raise an error if it has another type; booleans are not numbers."""
    if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
        raise InvalidModelFile(f"{what} in the file is {value!r}: damaged")
    return value


def check_arguments(of: Callable[..., Any], given: Mapping[str, Any], what: str) -> None:
    """Raise an error for non-numbers given for arguments whose default is a number."""
    for name, default in _defaults(of).items():
        if name in given and type(default) in _NUMBERS and type(given[name]) not in _NUMBERS:
            raise InvalidModelFile(f"{name} of {what} in the file is {given[name]!r:.80}: damaged")


@cache
def _defaults(of: Callable[..., Any]) -> dict[str, Any]:
    return {name: p.default for name, p in inspect.signature(of).parameters.items()}


_NUMBERS = (bool, int, float)


def require_at_most(value: Any, limit: int, what: str) -> int:
    """Return an integer, or raise an error unless it is between 0 and ``limit``."""
    if not 0 <= require_type(value, int, what) <= limit:
        raise InvalidModelFile(f"{what} in the file is {value}, expected at most {limit}")
    return int(value)


def check_network_size(layers: Sequence[int], copies: int, tensors: Mapping[str, Tensor]) -> None:
    """Raise an error if a network has more weights than its file contains, before it is built.

    Args:
        layers: sizes of inputs, hidden layers and outputs.
        copies: number of such networks.
        tensors: the tensors of the file.
    """
    if len(layers) > _FEW or copies > _FEW:
        raise InvalidModelFile(f"a network of {len(layers)} layers, {copies} times: too many")
    needed = copies * sum(a * b for a, b in itertools.pairwise(layers))
    room = sum(tensor.numel() for tensor in tensors.values())
    require_at_most(needed, room, "the number of weights")


def _same(given: Any, again: Any, what: str) -> None:
    if isinstance(given, dict) and isinstance(again, dict):
        for key, value in given.items():
            if key not in again:
                raise InvalidModelFile(f"{what} of the file has the unknown key {key!r}")
            _same(value, again[key], f"{key!r} in {what}")
    elif json.dumps(given) != json.dumps(again):  # so that true is not 1, and NaN is NaN
        raise InvalidModelFile(f"{what} of the file is {given!r:.80}, which is not a saved form")


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _leaves(inner)
    else:
        yield value


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)


def _form(tensor: Tensor) -> tuple[tuple[int, ...], str]:
    return tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")
