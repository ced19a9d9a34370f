"""Message from the value network to the policy network, eqs. (4) and (7).

The policy's output z ~ N(mu, v) is squashed to the action a = tanh(z), which is linearized:
``a ~ N(tanh mu, w)``, ``w = J^2 v``, ``J = 1 - tanh^2 mu``.  The value network gives the
derivative ``q' = dq/da ~ N(g, V)`` and its covariance with the action, ``C = h w``.  Observing
that the derivative is zero, with the sign of eq. (4) so that the action moves uphill, gives the
action's posterior, and the smoother's message to it is

    d_mu = E[sign q'] |h g| / V,   E[sign q'] = erf(g / sqrt(2 V))          d_var = -h^2 / V

in which w has canceled: nothing is divided by the variance of the action, which vanishes where
tanh saturates.  ``d_var`` is kept above ``-1/w``: covariances between branches are dropped in V,
so that C^2/V may exceed w, but an observation cannot remove more than the whole variance.

Eq. (4) as printed has sign(g), as if the sign of the derivative were known.  Once a task is
mastered, all actions are about equally good, g is much smaller than its standard deviation, and
its sign is random: the policy then drifts until it fails.  With the expected sign, such messages
vanish.

The message reaches z as ``J d_mu`` and ``J^2 d_var``.  Where tanh saturates, J vanishes and with it
every message, so that a saturated action would stay saturated.  To prevent that, every row also
observes that z is zero, with precision c (a penalty on saturation):

    d_z = J d_mu - c mu,   d_vz = J^2 d_var - c,   c = penalty u,   u = mean |E[sign q']|

with u, the *certainty*, averaged over the rows and actions of a batch.  Where the sign of the
derivative is unknown, the penalty vanishes, so that a mastered task is not unlearned.  The sum of
both messages is passed to the policy network as the equivalent observation of z, a Gaussian target
of mean ``mu - d_mu/d_var`` and variance ``-1/d_var - v``.

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

_LEAST = 1e-12  # messages of smaller precision are ignored


@dataclass(frozen=True)
class Advice:
    """Message from the value network to the policy for a batch of states.

    Attributes:
        target: observation of the policy's output that is equivalent to the message.
        slope: E[dq/da].
        slope_variance: var dq/da.
        curvature: cov(dq/da, a) / var a.
        certainty: mean of |E[sign dq/da]|, from 0 (both signs equally probable) to 1.
    """

    target: Gaussian
    slope: Tensor
    slope_variance: Tensor
    curvature: Tensor
    certainty: Tensor


def advise(
    value: TAGI, states: Tensor, mean: Tensor, variance: Tensor, saturation_penalty: float = 0.0
) -> Advice:
    """Return the message to the policy's outputs ``N(mean, variance)`` at these states.

    Args:
        value: value network from (state, action) to one value.
        states: states, taken as known exactly, ``[rows, states]``.
        mean: mean of the policy's outputs, before tanh, ``[rows, actions]``.
        variance: variance of the policy's outputs, ``[rows, actions]``.
        saturation_penalty: precision of the observation of zero at certainty 1.
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
    if saturation_penalty > 0:
        c = saturation_penalty * certainty
        d_mu, d_var = d_mu - c * mean, d_var - c
    target = observation(mean, variance, d_mu, d_var)
    return Advice(target, g, slope_variance, h, certainty)


def expected_sign(g: Tensor, variance: Tensor) -> Tensor:
    """Return E[sign q'] of a derivative ``N(g, variance)``."""
    variance = variance.clamp_min(torch.finfo(variance.dtype).tiny)
    return torch.erf(g / (2 * variance).sqrt())


def message(g: Tensor, variance: Tensor, h: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """Return the message to an action of variance ``w`` from a derivative ``N(g, variance)``.

    See eq. (4).
    """
    variance = variance.clamp_min(torch.finfo(variance.dtype).tiny)
    d_mu = expected_sign(g, variance) * (h * g).abs() / variance
    d_var = -torch.minimum(h * h / variance, 1 / w.clamp_min(torch.finfo(w.dtype).tiny))
    return d_mu, d_var


def observation(mean: Tensor, variance: Tensor, d_mu: Tensor, d_var: Tensor) -> Gaussian:
    """Return the Gaussian observation of ``N(mean, variance)`` that sends this message.

    Where a message carries no information, the observation has a very large variance.
    """
    precision = (-d_var).clamp_min(_LEAST)
    silent = -d_var < _LEAST
    target = torch.where(silent, mean, mean + d_mu / precision)
    noise = torch.where(silent, 1 / _LEAST, (1 / precision - variance).clamp_min(0))
    return Gaussian.wrap(target, noise)
