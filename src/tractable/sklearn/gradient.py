"""What the estimators that follow gradients share: how they are taught, and their noise."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from tractable import priors
from tractable.learners import Learner
from tractable.likelihoods import Likelihood
from tractable.sklearn.choosing import Fit
from tractable.sklearn.estimator import Estimator
from tractable.sklearn.rows import Rows
from tractable.sklearn.values import plain
from tractable.training import holdout

CALIBRATION_ROWS = 40
"""With fewer rows than this, none is held out to calibrate the noise."""

_STEPS = 1_500
_BATCH = 32


class ByGradient(Estimator):
    """Taught by steps along a gradient, in double precision."""

    lr: float

    def _learn(self, likelihood: Likelihood, outputs: int, rows: Rows, y: Tensor) -> Fit:
        x = rows.x  # a gradient takes numbers: for what is missing, what is expected
        learner = self._begin_learner(likelihood, outputs, x)
        self._teach(learner, rows, y)
        return Fit(learner, torch.ones(x.shape[1], dtype=x.dtype))

    def _teach(self, learner: Learner, given: Rows, y: Tensor) -> None:
        x = given.x
        size = self._batch_size(len(x))
        epochs = plain(self.epochs)
        if epochs is None:
            epochs = min(max(math.ceil(_STEPS / math.ceil(len(x) / size)), 20), 100)

        def fit(learner: Learner, x: Tensor, y: Tensor) -> None:
            learner.fit(x, y, epochs=epochs, batch_size=size, progress=self.verbose > 0)

        wanted = getattr(self, "calibrate", False) and given.distinct >= CALIBRATION_ROWS
        wanted = wanted and learner.likelihood.can_calibrate
        rows = given.distinct
        if not wanted:
            fit(learner, x, y)
        elif rows >= holdout.MANY_ROWS:
            parts = _apart(given, *holdout.split(learner, rows, rows // 10))
            holdout.fit_and_calibrate(learner, x, y, parts, fit)
        else:
            # Of few rows a quarter, up to 20.  One copy is fitted to the others: the five of
            # ``Learner.fit(calibrate=True)`` would cost a gradient learner too much.
            few = max(rows // 10, min(rows // 4, 20))
            parts = _apart(given, *holdout.split(learner, rows, few))
            factor = holdout.noise_scale_by_refit(learner, x, y, parts, fit)
            fit(learner, x, y)
            learner.rescale_noise(factor)

    def _batch_size(self, rows: int) -> int:
        return min(_BATCH if self.batch_size is None else int(self.batch_size), rows)


def _apart(rows: Rows, kept: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
    """Return all copies of the distinct rows to learn from, and of those held out."""
    return rows.copies_of(kept), rows.copies_of(out)


def prior_from(given: Any) -> Any:
    """A number stands for the normal prior of that standard deviation."""
    return priors.Normal(float(given)) if isinstance(given, Real) else given
