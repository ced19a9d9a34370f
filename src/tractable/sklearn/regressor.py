"""The base class of regressors: inferred noise, and predictions in the units of the data."""

from __future__ import annotations

from typing import Any, Literal, Self, overload

import torch
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, check_X_y, validate_data
from torch import Tensor
from typing_extensions import override

from tractable.learners import Learner
from tractable.persistence import validation
from tractable.persistence.model_file import Header, Tensors, under_prefix
from tractable.predictive import LogScale, Predictive
from tractable.sklearn import calibration, noise_model
from tractable.sklearn.base import (
    FLOATS,
    Array,
    Estimator,
    as_tensor,
    mixture_of_completions,
    torch_generator,
)
from tractable.sklearn.cross_validation import FittedModel
from tractable.sklearn.imputation import GaussianCopula, ImputedRows
from tractable.sklearn.noise_model import NoiseModel
from tractable.sklearn.preprocessing import (
    FrameEncoder,
    category_columns,
    check_unique_names,
    standardizer_of,
    without_zero_weights,
)
from tractable.sklearn.serialization import positive_vector, standardizer
from tractable.sklearn.targets import (
    NORMAL,
    TargetKind,
    check_log_targets,
    target_kind,
    to_log_normal,
)
from tractable.training.standardizer import Standardizer


class Regressor(RegressorMixin, Estimator):
    """A regressor for one or several targets per row, whose noise is inferred.

    Attributes:
        target_scaler_: standardizer of the targets, or of their logarithms.
        target_log_transform_: the logarithm that was learned in place of the target; None if the
            target itself was learned.
        n_outputs_: number of targets per row.
        feature_relevance_: factors on the standardized columns, ``(n_inputs_,)``.
        epistemic_scale_: factor on the variance that comes from the weights of each network.
        noise_model_: factors on the noise that depend on the inputs; None if the noise is the same
            everywhere.
        noise_scale_mixture_: equally probable factors on the noise, which give it heavy tails,
            ``(8,)``; None if the noise is normal.
    """

    target_scaler_: Standardizer
    target_log_transform_: LogScale | None
    n_outputs_: int
    feature_relevance_: Tensor
    epistemic_scale_: float
    noise_model_: NoiseModel | None
    noise_scale_mixture_: Tensor | None
    _single_target: bool  # whether y was a vector, and so are predictions

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the estimator; earlier fits are forgotten.

        With four rows or fewer, a warning states that the noise cannot be estimated, and predicted
        standard deviations are at least that of the targets.

        Args:
            X: inputs, an array or data frame ``(n_samples, n_features)``; NaN marks missing values.
            y: targets, ``(n_samples,)`` or ``(n_samples, n_outputs)``.
            sample_weight: weights of the rows, ``(n_samples,)``. Integers are numbers of copies,
                other weights are relative; rows of weight 0 are left out.

        Returns:
            The estimator.
        """
        X, y, sample_weight = without_zero_weights(X, y, sample_weight)
        X, encoder = self._encode_first(X)
        x, targets, single_target = self._checked(X, y, reset=True, encoder=encoder)
        kind = self._target_kind()
        kind.likelihood(targets)  # raises if a target is impossible
        self._draw_seed()
        copy_of = self._copies(sample_weight, len(x))
        n_distinct = len(x) if copy_of is None else len(copy_of.unique())
        calibration.warn_of_few_rows(type(self).__name__, n_distinct)
        if copy_of is not None:
            x, targets = x[copy_of], targets[copy_of]
        scaler, rows, imputer, n_clipped = self._fit_inputs(x, copy_of)
        transform = self._choose_log_transform(rows, targets)
        targets = targets if transform is None else transform.forward(targets)
        likelihood, n_outputs = kind.likelihood(targets)
        target_scaler = kind.scaler(targets)
        fit = self._fit_learner(likelihood, n_outputs, rows, target_scaler.transform(targets))
        if not bool(target_scaler.constant.any()):
            calibration.set_minimum_noise(fit.learner, n_distinct)
        self._set_fitted(
            (scaler.scaled_by(fit.relevance), target_scaler), fit.learner, single_target
        )
        self.imputer_, self.encoder_ = imputer.scaled(fit.relevance), encoder
        self.target_log_transform_ = transform
        self._set_calibration(fit)
        self.n_clipped_ = n_clipped.numpy()
        return self

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Update the estimator with more rows, each used once; earlier rows are not needed.

        The first call sets the scale of inputs and targets, which later calls keep.

        Args:
            X: inputs, ``(n_samples, n_features)``.
            y: targets, ``(n_samples,)`` or ``(n_samples, n_outputs)``.

        Returns:
            The estimator.
        """
        is_first = not self.__sklearn_is_fitted__()
        X, encoder = self._encode_first(X) if is_first else (X, self.encoder_)
        x, targets, single_target = self._checked(X, y, reset=is_first, encoder=encoder)
        if is_first:
            self._warn_of_one_row(len(x))
            scalers, learner = self._start_stream(x, targets)
            imputer: GaussianCopula | None = GaussianCopula.fit(
                scalers[0].transform(x), category_columns(x)
            )
        else:
            imputer = self.imputer_
            scalers, learner = (self.input_scaler_, self.target_scaler_), self.learner_
            if self.target_log_transform_ is not None:
                check_log_targets(targets, self.target_log_transform_)
                targets = self.target_log_transform_.forward(targets)
        rows = self._stream_inputs(scalers[0].transform(x), imputer)
        self._update_in_batches(learner, rows, scalers[1].transform(targets))
        if is_first:
            self._set_fitted(scalers, learner, single_target)
            self.imputer_, self.encoder_ = imputer, encoder
            self._set_streaming_defaults()
        return self

    def predictive(self, X: Any) -> Predictive:
        """Return the predictive distribution of each row, in the units of the data.

        For rows with missing values it is a mixture over their possible values.

        Args:
            X: inputs, ``(n_samples, n_features)``.
        """
        return self._predictive(self._standardized(X))

    @overload
    def predict(self, X: Any, return_std: Literal[False] = ...) -> Array: ...

    @overload
    def predict(self, X: Any, return_std: Literal[True]) -> tuple[Array, Array]: ...

    def predict(self, X: Any, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Return predicted means and, optionally, standard deviations.

        Args:
            X: inputs, ``(n_samples, n_features)``.
            return_std: whether to return standard deviations, noise included.

        Returns:
            Means, ``(n_samples,)`` or ``(n_samples, n_outputs)``, or a tuple of means and standard
            deviations.
        """
        predictive = self.predictive(X)
        mean = predictive.mean.numpy()
        return (mean, predictive.std.numpy()) if return_std else mean

    def predict_interval(self, X: Any, level: float = 0.9) -> Array:
        """Return central prediction intervals.

        Args:
            X: inputs, ``(n_samples, n_features)``.
            level: probability of the intervals, between 0 and 1.

        Returns:
            Lower and upper ends, ``(n_samples, 2)`` or ``(n_samples, n_outputs, 2)``.
        """
        ends = self.predictive(X).interval(level)
        return torch.stack(ends, dim=-1).numpy()

    def sample(self, X: Any, n_samples: int = 1, random_state: Any = None) -> Array:
        """Return samples of the targets, noise included.

        Args:
            X: inputs, ``(rows, n_features)``.
            n_samples: number of samples for each row.
            random_state: seed or generator, as in scikit-learn.

        Returns:
            ``(n_samples, rows)`` or ``(n_samples, rows, n_outputs)``.
        """
        predictive = self.predictive(X)
        return predictive.sample(n_samples, torch_generator(random_state)).numpy()

    def log_prob(self, X: Any, y: Any) -> Array:
        """Return the log density of each row, in the units of the data, ``(n_samples,)``.

        Args:
            X: inputs, ``(n_samples, n_features)``.
            y: targets, ``(n_samples,)`` or ``(n_samples, n_outputs)``, whose log densities are
                summed over the outputs.
        """
        check_is_fitted(self)
        x, targets, _ = self._checked(X, y, reset=False, encoder=self.encoder_)
        return self._predictive(self.input_scaler_.transform(x)).log_prob(targets).numpy()

    def score_log_likelihood(self, X: Any, y: Any) -> float:
        """Return the mean log density of the targets; larger is better.

        Args:
            X: inputs, ``(n_samples, n_features)``.
            y: targets, ``(n_samples,)`` or ``(n_samples, n_outputs)``.
        """
        return float(self.log_prob(X, y).mean())

    # --- fitting ---------------------------------------------------------------------------

    def _choose_log_transform(self, x: ImputedRows, y: Tensor) -> LogScale | None:
        """Return the logarithm to learn in place of the targets; None to learn the targets.

        Args:
            x: standardized inputs.
            y: targets in their own unit.
        """
        return None

    def _checked(
        self, X: Any, y: Any, *, reset: bool, encoder: FrameEncoder | None
    ) -> tuple[Tensor, Tensor, bool]:
        """Return inputs, targets as a matrix, and whether they were a vector."""
        check_unique_names(X)
        options: Any = {
            "dtype": FLOATS, "ensure_all_finite": "allow-nan", "y_numeric": True,
            "multi_output": True,
        }  # fmt: skip
        if encoder is None:
            X, y = validate_data(self, X, y, reset=reset, **options)
        else:
            X, y = check_X_y(X if reset else self._encode(X, encoder), y, **options)
        targets = as_tensor(y.reshape(len(y), -1))
        if not reset and targets.shape[1] != self.n_outputs_:
            raise ValueError(
                f"y has {targets.shape[1]} outputs per row, but {type(self).__name__} was fitted "
                f"with {self.n_outputs_}"
            )
        return as_tensor(X), targets, y.ndim == 1

    def _start_stream(
        self, x: Tensor, y: Tensor
    ) -> tuple[tuple[Standardizer, Standardizer], Learner]:
        kind = self._target_kind()
        self._draw_seed()
        learner = self._first_learner(*kind.likelihood(y), x)
        return (standardizer_of(x), kind.scaler(y)), learner

    def _target_kind(self) -> TargetKind:
        return target_kind(getattr(self, "likelihood", NORMAL))

    def _set_fitted(
        self, scalers: tuple[Standardizer, Standardizer], learner: Learner, single_target: bool
    ) -> None:
        self.input_scaler_, self.target_scaler_ = scalers
        self.learner_, self.n_outputs_ = learner, len(scalers[1].mean)
        self._single_target = single_target
        self.target_log_transform_ = None
        self.imputer_, self.encoder_ = None, None
        ones = torch.ones(len(scalers[0].mean), dtype=torch.float64)
        self._set_calibration(FittedModel(learner, ones))

    def _set_calibration(self, fit: FittedModel) -> None:
        self.feature_relevance_ = fit.relevance.double()
        self.epistemic_scale_ = fit.epistemic_scale
        self.noise_model_, self.noise_scale_mixture_ = fit.noise, fit.noise_scales

    # --- predicting ------------------------------------------------------------------------

    def _predictive(self, x: Tensor) -> Predictive:
        """Return the predictive distribution for standardized inputs."""
        parts = [self._predict_complete(rows) for rows in self._completions(x)]
        predictives = [part for part, _ in parts]
        predictive = predictives[0] if len(parts) == 1 else mixture_of_completions(predictives)
        if self.target_log_transform_ is not None:
            extra = torch.stack([extra for _, extra in parts if extra is not None]).mean(0)
            predictive = to_log_normal(predictive, self.target_log_transform_, extra)
        return predictive.squeezed() if self._single_target else predictive

    def _predict_complete(self, x: Tensor) -> tuple[Predictive, Tensor | None]:
        """Return the distribution of the target or its logarithm for rows without missing values.

        For a logarithm also the variance of extrapolation.
        """
        predictive = self.learner_.predict(x, **self._scale_options()).double()
        if self.noise_model_ is not None:
            mean = predictive.mean.reshape(len(x), -1)
            factors = self.noise_model_.factors(mean, x.double() / self.feature_relevance_)
            predictive = predictive.with_noise_scaled(factors.reshape(predictive.mean.shape))
        if self.noise_scale_mixture_ is not None:
            predictive = predictive.with_noise_mixture(self.noise_scale_mixture_)
        is_log = self.target_log_transform_ is not None
        extra = self._extrapolation_variance(x, predictive) if is_log else None
        if self._target_kind().standardized:
            scaler = self.target_scaler_
            predictive = predictive.rescaled(scaler.mean, scaler.scale)
        return predictive, extra

    def _scale_options(self) -> dict[str, Any]:
        """Return the option of predictions that scales the variance of the weights."""
        return {} if self.epistemic_scale_ == 1 else {"variance_scale": self.epistemic_scale_}

    def _extrapolation_variance(self, x: Tensor, predictive: Predictive) -> Tensor:
        """Return the variance of a logarithm that comes from extrapolation."""
        inputs = self.learner_.checks.inputs(x)
        inside = self.learner_.outputs(inputs, **self._scale_options()).predictive().double()
        extra = predictive.epistemic - inside.epistemic.reshape(predictive.mean.shape)
        return extra.clamp_min(0) * self.target_scaler_.scale.square()

    # --- files -----------------------------------------------------------------------------

    @override
    def _pack_targets(self) -> tuple[Tensors, Header]:
        tensors = {f"targets/{name}": t for name, t in self.target_scaler_.to_dict().items()}
        if self.noise_model_ is not None:
            tensors["noise/coefficients"] = self.noise_model_.coefficients
        if self.noise_model_ is not None or bool((self.feature_relevance_ != 1).any()):
            tensors["feature_relevance"] = self.feature_relevance_
        if self.noise_scale_mixture_ is not None:
            tensors["noise_scale_mixture"] = self.noise_scale_mixture_
        values: Header = {"single_target": self._single_target}
        if self.epistemic_scale_ != 1:
            values["epistemic_scale"] = self.epistemic_scale_
        transform = self.target_log_transform_
        if transform is not None:
            values["target_log_transform"] = [transform.shift, transform.top]
        return tensors, values

    @override
    def _unpack_targets(self, tensors: Tensors, values: Header) -> None:
        self.target_scaler_ = standardizer(tensors, "targets")
        self.n_outputs_ = len(self.target_scaler_.mean)
        self._single_target = bool(values["single_target"])
        self.target_log_transform_ = _log_transform(values)
        scale = validation.require_type(
            values.get("epistemic_scale", 1.0), float, "epistemic_scale"
        )
        if not 0 < scale <= 1:
            raise ValueError(f"epistemic_scale in the file is {scale}, expected a number in (0, 1]")
        self.epistemic_scale_ = scale
        n_inputs = len(self.input_scaler_.mean)
        self.feature_relevance_ = torch.ones(n_inputs, dtype=torch.float64)
        if "feature_relevance" in tensors:
            self.feature_relevance_ = positive_vector(tensors, "feature_relevance", n_inputs)
        self.noise_model_, self.noise_scale_mixture_ = None, None
        noise = under_prefix(tensors, "noise/")
        if noise:
            like = torch.empty(self.n_outputs_, n_inputs + 2, dtype=torch.float64)
            validation.check_same_tensors({"coefficients": like}, noise, "noise")
            validation.check_numbers(noise, {})
            self.noise_model_ = NoiseModel(noise["coefficients"])
        name = "noise_scale_mixture"
        if name in tensors:
            self.noise_scale_mixture_ = positive_vector(tensors, name, noise_model.N_SCALES)

    @override
    def _check_loaded(self) -> None:
        super()._check_loaded()
        self._target_kind()

    def __sklearn_tags__(self) -> Any:
        """Return the tags of scikit-learn: several targets are supported."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _log_transform(values: Header) -> LogScale | None:
    """Return the logarithmic transform in a file; None if it has none."""
    name = "target_log_transform"
    if name not in values:
        return None
    given = validation.require_type(values[name], list, name)
    shift, top = (validation.require_type(number, float, name) for number in given)
    if not 0 < shift <= top:
        raise ValueError(
            f"{name} in the file has the shift {shift} and the maximum {top}, expected "
            f"0 < shift <= maximum"
        )
    return LogScale(shift, top)
