"""What the value network says about an action: eqs. (4) and (7), as a message to the policy.

The policy's output z ~ N(mu, v) is squashed to the action a = tanh(z), which is linearised:
``a ~ N(tanh mu, w)``, ``w = J^2 v``, ``J = 1 - tanh^2 mu``.  The value network gives the
derivative ``q' = dq/da ~ N(g, V)`` and its covariance with the action, ``C = h w``.  Observing
that the derivative is zero, with the sign of eq. (4) so that the action moves uphill, gives the
action's posterior, and the smoother's message to it is

    d_mu = E[sign q'] |h g| / V,   E[sign q'] = erf(g / sqrt(2 V))          d_var = -h^2 / V

in which w has cancelled: nothing is divided by the variance of the action, which vanishes where
tanh saturates.  ``d_var`` is held above ``-1/w``: covariances between branches are dropped in V,
so that C^2/V may exceed w, and no observation takes more than all of a variance.

Eq. (4) as printed has sign(g), as if it were known which way is up.  Once a task is mastered all
actions are about equally good, g is far smaller than its deviation and its sign is chance: the
policy then drifts until it fails.  With the expected sign such messages fade by themselves.

The message reaches z as ``J d_mu`` and ``J^2 d_var``.  Where tanh saturates J vanishes and with it
every message: what is in a corner stays there.  A *pull* against that is the observation that z is
zero, of precision c, in every row:

    d_z = J d_mu - c mu,   d_vz = J^2 d_var - c,   c = pull u,   u = mean |E[sign q']|

with u, the *certainty*, over the rows and actions of a batch: where it is not known which way is
up, nothing pulls, so that a mastered task is not unlearnt.  The sum of both messages is handed to
the policy network as the equivalent observation of z, a Gaussian target of mean
``mu - d_mu/d_var`` and variance ``-1/d_var - v``.

Source: Nguyen & Goulet, "Analytically tractable hidden-states inference in Bayesian neural
networks", sections 4 and 5.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tractable.gaussian import Gaussian
from tractable.infer.derivatives import input_slopes
from tractable.learners import TAGI

_LEAST = 1e-12  # information below which a message says nothing


@dataclass(frozen=True)
class Advice:
    """What a batch of states hears about its actions.

    Attributes:
        target: the observation of the policy's output that carries the message.
        slope: E[dq/da].
        slope_variance: var dq/da.
        curvature: cov(dq/da, a) / var a.
        certainty: mean of |E[sign dq/da]|, from 0 (either way may be up) to 1.
    """

    target: Gaussian
    slope: Tensor
    slope_variance: Tensor
    curvature: Tensor
    certainty: Tensor


def advise(
    value: TAGI, states: Tensor, mean: Tensor, variance: Tensor, pull: float = 0.0
) -> Advice:
    """How the policy's outputs ``N(mean, variance)`` at these states should change.

    Args:
        value: network of (state, action) to one value.
        states: known states, ``[rows, states]``.
        mean: of the policy's outputs, before tanh, ``[rows, actions]``.
        variance: of the same.
        pull: precision of the pull to zero where it is certain which way is up.
    """
    action = torch.tanh(mean)
    jacobian = 1 - action * action
    w = jacobian * jacobian * variance
    joint = Gaussian.wrap(
        torch.cat([states, action], 1), torch.cat([torch.zeros_like(states), w], 1)
    )
    g, slope_variance, h = (part[:, states.shape[1] :] for part in input_slopes(value, joint))
    d_mu, d_var = message(g, slope_variance, h, w)
    d_mu, d_var = jacobian * d_mu, jacobian**2 * d_var
    certainty = expected_sign(g, slope_variance).abs().mean()
    if pull > 0:
        c = pull * certainty
        d_mu, d_var = d_mu - c * mean, d_var - c
    target = observation(mean, variance, d_mu, d_var)
    return Advice(target, g, slope_variance, h, certainty)


def expected_sign(g: Tensor, variance: Tensor) -> Tensor:
    """E[sign q'] of a derivative ``N(g, variance)``."""
    variance = variance.clamp_min(torch.finfo(variance.dtype).tiny)
    return torch.erf(g / (2 * variance).sqrt())


def message(g: Tensor, variance: Tensor, h: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """Message to an action of variance ``w`` from a derivative ``N(g, variance)``, eq. (4)."""
    variance = variance.clamp_min(torch.finfo(variance.dtype).tiny)
    d_mu = expected_sign(g, variance) * (h * g).abs() / variance
    d_var = -torch.minimum(h * h / variance, 1 / w.clamp_min(torch.finfo(w.dtype).tiny))
    return d_mu, d_var


def observation(mean: Tensor, variance: Tensor, d_mu: Tensor, d_var: Tensor) -> Gaussian:
    """The Gaussian observation of ``N(mean, variance)`` that sends this message.

    Where a message carries no information the observation has a huge variance.
    """
    precision = (-d_var).clamp_min(_LEAST)
    silent = -d_var < _LEAST
    target = torch.where(silent, mean, mean + d_mu / precision)
    noise = torch.where(silent, 1 / _LEAST, (1 / precision - variance).clamp_min(0))
    return Gaussian.wrap(target, noise)
