"""Regression: targets of a kind, an inferred noise, and predictions in the data's own units."""

from __future__ import annotations

from typing import Any, Literal, Self, overload

import torch
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, check_X_y, validate_data
from torch import Tensor

from tractable.data import Standardizer
from tractable.learners import Learner
from tractable.persistence import validation
from tractable.persistence.model_file import under_prefix
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
        target_log_transform_: the scale of the logarithm that was learnt; None if the target itself
            was.
        n_outputs_: number of targets per row.
        feature_relevance_: factors on the standardised columns.
        epistemic_scale_: factor on the variance that comes from the weights of each network.
        noise_model_: factors on the noise of each row; None where one noise serves all.
        noise_scale_mixture_: equally likely factors on the noise; None where it is normal.
    """

    target_scaler_: Standardizer
    target_log_transform_: LogScale | None
    n_outputs_: int
    feature_relevance_: Tensor
    epistemic_scale_: float
    noise_model_: NoiseModel | None
    noise_scale_mixture_: Tensor | None
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
        self.imputer_, self.encoder_ = columns.scaled(fit.weights), frame
        self.target_log_transform_ = log_scale
        self.feature_relevance_, self.noise_model_ = fit.weights.double(), fit.noise
        self.epistemic_scale_, self.noise_scale_mixture_ = fit.doubt, fit.tails
        self.n_clipped_ = counts.numpy()
        return self

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Learn from more rows, each seen once; earlier rows are not needed again.

        The first call sets the scale of inputs and targets from its rows, for good.
        """
        first = not self.__sklearn_is_fitted__()
        X, frame = self._first_numbers(X) if first else (X, self.encoder_)
        x, targets, flat = self._checked(X, y, reset=first, frame=frame)
        if first:
            self._first_rows(len(x))
            scalers, learner = self._begin(x, targets)
            columns: Columns | None = Columns.fit(scalers[0].transform(x), levels_of(x))
        else:
            columns = self.imputer_
            scalers, learner = (self.input_scaler_, self.target_scaler_), self.learner_
            if self.target_log_transform_ is not None:
                logarithm.check(targets, self.target_log_transform_)
                targets = self.target_log_transform_.forward(targets)
        rows = self._stream(scalers[0].transform(x), columns)
        self._continue(learner, rows, scalers[1].transform(targets))
        if first:
            self._adopt(scalers, learner, flat)
            self._streaming(x.shape[1])
            self.imputer_, self.encoder_ = columns, frame
        return self

    def predictive(self, X: Any) -> Predictive:
        """The distribution of the target at each row, in the units of the data.

        Where values are missing it is a mixture over what they may be.  Its ``epistemic`` variance
        is what more data (and the missing values) would remove, ``aleatoric`` the noise.
        """
        return self._distribution(self._scaled(X))

    def _distribution(self, x: Tensor) -> Predictive:
        """The distribution of the target at each row of standardized inputs."""
        parts = [self._predicted(rows) for rows in self._completed(x)]
        predictive = parts[0][0] if len(parts) == 1 else mixed([part for part, _ in parts])
        if self.target_log_transform_ is not None:
            growth = torch.stack([extra for _, extra in parts if extra is not None]).mean(0)
            predictive = logarithm.exponential(predictive, self.target_log_transform_, growth)
        return predictive.squeezed() if self._flat else predictive

    def _predicted(self, x: Tensor) -> tuple[Predictive, Tensor | None]:
        """In the unit of the data or of its logarithm, and for the latter how much was widened."""
        predictive = self.learner_.predict(x, **self._doubt()).double()
        scaler = self.target_scaler_
        if self.noise_model_ is not None:
            mean = predictive.mean.reshape(len(x), -1)
            factors = self.noise_model_.factors(mean, x.double() / self.feature_relevance_)
            predictive = predictive.with_noise_scaled(factors.reshape(predictive.mean.shape))
        if self.noise_scale_mixture_ is not None:
            predictive = predictive.with_noise_mixture(self.noise_scale_mixture_)
        growth = None if self.target_log_transform_ is None else self._growth(x, predictive)
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
        predictive = self.predictive(X)
        mean = predictive.mean.numpy()
        return (mean, predictive.std.numpy()) if return_std else mean

    def predict_interval(self, X: Any, level: float = 0.9) -> Array:
        """Central intervals that hold a share ``level`` of the probability.

        Returns:
            Lower and upper ends: ``(rows, 2)``, or ``(rows, outputs, 2)``.
        """
        ends = self.predictive(X).interval(level)
        return torch.stack(ends, dim=-1).numpy()

    def sample(self, X: Any, n_samples: int = 1, random_state: Any = None) -> Array:
        """Draws of targets, noise included: ``(n_samples, rows)`` or with outputs at the end."""
        predictive = self.predictive(X)
        return predictive.sample(n_samples, torch_generator(random_state)).numpy()

    def log_prob(self, X: Any, y: Any) -> Array:
        """Log density of each row of targets, summed over its outputs, in the data's own units."""
        check_is_fitted(self)
        x, targets, _ = self._checked(X, y, reset=False, frame=self.encoder_)
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
        return {} if self.epistemic_scale_ == 1 else {"doubt": self.epistemic_scale_}

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
        self.feature_relevance_ = torch.ones(len(scalers[0].mean), dtype=torch.float64)
        self.noise_model_, self.noise_scale_mixture_, self.target_log_transform_ = None, None, None
        self.epistemic_scale_ = 1.0
        self.imputer_, self.encoder_ = None, None

    def target_state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The scale of the targets, and what their noise depends on."""
        tensors = {f"targets/{name}": t for name, t in self.target_scaler_.to_dict().items()}
        if self.noise_model_ is not None:
            tensors["noise/coefficients"] = self.noise_model_.coefficients
        if self.noise_model_ is not None or bool((self.feature_relevance_ != 1).any()):
            tensors["feature_relevance"] = self.feature_relevance_
        if self.noise_scale_mixture_ is not None:
            tensors["noise_scale_mixture"] = self.noise_scale_mixture_
        values: dict[str, Any] = {"single_target": self._flat}
        if self.epistemic_scale_ != 1:
            values["epistemic_scale"] = self.epistemic_scale_
        if self.target_log_transform_ is not None:
            values["target_log_transform"] = [
                self.target_log_transform_.shift,
                self.target_log_transform_.top,
            ]
        return tensors, values

    def check_restored(self) -> None:
        """See ``Estimator``; the likelihood is one that there is."""
        super().check_restored()
        self._kind()

    def restore_target_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """See ``Estimator``."""
        self.target_scaler_ = files.scaler(tensors, "targets")
        self.n_outputs_, self._flat = len(self.target_scaler_.mean), bool(values["single_target"])
        self.target_log_transform_ = None
        if "target_log_transform" in values:
            name = "target_log_transform"
            given = validation.require_type(values[name], list, name)
            shift, top = (validation.require_type(number, float, name) for number in given)
            if not 0 < shift <= top:
                raise ValueError(
                    f"no scale of a logarithm has a shift of {shift} and ends at {top}"
                )
            self.target_log_transform_ = LogScale(shift, top)
        self.epistemic_scale_ = validation.require_type(
            values.get("epistemic_scale", 1.0), float, "epistemic_scale"
        )
        if not 0 < self.epistemic_scale_ <= 1:
            raise ValueError(f"no part of a variance is {self.epistemic_scale_} of it")
        columns = len(self.input_scaler_.mean)
        self.feature_relevance_, self.noise_model_ = torch.ones(columns, dtype=torch.float64), None
        if "feature_relevance" in tensors:
            self.feature_relevance_ = _positive(tensors, "feature_relevance", columns)
        held = under_prefix(tensors, "noise/")
        if held:
            like = torch.empty(self.n_outputs_, columns + 2, dtype=torch.float64)
            validation.check_same_tensors({"coefficients": like}, held, "noise")
            validation.check_numbers(held, {})
            self.noise_model_ = NoiseModel(held["coefficients"])
        self.noise_scale_mixture_ = None
        if "noise_scale_mixture" in tensors:
            self.noise_scale_mixture_ = _positive(tensors, "noise_scale_mixture", tails.NODES)

    def __sklearn_tags__(self) -> Any:
        """Several targets are taken."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _positive(tensors: dict[str, Tensor], name: str, length: int) -> Tensor:
    """A vector of positive numbers in a file."""
    held = {name: tensors[name]}
    validation.check_same_tensors(
        {name: torch.empty(length, dtype=torch.float64)}, held, "estimator"
    )
    validation.check_numbers(held, {})
    if not bool((held[name] > 0).all()):
        raise ValueError(f"{name} in the file is not positive everywhere")
    return held[name]
