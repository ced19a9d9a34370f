"""Regression: targets of a kind, an inferred noise, and predictions in the data's own units."""

from __future__ import annotations

from typing import Any, Literal, Self, overload

import torch
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, check_X_y, validate_data
from torch import Tensor

from tractable.data import Standardizer
from tractable.learners import Learner
from tractable.persistence import checks
from tractable.persistence.model_file import part
from tractable.predictive import LogScale, Predictive
from tractable.sklearn import few, files, logarithm, tails
from tractable.sklearn.estimator import FLOATS, Array, Estimator, tensor, torch_generator
from tractable.sklearn.frames import Frame, check_names
from tractable.sklearn.missing import Columns
from tractable.sklearn.noise import NoiseModel
from tractable.sklearn.rows import Rows, levels_of, mixed, scaler_of
from tractable.sklearn.targets import NORMAL, TargetKind, kind_of
from tractable.sklearn.weighting import counted


class Regressor(RegressorMixin, Estimator):
    """Numbers, one or several per row, with a noise that is inferred.

    Most kinds of targets are standardised (``tractable.sklearn.targets``).

    Attributes:
        target_scaler_: what standardises the targets, or their logarithms.
        log_scale_: the scale of the logarithm that was learnt; None if the target itself was.
        n_outputs_: number of targets per row.
        column_weights_: factors on the standardised columns.
        doubt_: factor on the variance that comes from the weights of each network.
        noise_model_: factors on the noise of each row; None where one noise serves all.
        noise_tails_: equally likely factors on the noise; None where it is normal.
    """

    target_scaler_: Standardizer
    log_scale_: LogScale | None
    n_outputs_: int
    column_weights_: Tensor
    doubt_: float
    noise_model_: NoiseModel | None
    noise_tails_: Tensor | None
    _flat: bool  # whether targets came as a vector, and so go

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from data, forgetting whatever was learnt before.

        Four rows or fewer say little of the noise: a warning says so, and predictions doubt at
        least as much as targets spread (``tractable.sklearn.few``).

        Args:
            X: inputs, ``(rows, features)``; NaN where a value is missing.
            y: targets, ``(rows,)`` or ``(rows, outputs)``.
            sample_weight: how much each row counts, ``(rows,)``: whole numbers say how often it
                came, and rows of weight 0 are left out (``tractable.sklearn.weighting``).
        """
        X, y, sample_weight = counted(X, y, sample_weight)
        X, frame = self._first_numbers(X)
        x, targets, flat = self._checked(X, y, reset=True, frame=frame)
        kind = self._kind()
        kind.likelihood(targets)  # which refuses what cannot be
        self._draw_seed()
        origin = self._origin(sample_weight, len(x))
        given = len(x) if origin is None else len(origin.unique())
        few.warn(type(self).__name__, given)
        if origin is not None:
            x, targets = x[origin], targets[origin]
        scaler, rows, columns, counts = self._standardised(x, origin)
        log_scale = self._log_scale(rows, targets)
        targets = targets if log_scale is None else log_scale.forward(targets)
        likelihood, outputs = kind.likelihood(targets)
        of_targets = kind.scaler(targets)
        fit = self._learn(likelihood, outputs, rows, of_targets.transform(targets))
        if not bool(of_targets.constant.any()):
            few.widen(fit.learner, given)
        self._adopt((scaler.weighted_by(fit.weights), of_targets), fit.learner, flat)
        self.columns_, self.frame_ = columns.scaled(fit.weights), frame
        self.log_scale_ = log_scale
        self.column_weights_, self.noise_model_ = fit.weights.double(), fit.noise
        self.doubt_, self.noise_tails_ = fit.doubt, fit.tails
        self.clipped_ = counts.numpy()
        return self

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Learn from more rows, each seen once; earlier rows are not needed again.

        The first call sets the scale of inputs and targets from its rows, for good.
        """
        first = not self.__sklearn_is_fitted__()
        X, frame = self._first_numbers(X) if first else (X, self.frame_)
        x, targets, flat = self._checked(X, y, reset=first, frame=frame)
        if first:
            self._first_rows(len(x))
            scalers, learner = self._begin(x, targets)
            columns: Columns | None = Columns.fit(scalers[0].transform(x), levels_of(x))
        else:
            columns = self.columns_
            scalers, learner = (self.input_scaler_, self.target_scaler_), self.learner_
            if self.log_scale_ is not None:
                logarithm.check(targets, self.log_scale_)
                targets = self.log_scale_.forward(targets)
        rows = self._stream(scalers[0].transform(x), columns)
        self._continue(learner, rows, scalers[1].transform(targets))
        if first:
            self._adopt(scalers, learner, flat)
            self._streaming(x.shape[1])
            self.columns_, self.frame_ = columns, frame
        return self

    def predict_distribution(self, X: Any) -> Predictive:
        """The distribution of the target at each row, in the units of the data.

        Where values are missing it is a mixture over what they may be.  Its ``epistemic`` variance
        is what more data (and the missing values) would remove, ``aleatoric`` the noise.
        """
        return self._distribution(self._scaled(X))

    def _distribution(self, x: Tensor) -> Predictive:
        """The distribution of the target at each row of standardized inputs."""
        parts = [self._predicted(rows) for rows in self._completed(x)]
        predictive = parts[0][0] if len(parts) == 1 else mixed([part for part, _ in parts])
        if self.log_scale_ is not None:
            growth = torch.stack([extra for _, extra in parts if extra is not None]).mean(0)
            predictive = logarithm.exponential(predictive, self.log_scale_, growth)
        return predictive.squeezed() if self._flat else predictive

    def _predicted(self, x: Tensor) -> tuple[Predictive, Tensor | None]:
        """In the unit of the data or of its logarithm, and for the latter how much was widened."""
        predictive = self.learner_.predict(x, **self._doubt()).double()
        scaler = self.target_scaler_
        if self.noise_model_ is not None:
            mean = predictive.mean.reshape(len(x), -1)
            factors = self.noise_model_.factors(mean, x.double() / self.column_weights_)
            predictive = predictive.with_noise_scaled(factors.reshape(predictive.mean.shape))
        if self.noise_tails_ is not None:
            predictive = predictive.with_noise_mixture(self.noise_tails_)
        growth = None if self.log_scale_ is None else self._growth(x, predictive)
        if self._kind().standardised:
            predictive = predictive.rescaled(scaler.mean, scaler.scale)
        return predictive, growth

    @overload
    def predict(self, X: Any, return_std: Literal[False] = ...) -> Array: ...

    @overload
    def predict(self, X: Any, return_std: Literal[True]) -> tuple[Array, Array]: ...

    def predict(self, X: Any, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Predicted means and, if asked for, standard deviations (noise included).

        Args:
            X: inputs, ``(rows, features)``.
            return_std: whether to return standard deviations as well.
        """
        predictive = self.predict_distribution(X)
        mean = predictive.mean.numpy()
        return (mean, predictive.std.numpy()) if return_std else mean

    def predict_interval(self, X: Any, level: float = 0.9) -> Array:
        """Central intervals that hold a share ``level`` of the probability.

        Returns:
            Lower and upper ends: ``(rows, 2)``, or ``(rows, outputs, 2)``.
        """
        ends = self.predict_distribution(X).interval(level)
        return torch.stack(ends, dim=-1).numpy()

    def sample(self, X: Any, n_samples: int = 1, random_state: Any = None) -> Array:
        """Draws of targets, noise included: ``(n_samples, rows)`` or with outputs at the end."""
        predictive = self.predict_distribution(X)
        return predictive.sample(n_samples, torch_generator(random_state)).numpy()

    def log_prob(self, X: Any, y: Any) -> Array:
        """Log density of each row of targets, summed over its outputs, in the data's own units."""
        check_is_fitted(self)
        x, targets, _ = self._checked(X, y, reset=False, frame=self.frame_)
        return self._distribution(self.input_scaler_.transform(x)).log_prob(targets).numpy()

    def score_log_likelihood(self, X: Any, y: Any) -> float:
        """Mean log density of the targets: the higher, the better mean *and* deviation."""
        return float(self.log_prob(X, y).mean())

    # --- inside ----------------------------------------------------------------------------

    def _log_scale(self, x: Rows, y: Tensor) -> LogScale | None:
        """The scale to learn the logarithm of these targets on; None to learn them as they are.

        Args:
            x: standardised inputs.
            y: targets.
        """
        return None

    def _doubt(self) -> dict[str, Any]:
        """For a prediction of the learner, if it is not to be as sure as it is."""
        return {} if self.doubt_ == 1 else {"doubt": self.doubt_}

    def _growth(self, x: Tensor, predictive: Predictive) -> Tensor:
        """How much of the epistemic variance of a logarithm comes from being off the data."""
        calm = self.learner_.outputs(self.learner_.inputs(x), **self._doubt()).predictive().double()
        grown = (predictive.epistemic - calm.epistemic.reshape(predictive.mean.shape)).clamp_min(0)
        return grown * self.target_scaler_.scale.square()

    def _checked(
        self, X: Any, y: Any, *, reset: bool, frame: Frame | None
    ) -> tuple[Tensor, Tensor, bool]:
        """Inputs, a matrix of targets, and whether they came as a vector."""
        check_names(X)
        if frame is None:
            X, y = validate_data(
                self, X, y, dtype=FLOATS, ensure_all_finite="allow-nan", y_numeric=True,
                multi_output=True, reset=reset,
            )  # fmt: skip
        else:
            X = X if reset else self._numbers(X, frame)
            X, y = check_X_y(
                X, y, dtype=FLOATS, ensure_all_finite="allow-nan", y_numeric=True,
                multi_output=True,
            )  # fmt: skip
        targets = tensor(y.reshape(len(y), -1))
        if not reset and targets.shape[1] != self.n_outputs_:
            raise ValueError(
                f"y has {targets.shape[1]} outputs per row, but {type(self).__name__} was fitted "
                f"with {self.n_outputs_}"
            )
        return tensor(X), targets, y.ndim == 1

    def _begin(self, x: Tensor, y: Tensor) -> tuple[tuple[Standardizer, Standardizer], Learner]:
        kind = self._kind()
        self._draw_seed()
        learner = self._begin_learner(*kind.likelihood(y), x)
        return (scaler_of(x), kind.scaler(y)), learner

    def _kind(self) -> TargetKind:
        """What the targets are."""
        return kind_of(getattr(self, "likelihood", NORMAL))

    def _adopt(
        self, scalers: tuple[Standardizer, Standardizer], learner: Learner, flat: bool
    ) -> None:
        self.input_scaler_, self.target_scaler_ = scalers
        self.learner_, self.n_outputs_, self._flat = learner, len(scalers[1].mean), flat
        self.column_weights_ = torch.ones(len(scalers[0].mean), dtype=torch.float64)
        self.noise_model_, self.noise_tails_, self.log_scale_ = None, None, None
        self.doubt_ = 1.0
        self.columns_, self.frame_ = None, None

    def target_state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The scale of the targets, and what their noise depends on."""
        tensors = {f"targets/{name}": t for name, t in self.target_scaler_.to_dict().items()}
        if self.noise_model_ is not None:
            tensors["noise/coefficients"] = self.noise_model_.coefficients
            tensors["noise/weights"] = self.column_weights_
        elif bool((self.column_weights_ != 1).any()):
            tensors["columns/weights"] = self.column_weights_
        if self.noise_tails_ is not None:
            tensors["tails/factors"] = self.noise_tails_
        values: dict[str, Any] = {"flat": self._flat}
        if self.doubt_ != 1:
            values["doubt"] = self.doubt_
        if self.log_scale_ is not None:
            values["log_scale"] = [self.log_scale_.shift, self.log_scale_.top]
        return tensors, values

    def check_restored(self) -> None:
        """See ``Estimator``; the likelihood is one that there is."""
        super().check_restored()
        self._kind()

    def restore_target_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """See ``Estimator``."""
        self.target_scaler_ = files.scaler(tensors, "targets")
        self.n_outputs_, self._flat = len(self.target_scaler_.mean), bool(values["flat"])
        self.log_scale_ = None
        if "log_scale" in values:
            given = checks.of_type(values["log_scale"], list, "log_scale")
            shift, top = (checks.of_type(number, float, "log_scale") for number in given)
            if not 0 < shift <= top:
                raise ValueError(
                    f"no scale of a logarithm has a shift of {shift} and ends at {top}"
                )
            self.log_scale_ = LogScale(shift, top)
        self.doubt_ = checks.of_type(values.get("doubt", 1.0), float, "doubt")
        if not 0 < self.doubt_ <= 1:
            raise ValueError(f"no part of a variance is {self.doubt_} of it")
        columns = len(self.input_scaler_.mean)
        self.column_weights_, self.noise_model_ = torch.ones(columns, dtype=torch.float64), None
        held = part(tensors, "columns/")
        if held:
            self.column_weights_ = _positive(held, columns)
        held = part(tensors, "noise/")
        if held:
            wanted = {
                "coefficients": torch.empty(self.n_outputs_, columns + 2, dtype=torch.float64),
                "weights": torch.empty(columns, dtype=torch.float64),
            }
            checks.matching(wanted, held, "noise")
            checks.numbers(held, {})
            if not bool((held["weights"] > 0).all()):
                raise ValueError("weights of columns in the file are not all positive")
            self.column_weights_ = held["weights"]
            self.noise_model_ = NoiseModel(held["coefficients"])
        self.noise_tails_ = None
        held = part(tensors, "tails/")
        if held:
            wanted = {"factors": torch.empty(tails.NODES, dtype=torch.float64)}
            checks.matching(wanted, held, "tails")
            checks.numbers(held, {})
            if not bool((held["factors"] > 0).all()):
                raise ValueError("factors of the noise in the file are not all positive")
            self.noise_tails_ = held["factors"]

    def __sklearn_tags__(self) -> Any:
        """Several targets are taken."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _positive(held: dict[str, Tensor], columns: int) -> Tensor:
    """Weights of columns in a file."""
    like = torch.empty(columns, dtype=torch.float64)
    checks.matching({"weights": like}, held, "columns")
    checks.numbers(held, {})
    if not bool((held["weights"] > 0).all()):
        raise ValueError("weights of columns in the file are not all positive")
    return held["weights"]
