"""What all estimators share: a learner behind scikit-learn's interface.

An estimator standardises, builds a dense network and a likelihood, and hands them to a learner
of ``tractable.learners``, which stays reachable as ``learner_``.  How the learner is made and
taught is said by ``tractable.sklearn.tagi``, ``bbb``, ``net`` and ``laplace``; what targets are by
``regressor`` and ``classifier``.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from numbers import Integral
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from tractable.data import Standardizer
from tractable.learners import Learner
from tractable.likelihoods import Likelihood
from tractable.sklearn import files
from tractable.sklearn.choosing import Fit
from tractable.sklearn.clipping import clipped
from tractable.sklearn.frames import Frame, check_names, is_frame
from tractable.sklearn.missing import Columns
from tractable.sklearn.network import dense
from tractable.sklearn.rows import Rows, levels_of, scaler_of
from tractable.sklearn.weighting import copies

Array = npt.NDArray[Any]

FLOATS = (np.float64, np.float32)
STREAM_BATCH = 32
"""Rows that ``partial_fit`` takes at once; a call with more is cut into batches."""


class Estimator(BaseEstimator):
    """A dense network behind scikit-learn's interface.

    Attributes:
        learner_: the learner that was taught, on standardised data.
        input_scaler_: what standardises the inputs.
        n_clipped_: number of extreme values of each column that ``fit`` clipped
            (``tractable.sklearn.clipping``); ``partial_fit`` clips none.  None if read from a file
            that does not have it.
        imputer_: what is known of a missing value from the rest of its row
            (``tractable.sklearn.missing``), in the units of ``input_scaler_``.
        encoder_: how a data frame with columns of text became numbers; None if none was needed
            (``tractable.sklearn.frames``).
        n_features_in_: number of features.
        feature_names_in_: their names, if a data frame was given.
    """

    hidden_layer_sizes: Any
    activation: str
    epochs: int | None
    batch_size: int | None
    random_state: Any
    verbose: int

    learner_: Learner
    input_scaler_: Standardizer
    n_clipped_: Array | None
    imputer_: Columns | None
    encoder_: Frame | None
    n_features_in_: int
    _seed: int  # of the current fit

    # --- what the ways of learning supply --------------------------------------------------

    @abstractmethod
    def _new_learner(self, net: nn.Module, likelihood: Likelihood, seed: int, rows: int) -> Learner:
        """A learner that has seen nothing; its first data have so many rows."""

    @abstractmethod
    def _learn(self, likelihood: Likelihood, outputs: int, x: Rows, y: Tensor) -> Fit:
        """A learner fitted to standardised rows."""

    def _continue(self, learner: Learner, x: Tensor, y: Tensor) -> None:
        """Show standardised rows to the learner, each once."""
        size = STREAM_BATCH if self.batch_size is None else int(self.batch_size)
        for start in range(0, len(x), size):
            rows = slice(start, start + size)
            self._update(learner, x[rows], y[rows])

    def _streaming(self, width: int) -> None:
        """Set what a fit would have chosen or counted, when a stream begins."""
        self.n_clipped_ = np.zeros(width, dtype=np.int64)

    def _update(self, learner: Learner, x: Tensor, y: Tensor) -> None:
        """One update by a batch that is not kept."""
        learner.update(x, y)

    # --- what the kinds of target supply ---------------------------------------------------

    @abstractmethod
    def target_state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """What is known of the targets: named tensors and JSON values, for a file."""

    @abstractmethod
    def restore_target_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Take over what ``target_state`` gave."""

    def tried_tensors(self) -> dict[str, Tensor]:
        """Log-likelihoods of held-out rows under the settings that were tried, for a file."""
        return {}

    def chosen_state(self) -> dict[str, Any] | None:
        """What was chosen on held-out rows, as JSON values, if anything was."""
        return None

    def restore_chosen_state(self, values: Any, tensors: dict[str, Tensor]) -> None:
        """Take over what ``chosen_state`` and ``tried_tensors`` gave."""
        if values is not None or tensors:
            raise ValueError(f"{type(self).__name__} chooses no settings, and the file has some")

    # --- shared ----------------------------------------------------------------------------

    @property
    def n_inputs_(self) -> int:
        """Number of inputs of the network: features, with one for each level of a category."""
        return self.n_features_in_ if self.encoder_ is None else self.encoder_.width

    def check_restored(self) -> None:
        """Refuse parts of a file that do not belong together."""
        self._check_settings()
        with torch.device("meta"):  # without memory, however large
            dense(1, self._widths(), 1, self.activation)
        width = self.n_inputs_
        if len(self.input_scaler_.mean) != width:
            raise ValueError(f"the file has a scale of {len(self.input_scaler_.mean)} features")
        self.learner_.output_shape(torch.zeros(1, width, dtype=self.learner_.dtype))

    def _scaled(self, X: Any) -> Tensor:
        """New inputs, checked and standardised; NaN where a value is missing."""
        check_is_fitted(self)
        return self.input_scaler_.transform(tensor(self._numbers(X, self.encoder_)))

    def _numbers(self, X: Any, frame: Frame | None) -> Array:
        """New inputs as numbers, NaN where a value is missing."""
        check_names(X)
        if frame is None:
            return validate_data(self, X, dtype=FLOATS, ensure_all_finite="allow-nan", reset=False)
        if is_frame(X):  # its columns, before what is in them
            validate_data(self, X, skip_check_array=True, reset=False)
        encoded = frame.encode(X)
        return check_array(encoded, dtype=FLOATS, ensure_all_finite="allow-nan", input_name="X")

    def _first_numbers(self, X: Any) -> tuple[Any, Frame | None]:
        """The inputs of a first fit as numbers, and how those of a data frame became so."""
        check_names(X)
        frame = Frame.of(X)
        if frame is None:
            return X, None
        validate_data(self, X, skip_check_array=True, reset=True)
        return frame.encode(X), frame

    def _standardised(
        self, x: Tensor, origin: Tensor | None
    ) -> tuple[Standardizer, Rows, Columns, Tensor]:
        """What standardises training rows, the rows, their model, and how many wild values."""
        x, counts = clipped(x)
        names = getattr(self, "feature_names_in_", None)
        scaler = scaler_of(x, names if names is not None and len(names) == x.shape[1] else None)
        z = scaler.transform(x)
        columns = Columns.fit(z, levels_of(x))
        return scaler, Rows.of(z, columns, origin), columns, counts

    def _origin(self, sample_weight: Any, rows: int) -> Tensor | None:
        """Which row each is a copy of, where rows have weights; says so if one row is all."""
        origin = None if sample_weight is None else copies(sample_weight, rows)
        if (rows if origin is None else len(origin)) < 2:
            raise ValueError(
                f"{type(self).__name__} cannot learn from n_samples=1: one row has no scale"
            )
        return origin

    def _to_learn(self, rows: Rows) -> Tensor:
        """Rows as the learner takes them online: for what is missing, what is expected."""
        return rows.x

    def _stream(self, x: Tensor, columns: Columns | None) -> Tensor:
        """Standardised rows of a stream as the learner takes them."""
        if columns is None:
            self._completed(x)  # which refuses rows with gaps
            return x
        return self._to_learn(Rows.of(x, columns))

    def _completed(self, x: Tensor) -> list[Tensor]:
        """Standardised rows, with what is missing filled in one or several ways."""
        if not bool(x.isnan().any()):
            return [x]
        if self.imputer_ is None:
            raise ValueError(
                f"X has missing values, and this {type(self).__name__} comes from a file of before "
                f"the columns were modelled: fit it again"
            )
        return list(self.imputer_.draws(x))

    def _begin_learner(self, likelihood: Likelihood, outputs: int, x: Tensor) -> Learner:
        """The learner of a new fit, once all settings are found to be good."""
        self._check_settings()
        net = dense(x.shape[1], self._widths(), outputs, self.activation)
        return self._new_learner(net, likelihood, self._seed, len(x))

    def _widths(self) -> Any:
        """Widths of the hidden layers."""
        return self.hidden_layer_sizes

    def _check_settings(self) -> None:
        """Refuse numbers of epochs or rows that cannot be."""
        for name in ("epochs", "batch_size"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, Integral) and int(value) >= 1):
                raise ValueError(f"{name} must be a whole number from 1, or None; got {value!r}")

    def _draw_seed(self) -> None:
        """Draw the seed of a fit, which all of its parts share; an integer is taken as it is.

        Settings are compared row by row, so all of them must be fitted to the same rows.
        """
        generator = check_random_state(self.random_state)
        whole = isinstance(self.random_state, Integral)
        self._seed = int(self.random_state if whole else generator.randint(2**31 - 1))

    def _first_rows(self, rows: int) -> None:
        """Say that one row has no scale."""
        if rows == 1:
            warnings.warn(
                f"the first call of {type(self).__name__}.partial_fit sets the scale of the data, "
                f"and one row has none: it is taken as 1. Give more rows at first, or standardised "
                f"ones",
                UserWarning,
                stacklevel=3,
            )

    def __sklearn_tags__(self) -> Any:
        """Missing values are taken."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is a learner."""
        return hasattr(self, "learner_")

    def save(self, path: str | Path) -> None:
        """Write the fitted estimator to one file, atomically.

        The file holds tensors and JSON, and can be read as a learner too (``Learner.load``).
        """
        check_is_fitted(self)
        files.save(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read an estimator that ``save`` wrote; no code from the file is run."""
        return files.load(cls, path)


def tensor(array: Array) -> Tensor:
    """A copy as a tensor of floating point numbers; whole numbers become float64.

    Row after row in memory, whatever it was: sums, and so results, depend on it in the last digit.
    """
    dtype = array.dtype if array.dtype in FLOATS else np.float64
    return torch.from_numpy(np.array(array, dtype=dtype, order="C"))


def torch_generator(random_state: Any) -> torch.Generator:
    """A torch generator from what scikit-learn takes as ``random_state``."""
    seed = check_random_state(random_state).randint(2**31 - 1)
    return torch.Generator().manual_seed(int(seed))
