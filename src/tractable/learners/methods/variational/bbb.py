"""Bayes by Backprop: a Gaussian posterior of the weights, by the gradient of the ELBO.

How it learns is in ``tractable.learners.methods.variational.method``, with the equations and the
sources.
"""

from __future__ import annotations

from typing import Any

import torch

from tractable.learners.learner import Learner
from tractable.learners.methods.gradient import GradientState
from tractable.learners.methods.variational.method import (
    BBBMethod,
)
from tractable.learners.network.rng import PREDICTION_SEED


class BayesByBackprop(Learner):
    """A learner of Gaussian weights, by gradients of the evidence lower bound.

    Args:
        net: any module.
        likelihood: observation model.
        prior: one of ``tractable.priors``, or a ``torch.distributions`` object; or the
            posterior of another fit, or its learner: weights start at its means, with at most
            its standard deviations and at most those of ``rho``.
        prior_scale: factor on the variances of such a posterior.
        reinit: names of modules that are not taken from a posterior: they are initialized again,
            with the prior ``Normal()``.
        n_train_samples: number of weight samples per training step.
        estimator: ``"weights"`` draws weights, ``"local"`` the outputs of linear and convolutional
            layers, with separate noise for each row, for a gradient with less noise.
        kl: ``"closed"`` form, ``"sampled"`` (eq. 9), or ``"auto"``: closed form if supported.
        kl_weight: weight of the divergence in each batch.  ``"uniform"``: rows of the batch over
            rows of an epoch; ``"blundell"``: ``2^(M-i) / (2^M - 1)`` in batch i of M; or a number.
        init: ``"published"``: means uniform in (-0.2, 0.2); ``"he"``: normal with variance
            2 / fan_in.  Offsets and scales of normalization layers keep their values.
        rho: range of the uniform distribution of the initial values of rho.
        lr: learning rate.
        optimizer: class of ``torch.optim``, its name, or a ``functools.partial`` of it.
        schedule: schedule of the learning rate: ``"constant"``, ``"cosine"``, or a class of
            ``torch.optim.lr_scheduler``.  Both are stepped once per epoch: with ``"cosine"`` epoch
            k of n, counted from 0, has the rate ``lr (1 + cos(pi k / n)) / 2``, so that a fit of
            one epoch has the rate ``lr`` throughout, and so have online updates.
        n_weight_samples: number of weight samples that a prediction averages over.
        device: device of the computation. Default: CPU.
        dtype: ``torch.float32`` or ``torch.float64``. Default: torch's default dtype.
        seed: seed of the random generator for initial weights, the order of rows and samples.

    Exact: the gradient, in expectation over draws.  Approximate: independent Gaussian weights,
    and a gradient and predictions by draws.
    """

    method_class = BBBMethod
    method: BBBMethod
    state: GradientState

    def divergence(self, n_samples: int = 1, generator: torch.Generator | None = None) -> float:
        """Return ``KL(q || prior)`` of all weights in nats, by sampling if not in closed form.

        Weights that were pruned are constants and add nothing.
        """
        with self.lock:
            return self.method.divergence(self.state, n_samples, generator)

    def elbo(self, X: Any, y: Any, *, n_samples: int = 100) -> float:
        """Return an unbiased estimate of the evidence lower bound of these data, in nats.

        Args:
            X: inputs.
            y: targets.
            n_samples: number of weight samples.
        """
        if n_samples < 1:
            raise ValueError(f"samples must be at least 1, got {n_samples}")
        x, targets = self.checks.data(X, y)
        with self.lock:
            z = self.method.outputs(
                self.state, x, batch_size=1024, n_weight_samples=n_samples
            ).values
            log_prob = self.state.likelihood.log_prob
            log_likelihood = sum(float(log_prob(targets, draw).sum()) for draw in z)
            generator = torch.Generator().manual_seed(self.seed + PREDICTION_SEED)
            return log_likelihood / n_samples - self.divergence(n_samples, generator)
