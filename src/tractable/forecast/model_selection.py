"""Fitting a forecaster: scaling, selection of hyperparameters, calibration, final training.

Hyperparameters are selected on validation windows at the end of the series, because the future
comes last; training windows end before the first validation value. A long series is split once. A
short one is split three times in a row, each time with more training data, and windows that extend
beyond its end count with the steps that are known.

The decisions are made in turn: length of the window, prior, normalization, hidden layer. The score
is the mean squared error of the validation windows, of each series in its own units, and a later
candidate is selected only if it improves the log of the root mean squared error by 0.01.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from tractable.errors import InvalidInput
from tractable.forecast.calibration import ErrorCalibration, ForecastErrors, error_ewma
from tractable.forecast.config import ForecasterFitOptions, HyperParameters, ModelConfig
from tractable.forecast.direct import DirectModel, Origins, fit_direct_model
from tractable.forecast.panel import Panel
from tractable.forecast.recursive import RecursiveModel, maybe_recursive
from tractable.forecast.scaling import CovariateScaler, SeriesScaler
from tractable.forecast.state import ForecasterState
from tractable.forecast.windows import Array, History, Normalization
from tractable.training.progress import Progress
from tractable.training.selection import (
    ModelSearch,
    TrialResult,
    coordinate_search,
    last_improvement,
)

Trial = TrialResult[HyperParameters]

_SEASON_MULTIPLES = (2, 7, 14)  # candidate lengths of windows, in seasons
_LAGS_WITHOUT_SEASON = (12, 36, 96)  # candidate lengths of windows without a season
_GAINS = (0.01, 0.25)  # candidate priors: one for nearly linear models, one for hidden layers
_HIDDEN_LAYER_SIZES = (64,)  # the candidate besides a linear model
_SHORT_SERIES = 600  # times below which the series is split three times
_N_SPLITS = 3  # splits of a short series
_MIN_GAIN = 0.01  # improvement of the log root mean squared error by which a later candidate wins
_MAX_WINDOWS = 12_000  # windows for training and scoring of a candidate
_MIN_TRAINING_WINDOWS = 4
_MIN_COMPLETE_WINDOWS = 60  # fewer: windows that extend beyond the end are used as well


@dataclass(frozen=True)
class TimeSplit:
    """A split of the times into training and validation.

    Attributes:
        first: row of the first validation value.
        last: row after the last validation value.
    """

    first: int
    last: int


class TimeSplits:
    """Splits of a series in time, and models fitted to their training parts.

    Args:
        config: options of the model.
        history: scaled series.
        n_validation: number of validation times; None for a fifth of the series, or about an eighth
            in each of three splits of a short series.
        target_units: mean and scale of each series, for targets that are not standardized.

    Attributes:
        splits: the splits, the earliest first; empty for a series that is too short.
        on_fit: called after every fit, to advance a progress bar.

    Raises:
        InvalidInput: ``n_validation`` leaves too few times for training.
    """

    def __init__(
        self,
        config: ModelConfig,
        history: History,
        n_validation: int | None,
        target_units: tuple[Array, Array] | None = None,
    ) -> None:
        self.config, self.history, self.target_units = config, history, target_units
        self.on_fit: Callable[[], object] = lambda: None
        times, horizon = len(history), config.horizon
        self.short = times < _SHORT_SERIES
        size = n_validation
        if size is None:
            size = max(times // 5, min(horizon, times // 4))
        n_splits = _N_SPLITS if self.short and n_validation is None else 1
        if n_splits > 1:
            size = max(times // 8, min(horizon, times // 5))
        ends = [times - k * size for k in range(n_splits)]
        self.splits = [TimeSplit(e - size, e) for e in reversed(ends) if e - size > horizon]
        if n_validation is not None and not self.splits:
            raise InvalidInput(
                f"n_validation={n_validation} leaves {max(times - n_validation, 0)} of {times} "
                f"times for training, and forecasts of {horizon} steps need at least "
                f"{horizon + 1}: give a smaller n_validation"
            )

    @property
    def consecutive(self) -> bool:
        """Whether validation errors are consecutive in time, so that they can be averaged."""
        config = self.config
        return len(self.splits) == 1 and not config.recursive_steps and config.has_normal_noise

    def training_origins(self, params: HyperParameters, last: int) -> Origins:
        """Return the origins of windows whose targets end before row ``last``.

        If they are few, windows that begin before it are included; their later targets are missing.
        """
        complete = np.arange(params.lags - 1, last - self.config.steps)
        if len(complete) >= _MIN_COMPLETE_WINDOWS or not self.config.has_normal_noise:
            return complete
        return np.arange(params.lags - 1, last - 1)

    def validation_origins(self, params: HyperParameters, split: TimeSplit) -> Origins:
        """Return the forecast origins that are used for validation."""
        horizon = self.config.horizon
        incomplete = self.short or split.last - split.first < horizon
        n_known = 1 if incomplete else horizon
        return np.arange(max(split.first, params.lags) - 1, split.last - n_known)

    def all_validation_origins(self, params: HyperParameters, split: TimeSplit) -> Origins:
        """Return all forecast origins for validation, also those whose last targets are unknown."""
        return np.arange(max(split.first, params.lags) - 1, split.last - 1)

    def has_training_windows(self, params: HyperParameters) -> bool:
        """Return whether every split has enough windows for training."""
        ends = [split.first for split in self.splits] or [len(self.history)]
        return all(len(self.training_origins(params, e)) >= _MIN_TRAINING_WINDOWS for e in ends)

    def history_until(self, last: int) -> History:
        """Return the history before row ``last``; future covariates keep their future."""
        h = self.history
        return History(
            h.loc[:last], h.variance[:last], h.future_covariates, h.past_covariates[:last]
        )

    def fit_model(
        self, params: HyperParameters, last: int, *, thin: bool = False
    ) -> DirectModel | RecursiveModel:
        """Return a model trained on the rows before ``last``, on fewer windows if ``thin``."""
        config = self.config
        origins = self.training_origins(params, last)[:: -config.window_stride][::-1]
        if thin:
            n_windows = max(_MAX_WINDOWS // self.history.loc.shape[1], 1)
            origins = origins[:: -(-len(origins) // n_windows)]
        history = self.history_until(last)
        model = fit_direct_model(config, params, history, origins, self.target_units)
        self.on_fit()
        return maybe_recursive(model, config.recursive_steps, config.uncertainty, config.seed)

    def errors(
        self,
        model: DirectModel | RecursiveModel,
        params: HyperParameters,
        split: TimeSplit,
        *,
        thin: bool = False,
    ) -> ForecastErrors:
        """Return the errors of the validation windows of a split; NaN where values are missing."""
        origins, recursive = self.validation_origins(params, split), self.config.recursive_steps
        if thin or recursive:
            n_windows = _MAX_WINDOWS // self.history.loc.shape[1] // (60 if recursive else 4)
            origins = origins[:: -(-len(origins) // max(n_windows, 1))]
        return ForecastErrors.of_model(model, self.history_until(split.last), origins)

    def concatenate(self, parts: list[ForecastErrors]) -> ForecastErrors:
        """Return the errors of all splits.

        Raises:
            InvalidInput: there are none, because all series lack values in the validation windows.
        """
        errors = ForecastErrors.concatenate(parts)
        if not errors.has_errors.any():
            raise InvalidInput(
                f"no validation window has a value in it and one after it, of any series: the "
                f"values from row {self.splits[0].first} on, which are used for validation, are "
                "missing. Leave out the rows after the last value, or give a larger n_validation="
            )
        return errors

    def evaluate(self, candidates: Sequence[HyperParameters]) -> list[Trial]:
        """Return the score of each candidate, one number for all splits."""
        trials = []
        for params in candidates:
            parts = []
            for split in self.splits:
                model = self.fit_model(params, split.first, thin=True)
                parts.append(self.errors(model, params, split, thin=True))
            score = self.concatenate(parts).score
            trials.append(TrialResult(params, torch.tensor([score], dtype=torch.float64)))
        return trials


def fit_forecaster(
    panel: Panel, config: ModelConfig, options: ForecasterFitOptions, progress: bool | None = False
) -> tuple[ForecasterState, list[Trial]]:
    """Return the fitted state, and the scores of all candidates.

    Raises:
        InvalidInput: the series is too short, constant, or lacks too many values.
    """
    if len(panel) <= config.horizon:
        raise InvalidInput(
            f"a horizon of {config.horizon} steps is longer than the series: it has {len(panel)} "
            f"values"
        )
    scaler = SeriesScaler.fit(panel.values, options.transform, panel.series_names)
    future_scaler = CovariateScaler.fit(panel.future_covariates)
    past_scaler = CovariateScaler.fit(panel.past_covariates)
    history = History.from_observed(
        scaler.scaled(panel.values),
        future_scaler.scaled(panel.future_covariates),
        past_scaler.scaled(panel.past_covariates),
    )
    units = (scaler.mean, scaler.scale) if config.keeps_target_units else None
    splits = TimeSplits(config, history, options.n_validation, units)
    if not (splits.consecutive or options.error_window in ("auto", None)):
        raise InvalidInput(
            f"error_window={options.error_window:g}: intervals cannot follow recent errors here. "
            "That needs (a) strategy='direct', (b) a normal likelihood, and (c) a series long "
            "enough for one block of validation windows; error_window='auto' is used where possible"
        )
    candidates: dict[str, Sequence[Any]] = {
        "lags": _candidate_lags(options, len(panel)),
        "gain": _candidate_gains(config),
        "normalize_by": _candidate_normalizations(options, config),
        "hidden_layer_sizes": _candidate_layers(options, config),
    }
    n_candidates = 1 + sum(len(values) - 1 for values in candidates.values())
    n_fits = (n_candidates + 1) * len(splits.splits) + 1  # with calibration and final fit
    with Progress(n_fits, "Forecaster", progress) as bar:
        splits.on_fit = bar.advance
        params, trials = select_params(splits, candidates, options.epochs)
        model, calibration, ewma = _calibrate(splits, params, options)
        if model is None or options.refit:
            model = splits.fit_model(params, len(history))
    state = ForecasterState(
        model, params, scaler, future_scaler, past_scaler, calibration, ewma, history, panel.grid,
        len(panel) - 1, panel.series_names, panel.squeezed, options.season_length,
    )  # fmt: skip
    state.trim()
    return state, trials


def select_params(
    splits: TimeSplits, candidates: dict[str, Sequence[Any]], epochs: int | None
) -> tuple[HyperParameters, list[Trial]]:
    """Return the best hyperparameters, found one decision after the other, and all scores.

    Args:
        splits: splits to score on.
        candidates: candidate values of ``lags`` and of the other hyperparameters, in the order of
            the decisions, the simplest value first.
        epochs: number of epochs, the same for all.

    Raises:
        InvalidInput: the series is too short for every candidate length of the window.
    """
    lags, *decisions = candidates.items()
    first = HyperParameters(
        **{name: values[0] for name, values in candidates.items()}, epochs=epochs
    )
    starts = [replace(first, lags=length) for length in lags[1]]
    starts = [params for params in starts if splits.has_training_windows(params)]
    if not starts:
        held_out = f", the first {splits.splits[0].first} for training" if splits.splits else ""
        raise InvalidInput(
            f"{len(splits.history)} values are too few for windows of {min(lags[1])} and "
            f"forecasts of {splits.config.horizon} steps{held_out}: give fewer lags, a shorter "
            "horizon or a smaller n_validation"
        )
    n_values = [len(starts), *(len(values) for _, values in decisions)]
    if not splits.splits or max(n_values) == 1:
        return starts[0], []
    select = partial(last_improvement, is_better=_is_clearly_better)
    search = ModelSearch(splits.evaluate)
    trials = search.evaluate(starts)
    alternatives = [(name, values[1:]) for name, values in decisions]
    best = coordinate_search(search, select(trials[0], trials[1:]), alternatives, select)
    return best.config, search.results


def cv_results(trials: Sequence[Trial]) -> dict[str, Any]:
    """Return scores in the form of ``GridSearchCV.cv_results_``, without splits.

    Returns:
        A dict of sequences with one item per candidate: ``params``, ``mean_test_score`` (minus half
        the log mean squared error of standardized values) and ``rank_test_score``.
    """
    scores = np.array([trial.mean for trial in trials])
    return {
        "params": [asdict(trial.config) for trial in trials],
        "mean_test_score": scores,
        "rank_test_score": 1 + (scores[None, :] > scores[:, None]).sum(1),
    }


def _is_clearly_better(trial: Trial, other: Trial) -> bool:
    return trial.mean > other.mean + _MIN_GAIN


def _calibrate(
    splits: TimeSplits, params: HyperParameters, options: ForecasterFitOptions
) -> tuple[DirectModel | RecursiveModel | None, ErrorCalibration, Array]:
    """Return the model of the last split, the calibration, and the average of recent errors."""
    series, steps = splits.history.loc.shape[1], splits.config.horizon
    ewma: Array = np.ones((series, steps), np.float32)
    if not splits.splits:
        return None, ErrorCalibration.identity(series, steps), ewma
    parts: list[ForecastErrors] = []
    model: DirectModel | RecursiveModel | None = None
    for split in splits.splits:
        model = splits.fit_model(params, split.first)
        parts.append(splits.errors(model, params, split))
    errors = splits.concatenate(parts)
    window = options.error_window if splits.consecutive else None
    calibration = ErrorCalibration.fit(errors, window)
    if not splits.config.has_normal_noise:
        calibration = ErrorCalibration(np.ones((series, steps)), calibration.correlation, None)
    if calibration.error_window is not None:
        assert model is not None
        origins = splits.all_validation_origins(params, splits.splits[-1])
        errors = ForecastErrors.of_model(model, splits.history, origins)
        z2 = errors.error**2 / errors.variance(calibration.noise_factors)
        _, ewma = error_ewma(z2, calibration.error_window)
    return model, calibration, ewma


def _candidate_lags(options: ForecasterFitOptions, times: int) -> list[int]:
    """Return the lengths of windows to compare, shortest first."""
    if options.lags is not None:
        return [options.lags]
    season = options.season_length
    lengths = list(_LAGS_WITHOUT_SEASON)
    if season > 1:
        lengths = [k * season for k in _SEASON_MULTIPLES]
    max_lags = max(times // 5, 4)
    return [n for n in lengths if n <= max_lags] or [min(lengths[0], max(max_lags, season + 1))]


def _candidate_gains(config: ModelConfig) -> tuple[float | None, ...]:
    if config.takes_gaussian_inputs and "gain" not in config.learner_kwargs:
        return _GAINS
    return (None,)


def _candidate_normalizations(
    options: ForecasterFitOptions, config: ModelConfig
) -> tuple[Normalization, ...]:
    if config.keeps_target_units:
        return ("none",)
    return ("last", "mean") if options.normalize_by is None else (options.normalize_by,)


def _candidate_layers(
    options: ForecasterFitOptions, config: ModelConfig
) -> tuple[tuple[int, ...], ...]:
    if config.net is not None:
        return ((),)
    given = options.hidden_layer_sizes
    return ((), _HIDDEN_LAYER_SIZES) if given is None else (given,)
