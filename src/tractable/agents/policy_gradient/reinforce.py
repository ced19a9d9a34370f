"""Policy gradients (REINFORCE) estimated from whole episodes (E 19.22 to 19.36)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from typing_extensions import override

from tractable.agents.base import Metrics, Rows
from tractable.agents.buffers import RolloutBuffer
from tractable.agents.critic import LearnerFactory
from tractable.agents.policy_gradient.actor import PolicyAgent
from tractable.agents.returns import discounted_returns, min_variance_baseline
from tractable.agents.settings_validation import (
    COUNT,
    LAYER_SIZES,
    POSITIVE,
    SHARE,
    Domain,
    check_domains,
)

Array = NDArray[np.float64]
Baseline = Literal["none", "mean", "component", "state"]


@dataclass(frozen=True)
class PolicyGradientSettings:
    """Settings of ``PolicyGradient``.

    Attributes:
        baseline: quantity subtracted from the returns: ``"none"``; their ``"mean"``; for each
            parameter the one with the smallest variance (``"component"``, E 19.36); or the value
            that a learner predicts for the ``"state"`` (E 19.37).
        episodes_per_update: number of whole episodes per update.
        hidden_layer_sizes: units of the hidden layers of both networks.
        lr: learning rate of the policy.
        gamma: discount factor.
        weigh_by_discount: whether to weight step t by ``gamma^t``, as in the gradient of the first
            state's value; it is usually omitted in practice.
        target_std: standard deviation of returns around a state's value, relative to the standard
            deviation of all returns.
    """

    baseline: Baseline = "state"
    episodes_per_update: int = 8
    hidden_layer_sizes: tuple[int, ...] = (64, 64)
    lr: float = 3e-3
    gamma: float = 0.99
    weigh_by_discount: bool = False
    target_std: float = 0.5

    def __post_init__(self) -> None:
        """Raise if a setting is outside its domain."""
        check_domains(self, _DOMAINS)


_BASELINES = get_args(Baseline)
_DOMAINS: dict[Domain, tuple[str, ...]] = {
    (f"be one of {', '.join(_BASELINES)}", lambda value: value in _BASELINES): ("baseline",),
    COUNT: ("episodes_per_update",),
    LAYER_SIZES: ("hidden_layer_sizes",),
    POSITIVE: ("lr", "target_std"),
    SHARE: ("gamma",),
}


class PolicyGradient(PolicyAgent):
    """REINFORCE with a choice of baselines.

    Args:
        env: a Gymnasium environment with ``Discrete`` actions, or its name.
        net: network of the logits of all actions; default: tanh layers of
            ``hidden_layer_sizes`` units.
        critic: class of learners of state values, or its name, or any function from a network, a
            likelihood and ``seed=`` to a learner, for ``baseline="state"``; default: TAGI, which
            learns each return once.
        critic_kwargs: further arguments of the critic.
        seed: seed of the networks, the actions and the episodes.
        **settings: see ``PolicyGradientSettings``.
    """

    settings_class = PolicyGradientSettings
    settings: PolicyGradientSettings

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
        s = PolicyGradientSettings(**settings)
        has_critic = s.baseline == "state"
        if critic is not None and not has_critic:
            raise ValueError(f"a critic requires baseline='state', got baseline={s.baseline!r}")
        super().__init__(
            env, s, net=net, has_critic=has_critic, critic=critic, critic_kwargs=critic_kwargs,
            seed=seed,
        )  # fmt: skip

    @override
    def _rollout_is_complete(self, n_steps: int, n_episodes: int) -> bool:
        return n_episodes >= self.settings.episodes_per_update

    def gradient(
        self, observations: Any, actions: Any, rewards: Any, done: Any, weights: Any = None
    ) -> Tensor:
        """Return the gradient of the return by all parameters, estimated from whole episodes.

        Args:
            observations: one row per step; the episodes are concatenated.
            actions: action of each step.
            rewards: reward of each step.
            done: whether the episode ended with the step.
            weights: weight of each step's episode; default: one over the number of episodes.

        Returns:
            The flat gradient, ``[parameters]``.
        """
        s = self.settings
        rows = self.inputs(self.encoder.to_rows(observations)[0])
        ends = np.asarray(done, dtype=bool)
        returns = _returns(np.asarray(rewards, dtype=np.float64), ends, s.gamma)
        weight = torch.full_like(returns, 1 / max(int(ends.sum()), 1))
        if weights is not None:
            weight = torch.as_tensor(np.asarray(weights)).double()
        if s.weigh_by_discount:
            weight = weight * _discounts(ends, s.gamma)
        if s.baseline == "component":
            scores = self.actor.scores(rows, actions).double()
            baseline = min_variance_baseline(scores, returns, weight)
            return (weight.unsqueeze(1) * scores * (returns.unsqueeze(1) - baseline)).sum(0)
        advantages = returns - self._baseline(rows, returns, weight)
        return self._weighted_score(rows, actions, weight * advantages)

    def _baseline(self, rows: Rows, returns: Tensor, weight: Tensor) -> Tensor:
        """Return the baseline of every step."""
        if self.settings.baseline == "mean":
            return (weight * returns).sum() / weight.sum() * torch.ones_like(returns)
        if self.critic is None:
            return torch.zeros_like(returns)
        return torch.from_numpy(self.critic.values()(rows)[0][:, 0].astype(np.float64))

    def _weighted_score(self, rows: Rows, actions: Any, weights: Tensor) -> Tensor:
        """Return the weighted sum of the gradients of the log-probabilities."""
        taken = torch.as_tensor(np.asarray(actions), dtype=torch.int64).unsqueeze(1)
        log_probabilities = self.actor.log_probabilities(rows).gather(1, taken).squeeze(1)
        total = (weights.to(log_probabilities.dtype) * log_probabilities).sum()
        parts = torch.autograd.grad(total, list(self.actor.net.parameters()))
        return torch.cat([part.reshape(-1) for part in parts])

    @override
    def _train(self, rollout: RolloutBuffer) -> Metrics:
        """Make one step along the gradient, then train the critic on the returns."""
        rewards, n_steps = self.normalizer.reward(rollout.rewards), len(rollout)
        observations = rollout.observations.reshape(n_steps, *self.encoder.shape)
        gradient = self.gradient(observations, rollout.actions[:, 0], rewards, rollout.done)
        steps_per_episode = n_steps / max(int(rollout.done.sum()), 1)
        self.actor.gradient_step(gradient / steps_per_episode)
        if self.critic is not None:
            returns = _returns(rewards, rollout.done, self.settings.gamma).numpy()
            self._train_critic(rollout.observations, returns, np.zeros(n_steps))
        return {"gradient_norm": float(gradient.norm())}


def _returns(rewards: Array, done: NDArray[np.bool_], gamma: float) -> Tensor:
    """Return the discounted sum of future rewards at each step of several episodes."""
    returns = discounted_returns(rewards.tolist(), gamma, done.tolist())
    return torch.tensor(returns, dtype=torch.float64)


def _discounts(done: NDArray[np.bool_], gamma: float) -> Tensor:
    """Return ``gamma^t`` with t counted from 0 in each episode."""
    discounts, weight = torch.empty(len(done), dtype=torch.float64), 1.0
    for t, end in enumerate(done.tolist()):
        discounts[t] = weight
        weight = 1.0 if end else weight * gamma
    return discounts
