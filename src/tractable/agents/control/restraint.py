"""What keeps a policy able to learn, and from learning too much at once.

Two things happen to the policy after a horizon, if the settings ask for them.

*Forgetting.*  Messages keep coming while the value network changes, and every one of them makes
the policy's weights surer; after some hundred thousand steps they no longer move.  So a share
``f = forgetting * u`` of what they know is forgotten after each horizon,

    1/v <- 1/v - f (1/v - 1/v0),

with the means left where they are.  u is the certainty of the horizon's advice (see
``tractable.agents.control.advice``): where it is not known which way is up nothing is forgotten.

*A limited step.*  The rows of a horizon all ask one uncertain value network, and their messages are
added up as if each had asked its own, so that a step can be far longer than what is known
supports.  With the policy's outputs ``N(mu, v)`` before the horizon and their means ``mu'`` after,
its length is

    K = mean over the horizon's states of  sum over actions (mu' - mu)^2 / (2 v)

(the Kullback-Leibler divergence of the two policies if the variance stayed).  If K exceeds
``max_step``, the means of the weights go back to ``old + sqrt(max_step / K) (new - old)``.  To
first order the outputs then moved by the limit; the variances keep what was learnt.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from tractable.learners import TAGI
from tractable.learners.batch_rule import forget


def forget_some(policy: TAGI, share: float) -> None:
    """Take this share of what was learnt from the precision of the policy's weights."""
    if share > 0:
        posterior = policy.posterior
        forget(posterior.variance, posterior.flat_prior_variance, share)


@dataclass(frozen=True)
class Before:
    """A policy as it was when a horizon began.

    Attributes:
        states: of the horizon.
        weights: means of the weights, flat.
        mean: of the outputs at these states.
        variance: of the same.
    """

    states: Tensor
    weights: Tensor
    mean: Tensor
    variance: Tensor

    @classmethod
    def of(cls, policy: TAGI, states: Tensor) -> Before:
        """The policy as it is now."""
        mean, variance = policy.outputs(states, batch_size=None).moments()
        return cls(states, policy.posterior.loc.clone(), mean, variance)

    def step(self, policy: TAGI) -> float:
        """How far the policy has moved since: K."""
        mean, _ = policy.outputs(self.states, batch_size=None).moments()
        return float(((mean - self.mean) ** 2 / (2 * self.variance)).sum(1).mean())

    def limit(self, policy: TAGI, most: float) -> float:
        """Take back what exceeds the longest step; K as it was proposed."""
        step = self.step(policy)
        if step > most:
            loc = policy.posterior.loc
            loc.copy_(self.weights.lerp(loc, (most / step) ** 0.5))
        return step
