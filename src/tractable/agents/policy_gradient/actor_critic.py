"""Actor-critic agent whose advantages have a known variance.

The critic predicts the values of states.  The advantage of a step is its lambda-return
(``tractable.agents.returns``) minus that value; it is a Gaussian, like both (E 19.38 to 19.40).  An
advantage of unknown sign should not change the policy: with the prior ``N(0, s^2)`` for all
advantages, the posterior mean of an advantage A measured with variance v is ``A s^2 / (s^2 + v)``.

Approximate: the values of a state and of the next state are treated as independent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from typing_extensions import override

from tractable.agents.base import Metrics
from tractable.agents.buffers import RolloutBuffer
from tractable.agents.critic import LearnerFactory
from tractable.agents.policy_gradient.actor import PolicyAgent
from tractable.agents.returns import lambda_returns
from tractable.agents.settings_validation import (
    COUNT,
    LAYER_SIZES,
    POSITIVE,
    SHARE,
    Domain,
    check_domains,
)
from tractable.gaussian import Gaussian

Array = NDArray[np.float64]

_MAX_GRADIENT_NORM = 0.5  # as in Stable-Baselines3's PPO


@dataclass(frozen=True)
class ActorCriticSettings:
    """Settings of ``ActorCritic``.

    Attributes:
        n_steps: number of environment steps between two updates.
        batch_size: rows per gradient step of the policy.
        epochs: number of passes of the policy over the collected steps.
        clip_range: maximum relative change of an action's probability in one update.
        ent_coef: weight of the policy's entropy in the objective, which keeps it exploring.
        weigh_by_confidence: whether to shrink advantages according to their variance.
        gae_lambda: weight of longer returns (lambda).
        hidden_layer_sizes: units of the hidden layers of both networks.
        lr: learning rate of the policy.
        gamma: discount factor.
        target_std: standard deviation of targets around a state's value, relative to the standard
            deviation of all returns.
    """

    n_steps: int = 256
    batch_size: int = 64
    epochs: int = 6
    clip_range: float = 0.2
    ent_coef: float = 0.0
    weigh_by_confidence: bool = True
    gae_lambda: float = 0.95
    hidden_layer_sizes: tuple[int, ...] = (64, 64)
    lr: float = 1e-3
    gamma: float = 0.99
    target_std: float = 0.3

    def __post_init__(self) -> None:
        """Raise if a setting is outside its domain."""
        check_domains(self, _DOMAINS)


_DOMAINS: dict[Domain, tuple[str, ...]] = {
    ("be at least 2, to standardize the advantages", lambda value: value >= 2): ("n_steps",),
    COUNT: ("batch_size", "epochs"),
    LAYER_SIZES: ("hidden_layer_sizes",),
    POSITIVE: ("clip_range", "lr", "target_std"),
    SHARE: ("gamma", "gae_lambda"),
}


class ActorCritic(PolicyAgent):
    """Agent with a policy trained by gradients and a critic that is any learner.

    Args:
        env: a Gymnasium environment with ``Discrete`` actions, or its name.
        net: network of the logits of all actions; default: tanh layers of
            ``hidden_layer_sizes`` units.
        critic: class of learners of state values, or its name, or any function from a network, a
            likelihood and ``seed=`` to a learner; default: TAGI, which learns each target once.
        critic_kwargs: further arguments of the critic.
        seed: seed of the networks, the actions and the episodes.
        **settings: see ``ActorCriticSettings``.
    """

    settings_class = ActorCriticSettings
    settings: ActorCriticSettings

    def __init__(
        self,
        env: Any,
        *,
        net: nn.Module | None = None,
        critic: LearnerFactory | str | None = None,
        critic_kwargs: dict[str, Any] | None = None,
        seed: int = 0,
        **settings: Any,
    ) -> None:
        super().__init__(
            env, ActorCriticSettings(**settings), net=net, has_critic=True, critic=critic,
            critic_kwargs=critic_kwargs, seed=seed,
        )  # fmt: skip

    @override
    def _rollout_is_complete(self, n_steps: int, n_episodes: int) -> bool:
        return n_steps >= self.settings.n_steps

    def advantages(self, rollout: RolloutBuffer) -> tuple[Gaussian, Gaussian]:
        """Return the advantage of each step and its target, in units of the scaled rewards.

        Args:
            rollout: steps in temporal order; the last is treated as truncated.
        """
        mean, variance = self._values(rollout.observations)
        target, target_variance = lambda_returns(
            self.normalizer.reward(rollout.rewards), *self._values(rollout.next_observations),
            rollout.terminated, rollout.segment_ends(),
            gamma=self.settings.gamma, td_lambda=self.settings.gae_lambda,
        )  # fmt: skip
        advantage = _gaussian(target - mean, target_variance + variance)
        return advantage, _gaussian(target, target_variance)

    def _values(self, observations: Array) -> tuple[Array, Array]:
        """Return mean and variance of the values of these states."""
        assert self.critic is not None
        mean, variance = self.critic.values()(self.inputs(observations))
        return mean[:, 0].astype(np.float64), variance[:, 0].astype(np.float64)

    @override
    def _train(self, rollout: RolloutBuffer) -> Metrics:
        """Update the policy with the advantages, then train the critic on the targets."""
        advantage, target = self.advantages(rollout)
        weights = advantage.loc
        if self.settings.weigh_by_confidence:
            # Variance of the true advantages: that of the estimates minus their mean variance.
            size = (weights.var() - advantage.variance.mean()).clamp_min(0.1 * weights.var())
            weights = weights * size / (size + advantage.variance)
        weights = (weights - weights.mean()) / weights.std().clamp_min(1e-8)
        rows = self.actor.tensor(self.inputs(rollout.observations))
        self._train_policy(rows, torch.from_numpy(rollout.actions[:, 0]), weights)
        self._train_critic(rollout.observations, target.loc.numpy(), target.variance.numpy())
        advantage_std = advantage.variance.mean().sqrt()
        return {"advantage": float(advantage.loc.std()), "advantage_std": float(advantage_std)}

    def _train_policy(self, rows: Tensor, actions: Tensor, weights: Tensor) -> None:
        """Update the policy for several epochs, with clipped probability ratios.

        See Schulman et al. (2017), "Proximal policy optimization algorithms".
        """
        s, taken = self.settings, actions.unsqueeze(1)
        with torch.no_grad():
            before = self.actor.log_probabilities(rows).gather(1, taken).squeeze(1)
        for _ in range(s.epochs):
            order = torch.from_numpy(self.rng.permutation(len(rows)))
            for chosen in order.split(s.batch_size):
                log_probabilities = self.actor.log_probabilities(rows[chosen])
                now = log_probabilities.gather(1, taken[chosen]).squeeze(1)
                ratio, weight = (now - before[chosen]).exp(), weights[chosen].to(now.dtype)
                clipped = ratio.clamp(1 - s.clip_range, 1 + s.clip_range)
                objective = torch.minimum(ratio * weight, clipped * weight).mean()
                negative_entropy = (log_probabilities.exp() * log_probabilities).sum(1).mean()
                objective = objective - s.ent_coef * negative_entropy
                parts = torch.autograd.grad(objective, list(self.actor.net.parameters()))
                flat = torch.cat([part.reshape(-1) for part in parts])
                scale = (_MAX_GRADIENT_NORM / flat.norm()).clamp(max=1.0)
                self.actor.gradient_step(flat * scale)


def _gaussian(mean: Array, variance: Array) -> Gaussian:
    return Gaussian.wrap(torch.from_numpy(mean), torch.from_numpy(variance))
