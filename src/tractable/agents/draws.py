"""What a learner expects of each action: on average, or under one draw of its weights.

Every function takes one row of inputs per action and gives one number per action.  The reward that
is expected given an output z is the mean of the likelihood at z, so Normal rewards and rewards of
zero or one (``Bernoulli``) are treated alike.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tractable.learners import TAGI, Backprop, BayesByBackprop, Ensemble, Learner
from tractable.likelihoods import Normal


def mean_rewards(learner: Learner, x: Tensor) -> Tensor:
    """Expected reward of each row, over everything that the learner is unsure of."""
    with torch.no_grad():
        if isinstance(learner, Backprop) and not learner.mc_dropout:
            (weights,) = learner._weights(1)
            return _rewards(learner, learner._evaluate(weights, x))
        return learner._predictive(learner._all_outputs(x, len(x))).mean.reshape(len(x))


def weight_draws(learner: Learner, x: Tensor, samples: int, generator: torch.Generator) -> Tensor:
    """Expected rewards under ``samples`` draws of the weights, one row of the result each.

    Within a draw all rows of ``x`` see the same weights.

    Exact: for the learner's own posterior, which is a product of Gaussians.  A draw from an
    ensemble is one of its members (and one draw of that member's weights); a draw from a
    ``Backprop`` learner is its one set of weights, with fresh dropout masks under ``mc_dropout``.
    """
    with torch.no_grad():
        if isinstance(learner, Ensemble):
            chosen = torch.randint(learner.n, (samples,), generator=generator).tolist()
            parts = [weight_draws(learner.members[i], x, 1, generator) for i in chosen]
            return torch.cat(parts)
        if isinstance(learner, TAGI | BayesByBackprop):
            outputs = _from_posterior(learner, x, samples, generator)
        elif isinstance(learner, Backprop):
            outputs = _from_point(learner, x, samples, generator)
        else:
            raise TypeError(
                f"{type(learner).__name__} does not say how its weights are drawn: Thompson takes "
                "TAGI, BayesByBackprop, Backprop and Ensemble"
            )
        return _rewards(learner, outputs).reshape(samples, len(x))


def output_draws(learner: Learner, x: Tensor, samples: int, generator: torch.Generator) -> Tensor:
    """The same with each row's output drawn from its own Gaussian, by the moments of the network.

    Approximate: the outputs of two rows are drawn independently, although they share weights, so
    that actions differ more than the posterior says.
    """
    with torch.no_grad():
        mean, variance = learner._moments(learner._all_outputs(x, len(x)))
        shape = (samples, *mean.shape)
        eps = torch.randn(shape, generator=generator, dtype=mean.dtype).to(mean.device)
        z = mean + variance.sqrt() * eps
        return _rewards(learner, z.flatten(0, 1)).reshape(samples, len(x))


def _from_posterior(
    learner: TAGI | BayesByBackprop, x: Tensor, samples: int, generator: torch.Generator
) -> Tensor:
    posterior = learner.posterior
    kernel = learner._native if isinstance(learner, TAGI) else None
    if kernel is not None and kernel.takes(x) and kernel.suits_draws(len(x)):
        return kernel.draws(posterior, x, samples, generator).flatten(0, 1)
    std = posterior.variance.sqrt()
    if learner.net.training:
        learner.net.eval()
    outputs = []
    for _ in range(samples):
        eps = torch.randn(std.shape, generator=generator, dtype=std.dtype).to(std.device)
        weights = posterior.split(torch.addcmul(posterior.loc, std, eps))
        named = dict(zip(posterior.shapes, weights, strict=True))
        outputs.append(learner._call({**named, **learner.buffers}, x))
    return torch.cat(outputs)


def _from_point(learner: Backprop, x: Tensor, samples: int, generator: torch.Generator) -> Tensor:
    (weights,) = learner._weights(1)
    with learner._seeded_dropout(learner.mc_dropout, generator):
        if not learner.mc_dropout:
            return torch.cat([learner._evaluate(weights, x)] * samples)
        return torch.cat([learner._evaluate(weights, x) for _ in range(samples)])


def _rewards(learner: Learner, z: Tensor) -> Tensor:
    if isinstance(learner.likelihood, Normal):  # the common case, whose mean is the output
        return z.reshape(len(z))
    return learner.likelihood.predictive(z, torch.zeros_like(z)).mean.reshape(len(z))
