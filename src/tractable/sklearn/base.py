"""The base class of all estimators: a learner with the interface of scikit-learn.

An estimator checks and standardizes its inputs, builds a multilayer perceptron and a likelihood,
and passes them to a learner of ``tractable.learners``, which is available as ``learner_``. The base
classes ``Regressor`` and ``Classifier`` treat the targets; ``tagi``, ``bbb``, ``backprop`` and
``laplace`` define how the learner is made and fitted.
"""

from __future__ import annotations

import inspect
import warnings
from abc import abstractmethod
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn
from typing_extensions import override

from tractable.keywords import explain_keywords
from tractable.learners import Learner
from tractable.likelihoods import Likelihood
from tractable.nn import mlp
from tractable.nn.mlp import layer_sizes
from tractable.predictive import Predictive, mixture
from tractable.sklearn.cross_validation import FittedModel
from tractable.sklearn.imputation import GaussianCopula, ImputedRows
from tractable.sklearn.preprocessing import (
    FrameEncoder,
    category_columns,
    check_unique_names,
    clip_outliers,
    is_frame,
    repeat_by_weight,
    standardizer_of,
)
from tractable.sklearn.serialization import StoredEstimator
from tractable.training.standardizer import Standardizer

Array = npt.NDArray[Any]

FLOATS = (np.float64, np.float32)
STREAM_BATCH_SIZE = 32
"""Default number of rows per update of ``partial_fit``; larger inputs are split into batches."""


class Estimator(StoredEstimator):
    """A multilayer perceptron with the interface of scikit-learn.

    Attributes:
        learner_: the fitted learner, on standardized inputs and targets.
        input_scaler_: standardizer of the inputs.
        n_clipped_: number of extreme values that ``fit`` clipped in each column, ``(n_inputs_,)``;
            ``partial_fit`` clips none. None if it is not known.
        imputer_: distribution of the columns, from which missing values are imputed, in the units
            of ``input_scaler_``.
        encoder_: encoding of a data frame with text, categories or dates as numbers; None if the
            inputs are numbers.
        n_features_in_: number of features.
        feature_names_in_: names of the features, if the inputs are a data frame,
            ``(n_features_in_,)``.
    """

    hidden_layer_sizes: Any
    activation: str
    epochs: int | None
    batch_size: int | None
    random_state: Any
    verbose: int

    _seed: int  # of the current fit

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Let unknown keyword arguments raise errors that name the right one."""
        super().__init_subclass__(**arguments)
        for name in ("__init__", "fit", "partial_fit", "predict"):
            function = vars(cls).get(name)
            if inspect.isfunction(function):
                setattr(cls, name, explain_keywords(function))

    # --- supplied by the estimators of each learner ----------------------------------------

    @abstractmethod
    def _new_learner(self, net: nn.Module, likelihood: Likelihood, n_rows: int) -> Learner:
        """Return an untrained learner; its first data have ``n_rows`` rows."""

    @abstractmethod
    def _fit_learner(
        self, likelihood: Likelihood, n_outputs: int, x: ImputedRows, y: Tensor
    ) -> FittedModel:
        """Return a learner fitted to standardized rows."""

    def _update(self, learner: Learner, x: Tensor, y: Tensor) -> None:
        """Update the learner with one batch."""
        learner.update(x, y)

    def _set_streaming_defaults(self) -> None:
        """Set attributes that only ``fit`` determines, in the first call of ``partial_fit``."""
        self.n_clipped_ = np.zeros(self.n_inputs_, dtype=np.int64)

    def _learner_inputs(self, rows: ImputedRows) -> Tensor:
        """Return the inputs of an update; missing values are replaced by their expectation."""
        return rows.x

    # --- inputs ----------------------------------------------------------------------------

    def _encode_first(self, X: Any) -> tuple[Any, FrameEncoder | None]:
        """Return the inputs of a first fit as numbers, and the encoder of a data frame."""
        check_unique_names(X)
        encoder = FrameEncoder.from_frame(X)
        if encoder is None:
            return X, None
        validate_data(self, X, skip_check_array=True, reset=True)
        return encoder.encode(X), encoder

    def _encode(self, X: Any, encoder: FrameEncoder | None) -> Array:
        """Return new inputs as numbers, NaN where a value is missing."""
        check_unique_names(X)
        if encoder is None:
            return validate_data(self, X, dtype=FLOATS, ensure_all_finite="allow-nan", reset=False)
        if is_frame(X):  # the names of its columns are checked before their values
            validate_data(self, X, skip_check_array=True, reset=False)
        encoded = encoder.encode(X)
        return check_array(encoded, dtype=FLOATS, ensure_all_finite="allow-nan", input_name="X")

    def _standardized(self, X: Any) -> Tensor:
        """Return new inputs, checked and standardized; NaN where a value is missing."""
        check_is_fitted(self)
        return self.input_scaler_.transform(as_tensor(self._encode(X, self.encoder_)))

    def _fit_inputs(
        self, x: Tensor, copy_of: Tensor | None
    ) -> tuple[Standardizer, ImputedRows, GaussianCopula, Tensor]:
        """Fit the preprocessing of the inputs to the training rows.

        Args:
            x: training rows, with copies of rows that have weights.
            copy_of: original row of each copy; None without weights.

        Returns:
            The standardizer, the standardized rows, the distribution of the columns, and the number
            of clipped values of each column.
        """
        x, n_clipped = clip_outliers(x)
        names = getattr(self, "feature_names_in_", None)
        scaler = standardizer_of(
            x, names if names is not None and len(names) == x.shape[1] else None
        )
        z = scaler.transform(x)
        imputer = GaussianCopula.fit(z, category_columns(x))
        return scaler, ImputedRows.from_gaps(z, imputer, copy_of), imputer, n_clipped

    def _copies(self, sample_weight: Any, n_rows: int) -> Tensor | None:
        """Return the original row of each copy of a weighted row; None without weights."""
        copy_of = None if sample_weight is None else repeat_by_weight(sample_weight, n_rows)
        if (n_rows if copy_of is None else len(copy_of)) < 2:
            raise ValueError(
                f"{type(self).__name__} cannot be fitted with n_samples=1: the scale of the data "
                f"cannot be computed from one row"
            )
        return copy_of

    def _stream_inputs(self, x: Tensor, imputer: GaussianCopula | None) -> Tensor:
        """Return the inputs of an update from standardized rows with missing values."""
        if imputer is None:
            self._completions(x)  # raises if values are missing
            return x
        return self._learner_inputs(ImputedRows.from_gaps(x, imputer))

    def _completions(self, x: Tensor) -> list[Tensor]:
        """Return copies of standardized rows, with different draws of missing values."""
        if not bool(x.isnan().any()):
            return [x]
        if self.imputer_ is None:
            raise ValueError(
                f"X has missing values, and this {type(self).__name__} was read from a file "
                f"without a distribution of the columns: fit it again"
            )
        return list(self.imputer_.draws(x))

    # --- fitting ---------------------------------------------------------------------------

    def _first_learner(self, likelihood: Likelihood, n_outputs: int, x: Tensor) -> Learner:
        """Return the untrained learner of a new fit, after the parameters are checked."""
        self._check_parameters()
        net = self._network(x.shape[1], self._layer_sizes(), n_outputs)
        return self._new_learner(net, likelihood, len(x))

    def _network(self, n_inputs: int, sizes: Sequence[int], n_outputs: int) -> nn.Sequential:
        """Return an untrained network with hidden layers of these sizes."""
        return mlp(n_inputs, sizes, n_outputs, self.activation)

    def _layer_sizes(self) -> list[int]:
        """Return the sizes of the hidden layers."""
        return layer_sizes(as_python(self.hidden_layer_sizes))

    def _update_in_batches(self, learner: Learner, x: Tensor, y: Tensor) -> None:
        """Update the learner with standardized rows, each once."""
        size = STREAM_BATCH_SIZE if self.batch_size is None else int(self.batch_size)
        for start in range(0, len(x), size):
            rows = slice(start, start + size)
            self._update(learner, x[rows], y[rows])

    def _check_parameters(self) -> None:
        """Raise ``ValueError`` if a parameter has an invalid value."""
        for name in ("epochs", "batch_size"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, Integral) and int(value) >= 1):
                raise ValueError(f"{name} must be a positive integer or None; got {value!r}")

    def _draw_seed(self) -> None:
        """Draw the random seed of a fit; an integer ``random_state`` is the seed itself.

        All parts of a fit share it, because configurations are compared on the same held-out rows.
        """
        generator = check_random_state(self.random_state)
        is_seed = isinstance(self.random_state, Integral)
        self._seed = int(self.random_state if is_seed else generator.randint(2**31 - 1))

    def _warn_of_one_row(self, n_rows: int) -> None:
        """Warn if the first call of ``partial_fit`` has a single row."""
        if n_rows == 1:
            warnings.warn(
                f"the first call of {type(self).__name__}.partial_fit sets the scale of the data, "
                f"which cannot be computed from one row and is taken as 1. Pass more rows in the "
                f"first call, or standardized values",
                UserWarning,
                stacklevel=3,
            )

    @override
    def _check_loaded(self) -> None:
        self._check_parameters()
        with torch.device("meta"):  # allocates no memory, whatever the layer sizes in the file
            self._network(1, self._layer_sizes(), 1)
        if len(self.input_scaler_.mean) != self.n_inputs_:
            raise ValueError(
                f"the input scaler in the file has {len(self.input_scaler_.mean)} columns, "
                f"expected {self.n_inputs_}"
            )
        self.learner_.checks.output_shape(torch.zeros(1, self.n_inputs_, dtype=self.learner_.dtype))

    def __sklearn_tags__(self) -> Any:
        """Return the tags of scikit-learn: missing values are supported."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether the estimator is fitted."""
        return hasattr(self, "learner_")


def mixture_of_completions(parts: Sequence[Predictive]) -> Predictive:
    """Return the mixture of predictions for the same rows with different imputed values."""
    found = mixture(list(parts))
    novelty = [part.novelty for part in parts if part.novelty is not None]
    return found.with_novelty(torch.stack(novelty).mean(0)) if len(novelty) == len(parts) else found


def as_python(value: Any) -> Any:
    """Return a NumPy scalar as a Python scalar, and an array, a list or a range as a tuple.

    Other values are returned unchanged.

    >>> as_python(np.float64(0.5)), as_python(np.array([8, 4])), as_python(np.array(8))
    (0.5, (8, 4), 8)
    """
    if isinstance(value, np.generic):
        return value.item()
    if hasattr(value, "tolist"):
        value = value.tolist()
    return tuple(value) if isinstance(value, list | range) else value


def as_tensor(array: Array) -> Tensor:
    """Return a copy of an array as a floating-point tensor; integers become float64.

    The copy is in row-major order, because the last digits of sums depend on the memory layout.
    """
    dtype = array.dtype if array.dtype in FLOATS else np.float64
    return torch.from_numpy(np.array(array, dtype=dtype, order="C"))


def torch_generator(random_state: Any) -> torch.Generator:
    """Return a torch generator for a ``random_state`` of scikit-learn."""
    seed = check_random_state(random_state).randint(2**31 - 1)
    return torch.Generator().manual_seed(int(seed))
