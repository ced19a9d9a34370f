"""Files of estimators: the model file of the learner, with preprocessing and parameters added.

What the estimator adds has its own names (tensors ``estimator/...`` and one entry of the header),
so that the file can also be read as a model file of the learner.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from tractable.errors import InvalidModelFile
from tractable.learners import Learner
from tractable.learners import serialization as learner_files
from tractable.persistence import model_file, validation
from tractable.persistence.model_file import Header, Tensors, under_prefix, with_prefix
from tractable.priors import Prior, as_prior
from tractable.sklearn.imputation import GaussianCopula
from tractable.sklearn.preprocessing import FrameEncoder
from tractable.training.standardizer import Standardizer

Array = npt.NDArray[Any]

_PREFIX = "estimator/"
MAX_LAYERS = 1_000
"""Maximum number of hidden layers in a file; more are taken for a damaged file."""
_JSON = (bool, int, float, str, type(None))
_LABEL_DTYPES = {"|O", "|b1", "|i1", "|u1", *(f"<{k}{n}" for k in "iuf" for n in (2, 4, 8))}
"""NumPy types of class labels in a file, apart from strings."""
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


class StoredEstimator(BaseEstimator):
    """An estimator that is saved to a file and loaded from it, without pickle."""

    learner_: Learner
    input_scaler_: Standardizer
    n_clipped_: Array | None
    imputer_: GaussianCopula | None
    encoder_: FrameEncoder | None
    n_features_in_: int

    # --- supplied by the subclasses --------------------------------------------------------

    @abstractmethod
    def _pack_targets(self) -> tuple[Tensors, Header]:
        """Return the fitted state of the targets as tensors and JSON values."""

    @abstractmethod
    def _unpack_targets(self, tensors: Tensors, values: Header) -> None:
        """Restore what ``_pack_targets`` returned."""

    @abstractmethod
    def _check_loaded(self) -> None:
        """Raise if parts of a file do not match each other."""

    def _pack_selection(self) -> tuple[Tensors, Any]:
        """Return the results of model selection as tensors and JSON values; None without any."""
        return {}, None

    def _unpack_selection(self, tensors: Tensors, values: Any) -> None:
        """Restore what ``_pack_selection`` returned."""
        if values is not None or tensors:
            raise ValueError(
                f"the file has results of model selection, but {type(self).__name__} has none"
            )

    # --- files -----------------------------------------------------------------------------

    @property
    def n_inputs_(self) -> int:
        """Number of inputs of the network: features, with one for each level of a category."""
        return self.n_features_in_ if self.encoder_ is None else self.encoder_.n_columns

    def save(self, path: str | Path) -> None:
        """Write the fitted estimator to one file, atomically.

        The file contains tensors and JSON, and can also be read with ``Learner.load``.

        Args:
            path: the file, which is replaced if it exists.

        Raises:
            sklearn.exceptions.NotFittedError: the estimator is not fitted.
            TypeError: a parameter or a class label cannot be written as JSON.
        """
        check_is_fitted(self)
        model_file.write(path, *self.pack())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return the estimator that ``save`` wrote; no code from the file is executed.

        Args:
            path: the file.

        Raises:
            FileNotFoundError: the file does not exist.
            InvalidModelFile: the file is damaged, or contains another estimator.
        """
        return cls.unpack(path, *model_file.read(path))

    def pack(self) -> tuple[Tensors, Header]:
        """Return the fitted estimator as tensors and JSON values, to be part of a larger file."""
        own, values = self._pack_targets()
        own |= {f"inputs/{name}": t for name, t in self.input_scaler_.to_dict().items()}
        if self.n_clipped_ is not None:
            own["n_clipped"] = torch.as_tensor(self.n_clipped_, dtype=torch.int64)
        results, selection = self._pack_selection()
        own |= with_prefix(results, "cv_results/")
        if self.imputer_ is not None:
            own |= with_prefix(self.imputer_.tensors(), "imputer/")
            values["levels"] = [list(group) for group in self.imputer_.groups]
        if self.encoder_ is not None:
            values["encoder"] = [None if ls is None else list(ls) for ls in self.encoder_.levels]
        names = getattr(self, "feature_names_in_", None)
        entry = {
            "kind": type(self).__name__,
            "parameters": {n: _to_json(n, value) for n, value in self.get_params().items()},
            "features": self.n_features_in_,
            "feature_names": None if names is None else names.tolist(),
            "best_params": selection,
            **values,
        }
        tensors, header = learner_files.pack(self.learner_)
        return tensors | with_prefix(own, _PREFIX), {**header, "estimator": entry}

    @classmethod
    def unpack(cls, path: str | Path, tensors: Tensors, header: Header) -> Self:
        """Return the estimator that ``pack`` converted to these tensors and JSON values.

        Args:
            path: the file, for error messages.
            tensors: tensors by name.
            header: JSON values.

        Raises:
            InvalidModelFile: they do not describe an estimator of this class.
        """
        with model_file.as_invalid_file(path):
            tensors, header = _with_current_words(tensors, header)
            entry = header.get("estimator")
            if not isinstance(entry, dict):
                raise InvalidModelFile(
                    f"{path} contains a learner, but no estimator: use Learner.load"
                )
            if entry.get("kind") != cls.__name__:
                raise InvalidModelFile(
                    f"{path} contains a {entry.get('kind')}, expected a {cls.__name__}"
                )
            own = under_prefix(tensors, _PREFIX)
            validation.check_numbers(own, {})
            estimator = cls(**_parameters(cls, entry))
            estimator._unpack_inputs(own, entry, model_file.count_numbers(tensors))
            estimator._unpack_selection(under_prefix(own, "cv_results/"), entry.get("best_params"))
            estimator.learner_ = learner_files.unpack(
                path, tensors, header, None, None, device=None
            )
            estimator._check_loaded()
            validation.check_roundtrip(_own_parts(tensors, header), _own_parts(*estimator.pack()))
        return estimator

    def _unpack_inputs(self, own: Tensors, entry: Header, n_numbers: int) -> None:
        """Restore the preprocessing; sizes are bounded by the amount of numbers in the file."""
        self.n_features_in_ = validation.require_at_most(entry["features"], n_numbers, "features")
        if entry["feature_names"] is not None:
            self.feature_names_in_ = _feature_names(entry["feature_names"], self.n_features_in_)
        self.input_scaler_ = standardizer(own, "inputs")
        self._unpack_targets(own, entry)
        self.encoder_ = _encoder(entry.get("encoder"), self.n_features_in_, n_numbers)
        self.imputer_ = _imputer(under_prefix(own, "imputer/"), entry, self.n_inputs_)
        self.n_clipped_ = _n_clipped(own.get("n_clipped"), self.n_inputs_)


def standardizer(tensors: Tensors, name: str) -> Standardizer:
    """Return the standardizer that was saved under a name."""
    return Standardizer.from_dict(under_prefix(tensors, f"{name}/"))


def positive_vector(tensors: Tensors, name: str, length: int) -> Tensor:
    """Return a vector of a file after checking that all of its values are positive."""
    own = {name: tensors[name]}
    validation.check_same_tensors(
        {name: torch.empty(length, dtype=torch.float64)}, own, "estimator"
    )
    validation.check_numbers(own, {})
    if not bool((own[name] > 0).all()):
        raise ValueError(f"{name} in the file has values that are not positive")
    return own[name]


def labels_to_json(classes: Array) -> dict[str, Any]:
    """Return class labels as JSON values, with their NumPy type."""
    values = classes.tolist()
    invalid = {type(value).__name__ for value in values if not isinstance(value, _JSON)}
    if invalid:
        raise TypeError(
            f"class labels of type {', '.join(sorted(invalid))} cannot be saved: use numbers, "
            f"strings or booleans"
        )
    return {"dtype": classes.dtype.str, "values": values}


def labels_from_json(given: dict[str, Any], *, any_order: bool = False) -> Array:
    """Return class labels from the JSON values of ``labels_to_json``.

    Args:
        given: the JSON values.
        any_order: whether the labels may be in another order than that of sorting.
    """
    dtype, values = str(given["dtype"]), validation.require_type(given["values"], list, "labels")
    longest = max((len(value) for value in values if isinstance(value, str)), default=1)
    text = re.fullmatch(r"[<>=|]?U(\d{1,9})", dtype)
    if not (dtype in _LABEL_DTYPES or (text and int(text[1]) <= max(longest, 64))):
        raise InvalidModelFile(f"the class labels in the file have the invalid type {dtype!r}")
    labels = np.array(values, dtype=object if dtype == "|O" else np.dtype(dtype))
    unique = np.unique(labels)
    if not (len(unique) == len(labels) if any_order else np.array_equal(unique, labels)):
        raise InvalidModelFile("the class labels in the file are not sorted, or not unique")
    return labels


def _parameters(kind: type[Any], entry: Header) -> dict[str, Any]:
    """Return the parameters of an estimator, after checking their types."""
    given = validation.require_type(entry["parameters"], dict, "parameters")
    sizes = given.get("hidden_layer_sizes")
    n_layers = len(sizes) if isinstance(sizes, list) else 1
    validation.require_at_most(n_layers, MAX_LAYERS, "hidden_layer_sizes")
    # ``ordered`` is a flag or a list, ``calibrate`` may be "cv"; both are checked later.
    one_type = {n: v for n, v in given.items() if n != "ordered" and v != "cv"}
    validation.check_arguments(
        kind, {n: v for n, v in one_type.items() if not isinstance(v, dict)}, "the estimator"
    )
    validation.check_finite(entry, "the estimator")
    return {name: _from_json(name, value) for name, value in given.items()}


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


def _n_clipped(given: Tensor | None, n_inputs: int) -> Array | None:
    """Return the number of clipped values of each column; None if the file has none."""
    if given is None:
        return None
    like = torch.empty(n_inputs, dtype=torch.int64)
    validation.check_same_tensors({"n_clipped": like}, {"n_clipped": given}, "kind")
    if bool((given < 0).any()):
        raise InvalidModelFile("the numbers of clipped values in the file are negative")
    return given.numpy()


def _imputer(tensors: Tensors, entry: Header, n_inputs: int) -> GaussianCopula | None:
    """Return the distribution of the columns; None if the file has none."""
    if not tensors:
        return None
    groups = [validation.require_type(group, list, "levels") for group in entry["levels"]]
    for column in (column for group in groups for column in group):
        validation.require_at_most(column, n_inputs - 1, "a level")
    return GaussianCopula.from_tensors(tensors, n_inputs, groups)


def _encoder(given: Any, n_features: int, n_numbers: int) -> FrameEncoder | None:
    """Return the encoder of data frames; None if the file has none."""
    if given is None:
        return None
    columns = [None if ls is None else validation.require_type(ls, list, "levels") for ls in given]
    if not isinstance(given, list) or len(columns) != n_features:
        raise InvalidModelFile(
            f"the encoder in the file has {len(columns)} columns, expected {n_features}"
        )
    validation.require_at_most(
        sum(len(ls) for ls in columns if ls is not None), n_numbers, "levels"
    )
    for level in (level for ls in columns if ls is not None for level in ls):
        validation.require_type(level, str, "a level")
    return FrameEncoder(tuple(None if ls is None else tuple(ls) for ls in columns))


def _feature_names(given: Any, n_features: int) -> Array:
    names = [validation.require_type(name, str, "a feature name") for name in given]
    if not isinstance(given, list) or len(names) != n_features:
        raise InvalidModelFile(f"the file has {len(names)} feature names, expected {n_features}")
    return np.array(names, dtype=object)


def _own_parts(tensors: Tensors, header: Header) -> tuple[Tensors, Any]:
    """Return what the estimator adds to the file of its learner."""
    return under_prefix(tensors, _PREFIX), header["estimator"]


def _to_json(name: str, value: Any) -> Any:
    if name == "random_state":
        # A generator has advanced during the fit: only a seed can be restored.
        return int(value) if isinstance(value, int | np.integer) else None
    if name == "class_weight" and isinstance(value, dict):
        return [[_to_json("a label", label), float(weight)] for label, weight in value.items()]
    if isinstance(value, Prior):
        config = value.config()
        if config is None:
            raise TypeError(
                f"prior={value!r} cannot be saved: only the priors of tractable.priors can"
            )
        return config
    if hasattr(value, "tolist"):  # a scalar, array or tensor
        value = value.tolist()
    if isinstance(value, list | tuple | range):
        return [_to_json(name, item) for item in value]
    if not isinstance(value, _JSON):
        raise TypeError(f"{name}={value!r} cannot be saved: it is not a number, string or list")
    return value


def _from_json(name: str, value: Any) -> Any:
    if name == "prior" and isinstance(value, dict):
        return as_prior(value)
    if name == "class_weight" and isinstance(value, list):
        return {label: validation.require_type(weight, float, name) for label, weight in value}
    return tuple(value) if isinstance(value, list) else value
