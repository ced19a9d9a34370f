"""Files that nobody's ``save`` wrote: every field of a wrong kind, every number impossible.

All but the raw ones have a valid checksum, as a file has that was made on purpose.
"""

from __future__ import annotations

import copy
import io
import json
import math
import os
import pickle
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tests.persistence.kinds import KINDS, contents, write_good
from tractable.persistence import model_file
from tractable.persistence.model_file import Header, Tensors

Edit = Callable[[Tensors, Header], None]
Place = tuple[str | int, ...]


@dataclass(frozen=True)
class Case:
    """A file that is like a good one but for one thing.

    Attributes:
        kind: of the good file.
        name: what is wrong with it.
        edit: makes it so, in place.
    """

    kind: str
    name: str
    edit: Edit

    def write(self, path: Path) -> None:
        tensors, header = contents(self.kind)
        self.edit(tensors, header)
        model_file.write(path, tensors, header)


# --- every field of the header -----------------------------------------------------------------

WRONG: list[Any] = [
    None, True, "zzz", "", -1, 0, 0.5, 7, math.nan, math.inf, -math.inf, 1e308, 10**30, -(10**30),
    [], {}, [[1]], {"a": 1}, ["a"], "é" * 100,
]  # fmt: skip
MISSING = object()


def places(value: Any, place: Place = ()) -> Iterator[Place]:
    """Where the leaves and branches of JSON values are."""
    children: Any = ()
    if isinstance(value, dict):
        children = value.items()
    elif isinstance(value, list):
        children = list(enumerate(value))[:1]
    for key, inner in children:
        yield (*place, key)
        yield from places(inner, (*place, key))


def at(header: Any, place: Place) -> Any:
    for key in place:
        header = header[key]
    return header


def put(header: Any, place: Place, value: Any) -> None:
    home = at(header, place[:-1])
    if value is not MISSING:
        home[place[-1]] = value
    elif isinstance(home, dict):
        home.pop(place[-1])
    else:
        home.pop()


def header_cases(kind: str) -> Iterator[Case]:
    """Every value of the header missing, or another one."""
    header = json.loads(json.dumps(contents(kind)[1]))
    for place in places(header):
        for value in [*WRONG, MISSING]:
            said = "missing" if value is MISSING else f"{value!r:.20}"

            def edit(_: Tensors, held: Header, place: Place = place, value: Any = value) -> None:
                put(held, place, value if value is MISSING else copy.deepcopy(value))

            yield Case(kind, f"{'/'.join(map(str, place))} is {said}", edit)


# --- every tensor -----------------------------------------------------------------------------


def first(value: float) -> Callable[[Tensor], Tensor | None]:
    def change(tensor: Tensor) -> Tensor | None:
        if not tensor.is_floating_point() or not tensor.numel():
            return None
        changed = tensor.clone()
        changed.view(-1)[0] = value
        return changed

    return change


def as_type(dtype: torch.dtype) -> Callable[[Tensor], Tensor | None]:
    return lambda tensor: None if tensor.dtype == dtype else tensor.to(dtype)


CHANGES: dict[str, Callable[[Tensor], Tensor | None]] = {
    "NaN": first(math.nan),
    "infinite": first(math.inf),
    **{str(dtype).removeprefix("torch."): as_type(dtype) for dtype in (
        torch.float16, torch.float64, torch.int64, torch.complex64, torch.bool)},
    "longer": lambda t: torch.cat([t.reshape(-1), t.reshape(-1), t.new_zeros(1)]),
    "empty": lambda t: t.new_zeros(0) if t.numel() else None,
    "one axis more": lambda t: t.unsqueeze(0).clone(),
    "missing": lambda t: t.new_zeros(0),
}  # fmt: skip


def tensor_cases(kind: str) -> Iterator[Case]:
    """Every tensor missing, of another type or shape, or with a number that cannot be."""
    for name, tensor in contents(kind)[0].items():
        for said, change in CHANGES.items():
            changed = change(tensor)
            if changed is None or (name, said) in MAY_BE:
                continue

            def edit(
                tensors: Tensors, _: Header, name: str = name, said: str = said, new: Any = changed
            ) -> None:
                del tensors[name]
                if said != "missing":
                    tensors[name] = new

            yield Case(kind, f"{name} {said}", edit)


MAY_BE: set[tuple[str, str]] = set()
"""What has a meaning."""
