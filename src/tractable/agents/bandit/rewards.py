"""Rewards that a learner predicts for each action: posterior mean, or under posterior draws.

Every function takes one row of inputs per action and returns one number per action.  The expected
reward given an output z is the mean of the likelihood at z.  Normal rewards and rewards of zero or
one (``Bernoulli``) are therefore treated in the same way.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tractable.learners import Learner
from tractable.likelihoods import Normal


def mean_rewards(learner: Learner, x: Tensor) -> Tensor:
    """Return the expected reward of each row, averaged over the posterior."""
    with torch.no_grad():
        return learner.outputs(x, batch_size=None).predictive().mean.reshape(len(x))


def weight_draws(learner: Learner, x: Tensor, n_samples: int, generator: torch.Generator) -> Tensor:
    """Return expected rewards under ``n_samples`` draws of the weights, ``[n_samples, rows]``.

    All rows of ``x`` share the weights of a draw.  The learner's method defines what a draw is
    (``Learner.sample``).
    """
    with torch.no_grad():
        outputs = learner.sample(x, n_samples, generator)
        return _rewards(learner, outputs.flatten(0, 1)).reshape(n_samples, len(x))


def output_draws(learner: Learner, x: Tensor, n_samples: int, generator: torch.Generator) -> Tensor:
    """Return expected rewards with each row's output drawn from its own Gaussian, by moments.

    Approximate: the outputs of two rows are drawn independently, although they share weights, so
    that differences between actions have more variance than under the posterior.
    """
    with torch.no_grad():
        mean, variance = learner.outputs(x, batch_size=None).moments()
        shape = (n_samples, *mean.shape)
        eps = torch.randn(shape, generator=generator, dtype=mean.dtype).to(mean.device)
        z = mean + variance.sqrt() * eps
        return _rewards(learner, z.flatten(0, 1)).reshape(n_samples, len(x))


def _rewards(learner: Learner, z: Tensor) -> Tensor:
    if isinstance(learner.state.likelihood, Normal):  # the common case, whose mean is the output
        return z.reshape(len(z))
    return learner.state.likelihood.predictive(z, torch.zeros_like(z)).mean.reshape(len(z))
