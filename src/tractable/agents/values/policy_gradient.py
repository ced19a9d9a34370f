"""Policy gradients (REINFORCE) estimated from whole episodes (E 19.22 to 19.36)."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tractable.agents.control.horizon import Horizon
from tractable.agents.values.critic import MakeLearner
from tractable.agents.values.policy_agent import PolicyAgent, default_critic
from tractable.agents.values.scores import best_baseline, returns_to_go

Array = NDArray[np.float64]
Baseline = Literal["none", "mean", "component", "state"]


class PolicyGradient(PolicyAgent):
    """REINFORCE with a choice of baselines.

    Args:
        env: a Gymnasium environment with ``Discrete`` actions, or its name.
        net: network of the logits of all actions; default: tanh layers of
            ``hidden_layer_sizes`` units.
        baseline: quantity subtracted from the returns: ``"none"``; their ``"mean"``; for each
            parameter the one with the smallest variance (``"component"``, E 19.36); or the value
            that a learner predicts for the ``"state"`` (E 19.37).
        critic: function from a network, a likelihood and ``seed=`` to the learner of state values,
            for ``"state"``; default: TAGI.
        episodes_per_update: number of whole episodes per update.
        hidden_layer_sizes: units of the hidden layers of both networks.
        lr: learning rate of the policy.
        gamma: discount factor.
        weigh_by_discount: whether to weight step t by ``gamma^t``, as in the gradient of the first
            state's value; it is usually omitted in practice.
        target_std: standard deviation of returns around a state's value, relative to the standard
            deviation of all returns.
        seed: seed of the networks, the actions and the episodes.
    """

    def __init__(
        self,
        env: Any,
        *,
        net: nn.Module | None = None,
        baseline: Baseline = "state",
        critic: MakeLearner | None = None,
        episodes_per_update: int = 8,
        hidden_layer_sizes: tuple[int, ...] = (64, 64),
        lr: float = 3e-3,
        gamma: float = 0.99,
        weigh_by_discount: bool = False,
        target_std: float = 0.5,
        seed: int = 0,
    ) -> None:
        if baseline not in get_args(Baseline):
            raise ValueError(
                f"baseline must be one of {', '.join(get_args(Baseline))}; got {baseline!r}"
            )
        if episodes_per_update < 1:
            raise ValueError(f"episodes_per_update must be at least 1, got {episodes_per_update}")
        if critic is not None and baseline != "state":
            raise ValueError(f"a critic goes with baseline='state' only, got baseline={baseline!r}")
        self.baseline, self.episodes_per_update = baseline, episodes_per_update
        self.weigh_by_discount = weigh_by_discount
        maker = (critic or default_critic) if baseline == "state" else None
        super().__init__(
            env,
            net=net,
            critic=maker,
            hidden_layer_sizes=hidden_layer_sizes,
            lr=lr,
            gamma=gamma,
            seed=seed,
            target_std=target_std,
        )

    def enough(self, steps: int, finished: int) -> bool:
        """Return whether enough whole episodes have been collected."""
        return finished >= self.episodes_per_update

    def gradient(
        self,
        observations: Any,
        actions: Any,
        rewards: Any,
        ends: Any,
        weights: Any = None,
    ) -> Tensor:
        """Return the gradient of the return by all parameters, estimated from whole episodes.

        Args:
            observations: one row per step; the episodes are concatenated.
            actions: action of each step.
            rewards: reward of each step.
            ends: whether the episode ended with the step.
            weights: weight of each step's episode; default: one over the number of episodes.

        Returns:
            The flat gradient, ``[parameters]``.
        """
        flat, _ = self.encoding.flat(observations)
        rows, stops = self.inputs(flat), torch.as_tensor(np.asarray(ends, dtype=bool))
        returns = returns_to_go(torch.as_tensor(np.asarray(rewards)).double(), stops, self.gamma)
        share = torch.full_like(returns, 1 / max(int(stops.sum()), 1))
        if weights is not None:
            share = torch.as_tensor(np.asarray(weights)).double()
        if self.weigh_by_discount:
            share = share * _discounts(stops, self.gamma)
        if self.baseline == "component":
            scores = self.actor.scores(rows, actions).double()
            off = best_baseline(scores, returns, share)
            return (share.unsqueeze(1) * scores * (returns.unsqueeze(1) - off)).sum(0)
        return self._pulled(rows, actions, share * (returns - self._expected(rows, returns, share)))

    def _expected(self, rows: Any, returns: Tensor, share: Tensor) -> Tensor:
        """Return the baseline of every step."""
        if self.baseline == "mean":
            return (share * returns).sum() / share.sum() * torch.ones_like(returns)
        if self.critic is None:
            return torch.zeros_like(returns)
        return torch.from_numpy(self.critic.values()(rows)[0][:, 0].astype(np.float64))

    def _pulled(self, rows: Any, actions: Any, pull: Tensor) -> Tensor:
        """Return the weighted sum of the gradients of the log-probabilities."""
        taken = torch.as_tensor(np.asarray(actions), dtype=torch.int64).unsqueeze(1)
        chances = self.actor.log_probabilities(rows).gather(1, taken).squeeze(1)
        total = (pull.to(chances.dtype) * chances).sum()
        parts = torch.autograd.grad(total, list(self.actor.net.parameters()))
        return torch.cat([part.reshape(-1) for part in parts])

    def improve(self, seen: Horizon) -> dict[str, float]:
        """Make one step along the gradient, then train the critic on the returns."""
        ends, actions = seen.terminal | seen.ends, seen.actions[:, 0]
        rewards = self.normalizer.reward(seen.rewards)
        shape = (len(rewards), *self.encoding.shape)
        gradient = self.gradient(seen.observations.reshape(shape), actions, rewards, ends)
        steps_per_episode = len(rewards) / max(int(ends.sum()), 1)
        self.actor.climb(gradient / steps_per_episode)
        if self.critic is not None:
            returns = returns_to_go(torch.from_numpy(rewards), torch.from_numpy(ends), self.gamma)
            self.critic.learn(
                self.inputs(seen.observations), np.zeros(len(rewards), dtype=np.int64),
                returns.numpy(), np.zeros(len(rewards)), self.rng.permutation(len(rewards)), 16,
                None,
            )  # fmt: skip
        return {"gradient_norm": float(gradient.norm())}

    def options(self) -> dict[str, Any]:
        """Return the constructor arguments, except environment and networks, as JSON values."""
        return {
            "baseline": self.baseline, "episodes_per_update": self.episodes_per_update,
            "hidden_layer_sizes": list(self.hidden_layer_sizes),
            "lr": self.lr, "gamma": self.gamma, "weigh_by_discount": self.weigh_by_discount,
            "target_std": self.target_std, "seed": self.seed,
        }  # fmt: skip


def _discounts(ends: Tensor, gamma: float) -> Tensor:
    """Return ``gamma^t`` with t counted from 0 in each episode."""
    found, weight = torch.empty(len(ends), dtype=torch.float64), 1.0
    for t, end in enumerate(ends.tolist()):
        found[t] = weight
        weight = 1.0 if end else weight * gamma
    return found
