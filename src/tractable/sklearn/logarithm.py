"""Whether the logarithm of a positive target is better learnt than the target itself.

Prices, wages and concentrations scatter by a share of their size, and lie far above their middle
more often than far below it.  Their logarithm has neither: one noise serves, and no prediction is
negative.  Held-out rows tell whether that is so: the same network is fitted to both, and what
counts is the density of the target itself,

    log p(y) = log p(log(y + c)) - log(y + c),

row by row; the logarithm is taken if it is better by more than the standard error.  The shift c is
a fiftieth of the median: so a target of zero, if one comes, is rare and not impossible.  Beyond the
largest target the scale is a line (``tractable.predictive.LogScale``), so that what is predicted
there does not grow by powers.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tractable.data import Standardizer
from tractable.predictive import (
    LogNormalPredictive,
    LogScale,
    NormalMixturePredictive,
    NormalPredictive,
    Predictive,
)
from tractable.sklearn.choosing import Setting, Trials, Tried, Wanted
from tractable.training import holdout

SHIFT = 0.02
"""Of the median: is added to a target before the logarithm is taken."""
LESS_SKEWED = 0.5
"""The skewness of the logarithm over that of the target must be less."""


def scale_of(y: Tensor) -> LogScale:
    """The scale for these targets.

    Raises:
        ValueError: one of them is not positive.
    """
    check(y, LogScale())
    return LogScale(SHIFT * float(y.median()), float(y.amax()))


def check(y: Tensor, scale: LogScale) -> None:
    """Refuse targets that are not on a scale."""
    wrong = (y + scale.shift <= 0).nonzero()
    if len(wrong):
        row, column = wrong[0].tolist()
        raise ValueError(
            f"the logarithm of the target is learnt, which must then be positive; row {row} has "
            f"{float(y[row, column]):g}"
        )


def possible(y: Tensor) -> bool:
    """Whether it is worth trying: one positive target, whose logarithm is clearly less skewed."""
    if y.shape[1] != 1 or not bool((y > 0).all()):
        return False
    return abs(_skewness(scale_of(y).forward(y))) < LESS_SKEWED * _skewness(y)


def _skewness(y: Tensor) -> float:
    centred = y.double() - y.double().mean()
    return float(centred.pow(3).mean() / centred.square().mean().clamp_min(1e-300) ** 1.5)


def helps(
    plain: Trials, logs: Trials, setting: Setting, scalers: tuple[Standardizer, Standardizer]
) -> bool:
    """Whether held-out rows are better predicted through the logarithm.

    Args:
        plain: fits to the standardised target.
        logs: fits to its standardised logarithm, with the same rows held out.
        setting: how the networks are made and taught.
        scalers: what standardised the target, and its (shifted) logarithm.
    """
    own, other = (_densities(trials, setting) for trials in (plain, logs))
    log_y = scalers[1].inverse(logs.y[torch.cat(list(logs.parts))].double()).squeeze(1)
    through = other - float(scalers[1].scale.log()) - log_y
    return Tried(setting, through).beats(Tried(setting, own - float(scalers[0].scale.log())))


def _densities(trials: Trials, setting: Setting) -> Tensor:
    """Log density of each held-out row, with the noise scaled to suit them all."""
    kept = [trials.kept(out) for out in trials.parts]
    fits = trials.fits([Wanted(setting, rows, number) for number, rows in enumerate(kept, 1)])
    seen = trials.held_out(fits)
    fits[0].learner.rescale_noise(holdout.noise_scale(fits[0].learner, seen))
    likelihood = fits[0].learner.likelihood
    return torch.cat([likelihood.predictive(m, v).log_prob(y).double() for _, y, m, v in seen])


def exponential(of: Predictive, scale: LogScale, growth: Tensor | None) -> LogNormalPredictive:
    """The predictive of a target that has this one on the scale of its logarithm.

    Args:
        of: what is known on that scale.
        scale: the scale.
        growth: what was added to its epistemic variance off the data.
    """
    if isinstance(of, NormalPredictive):
        of = of.mixture_over_draws(1)
    if not isinstance(of, NormalMixturePredictive):
        raise TypeError(f"the logarithm of a target must be a mixture of normals, got {of!r}")
    return LogNormalPredictive(of, scale, growth, of.novelty)
