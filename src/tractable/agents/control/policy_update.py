"""Update of the policy of ``TAGIControl``: message from the value network, and regularization.

*Message*, eqs. (4) and (7).  The policy's output z ~ N(mu, v) is squashed to the action
a = tanh(z), which is linearized: ``a ~ N(tanh mu, w)``, ``w = J^2 v``, ``J = 1 - tanh^2 mu``.  The
value network gives the derivative ``q' = dq/da ~ N(g, V)`` and its covariance with the action,
``C = h w``.  Observing that the derivative is zero, with the sign of eq. (4) so that the action
moves uphill, gives the action's posterior, and the smoother's message to it is

    d_mu = E[sign q'] |h g| / V,   E[sign q'] = erf(g / sqrt(2 V))          d_var = -h^2 / V

in which w has canceled: nothing is divided by the variance of the action, which vanishes where
tanh saturates.  ``d_var`` is kept above ``-1/w``: covariances between branches are dropped in V,
so that C^2/V may exceed w, but an observation cannot remove more than the whole variance.

Eq. (4) as printed has sign(g), as if the sign of the derivative were known.  Once a task is
mastered, all actions are about equally good, g is much smaller than its standard deviation, and
its sign is random: the policy then drifts until it fails.  With the expected sign, such messages
vanish.

*Saturation penalty.*  The message reaches z as ``J d_mu`` and ``J^2 d_var``.  Where tanh saturates,
J vanishes and with it every message, so that a saturated action would stay saturated.  To prevent
that, every row also observes that z is zero, with precision c:

    d_z = J d_mu - c mu,   d_vz = J^2 d_var - c,   c = penalty u,   u = mean |E[sign q']|

with u, the *certainty*, averaged over the rows and actions of a batch.  Where the sign of the
derivative is unknown, the penalty vanishes, so that a mastered task is not unlearned.  The sum of
both messages is passed to the policy network as the equivalent observation of z, a Gaussian target
of mean ``mu - d_mu/d_var`` and variance ``-1/d_var - v``.

*Forgetting.*  The policy receives messages as long as the value network changes, and each of them
reduces the variance of the policy's weights; after several hundred thousand steps they no longer
move.  Therefore a share ``f = forget_rate * u`` of the information gained since the prior is
discarded after each update,

    1/v <- 1/v - f (1/v - 1/v0),

and the means are unchanged.  u is the mean certainty of the update's messages: where the sign of
the derivative is unknown, nothing is forgotten.

*Limited step.*  The messages of all rows of an update depend on the same uncertain value network,
but they are added as if they were independent.  A step can therefore be much longer than the
information supports.  With the policy's outputs ``N(mu, v)`` before the update and their means
``mu'`` after it, the length of the step is

    K = mean over the states of  sum over actions (mu' - mu)^2 / (2 v)

(the Kullback-Leibler divergence of the two policies if the variance stayed the same).  If K exceeds
``max_kl``, the means of the weights are set to ``old + sqrt(max_kl / K) (new - old)``.  To first
order, the outputs have then moved by the limit; the variances are not changed back.

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
from tractable.learners.methods.tagi.batch_rule import forget

_MIN_PRECISION = 1e-12  # messages of smaller precision are ignored


# --- message -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PolicyTarget:
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


def policy_target(
    value: TAGI, states: Tensor, mean: Tensor, variance: Tensor, saturation_penalty: float = 0.0
) -> PolicyTarget:
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
    target = equivalent_observation(mean, variance, d_mu, d_var)
    return PolicyTarget(target, g, slope_variance, h, certainty)


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


def equivalent_observation(mean: Tensor, variance: Tensor, d_mu: Tensor, d_var: Tensor) -> Gaussian:
    """Return the Gaussian observation of ``N(mean, variance)`` that sends this message.

    Where a message carries no information, the observation has a very large variance.
    """
    precision = (-d_var).clamp_min(_MIN_PRECISION)
    is_empty = -d_var < _MIN_PRECISION
    target = torch.where(is_empty, mean, mean + d_mu / precision)
    noise = torch.where(is_empty, 1 / _MIN_PRECISION, (1 / precision - variance).clamp_min(0))
    return Gaussian.wrap(target, noise)


# --- metrics -------------------------------------------------------------------------------------

METRICS = ("slope", "slope_variance", "output", "output_variance", "action", "disagree")
"""Names of the entries that ``policy_metrics`` returns."""


def policy_metrics(mean: Tensor, variance: Tensor, target: PolicyTarget) -> Tensor:
    """Return the metrics of a batch, in the order of ``METRICS``.

    They are |dq/da|, its variance, the policy's outputs and their variance, |tanh|, and the
    fraction of actions for which eqs. (3) and (4) have opposite directions.
    """
    agree = target.curvature < 0  # eq. (3) moves by -h g, eq. (4) by +|h g| along the sign of g
    return torch.stack(
        [
            target.slope.abs().mean(),
            target.slope_variance.mean(),
            mean.abs().mean(),
            variance.mean(),
            torch.tanh(mean).abs().mean(),
            1 - agree.float().mean(),
        ]
    )


# --- regularization ------------------------------------------------------------------------------


def decay_precision(policy: TAGI, share: float) -> None:
    """Remove a share of the information gained since the prior from the policy's weights."""
    if share > 0:
        posterior = policy.posterior
        forget(posterior.variance, posterior.flat_prior_variance, share)


@dataclass(frozen=True)
class PolicySnapshot:
    """State of a policy before an update.

    Attributes:
        states: states of the update.
        weights: means of the weights, flat.
        mean: mean of the outputs at these states.
        variance: variance of the outputs at these states.
    """

    states: Tensor
    weights: Tensor
    mean: Tensor
    variance: Tensor

    @classmethod
    def from_policy(cls, policy: TAGI, states: Tensor) -> PolicySnapshot:
        """Return the current state of a policy."""
        mean, variance = policy.outputs(states, batch_size=None).moments()
        return cls(states, policy.posterior.loc.clone(), mean, variance)

    def kl(self, policy: TAGI) -> float:
        """Return the length K of the policy's step since the snapshot."""
        mean, _ = policy.outputs(self.states, batch_size=None).moments()
        return float(((mean - self.mean) ** 2 / (2 * self.variance)).sum(1).mean())

    def limit_kl(self, policy: TAGI, max_kl: float) -> float:
        """Shorten the step to length ``max_kl`` if it is longer; return its length before that."""
        kl = self.kl(policy)
        if kl > max_kl:
            loc = policy.posterior.loc
            loc.copy_(self.weights.lerp(loc, (max_kl / kl) ** 0.5))
        return kl
