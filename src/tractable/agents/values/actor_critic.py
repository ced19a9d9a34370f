"""Actor-critic agent whose advantages have a known variance.

The critic predicts the values of states.  The advantage of a step is its target
(``tractable.agents.values.targets``) minus that value; it is a Gaussian, like both (E 19.38 to
19.40).  An advantage of unknown sign should not change the policy: with the prior ``N(0, s^2)`` for
all advantages, the posterior mean of an advantage A measured with variance v is
``A s^2 / (s^2 + v)``.

Approximate: the values of a state and of the next state are treated as independent.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tractable.agents.control.horizon import Horizon
from tractable.agents.values.critic import MakeLearner
from tractable.agents.values.policy_agent import PolicyAgent, default_critic
from tractable.agents.values.targets import mixed_targets
from tractable.gaussian import Gaussian

Array = NDArray[np.float64]


class ActorCritic(PolicyAgent):
    """Agent with a policy trained by gradients and a critic that is any learner.

    Args:
        env: a Gymnasium environment with ``Discrete`` actions, or its name.
        net: network of the logits of all actions; default: tanh layers of
            ``hidden_layer_sizes`` units.
        critic: function from a network, a likelihood and ``seed=`` to the learner of state values;
            default: TAGI.
        n_steps: number of steps between two updates.
        batch_size: rows per gradient step of the policy.
        epochs: number of passes of the policy over each horizon.
        clip_range: maximum relative change of an action's probability in one update.
        ent_coef: weight of the policy's entropy in the objective, which keeps it exploring.
        weigh_by_confidence: whether to shrink advantages according to their variance.
        gae_lambda: weight of longer returns (lambda).
        hidden_layer_sizes: units of the hidden layers of both networks.
        lr: learning rate of the policy.
        gamma: discount factor.
        target_std: standard deviation of targets around a state's value, relative to the standard
            deviation of all returns.
        seed: seed of the networks, the actions and the episodes.
    """

    def __init__(
        self,
        env: Any,
        *,
        net: nn.Module | None = None,
        critic: MakeLearner | None = None,
        n_steps: int = 256,
        batch_size: int = 64,
        epochs: int = 6,
        clip_range: float = 0.2,
        ent_coef: float = 0.0,
        weigh_by_confidence: bool = True,
        gae_lambda: float = 0.95,
        hidden_layer_sizes: tuple[int, ...] = (64, 64),
        lr: float = 1e-3,
        gamma: float = 0.99,
        target_std: float = 0.3,
        seed: int = 0,
    ) -> None:
        if n_steps < 2:
            raise ValueError(
                f"n_steps must be at least 2, to standardize the advantages; got {n_steps}"
            )
        for name, value in (("batch_size", batch_size), ("epochs", epochs)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if not clip_range > 0:
            raise ValueError(f"clip_range must be positive, got {clip_range}")
        if not 0 <= gae_lambda <= 1:
            raise ValueError(f"gae_lambda must lie between 0 and 1, got {gae_lambda}")
        self.n_steps, self.batch_size, self.epochs = n_steps, batch_size, epochs
        self.clip_range, self.ent_coef = clip_range, ent_coef
        self.weigh_by_confidence, self.gae_lambda = weigh_by_confidence, gae_lambda
        super().__init__(
            env, net=net, critic=critic or default_critic,
            hidden_layer_sizes=hidden_layer_sizes, lr=lr, gamma=gamma, seed=seed,
            target_std=target_std,
        )  # fmt: skip

    def enough(self, steps: int, finished: int) -> bool:
        """Return whether a whole horizon has been collected."""
        return steps >= self.n_steps

    def advantages(self, seen: Horizon) -> tuple[Gaussian, Gaussian]:
        """Return the advantage of each step and its target, in units of the scaled rewards.

        Args:
            seen: steps in temporal order; the last is treated as truncated.
        """
        assert self.critic is not None
        values = self.critic.values()
        here, next_ = (values(self.inputs(part)) for part in (seen.observations, seen.reached))
        (mean, variance), ahead = _column(here), _column(next_)
        ends = seen.ends.copy()
        ends[-1] = not seen.terminal[-1]
        target, spread = mixed_targets(
            self.normalizer.reward(seen.rewards), *ahead, seen.terminal, ends,
            gamma=self.gamma, td_lambda=self.gae_lambda,
        )  # fmt: skip
        return _gaussian(target - mean, spread + variance), _gaussian(target, spread)

    def improve(self, seen: Horizon) -> dict[str, float]:
        """Update the policy with the advantages, then train the critic on the targets."""
        assert self.critic is not None
        advantage, target = self.advantages(seen)
        pull = advantage.loc
        if self.weigh_by_confidence:
            size = (pull.var() - advantage.variance.mean()).clamp_min(0.1 * pull.var())
            pull = pull * size / (size + advantage.variance)
        pull = (pull - pull.mean()) / pull.std().clamp_min(1e-8)
        rows = self.actor.tensor(self.inputs(seen.observations))
        self._climb(rows, torch.from_numpy(seen.actions[:, 0].astype(np.int64)), pull)
        self.critic.learn(
            self.inputs(seen.observations), np.zeros(len(pull), dtype=np.int64),
            target.loc.numpy(), target.variance.numpy(), self.rng.permutation(len(pull)), 16, None,
        )  # fmt: skip
        known = advantage.variance.mean().sqrt()
        return {"advantage": float(advantage.loc.std()), "advantage_std": float(known)}

    def _climb(self, rows: torch.Tensor, actions: torch.Tensor, pull: torch.Tensor) -> None:
        """Update the policy for several epochs, with clipped probability ratios.

        See Schulman et al. (2017).
        """
        taken = actions.unsqueeze(1)
        with torch.no_grad():
            before = self.actor.log_probabilities(rows).gather(1, taken).squeeze(1)
        for _ in range(self.epochs):
            order = torch.from_numpy(self.rng.permutation(len(rows)))
            for chosen in order.split(self.batch_size):
                chances = self.actor.log_probabilities(rows[chosen])
                mine = chances.gather(1, taken[chosen]).squeeze(1)
                odds, force = (mine - before[chosen]).exp(), pull[chosen].to(mine.dtype)
                limited = odds.clamp(1 - self.clip_range, 1 + self.clip_range)
                goal = torch.minimum(odds * force, limited * force).mean()
                goal = goal - self.ent_coef * (chances.exp() * chances).sum(1).mean()
                parts = torch.autograd.grad(goal, list(self.actor.net.parameters()))
                flat = torch.cat([part.reshape(-1) for part in parts])
                self.actor.climb(flat * (0.5 / flat.norm()).clamp(max=1.0))

    def options(self) -> dict[str, Any]:
        """Return the constructor arguments, except environment and networks, as JSON values."""
        names = (
            "n_steps",
            "batch_size",
            "epochs",
            "clip_range",
            "ent_coef",
            "weigh_by_confidence",
            "gae_lambda",
            "lr",
        )
        own = {name: getattr(self, name) for name in names}
        return {
            **own, "hidden_layer_sizes": list(self.hidden_layer_sizes),
            "gamma": self.gamma, "target_std": self.target_std,
            "seed": self.seed,
        }  # fmt: skip


def _column(found: tuple[Any, Any]) -> tuple[Array, Array]:
    """Return mean and variance of the only output."""
    return found[0][:, 0].astype(np.float64), found[1][:, 0].astype(np.float64)


def _gaussian(mean: Array, variance: Array) -> Gaussian:
    return Gaussian.wrap(torch.from_numpy(mean), torch.from_numpy(variance))
