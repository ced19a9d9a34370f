"""What a learner expects of each action: on average, or under one draw of its weights.

Every function takes one row of inputs per action and gives one number per action.  The reward that
is expected given an output z is the mean of the likelihood at z, so Normal rewards and rewards of
zero or one (``Bernoulli``) are treated alike.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tractable.learners import Learner
from tractable.likelihoods import Normal


def mean_rewards(learner: Learner, x: Tensor) -> Tensor:
    """Expected reward of each row, over everything that the learner is unsure of."""
    with torch.no_grad():
        return learner.outputs(x, batch_size=None).predictive().mean.reshape(len(x))


def weight_draws(learner: Learner, x: Tensor, samples: int, generator: torch.Generator) -> Tensor:
    """Expected rewards under ``samples`` draws of the weights, one row of the result each.

    Within a draw all rows of ``x`` see the same weights.

    What a draw is, the learner's method says (``Learner.sample``).
    """
    with torch.no_grad():
        outputs = learner.sample(x, samples, generator)
        return _rewards(learner, outputs.flatten(0, 1)).reshape(samples, len(x))


def output_draws(learner: Learner, x: Tensor, samples: int, generator: torch.Generator) -> Tensor:
    """The same with each row's output drawn from its own Gaussian, by the moments of the network.

    Approximate: the outputs of two rows are drawn independently, although they share weights, so
    that actions differ more than the posterior says.
    """
    with torch.no_grad():
        mean, variance = learner.outputs(x, batch_size=None).moments()
        shape = (samples, *mean.shape)
        eps = torch.randn(shape, generator=generator, dtype=mean.dtype).to(mean.device)
        z = mean + variance.sqrt() * eps
        return _rewards(learner, z.flatten(0, 1)).reshape(samples, len(x))


def _rewards(learner: Learner, z: Tensor) -> Tensor:
    if isinstance(learner.state.likelihood, Normal):  # the common case, whose mean is the output
        return z.reshape(len(z))
    return learner.state.likelihood.predictive(z, torch.zeros_like(z)).mean.reshape(len(z))
