"""Models of rows as files: what they learnt, their units, and the rows that were held out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from tractable.errors import InvalidModelFile
from tractable.generative.columns import Columns
from tractable.persistence import model_file, validation
from tractable.persistence.model_file import under_prefix, with_prefix

if TYPE_CHECKING:
    from tractable.generative.base import Generative

G = TypeVar("G", bound="Generative")

_KINDS: dict[str, type[Generative]] = {}
_FEW = 1 << 10  # a whole number below this costs nothing, whatever it counts
_ROWS, _CONTEXT, _HELD, _LEARNT = "rows/", "context/", "held_out/", "learnt/"


def register(kind: type[Generative]) -> None:
    """Make a kind of model known to ``load``."""
    _KINDS[kind_name(kind)] = kind


def kind_name(kind: type[Generative]) -> str:
    """The name in a file: plain for the library's models, with its module for a user's own."""
    own = kind.__module__.startswith("tractable.")
    return kind.__name__ if own else f"{kind.__module__}.{kind.__qualname__}"


def packed(model: Generative) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """All of a fitted model, as tensors and JSON values."""
    columns = model.fitted_columns()
    tensors, header = model.pack()
    tensors = with_prefix(tensors, _LEARNT) | with_prefix(columns.tensors(), _ROWS)
    if model.context_columns_ is not None:
        tensors |= with_prefix(model.context_columns_.tensors(), _CONTEXT)
    if model.reference_ is not None:
        context, rows = model.reference_
        tensors[f"{_HELD}rows"] = rows
        if context is not None:
            tensors[f"{_HELD}context"] = context
    about = {
        "kind": kind_name(type(model)),
        "config": model.config(),
        "common": model.common(),
        "learnt": header,
    }
    return tensors, {"generative": about}


def write(path: str | Path, model: Generative) -> None:
    """Write a fitted model to one file, atomically."""
    model_file.write(path, *packed(model))


def read(path: str | Path, wanted: type[G], net: nn.Module | None) -> G:
    """The model that a file holds; see ``Generative.load``."""
    tensors, header = model_file.read(path)
    with model_file.as_invalid_file(path):
        entry = header.get("generative")
        if not isinstance(entry, dict):
            raise InvalidModelFile(f"{path} holds no model of rows")
        validation.check_finite(entry, "the model")
        kind = _KINDS.get(str(entry.get("kind")))
        if kind is None:
            raise InvalidModelFile(f"a model of rows {entry.get('kind')!r} is unknown here")
        if not issubclass(kind, wanted):
            raise InvalidModelFile(f"{path} holds a {kind.__name__}, not a {wanted.__name__}")
        given = dict(validation.require_type(entry["config"], dict, "config"))
        common = dict(validation.require_type(entry["common"], dict, "common"))
        validation.check_arguments(kind, given, kind.__name__)
        room = max(_FEW, model_file.count_numbers(tensors))
        for name, value in given.items():
            for number in _whole_numbers(value):
                validation.require_at_most(abs(number), room, name)
        common["dtype"] = _dtype(common.get("dtype"))
        validation.require_type(common.get("seed"), int, "seed")
        for name in ("standardize", "dequantize"):
            validation.require_type(common.get(name), bool, name)
        model = kind.rebuilt({**given, **common}, net)
        model.columns_ = Columns.from_tensors(under_prefix(tensors, _ROWS))
        about = under_prefix(tensors, _CONTEXT)
        model.context_columns_ = Columns.from_tensors(about) if about else None
        model.reference_ = _reference(model, under_prefix(tensors, _HELD))
        learnt = validation.require_type(entry["learnt"], dict, "what was learnt")
        model.unpack(Path(path), under_prefix(tensors, _LEARNT), learnt, net)
        again, header_again = packed(model)
        if net is None:
            validation.check_roundtrip(
                (tensors, header["generative"]), (again, header_again["generative"])
            )
        else:
            validation.check_same_tensors(again, tensors, "network")
    return model


def _whole_numbers(value: Any) -> Iterator[int]:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _whole_numbers(inner)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield value


def _reference(model: Generative, held: dict[str, Tensor]) -> tuple[Tensor | None, Tensor] | None:
    if not held:
        return None
    rows, context = held["rows"], held.get("context")
    _check_table(rows, len(model.fitted_columns().steps), model.dtype, "rows")
    if (context is None) != (model.context_columns_ is None):
        raise InvalidModelFile("the rows held out in the file do not fit the model's context")
    if context is not None and model.context_columns_ is not None:
        _check_table(context, len(model.context_columns_.steps), model.dtype, "contexts")
        if len(context) != len(rows):
            raise InvalidModelFile("the file holds other numbers of rows and of contexts")
    return context, rows


def _check_table(table: Tensor, columns: int, dtype: torch.dtype, what: str) -> None:
    if table.dtype != dtype:
        raise InvalidModelFile(f"{what} held out in the file are {table.dtype}, expected {dtype}")
    if table.ndim != 2 or table.shape[1] != columns or not bool(table.isfinite().all()):
        raise InvalidModelFile(f"{what} held out in the file are not a table of numbers")


def _dtype(name: Any) -> torch.dtype:
    known = {"float32": torch.float32, "float64": torch.float64}
    if name not in known:
        raise InvalidModelFile(f"unknown dtype {name!r} in the file")
    return known[name]
