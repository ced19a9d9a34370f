"""Estimators as files: a learner's model file with scalers, parameters and labels beside it.

What the estimator adds stands under names of its own (tensors ``estimator/...``, one entry of the
header), so that the file is still a model file of the learner.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from tractable.data import Standardizer
from tractable.errors import InvalidModelFile
from tractable.learners import serialization as learner_files
from tractable.persistence import model_file, validation
from tractable.persistence.model_file import Header, Tensors, under_prefix, with_prefix
from tractable.priors import Prior, as_prior
from tractable.sklearn.frames import Frame
from tractable.sklearn.missing import Columns
from tractable.sklearn.values import plain

if TYPE_CHECKING:
    from tractable.sklearn.estimator import Array, Estimator

    Kind = TypeVar("Kind", bound=Estimator)

_PREFIX = "estimator/"
MOST_LAYERS = 1_000
"""Of an estimator's network in a file."""
_JSON = (bool, int, float, str, type(None))
_RENAMED = {
    "hidden": "hidden_layer_sizes",
    "members": "n_estimators",
    "forget": "epoch_forgetting",
    "memory": "memory_rows",
    "shrink": "relevance",
    "samples": "n_train_samples",
    "draws": "n_weight_samples",
    "chosen": "best_params",
    "tried": "cv_results",
    "factor": "noise_scale",
    "doubt": "epistemic_scale",
    "log_scale": "target_log_transform",
    "frame": "encoder",
    "flat": "single_target",
}
"""Words in the header of files that version 0.1 wrote, and their current names."""
_RENAMED_TENSORS = {
    "clipped": "n_clipped",
    "tried/": "cv_results/",
    "missing/": "imputer/",
    "noise/weights": "feature_relevance",
    "columns/weights": "feature_relevance",
    "tails/factors": "noise_scale_mixture",
}
"""The same for the names of tensors, or the beginnings of names."""
_LABELS = {"|O", "|b1", "|i1", "|u1", *(f"<{k}{n}" for k in "iuf" for n in (2, 4, 8))}
"""Types of labels, but for text."""


def save(estimator: Estimator, path: str | Path) -> None:
    """Write a fitted estimator to one file, atomically."""
    model_file.write(path, *packed(estimator))


def packed(estimator: Estimator) -> tuple[Tensors, Header]:
    """A fitted estimator as named tensors and JSON values, which may be part of a larger file."""
    more, values = estimator.target_state()
    more |= {f"inputs/{name}": t for name, t in estimator.input_scaler_.to_dict().items()}
    if estimator.n_clipped_ is not None:
        more["n_clipped"] = torch.as_tensor(estimator.n_clipped_, dtype=torch.int64)
    more |= {f"cv_results/{name}": t for name, t in estimator.tried_tensors().items()}
    columns = estimator.imputer_
    if columns is not None:
        more |= {f"imputer/{name}": t for name, t in columns.tensors().items()}
        values["levels"] = [list(group) for group in columns.groups]
    if estimator.encoder_ is not None:
        values["encoder"] = [None if ls is None else list(ls) for ls in estimator.encoder_.levels]
    names = getattr(estimator, "feature_names_in_", None)
    entry = {
        "kind": type(estimator).__name__,
        "parameters": {
            name: _to_json(name, value) for name, value in estimator.get_params().items()
        },
        "features": estimator.n_features_in_,
        "feature_names": None if names is None else names.tolist(),
        "best_params": estimator.chosen_state(),
        **values,
    }
    tensors, header = learner_files.pack(estimator.learner_)
    return tensors | with_prefix(more, _PREFIX), {**header, "estimator": entry}


def load(kind: type[Kind], path: str | Path) -> Kind:
    """The estimator that a file holds, if it is of this kind.

    Raises:
        FileNotFoundError: there is no such file.
        InvalidModelFile: not a whole file of such an estimator.
    """
    return unpacked(kind, path, *model_file.read(path))


def unpacked(kind: type[Kind], path: str | Path, tensors: Tensors, header: Header) -> Kind:
    """The estimator that ``packed`` described; ``path`` is for error messages."""
    with model_file.as_invalid_file(path):
        tensors, header = _with_current_words(tensors, header)
        entry = header.get("estimator")
        if not isinstance(entry, dict):
            raise InvalidModelFile(f"{path} holds a learner, but no estimator: use Learner.load")
        if entry.get("kind") != kind.__name__:
            raise InvalidModelFile(f"{path} holds a {entry.get('kind')}, not a {kind.__name__}")
        own = under_prefix(tensors, _PREFIX)
        validation.check_numbers(own, {})
        parameters = validation.require_type(entry["parameters"], dict, "parameters").items()
        hidden_layer_sizes = entry["parameters"].get("hidden_layer_sizes")
        validation.require_at_most(
            len(hidden_layer_sizes) if isinstance(hidden_layer_sizes, list) else 1,
            MOST_LAYERS,
            "hidden_layer_sizes",
        )
        # ``ordered`` is a flag or a list, ``calibrate`` may be "refit"; both are checked later.
        of_one_type = {n: v for n, v in parameters if n != "ordered" and v != "cv"}
        plain = {n: v for n, v in of_one_type.items() if not isinstance(v, dict)}
        validation.check_arguments(kind, plain, "the estimator")
        validation.check_finite(entry, "the estimator")
        estimator = kind(**{name: _from_json(name, value) for name, value in parameters})
        room = model_file.count_numbers(tensors)
        estimator.n_features_in_ = validation.require_at_most(entry["features"], room, "features")
        if entry["feature_names"] is not None:
            estimator.feature_names_in_ = _names(entry["feature_names"], estimator.n_features_in_)
        estimator.input_scaler_ = scaler(own, "inputs")
        estimator.restore_target_state(own, entry)
        estimator.encoder_ = _frame(entry.get("encoder"), estimator.n_features_in_, room)
        estimator.imputer_ = _columns(under_prefix(own, "imputer/"), entry, estimator.n_inputs_)
        estimator.n_clipped_ = _clipped(own.get("n_clipped"), estimator.n_inputs_)
        estimator.restore_chosen_state(entry.get("best_params"), under_prefix(own, "cv_results/"))
        estimator.learner_ = learner_files.unpack(path, tensors, header, None, None, device=None)
        estimator.check_restored()
        validation.check_roundtrip(
            _of_estimator(tensors, header), _of_estimator(*packed(estimator))
        )
    return estimator


def _with_current_words(tensors: Tensors, header: Header) -> tuple[Tensors, Header]:
    """Return the parts of a file with the words of version 0.1 replaced by the current ones."""
    entry = header.get("estimator")
    if isinstance(entry, dict):
        entry = _renamed(entry)
        entry["kind"] = re.sub("^Net", "Backprop", str(entry.get("kind")))
        parameters = entry.get("parameters")
        if isinstance(parameters, dict) and parameters.get("calibrate") == "refit":
            parameters["calibrate"] = "cv"
        header = {**header, "estimator": entry}
    return {_current_name(name): tensor for name, tensor in tensors.items()}, header


def _renamed(values: Any) -> Any:
    if isinstance(values, dict):
        return {_RENAMED.get(name, name): _renamed(value) for name, value in values.items()}
    if isinstance(values, list):
        return [_renamed(value) for value in values]
    return values


def _current_name(name: str) -> str:
    for old, new in _RENAMED_TENSORS.items():
        if name.startswith(_PREFIX + old):
            return _PREFIX + new + name.removeprefix(_PREFIX + old)
    return name


def _clipped(given: Tensor | None, width: int) -> Array | None:
    """The number of clipped values of each column; files of version 0.1 have none."""
    if given is None:
        return None
    like = torch.empty(width, dtype=torch.int64)
    validation.check_same_tensors({"n_clipped": like}, {"n_clipped": given}, "kind")
    if bool((given < 0).any()):
        raise InvalidModelFile("the numbers of clipped values in the file are negative")
    return given.numpy()


def _columns(tensors: Tensors, entry: dict[str, Any], width: int) -> Columns | None:
    """The model of the columns; files of before there was one hold none."""
    if not tensors:
        return None
    groups = [validation.require_type(group, list, "levels") for group in entry["levels"]]
    for column in (column for group in groups for column in group):
        validation.require_at_most(column, width - 1, "a level")
    return Columns.from_tensors(tensors, width, groups)


def _frame(given: Any, features: int, room: int) -> Frame | None:
    """How a data frame becomes numbers."""
    if given is None:
        return None
    columns = [None if ls is None else validation.require_type(ls, list, "levels") for ls in given]
    if not isinstance(given, list) or len(columns) != features:
        raise InvalidModelFile(f"{len(columns)} columns of {features} features in the file")
    validation.require_at_most(sum(len(ls) for ls in columns if ls is not None), room, "levels")
    for level in (level for ls in columns if ls is not None for level in ls):
        validation.require_type(level, str, "a level")
    return Frame(tuple(None if ls is None else tuple(ls) for ls in columns))


def _names(given: Any, features: int) -> Array:
    names = [validation.require_type(name, str, "a name of a feature") for name in given]
    if not isinstance(given, list) or len(names) != features:
        raise InvalidModelFile(f"{len(names)} names of {features} features in the file")
    return np.array(names, dtype=object)


def _of_estimator(tensors: Tensors, header: Header) -> tuple[Tensors, Any]:
    """What the estimator adds to its learner's file."""
    return under_prefix(tensors, _PREFIX), header["estimator"]


def scaler(tensors: dict[str, Tensor], name: str) -> Standardizer:
    """The standardizer that was saved under a name."""
    return Standardizer.from_dict(under_prefix(tensors, f"{name}/"))


def labels_to_json(classes: Array) -> dict[str, Any]:
    """Labels as JSON values, with their dtype."""
    values = classes.tolist()
    strange = {type(value).__name__ for value in values if not isinstance(value, _JSON)}
    if strange:
        raise TypeError(
            f"labels of type {', '.join(sorted(strange))} cannot be written to a file: use "
            f"numbers, strings or booleans"
        )
    return {"dtype": classes.dtype.str, "values": values}


def labels_from_json(given: dict[str, Any], *, any_order: bool = False) -> Array:
    """Labels that ``labels_to_json`` gave; sorted, unless another order was stated."""
    dtype, values = str(given["dtype"]), validation.require_type(given["values"], list, "labels")
    longest = max((len(value) for value in values if isinstance(value, str)), default=1)
    text = re.fullmatch(r"[<>=|]?U(\d{1,9})", dtype)
    if not (dtype in _LABELS or (text and int(text[1]) <= max(longest, 64))):
        raise InvalidModelFile(f"labels of type {dtype!r} are not ones that a file can have")
    labels = np.array(values, dtype=object if dtype == "|O" else np.dtype(dtype))
    once = np.unique(labels)
    if not (len(once) == len(labels) if any_order else np.array_equal(once, labels)):
        raise InvalidModelFile("the labels in the file are not sorted, or some are there twice")
    return labels


def _to_json(name: str, value: Any) -> Any:
    if name == "random_state":
        # A generator's state is used up by the fit: only a number can be given again.
        return int(value) if isinstance(value, int | np.integer) else None
    if name == "class_weight" and isinstance(value, dict):
        return [[_to_json("a label", label), float(weight)] for label, weight in value.items()]
    if isinstance(value, Prior):
        config = value.config()
        if config is None:
            raise TypeError(f"a prior of the user's own cannot be written to a file: {value!r}")
        return config
    value = plain(value)
    if isinstance(value, list | tuple):
        return [_to_json(name, part) for part in value]
    if not isinstance(value, _JSON):
        raise TypeError(f"{name}={value!r} cannot be written to a file")
    return value


def _from_json(name: str, value: Any) -> Any:
    if name == "prior" and isinstance(value, dict):
        return as_prior(value)
    if name == "class_weight" and isinstance(value, list):
        return {label: validation.require_type(weight, float, name) for label, weight in value}
    return tuple(value) if isinstance(value, list) else value
