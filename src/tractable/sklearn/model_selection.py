"""Model selection: number of epochs, relevance of the features, and network or linear model.

What suits a table depends on its noise, on the number of irrelevant columns, and on whether the
target is linear in the inputs. Every configuration is scored by the log-likelihood of rows that
were held out of its fit, with the noise scaled to maximize it. Differences are taken row by row and
must exceed their standard error; else the simpler configuration is kept. In this order are selected

1. the number of epochs: every epoch uses the same rows as new evidence, so that many epochs suit
   targets with little noise, and few epochs suit noisy targets;
2. the relevance of the features (``feature_relevance``);
3. a linear model, unless an ensemble of networks is better. It is compared with the ensemble,
   because several networks are better than one, while several linear models are all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from tractable.learners import Ensemble, Learner
from tractable.learners.off_data.support import rms_column_slopes
from tractable.persistence import validation
from tractable.training.selection import ModelSearch, TrialResult, best_improvement

RELEVANCE_ROUNDS = 3
"""Rounds of estimating the relevance of the features; it hardly changes after three."""
MIN_RELEVANCE = 1e-3
"""Minimum factor on a feature, so that none is removed for good."""
SHORT_EPOCHS = (5, 2)
"""Numbers of epochs that are tried for networks in addition to 1/2, 1/4 and 1/8 of the default."""
LINEAR_EPOCHS = (20, 5)
"""Numbers of epochs that are tried for linear models."""

_MAX_SLOPE_ROWS = 200
_BATCH_SIZE = 8_192  # of predictions at rows that are moved along a column
_MAX_DIFFERENCES = 256  # columns; difference quotients need a number of predictions quadratic in it


@dataclass(frozen=True)
class TrialConfig:
    """A configuration that is selected by cross-validation.

    Attributes:
        hidden_layer_sizes: sizes of the hidden layers, empty for a linear model.
        epochs: number of passes over the rows.
        relevance_rounds: rounds of estimating the relevance of the features; 0 for factors of 1.
    """

    hidden_layer_sizes: tuple[int, ...]
    epochs: int
    relevance_rounds: int = 0

    def params(self) -> dict[str, Any]:
        """Return the configuration as parameters of the estimator."""
        return {
            "hidden_layer_sizes": self.hidden_layer_sizes,
            "epochs": self.epochs,
            "relevance": self.relevance_rounds > 0,
        }


Trial = TrialResult[TrialConfig]


class ConfigEvaluator(Protocol):
    """Scores configurations on held-out rows; ``CrossValidator`` is its implementation."""

    @property
    def n_columns(self) -> int:
        """Number of columns of the inputs."""

    def evaluate(self, configs: Sequence[TrialConfig]) -> list[Trial]:
        """Return the scores of single networks."""

    def evaluate_ensemble(self, config: TrialConfig, n_estimators: int) -> Trial:
        """Return the scores of ensembles."""


def select_config(
    evaluator: ConfigEvaluator,
    first: TrialConfig,
    *,
    choose_epochs: bool,
    try_linear: bool,
    try_relevance: bool,
    n_estimators: int = 1,
) -> tuple[Trial, list[Trial]]:
    """Return the selected configuration, and all that were scored.

    Args:
        evaluator: fits configurations and scores them.
        first: the configuration to begin with, which is kept unless another one is better.
        choose_epochs: whether to select the number of epochs.
        try_linear: whether to try a linear model.
        try_relevance: whether to try factors on the features.
        n_estimators: number of networks in the ensemble that a linear model is compared with.
    """
    search = ModelSearch(evaluator.evaluate)
    try_relevance = try_relevance and evaluator.n_columns > 1
    shorter, weighted, linear = _first_candidates(
        first, epochs=choose_epochs, linear=try_linear, relevance=try_relevance
    )
    # One call fits all of them in parallel, before the decisions are made one after the other.
    search.evaluate([first, *shorter, *weighted, *linear])
    (current,) = search.evaluate([first])
    best = best_improvement(current, search.evaluate(shorter))
    if try_relevance:
        if best.config.epochs < first.epochs:
            weighted.append(replace(best.config, relevance_rounds=RELEVANCE_ROUNDS))
        best = best_improvement(best, search.evaluate(weighted))
    if linear:
        simple = max(search.evaluate(linear), key=lambda trial: trial.mean)
        if try_relevance:
            config = replace(simple.config, relevance_rounds=RELEVANCE_ROUNDS)
            simple = best_improvement(simple, search.evaluate([config]))
        if n_estimators > 1 and not best.is_significantly_better(simple):
            best = evaluator.evaluate_ensemble(best.config, n_estimators)
            search.add(best)
        best = best if best.is_significantly_better(simple) else simple
    return best, search.results


def _first_candidates(
    first: TrialConfig, *, epochs: bool, linear: bool, relevance: bool
) -> tuple[list[TrialConfig], list[TrialConfig], list[TrialConfig]]:
    """Return alternatives that depend on no decision: epochs, relevance, linear models."""
    numbers = sorted({*(first.epochs // k for k in (2, 4, 8)), *SHORT_EPOCHS}, reverse=True)
    shorter = [replace(first, epochs=n) for n in numbers if 1 < n < first.epochs]
    weighted = [replace(first, relevance_rounds=RELEVANCE_ROUNDS)] if relevance else []
    lengths = [n for n in LINEAR_EPOCHS if n < first.epochs] if epochs else []
    lines = [replace(first, hidden_layer_sizes=(), epochs=n) for n in lengths or [first.epochs]]
    has_layers = bool(first.hidden_layer_sizes)
    return shorter if epochs else [], weighted, lines if linear and has_layers else []


# --- results as attributes and in files --------------------------------------------------------


def cv_results(trials: Sequence[Trial]) -> dict[str, Any]:
    """Return scores in the form of ``GridSearchCV.cv_results_``, without splits.

    Returns:
        A dict of sequences with one item per configuration: ``params``, ``n_estimators``,
        ``mean_test_score`` and ``std_test_score`` (log-likelihood per held-out row, its mean and
        its standard error), ``noise_scale`` (the factor on the noise variance) and
        ``rank_test_score``.
    """
    means = np.array([trial.mean for trial in trials])
    errors = [float(trial.scores.std()) / len(trial.scores) ** 0.5 for trial in trials]
    return {
        "params": [trial.config.params() for trial in trials],
        "n_estimators": np.array([trial.n_estimators for trial in trials], dtype=int),
        "mean_test_score": means,
        "std_test_score": np.array(errors),
        "noise_scale": np.array([trial.noise_scale for trial in trials]),
        "rank_test_score": 1 + (means[None, :] > means[:, None]).sum(1),
    }


def trials_to_file(trials: Sequence[Trial]) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
    """Return trials as named tensors and JSON values."""
    tensors = {f"{k}": trial.scores.double().nan_to_num() for k, trial in enumerate(trials)}
    values = [
        {
            **asdict(trial.config),
            "noise_scale": trial.noise_scale,
            "n_estimators": trial.n_estimators,
        }
        for trial in trials
    ]
    return tensors, values


def trials_from_file(tensors: dict[str, Tensor], values: Any) -> list[Trial]:
    """Return the trials that ``trials_to_file`` returned, after checking them."""
    given = validation.require_type(values, list, "cv_results")
    if set(tensors) != {f"{k}" for k in range(len(given))}:
        raise ValueError(f"the file has {len(tensors)} scores for {len(given)} configurations")
    trials = []
    for k, one in enumerate(given):
        scores = tensors[f"{k}"]
        if scores.ndim != 1 or scores.dtype is not torch.float64:
            raise ValueError(f"the scores of configuration {k} in the file are damaged")
        noise_scale = validation.require_type(one["noise_scale"], float, "noise_scale")
        n_estimators = validation.require_type(one["n_estimators"], int, "n_estimators")
        trials.append(TrialResult(config_from_json(one), scores, noise_scale, n_estimators))
    return trials


def config_from_json(values: dict[str, Any]) -> TrialConfig:
    """Return a configuration from the JSON values of a file, after checking them."""
    given = validation.require_type(values["hidden_layer_sizes"], list, "hidden_layer_sizes")
    numbers = (*given, values["epochs"], values["relevance_rounds"])
    *sizes, epochs, rounds = [validation.require_type(n, int, "a number") for n in numbers]
    return TrialConfig(tuple(sizes), epochs, rounds)


# --- relevance of the features -----------------------------------------------------------------


def feature_relevance(learner: Learner, x: Tensor, before: Tensor) -> Tensor:
    """Return new factors on the standardized features, larger for more relevant ones.

    The prior of the first layer gives the weights of every feature the same variance, so that a
    hundred irrelevant features hide three relevant ones. A factor on a feature multiplies the prior
    variance of its weights by its square: the factors are a prior for each feature (automatic
    relevance determination, MacKay 1994, Neal 1996). They are the root mean square slope of the
    predicted mean along each feature, scaled to a mean square of 1, and are estimated in a few
    rounds of fits.

    Approximate: slopes at 200 rows, by difference quotients, or for more than 256 features by the
    gradient of the networks at the means of their weights; a point estimate, not a posterior.

    Args:
        learner: fitted to ``x * before``.
        x: standardized inputs, ``[rows, columns]``.
        before: the factors of the fit, ``[columns]``.
    """
    varies = x.amax(0) > x.amin(0)
    square = torch.where(varies, rms_slopes(learner, x, before).square(), 0.0)
    mean = square.sum() / varies.sum().clamp_min(1)
    if not bool(mean > 0):
        return before
    factors = (square / mean).sqrt().clamp_min(MIN_RELEVANCE)
    return torch.where(varies, factors, 1.0).to(x.dtype)


def rms_slopes(learner: Learner, x: Tensor, factors: Tensor) -> Tensor:
    """Return the root mean square slope of the mean output along each standardized column.

    Args:
        learner: fitted to ``x * factors``.
        x: standardized inputs, of which at most 200 rows are used, ``[rows, columns]``.
        factors: factors on the columns, ``[columns]``.
    """
    if x.shape[1] > _MAX_DIFFERENCES:
        return _rms_gradients(learner, x[:_MAX_SLOPE_ROWS] * factors.to(x)) * factors.double()

    def mean(rows: Tensor) -> Tensor:
        inputs = learner.checks.format.inputs(rows)
        return learner.outputs(inputs, batch_size=_BATCH_SIZE).moments()[0]

    return rms_column_slopes(mean, x[:_MAX_SLOPE_ROWS] * factors.to(x), factors)


def _rms_gradients(learner: Learner, x: Tensor) -> Tensor:
    """Return the root mean square gradient of the mean output in each column, in double."""
    members = learner.members if isinstance(learner, Ensemble) else [learner]
    inputs = x.to(device=learner.device, dtype=learner.dtype).requires_grad_()
    with torch.enable_grad():
        mean = torch.stack([member.mean_module()(inputs) for member in members]).mean(0).flatten(1)
        sums = mean.sum(0).unbind()
        gradients = [torch.autograd.grad(total, inputs, retain_graph=True)[0] for total in sums]
    return torch.stack(gradients).double().square().mean(dim=(0, 1)).sqrt().to(x.device)
