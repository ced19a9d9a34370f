"""Targets of regression: the likelihoods by name, and learning the logarithm of a target.

The names are those of ``tractable.likelihoods.registry``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tractable.likelihoods import Likelihood
from tractable.likelihoods.registry import REGRESSION_LIKELIHOODS
from tractable.predictive import (
    LogNormalPredictive,
    LogScale,
    NormalMixturePredictive,
    NormalPredictive,
    Predictive,
)
from tractable.sklearn.cross_validation import CrossValidator
from tractable.sklearn.model_selection import TrialConfig
from tractable.training import holdout
from tractable.training.selection import TrialResult
from tractable.training.standardizer import Standardizer

NORMAL = "normal"
SLOW_EPOCHS = 40
"""Default number of epochs with a likelihood that the kernel does not have."""
SLOW_BATCH_SIZE = 32
"""Default number of rows per update with such a likelihood."""

LOG_SHIFT = 0.02
"""Share of the median that is added to a target before taking the logarithm."""
MAX_SKEWNESS_RATIO = 0.5
"""Maximum ratio of the skewness of the logarithm to that of the target."""


@dataclass(frozen=True)
class TargetKind:
    """How a regressor treats its targets.

    Attributes:
        factory: returns the likelihood for a number of targets per row.
        n_outputs: number of network outputs for a number of targets per row.
        standardized: whether the targets are standardized.
    """

    factory: Callable[[int], Likelihood]
    n_outputs: Callable[[int], int] = lambda n_targets: n_targets
    standardized: bool = True

    def likelihood(self, y: Tensor) -> tuple[Likelihood, int]:
        """Return the likelihood of targets, and the number of network outputs.

        Args:
            y: targets in their own unit, ``[rows, targets]``.

        Raises:
            InvalidTarget: a target is impossible under the likelihood; the message names its row.
        """
        likelihood, n_outputs = self.factory(y.shape[1]), self.n_outputs(y.shape[1])
        likelihood.check_targets(y, torch.Size([len(y), n_outputs]))
        return likelihood, n_outputs

    def scaler(self, y: Tensor) -> Standardizer:
        """Return the standardizer of targets, which changes nothing if they are not standardized.

        Args:
            y: targets in their own unit, ``[rows, targets]``.
        """
        if self.standardized:
            return Standardizer.fit(y)
        zero = torch.zeros(y.shape[1], dtype=torch.float64)
        return Standardizer(zero, zero + 1, torch.zeros_like(zero, dtype=torch.bool))


KINDS: dict[str, TargetKind] = {
    name: TargetKind(target.factory, target.n_outputs, target.is_standardized)
    for name, target in REGRESSION_LIKELIHOODS.items()
}
"""Kinds of targets by the name of their likelihood."""


def target_kind(name: Any) -> TargetKind:
    """Return the kind of targets with a name of ``KINDS``.

    Raises:
        ValueError: the name is unknown.
    """
    if not isinstance(name, str) or name not in KINDS:
        raise ValueError(f"likelihood must be one of {', '.join(KINDS)}; got {name!r}")
    return KINDS[name]


# --- the logarithm of a target -----------------------------------------------------------------


def log_transform(y: Tensor) -> LogScale:
    """Return the logarithmic transform for targets: ``log(y + c)``, linear above the maximum.

    Prices, wages and concentrations vary by a share of their size and are skewed. Their logarithm
    is not, and predictions for it are never negative. The shift c is 2 % of the median, so that a
    target of zero in new data is improbable but not impossible. Above the largest target the
    transform is linear, so that extrapolated predictions do not grow exponentially.

    Args:
        y: targets, ``[rows, 1]``.

    Raises:
        ValueError: a target is not positive.
    """
    check_log_targets(y, LogScale())
    return LogScale(LOG_SHIFT * float(y.median()), float(y.amax()))


def check_log_targets(y: Tensor, transform: LogScale) -> None:
    """Raise if the logarithm of a target does not exist."""
    invalid = (y + transform.shift <= 0).nonzero()
    if len(invalid):
        row, column = invalid[0].tolist()
        raise ValueError(
            f"the estimator learns the logarithm of the target, which must be positive: row {row} "
            f"has {float(y[row, column]):g}. Pass log_target=False to learn the target itself"
        )


def is_log_candidate(y: Tensor) -> bool:
    """Return whether a logarithm is worth trying: one positive target, less skewed with it."""
    if y.shape[1] != 1 or not bool((y > 0).all()):
        return False
    transformed = log_transform(y).forward(y)
    return abs(_skewness(transformed)) < MAX_SKEWNESS_RATIO * _skewness(y)


def _skewness(y: Tensor) -> float:
    centered = y.double() - y.double().mean()
    return float(centered.pow(3).mean() / centered.square().mean().clamp_min(1e-300) ** 1.5)


def log_target_is_better(
    original: CrossValidator,
    logs: CrossValidator,
    config: TrialConfig,
    scalers: tuple[Standardizer, Standardizer],
) -> bool:
    """Return whether the logarithm of the target gives a higher density of held-out targets.

    The same configuration is fitted to both. The density of the target itself is compared,

        log p(y) = log p(log(y + c)) - log(y + c),

    row by row; the logarithm must be better by more than the standard error.

    Args:
        original: fits to the standardized target.
        logs: fits to its standardized logarithm, with the same folds.
        config: the configuration of both.
        scalers: standardizers of the target and of its logarithm.
    """
    of_target, of_log = (_log_densities(validator, config) for validator in (original, logs))
    log_y = scalers[1].inverse(logs.y[torch.cat(list(logs.folds))].double()).squeeze(1)
    transformed = of_log - float(scalers[1].scale.log()) - log_y
    plain = of_target - float(scalers[0].scale.log())
    return TrialResult(config, transformed).is_significantly_better(TrialResult(config, plain))


def _log_densities(validator: CrossValidator, config: TrialConfig) -> Tensor:
    """Return the log density of each held-out row, with one noise scale for all of them."""
    (fits,) = validator.fit_single([config])
    held_out = validator.held_out(fits)
    learner = fits[0].learner
    learner.rescale_noise(holdout.noise_scale(learner, held_out))
    likelihood = learner.likelihood
    return torch.cat([likelihood.predictive(m, v).log_prob(y).double() for _, y, m, v in held_out])


def to_log_normal(
    predictive: Predictive, transform: LogScale, extrapolation: Tensor | None
) -> LogNormalPredictive:
    """Return the predictive distribution of a target from that of its logarithm.

    Args:
        predictive: distribution of the transformed target, a mixture of normals.
        transform: the transform.
        extrapolation: variance that was added to the epistemic variance away from the data.
    """
    if isinstance(predictive, NormalPredictive):
        predictive = predictive.mixture_over_draws(1)
    if not isinstance(predictive, NormalMixturePredictive):
        raise TypeError(
            f"the logarithm of a target must be a mixture of normals, got {predictive!r}"
        )
    return LogNormalPredictive(predictive, transform, extrapolation, predictive.novelty)
