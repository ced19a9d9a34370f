"""Calibration of the variances of a prediction on held-out rows.

The noise is scaled by ``tractable.training.holdout``. This module computes the factors on the other
variances: that of the weights (``epistemic_scale``), and that of extrapolation away from the
    training
rows (``extrapolation_scale``). With very few rows it sets a minimum of the noise instead.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch
from torch import Tensor

from tractable.learners import Learner
from tractable.likelihoods import Normal
from tractable.likelihoods.outliers import robust_chi2
from tractable.sklearn.cross_validation import (
    CrossValidator,
    FitRequest,
    FittedModel,
    HeldOutPrediction,
)
from tractable.sklearn.model_selection import TrialConfig
from tractable.training import holdout

EPISTEMIC_SCALES = tuple(2.0 ** (-k / 2) for k in range(5))
MIN_HELD_OUT_ROWS = 60
"""With fewer held-out rows, the variance of the weights is not scaled."""
_AIC_PENALTY = 1  # nats for one selected number
_LOG_NOISE_SCALES = torch.linspace(-5, 5, 101, dtype=torch.float64)

N_BLOCKS = 8
EXTRAPOLATION_SCALES = tuple(2.0**k for k in range(11))
MAX_COST = 0.01
"""Nats per row that extrapolation may cost on rows that are held out at random."""
_BLOCK_SHARE = 0.25  # of the rows in a block
_MAX_BLOCK_ROWS = 1_000  # of which the blocks are cut out
_MIN_BLOCK_ROWS = 40  # with fewer rows no block is cut out
_BLOCK_SEED = 32_452_843  # added to the seed of the fit
_FIRST_NUMBER = 100  # of the fits without a block; the numbers of the folds are smaller

MIN_ROWS = 5
"""With fewer rows, the noise has a minimum."""
RECOMMENDED_ROWS = 20
"""With this many rows or more, some are held out to calibrate the noise."""

ErrorParts = tuple[Tensor, Tensor, Tensor]
"""Squared errors, variances without extrapolation, and variances of extrapolation."""


# --- variance of the weights -------------------------------------------------------------------


def epistemic_scale(predictions: Sequence[HeldOutPrediction]) -> float:
    """Return the factor on the epistemic variance that maximizes the held-out likelihood.

    Weights and units are treated as independent, which makes the variance of the weights too large
    where many of them act together. If there is little noise, this variance exceeds the errors, and
    no scale of the noise can compensate for it. Therefore the density is

        p(y | x) = N(y; m(x), a w(x) + b(x) + g(x) + s noise),

    where w is the mean variance within the networks, b that between them, g that of extrapolation,
    and a and s are selected together. The factor a is a power of the square root of 2 from 1/4 to
    1. It is 1 unless the log-likelihood of the held-out rows (with outliers down-weighted) gains
    more than one nat, the penalty of Akaike's criterion for one parameter. It applies to
    predictions only; the weights keep their variances.

    The minimum of 1/4 and the criterion were chosen among about a dozen rules, on tenths held out
    of the training rows of published splits 10 to 19 of the UCI data sets (fewer splits of the
    larger ones): without a minimum, Energy gained another 0.03 nats per row and Concrete lost 0.02.

    Approximate: the networks of an ensemble count as one normal distribution.

    Args:
        predictions: held-out rows, with a normal likelihood.
    """
    if sum(len(part.y) for part in predictions) < MIN_HELD_OUT_ROWS:
        return 1.0
    square = torch.cat([(p.y - p.mean).flatten().double().square() for p in predictions])
    noise = torch.cat([_noise(part) for part in predictions])
    found = torch.tensor(
        [_max_log_lik(square, _variance(predictions, a), noise) for a in EPISTEMIC_SCALES]
    )
    best = int(found.argmax())
    return EPISTEMIC_SCALES[best] if float(found[best] - found[0]) > _AIC_PENALTY else 1.0


def _variance(predictions: Sequence[HeldOutPrediction], scale: float) -> Tensor:
    return torch.cat([part.as_tuple(scale)[3].flatten().double() for part in predictions])


def _normal(prediction: HeldOutPrediction) -> Normal:
    likelihood = prediction.likelihood
    if not isinstance(likelihood, Normal):
        raise TypeError(f"scaling a variance needs a Normal likelihood, got {likelihood!r}")
    return likelihood


def _noise(prediction: HeldOutPrediction) -> Tensor:
    noise = _normal(prediction).noise_mean.to(prediction.mean.device)
    return noise.expand_as(prediction.mean).flatten()


def _max_log_lik(square: Tensor, variance: Tensor, noise: Tensor) -> float:
    """Return the maximum over noise scales of the log-likelihood, up to a constant."""
    total = variance + _LOG_NOISE_SCALES.to(noise).exp()[:, None] * noise
    return float((-0.5 * (robust_chi2(square / total) + total.log())).sum(1).amax())


# --- variance of extrapolation -----------------------------------------------------------------


def extrapolation_scale(
    validator: CrossValidator,
    config: TrialConfig,
    fold_fit: FittedModel,
    fold_predictions: Sequence[HeldOutPrediction],
    *,
    epistemic_scale: float,
    seed: int,
) -> float:
    """Return the factor on the variance that is added away from the training rows.

    This variance is the squared slope of the predicted function times the squared distance
    (``tractable.learners.off_data.support``), which is right if the function continues as it did.
    Where it does not, for example between the points of a grid, it is too small. The factor is
    selected on contiguous blocks of rows that are held out, because folds of random rows never
    leave the data.

    * A block is a quarter of the rows in the order of one column (half of the time drawn by its
      squared slope, else uniformly), or of a random direction weighted by the slopes, alternately.
    * The factor is a power of two, at least 1, that maximizes the log-likelihood of the blocks.
    * It may cost rows that are held out at random at most 0.01 nats.

    Args:
        validator: fits configurations to some of the rows.
        config: the configuration.
        fold_fit: a fit without one of the folds of ``validator``.
        fold_predictions: predictions for the folds.
        epistemic_scale: factor on the variance of the weights.
        seed: seed of the blocks.
    """
    rows = torch.arange(len(validator.x))
    if len(rows) < _MIN_BLOCK_ROWS or fold_fit.learner.off_data.support is None:
        return 1.0
    generator = torch.Generator().manual_seed(seed + _BLOCK_SEED)
    noise_scale = holdout.noise_scale(
        fold_fit.learner, [part.as_tuple(epistemic_scale) for part in fold_predictions]
    )
    slopes = fold_fit.rms_slopes(validator.x)
    some = rows[torch.randperm(len(rows), generator=generator)[:_MAX_BLOCK_ROWS]]
    x = validator.x[some]
    blocks = [some[_contiguous_block(x, k, slopes, generator)] for k in range(N_BLOCKS)]
    start = fold_fit.relevance
    requests = [
        FitRequest(config, some[~torch.isin(some, block)], k, distance_aware=True, start=start)
        for k, block in enumerate(blocks, _FIRST_NUMBER)
    ]
    block_predictions = [
        fit.predict_held_out(validator.rows.at(block), validator.y[block])
        for fit, block in zip(validator.fit(requests), blocks, strict=True)
    ]
    outside, inside = (
        [_error_parts(part, epistemic_scale, noise_scale) for part in predictions]
        for predictions in (block_predictions, fold_predictions)
    )
    minimum = _mean_log_lik(inside, 1.0) - MAX_COST
    allowed = [c for c in EXTRAPOLATION_SCALES if c == 1 or _mean_log_lik(inside, c) >= minimum]
    return max(allowed, key=lambda c: _mean_log_lik(outside, c))


def _contiguous_block(x: Tensor, k: int, slopes: Tensor, generator: torch.Generator) -> Tensor:
    """Return the row numbers of block ``k``."""
    n_columns = x.shape[1]
    if k % 2 == 0:
        uniform = torch.ones(n_columns, dtype=torch.float64)
        probability = slopes.square() if k % 4 == 0 else uniform
        column = torch.multinomial(probability + 1e-12, 1, generator=generator)
        position = x[:, int(column)].double()
    else:
        direction = torch.randn(n_columns, generator=generator, dtype=torch.float64) * slopes
        position = x.double() @ direction
    # Rows with the same value in one column are put in random order.
    shuffled = torch.randperm(len(x), generator=generator)
    order = shuffled[position[shuffled].argsort(stable=True)]
    length = max(int(_BLOCK_SHARE * len(x)), 1)
    offset = (k + float(torch.rand(1, generator=generator))) / N_BLOCKS
    start = int(offset * (len(x) - length))
    window = order[start : start + length]
    # Rows that share a value with the block belong to it, unless they are too many.
    low, high = position[window].amin(), position[window].amax()
    is_inside = (position >= low) & (position <= high)
    block = is_inside.nonzero().squeeze(1)
    return block if len(block) <= len(x) // 2 else window


def _error_parts(
    prediction: HeldOutPrediction, epistemic_scale: float, noise_scale: float
) -> ErrorParts:
    # If all rows of a fit are equal, distances have no scale and nothing is added.
    extra = prediction.extrapolation
    noise = _normal(prediction).noise_mean.to(prediction.mean.device)
    return (
        (prediction.y - prediction.mean).double().square(),
        prediction.scaled_variance(epistemic_scale).double() + noise_scale * noise,
        (torch.zeros_like(prediction.variance) if extra is None else extra).double(),
    )


def _mean_log_lik(errors: Sequence[ErrorParts], scale: float) -> float:
    """Return the mean log-likelihood of all rows, up to a constant."""
    total = []
    for square, variance, extra in errors:
        spread = variance + scale * extra
        total.append(-0.5 * (square / spread + spread.log()).mean())
    return float(torch.stack(total).mean())


# --- very few rows -----------------------------------------------------------------------------


def warn_of_few_rows(name: str, n_rows: int) -> None:
    """Warn if there are too few rows to distinguish noise from signal."""
    if n_rows < MIN_ROWS:
        warnings.warn(
            f"{name} was fitted to {n_rows} rows, too few to distinguish noise from signal: its "
            f"predicted standard deviations are at least that of the targets. Pass "
            f"{RECOMMENDED_ROWS} rows or more",
            UserWarning,
            stacklevel=3,
        )


def set_minimum_noise(learner: Learner, n_rows: int) -> None:
    """Raise the noise variance to at least ``(n + 1) / (n - 1)`` if there are very few rows.

    A network that passes through two or three rows finds no noise. The rows do show how different
    the targets are: with their mean and variance s^2 (divisor n - 1), the distance of a new target
    from the mean of n has the standard deviation s sqrt(1 + 1/n). Standardized targets have the
    variance 1 with divisor n.
    """
    likelihood = learner.likelihood
    if n_rows < MIN_ROWS and isinstance(likelihood, Normal):
        minimum = (n_rows + 1) / (n_rows - 1)
        noise = float(likelihood.noise_mean.min())
        if 0 < noise < minimum:
            learner.rescale_noise(minimum / noise)
