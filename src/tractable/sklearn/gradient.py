"""The base class of estimators that are trained by gradients."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from tractable import priors
from tractable.learners import Learner
from tractable.likelihoods import Likelihood
from tractable.sklearn.base import Estimator, as_python
from tractable.sklearn.cross_validation import FittedModel
from tractable.sklearn.imputation import ImputedRows
from tractable.training import holdout

MIN_CALIBRATION_ROWS = 40
"""With fewer rows, none is held out to calibrate the noise."""

_DEFAULT_STEPS = 1_500
_DEFAULT_BATCH_SIZE = 32
_MIN_EPOCHS, _MAX_EPOCHS = 20, 100  # for the default number of epochs


class GradientEstimator(Estimator):
    """An estimator whose learner is trained by gradient steps, in double precision."""

    lr: float

    @override
    def _fit_learner(
        self, likelihood: Likelihood, n_outputs: int, x: ImputedRows, y: Tensor
    ) -> FittedModel:
        # Gradient-based learners take numbers: missing values are replaced by their expectation.
        learner = self._first_learner(likelihood, n_outputs, x.x)
        self._train(learner, x, y)
        return FittedModel(learner, torch.ones(x.x.shape[1], dtype=x.x.dtype))

    def _train(self, learner: Learner, rows: ImputedRows, y: Tensor) -> None:
        """Train the learner, and calibrate its noise on held-out rows."""
        x, n_distinct = rows.x, rows.n_distinct
        batch_size, epochs = self._batch_size(len(x)), self._n_epochs(len(x))

        def fit(learner: Learner, x: Tensor, y: Tensor) -> None:
            learner.fit(x, y, epochs=epochs, batch_size=batch_size, progress=self.verbose > 0)

        calibrate = getattr(self, "calibrate", False) and n_distinct >= MIN_CALIBRATION_ROWS
        if not (calibrate and learner.likelihood.traits.supports_calibration):
            fit(learner, x, y)
        elif n_distinct >= holdout.MANY_ROWS:
            parts = _with_copies(rows, *holdout.split(learner, n_distinct, n_distinct // 10))
            holdout.fit_and_calibrate(learner, x, y, parts, fit)
        else:
            # A quarter of the rows, but at most 20 unless a tenth is more. One copy is fitted to
            # the others: the five copies of ``Learner.fit(calibrate=True)`` take too long.
            n_held_out = max(n_distinct // 10, min(n_distinct // 4, 20))
            parts = _with_copies(rows, *holdout.split(learner, n_distinct, n_held_out))
            scale = holdout.noise_scale_by_refit(learner, x, y, parts, fit)
            fit(learner, x, y)
            learner.rescale_noise(scale)

    def _n_epochs(self, n_rows: int) -> int:
        epochs: int | None = as_python(self.epochs)
        if epochs is not None:
            return epochs
        steps_per_epoch = math.ceil(n_rows / self._batch_size(n_rows))
        return min(max(math.ceil(_DEFAULT_STEPS / steps_per_epoch), _MIN_EPOCHS), _MAX_EPOCHS)

    def _batch_size(self, n_rows: int) -> int:
        return min(_DEFAULT_BATCH_SIZE if self.batch_size is None else int(self.batch_size), n_rows)


def _with_copies(rows: ImputedRows, kept: Tensor, held_out: Tensor) -> tuple[Tensor, Tensor]:
    """Return all copies of the distinct training rows, and of those held out."""
    return rows.with_copies(kept), rows.with_copies(held_out)


def as_prior(prior: Any) -> Any:
    """Return a prior; a number is the standard deviation of a normal prior."""
    return priors.Normal(float(prior)) if isinstance(prior, Real) else prior
