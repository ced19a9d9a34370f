"""What the estimators that follow gradients share: how they are taught, and their noise."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from tractable import priors
from tractable.learners import Learner
from tractable.learners.gradient import GradientLearner
from tractable.likelihoods import Normal
from tractable.sklearn.calibration import ENOUGH_ROWS, fit_and_calibrate, scale, split
from tractable.sklearn.estimator import Estimator

CALIBRATION_ROWS = 40
"""With fewer rows than this, none is held out to calibrate the noise."""

_STEPS = 1_500
_BATCH = 32
_NOISE_ROWS = 500  # of a stream, that the noise is averaged over
_NOISE_DRAWS = 5


class ByGradient(Estimator):
    """Taught by steps along a gradient, in double precision."""

    prior: Any
    lr: float

    def _teach(self, learner: Learner, x: Tensor, y: Tensor) -> None:
        size = self._batch_size(len(x))
        epochs = self.epochs
        if epochs is None:
            epochs = min(max(math.ceil(_STEPS / math.ceil(len(x) / size)), 20), 100)

        def fit(learner: Learner, x: Tensor, y: Tensor) -> None:
            learner.fit(x, y, epochs=epochs, batch_size=size, progress=self.verbose > 0)

        wanted = getattr(self, "calibrate", False) and len(x) >= CALIBRATION_ROWS
        if wanted and len(x) >= ENOUGH_ROWS:
            fit_and_calibrate(learner, x, y, fit)
            return
        factor = _held_out_scale(learner, x, y, fit) if wanted else 1.0
        fit(learner, x, y)
        if wanted:
            learner.likelihood.rescale(factor)

    def _batch_size(self, rows: int) -> int:
        return min(_BATCH if self.batch_size is None else self.batch_size, rows)

    def _update(self, learner: Learner, x: Tensor, y: Tensor) -> None:
        """One step; the noise follows the errors that rows had before they were learnt.

        Approximate: the noise is a moving average of squared errors over about the last 500
        rows, so it holds what the weights were unsure of then as well.
        """
        likelihood = learner.likelihood
        if not isinstance(likelihood, Normal):
            learner.update(x, y)
            return
        assert isinstance(learner, GradientLearner)
        missed = learner.predict(x, draws=_NOISE_DRAWS).mean.reshape(y.shape) - y
        learner.update(x, y)
        new = missed.square().mean(0).to(likelihood.noise_mean)
        kept = math.exp(-len(x) / _NOISE_ROWS)
        noise = kept * likelihood.noise_mean + (1 - kept) * new
        likelihood.m_step(torch.cat([noise, noise.new_ones(1)]))


def _held_out_scale(
    learner: Learner, x: Tensor, y: Tensor, fit: Callable[[Learner, Tensor, Tensor], Any]
) -> float:
    """The factor on the noise that suits a tenth of the rows (of few rows, a quarter, up to 20).

    One copy of the learner is fitted to the others: ``Learner.fit(calibrate=True)``, which fits
    five, would cost a gradient learner too much.
    """
    rows = len(x)
    kept, out = split(learner, rows, max(rows // 10, min(rows // 4, 20)))
    twin = copy.deepcopy(learner)
    fit(twin, x[kept], y[kept])
    return scale(learner, twin, x[out], y[out])


def prior_of(given: Any) -> Any:
    """A number stands for the normal prior of that standard deviation."""
    return priors.Normal(float(given)) if isinstance(given, Real) else given
