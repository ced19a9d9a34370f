"""Files of generative models: what was learned, the scalers, and the held-out rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from tractable.errors import InvalidModelFile
from tractable.generative.column_scaler import ColumnScaler
from tractable.persistence import model_file, validation
from tractable.persistence.model_file import under_prefix, with_prefix

if TYPE_CHECKING:
    from tractable.generative.base import GenerativeModel

G = TypeVar("G", bound="GenerativeModel")

_KINDS: dict[str, type[GenerativeModel]] = {}
_ALWAYS_ALLOWED = 1 << 10  # whole numbers below this need no memory, whatever they count
_ROWS, _CONTEXT, _HELD_OUT, _LEARNED = "rows/", "context/", "held_out/", "learned/"

# Words of the first file format; arguments that were renamed in one kind of model only.
_OLD_KINDS = {"Latent": "LatentDecoder"}
_OLD_ARGUMENTS = {
    "members": "n_estimators", "options": "learner_kwargs", "hidden": "hidden_layer_sizes",
    "transforms": "n_transforms", "latent": "latent_dim", "samples": "n_latent_samples",
    "bound": "objective", "floor": "min_noise", "form": "prediction_type",
    "drop": "context_dropout", "components": "n_components", "starts": "n_init",
    "iterations": "max_iter", "tolerance": "tol", "prior_rows": "prior_count",
    "penalty": "gradient_penalty", "clip": "weight_clip", "average": "ema_decay",
    "held_out": "validation_fraction",
}  # fmt: skip
_OLD_ARGUMENTS_OF = {"GAN": {"steps": "n_critic"}}
_OLD_VALUES = {
    ("objective", "importance"): "iwae",
    ("estimator", "reparameterised"): "reparameterized",
    ("estimator", "doubly"): "doubly_reparameterized",
}
_OLD_LEARNED = {"tried": "validation_scores", "own": "own_net"}


def register(kind: type[GenerativeModel]) -> None:
    """Add a class of models to those that ``load`` knows."""
    _KINDS[kind_name(kind)] = kind


def kind_name(kind: type[GenerativeModel]) -> str:
    """Return the name of a class in files: qualified with its module for classes of users."""
    own = kind.__module__.startswith("tractable.")
    return kind.__name__ if own else f"{kind.__module__}.{kind.__qualname__}"


def pack(model: GenerativeModel) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return a fitted model as tensors and JSON values."""
    tensors, header = model.pack()
    tensors = with_prefix(tensors, _LEARNED) | with_prefix(
        model.fitted_scaler().to_tensors(), _ROWS
    )
    if model.context_scaler_ is not None:
        tensors |= with_prefix(model.context_scaler_.to_tensors(), _CONTEXT)
    if model.held_out_ is not None:
        context, rows = model.held_out_
        tensors[f"{_HELD_OUT}rows"] = rows
        if context is not None:
            tensors[f"{_HELD_OUT}context"] = context
    entry = {
        "kind": kind_name(type(model)),
        "config": model.config(),
        "common": model.common_config(),
        "learned": header,
    }
    return tensors, {"generative": entry}


def save(model: GenerativeModel, path: str | Path) -> None:
    """Write a fitted model to one file, atomically."""
    model_file.write(path, *pack(model))


def load(path: str | Path, expected: type[G], net: nn.Module | None) -> G:
    """Return the model of a file; see ``GenerativeModel.load``."""
    tensors, header = model_file.read(path)
    with model_file.as_invalid_file(path):
        entry = header.get("generative")
        if not isinstance(entry, dict):
            raise InvalidModelFile(f"{path} holds no generative model")
        validation.check_finite(entry, "the model")
        entry, tensors = _with_current_words(entry, tensors)
        kind = _KINDS.get(str(entry.get("kind")))
        if kind is None:
            raise InvalidModelFile(f"unknown generative model {entry.get('kind')!r}")
        if not issubclass(kind, expected):
            raise InvalidModelFile(f"{path} holds a {kind.__name__}, not a {expected.__name__}")
        model = kind.from_config(_checked_arguments(entry, kind, tensors), net)
        model.scaler_ = ColumnScaler.from_tensors(under_prefix(tensors, _ROWS))
        context = under_prefix(tensors, _CONTEXT)
        model.context_scaler_ = ColumnScaler.from_tensors(context) if context else None
        model.held_out_ = _held_out_rows(model, under_prefix(tensors, _HELD_OUT))
        learned = validation.require_type(entry["learned"], dict, "what was learned")
        model.unpack(Path(path), under_prefix(tensors, _LEARNED), learned, net)
        again, header_again = pack(model)
        if net is None:
            validation.check_roundtrip((tensors, entry), (again, header_again["generative"]))
        else:
            validation.check_same_tensors(again, tensors, "network")
    return model


def _with_current_words(
    entry: dict[str, Any], tensors: dict[str, Tensor]
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return header and tensors with the words of the first file format replaced."""
    if "learnt" not in entry:
        return entry, tensors
    entry = {("learned" if key == "learnt" else key): value for key, value in entry.items()}
    kind = str(entry.get("kind"))
    words = _OLD_ARGUMENTS | _OLD_ARGUMENTS_OF.get(kind, {})
    entry["kind"] = _OLD_KINDS.get(kind, kind)
    for section in ("config", "common"):
        given = {
            words.get(str(name), str(name)): value for name, value in dict(entry[section]).items()
        }
        entry[section] = {
            name: _OLD_VALUES.get((name, value), value) if isinstance(value, str) else value
            for name, value in given.items()
        }
    learned = dict(entry["learned"])
    entry["learned"] = {_OLD_LEARNED.get(name, name): value for name, value in learned.items()}
    tensors = {
        _LEARNED + name.removeprefix("learnt/") if name.startswith("learnt/") else name: tensor
        for name, tensor in tensors.items()
    }
    return entry, tensors


def _checked_arguments(
    entry: dict[str, Any], kind: type[GenerativeModel], tensors: dict[str, Tensor]
) -> dict[str, Any]:
    """Return the arguments of the constructor, if no number exceeds those of the tensors."""
    config = dict(validation.require_type(entry["config"], dict, "config"))
    common = dict(validation.require_type(entry["common"], dict, "common"))
    validation.check_arguments(kind, config, kind.__name__)
    limit = max(_ALWAYS_ALLOWED, model_file.count_numbers(tensors))
    for name, value in config.items():
        for number in _whole_numbers(value):
            validation.require_at_most(abs(number), limit, name)
    common["dtype"] = _dtype(common.get("dtype"))
    seed = validation.require_type(common.get("seed"), int, "seed")
    if not -(2**63) <= seed < 2**64:  # the range of torch.Generator.manual_seed
        raise InvalidModelFile(f"seed in the file must be an integer of 64 bits, got {seed}")
    for name in ("standardize", "dequantize"):
        validation.require_type(common.get(name), bool, name)
    return {**config, **common}


def _whole_numbers(value: Any) -> Iterator[int]:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _whole_numbers(inner)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield value


def _held_out_rows(
    model: GenerativeModel, given: dict[str, Tensor]
) -> tuple[Tensor | None, Tensor] | None:
    if not given:
        return None
    rows, context = given["rows"], given.get("context")
    _check_table(rows, len(model.fitted_scaler().steps), model.dtype, "rows")
    if (context is None) != (model.context_scaler_ is None):
        raise InvalidModelFile("the held-out rows in the file do not match the model's context")
    if context is not None and model.context_scaler_ is not None:
        _check_table(context, len(model.context_scaler_.steps), model.dtype, "contexts")
        if len(context) != len(rows):
            raise InvalidModelFile("the file holds different numbers of rows and of contexts")
    return context, rows


def _check_table(table: Tensor, columns: int, dtype: torch.dtype, what: str) -> None:
    if table.dtype != dtype:
        raise InvalidModelFile(
            f"held-out {what} in the file have dtype {table.dtype}, expected {dtype}"
        )
    if table.ndim != 2 or table.shape[1] != columns or not bool(table.isfinite().all()):
        raise InvalidModelFile(f"held-out {what} in the file are not a table of finite numbers")


def _dtype(name: Any) -> torch.dtype:
    known = {"float32": torch.float32, "float64": torch.float64}
    if name not in known:
        raise InvalidModelFile(f"unknown dtype {name!r} in the file")
    return known[name]
