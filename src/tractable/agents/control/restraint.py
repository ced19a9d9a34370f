"""Regularization of the policy: forgetting, and a limit on the length of an update.

Both are applied to the policy after a horizon, if the settings enable them.

*Forgetting.*  The policy receives messages as long as the value network changes, and each of them
reduces the variance of the policy's weights; after several hundred thousand steps they no longer
move.  Therefore a share ``f = forget_rate * u`` of the information gained since the prior is
discarded after each horizon,

    1/v <- 1/v - f (1/v - 1/v0),

and the means are unchanged.  u is the certainty of the horizon's messages (see
``tractable.agents.control.advice``): where the sign of the derivative is unknown, nothing is
forgotten.

*Limited step.*  The messages of all rows of a horizon depend on the same uncertain value network,
but they are added as if they were independent.  A step can therefore be much longer than the
information supports.  With the policy's outputs ``N(mu, v)`` before the horizon and their means
``mu'`` after it, the length of the step is

    K = mean over the horizon's states of  sum over actions (mu' - mu)^2 / (2 v)

(the Kullback-Leibler divergence of the two policies if the variance stayed the same).  If K exceeds
``max_kl``, the means of the weights are set to ``old + sqrt(max_kl / K) (new - old)``.  To
first order, the outputs have then moved by the limit; the variances are not changed back.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from tractable.learners import TAGI
from tractable.learners.methods.tagi.batch_rule import forget


def forget_some(policy: TAGI, share: float) -> None:
    """Remove a share of the information gained since the prior from the policy's weights."""
    if share > 0:
        posterior = policy.posterior
        forget(posterior.variance, posterior.flat_prior_variance, share)


@dataclass(frozen=True)
class Before:
    """State of a policy at the beginning of a horizon.

    Attributes:
        states: states of the horizon.
        weights: means of the weights, flat.
        mean: mean of the outputs at these states.
        variance: variance of the outputs at these states.
    """

    states: Tensor
    weights: Tensor
    mean: Tensor
    variance: Tensor

    @classmethod
    def of(cls, policy: TAGI, states: Tensor) -> Before:
        """Return the current state of a policy."""
        mean, variance = policy.outputs(states, batch_size=None).moments()
        return cls(states, policy.posterior.loc.clone(), mean, variance)

    def step(self, policy: TAGI) -> float:
        """Return the length K of the policy's step since the beginning of the horizon."""
        mean, _ = policy.outputs(self.states, batch_size=None).moments()
        return float(((mean - self.mean) ** 2 / (2 * self.variance)).sum(1).mean())

    def limit(self, policy: TAGI, most: float) -> float:
        """Shorten the step to length ``most`` if it is longer; return its length K before that."""
        step = self.step(policy)
        if step > most:
            loc = policy.posterior.loc
            loc.copy_(self.weights.lerp(loc, (most / step) ** 0.5))
        return step
