"""The base classes of TAGI estimators: ensembles selected and calibrated by cross-validation."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from numbers import Integral, Real
from typing import Any, Literal

import torch
from torch import Tensor, nn
from typing_extensions import override

from tractable.learners import TAGI, Ensemble, Learner
from tractable.likelihoods import Likelihood, Normal
from tractable.likelihoods.registry import COMPILED
from tractable.persistence import validation
from tractable.persistence.model_file import Tensors
from tractable.predictive import LogScale
from tractable.sklearn import calibration, model_selection
from tractable.sklearn.base import Estimator, as_python
from tractable.sklearn.cross_validation import (
    CrossValidator,
    FitRequest,
    FittedModel,
    choose_folds,
)
from tractable.sklearn.imputation import ImputedRows
from tractable.sklearn.model_selection import RELEVANCE_ROUNDS, Trial, TrialConfig
from tractable.sklearn.noise_model import residuals_of, select_noise_model, select_noise_scales
from tractable.sklearn.regressor import Regressor
from tractable.sklearn.targets import (
    NORMAL,
    SLOW_BATCH_SIZE,
    SLOW_EPOCHS,
    is_log_candidate,
    log_target_is_better,
    log_transform,
)
from tractable.training import holdout
from tractable.training.standardizer import Standardizer

HIDDEN_LAYER_SIZES = (64, 64)
"""Default sizes of the hidden layers, unless a linear model is selected."""
_MAX_FOLD_ESTIMATORS = 3  # networks per fold from which the noise of a larger ensemble is estimated


class TAGIEstimator(Estimator):
    """Estimators with an ensemble of ``TAGI`` learners, selected by cross-validation.

    Attributes:
        best_params_: the selected parameters: ``hidden_layer_sizes``, ``epochs``, ``relevance``.
        cv_results_: the scores of all configurations, in the form of ``GridSearchCV``, as for
            ``pandas.DataFrame(model.cv_results_)``: ``params``, ``n_estimators``,
            ``mean_test_score``, ``std_test_score``, ``noise_scale`` and ``rank_test_score``. The
            scores are log-likelihoods per held-out row; the sequences are empty if no row was held
            out.
    """

    gain: float
    epoch_forgetting: float
    n_estimators: int
    calibrate: bool | Literal["cv"]
    relevance: bool | None
    memory_rows: float | None

    best_params_: dict[str, Any]
    cv_results_: dict[str, Any]
    _best_config: TrialConfig
    _trials: list[Trial]

    @override
    def _new_learner(self, net: nn.Module, likelihood: Likelihood, n_rows: int) -> Learner:
        return self._ensemble(net, likelihood, int(self.n_estimators), self._seed)

    def _ensemble(
        self, net: nn.Module, likelihood: Likelihood, n_estimators: int, seed: int
    ) -> Learner:
        """Return an untrained learner with ``n_estimators`` networks."""
        options = {
            "gain": as_python(self.gain),
            "epoch_forgetting": as_python(self.epoch_forgetting),
            "seed": seed,
        }
        if n_estimators == 1:
            return TAGI(net, likelihood, **options)
        return Ensemble(net, likelihood, n_estimators=n_estimators, learner=TAGI, **options)

    @override
    def _fit_learner(
        self, likelihood: Likelihood, n_outputs: int, x: ImputedRows, y: Tensor
    ) -> FittedModel:
        self._check_parameters()
        validator = self._cross_validator(likelihood, n_outputs, x, y)
        config, trials = self._first_config(len(x)), list[Trial]()
        is_fast = isinstance(likelihood, COMPILED)
        if not is_fast and self.epochs is None:
            config = replace(config, epochs=SLOW_EPOCHS)
        if validator.folds:
            best, trials = model_selection.select_config(
                validator,
                config,
                choose_epochs=self.epochs is None,
                try_linear=self.hidden_layer_sizes is None,
                try_relevance=self.relevance is None and is_fast,
                n_estimators=self._n_fold_estimators(likelihood),
            )
            config = best.config
        # With many rows, the final fit can leave out the held-out rows for good.
        hold_out = as_python(self.calibrate) is True and x.n_distinct >= holdout.MANY_ROWS
        fit = self._final_fit(validator, config, likelihood, hold_out=hold_out)
        self._set_selection(config, trials)
        return fit

    def _n_fold_estimators(self, likelihood: Likelihood) -> int:
        """Return the number of networks that are fitted for each fold."""
        if not isinstance(likelihood, COMPILED):
            return 1
        return min(int(self.n_estimators), _MAX_FOLD_ESTIMATORS)

    def _cross_validator(
        self, likelihood: Likelihood, n_outputs: int, x: ImputedRows, y: Tensor
    ) -> CrossValidator:
        """Return fits to standardized rows, some of which are held out if there are enough."""

        def factory(sizes: tuple[int, ...], n_estimators: int, seed: int) -> Learner:
            net = self._network(x.x.shape[1], sizes, n_outputs)
            return self._ensemble(net, likelihood, n_estimators, seed)

        seed, n_rows = self._seed, len(x)
        calibrate = self.calibrate if x.n_distinct >= holdout.MIN_ROWS else False
        folds = choose_folds(x.n_distinct, seed) if calibrate else []
        batch_size = as_python(self.batch_size)
        if not isinstance(likelihood, COMPILED) and batch_size is None:
            batch_size = min(SLOW_BATCH_SIZE, n_rows)
        with_copies = [x.with_copies(fold) for fold in folds]
        return CrossValidator(factory, x, y, with_copies, seed=seed, batch_size=batch_size)

    def _first_config(self, n_rows: int) -> TrialConfig:
        """Return the configuration that is kept unless another one is better."""
        epochs = holdout.default_epochs(n_rows) if self.epochs is None else int(self.epochs)
        rounds = RELEVANCE_ROUNDS if self.relevance else 0
        return TrialConfig(tuple(self._layer_sizes()), epochs, rounds)

    def _final_fit(
        self,
        validator: CrossValidator,
        config: TrialConfig,
        likelihood: Likelihood,
        *,
        hold_out: bool,
    ) -> FittedModel:
        """Return the fit that is kept, calibrated on held-out rows if there are any.

        Args:
            validator: the rows.
            config: the selected configuration.
            likelihood: the likelihood.
            hold_out: whether this fit itself leaves out the held-out rows; else copies of it do.
        """
        n_rows, folds = len(validator.x), validator.folds
        rows = validator.training_rows(folds[0]) if hold_out else torch.arange(n_rows)
        request = FitRequest(config, rows, 0, int(self.n_estimators), distance_aware=True)
        progress = self.verbose > 0
        if hold_out or not folds:
            (fit,) = fold_fits = validator.fit([request], progress=progress)
        else:
            fold_fits, (fit,) = validator.fit_folds(
                config, self._n_fold_estimators(likelihood), [request], progress=progress
            )
        return self._calibrated(validator, config, fit, fold_fits) if folds else fit

    def _calibrated(
        self,
        validator: CrossValidator,
        config: TrialConfig,
        fit: FittedModel,
        fold_fits: list[FittedModel],
    ) -> FittedModel:
        """Return the fit with its noise scaled on the predictions for the folds."""
        if fit.learner.likelihood.traits.supports_calibration:
            held_out = validator.held_out(fold_fits)
            fit.learner.rescale_noise(holdout.noise_scale(fit.learner, held_out))
        return fit

    def _set_selection(self, config: TrialConfig, trials: list[Trial]) -> None:
        self._best_config, self._trials = config, trials
        self.best_params_ = config.params()
        self.cv_results_ = model_selection.cv_results(trials)

    @override
    def _set_streaming_defaults(self) -> None:
        super()._set_streaming_defaults()
        self._set_selection(TrialConfig(tuple(self._layer_sizes()), 1), [])

    @override
    def _update(self, learner: Learner, x: Tensor, y: Tensor) -> None:
        learner.update(x, y, memory_rows=as_python(self.memory_rows))

    @override
    def _learner_inputs(self, rows: ImputedRows) -> Tensor:
        return rows.as_gaussian(torch.ones(rows.x.shape[1]))

    @override
    def _layer_sizes(self) -> list[int]:
        if self.hidden_layer_sizes is None:
            return list(HIDDEN_LAYER_SIZES)
        return super()._layer_sizes()

    @override
    def _check_parameters(self) -> None:
        super()._check_parameters()
        n, memory = self.n_estimators, self.memory_rows
        if not (isinstance(n, Integral) and n >= 1) or isinstance(n, bool):
            raise ValueError(f"n_estimators must be a positive integer, got {n!r}")
        if memory is not None and not (isinstance(memory, Real) and 1 < memory < math.inf):
            raise ValueError(f"memory_rows must be a number above 1 or None; got {memory!r}")
        if self.relevance not in (None, True, False):
            raise ValueError(f"relevance must be True, False or None, got {self.relevance!r}")
        if self.calibrate not in (True, False, "cv"):
            raise ValueError(f"calibrate must be True, False or 'cv', got {self.calibrate!r}")

    @override
    def _pack_selection(self) -> tuple[Tensors, Any]:
        if not hasattr(self, "_best_config"):
            return {}, None
        tensors, values = model_selection.trials_to_file(self._trials)
        return tensors, {**asdict(self._best_config), "cv_results": values}

    @override
    def _unpack_selection(self, tensors: Tensors, values: Any) -> None:
        if values is None:
            return
        validation.require_type(values, dict, "best_params")
        trials = model_selection.trials_from_file(tensors, values.get("cv_results", []))
        self._set_selection(model_selection.config_from_json(values), trials)

    @override
    def _check_loaded(self) -> None:
        super()._check_loaded()
        if not isinstance(self.learner_, Ensemble):
            self.n_estimators = 1  # files of version 0.1 may have no number
        elif self.learner_.n_estimators != self.n_estimators:
            raise ValueError(
                f"the file has {self.learner_.n_estimators} networks, expected {self.n_estimators}"
            )


class TAGIRegressorBase(TAGIEstimator, Regressor):
    """Base class of TAGI regressors: optional logarithm of the target, calibrated variances."""

    likelihood: str
    log_target: bool | None

    @override
    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.log_target not in (None, True, False):
            raise ValueError(f"log_target must be True, False or None, got {self.log_target!r}")

    @override
    def _choose_log_transform(self, x: ImputedRows, y: Tensor) -> LogScale | None:
        self._check_parameters()
        if self.likelihood != NORMAL:
            if self.log_target:
                raise ValueError(
                    f"log_target=True requires likelihood='{NORMAL}', got {self.likelihood!r}"
                )
            return None
        if self.log_target is None and not is_log_candidate(y):
            return None
        if self.log_target is not None and not self.log_target:
            return None
        transform = log_transform(y)
        if self.log_target:
            return transform
        logs = transform.forward(y)
        scalers = Standardizer.fit(y), Standardizer.fit(logs)
        original, transformed = (
            self._cross_validator(Normal(), 1, x, scaler.transform(target))
            for scaler, target in zip(scalers, (y, logs), strict=True)
        )
        if not original.folds:
            return None
        config = self._first_config(len(x))
        is_better = log_target_is_better(original, transformed, config, scalers)
        return transform if is_better else None

    @override
    def _calibrated(
        self,
        validator: CrossValidator,
        config: TrialConfig,
        fit: FittedModel,
        fold_fits: list[FittedModel],
    ) -> FittedModel:
        if self.likelihood != NORMAL:
            return super()._calibrated(validator, config, fit, fold_fits)
        seed, learner = self._seed, fit.learner
        predictions = validator.predict_folds(fold_fits)
        scale = calibration.epistemic_scale(predictions)
        growth = calibration.extrapolation_scale(
            validator, config, fold_fits[0], predictions, epistemic_scale=scale, seed=seed
        )
        if learner.off_data.support is not None:
            learner.off_data.support = learner.off_data.support.with_scaled_growth(growth)
        held_out = [prediction.as_tuple(scale, growth) for prediction in predictions]
        learner.rescale_noise(holdout.noise_scale(learner, held_out))
        inputs = [prediction.x for prediction in predictions]
        residuals = residuals_of(held_out, inputs, learner.likelihood)
        noise = select_noise_model(residuals, seed)
        scales = select_noise_scales(residuals, noise)
        return replace(fit, epistemic_scale=scale, noise=noise, noise_scales=scales)
