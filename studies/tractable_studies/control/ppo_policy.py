"""Stable-Baselines3's Gaussian policy and running statistics with less Python overhead.

What PPO computes is unchanged; ``tests/studies/test_control_ppo.py`` compares both classes with
the ones they replace.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.running_mean_std import RunningMeanStd
from torch import Tensor

_LOG_ROOT = 0.5 * math.log(2 * math.pi)
Triple = tuple[Tensor, Tensor, Tensor]


class CompiledPolicy(ActorCriticPolicy):
    """A diagonal Gaussian over flat actions; ``forward`` and evaluation are compiled graphs."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._act: Callable[..., Triple] = torch.compile(self._plain_act, dynamic=False)
        self._judge: Callable[..., Triple] = torch.compile(self._plain_judge, dynamic=False)

    def forward(self, obs: Any, deterministic: bool = False) -> Triple:
        """Return actions, values of the states and log-probabilities of the actions."""
        if deterministic:
            return super().forward(obs, deterministic)
        return self._act(obs, torch.randn(len(obs), *self.log_std.shape))

    def evaluate_actions(self, obs: Any, actions: Tensor) -> Triple:
        """Return values of the states, log-probabilities of given actions and entropies."""
        return self._judge(obs, actions)

    def _plain_act(self, obs: Tensor, noise: Tensor) -> Triple:
        mean, value = self._heads(obs)
        log_prob = -(0.5 * noise**2 + self.log_std + _LOG_ROOT).sum(1)
        return mean + self.log_std.exp() * noise, value, log_prob

    def _plain_judge(self, obs: Tensor, actions: Tensor) -> Triple:
        mean, value = self._heads(obs)
        noise = (actions - mean) / self.log_std.exp()
        log_prob = -(0.5 * noise**2 + self.log_std + _LOG_ROOT).sum(1)
        entropy = (0.5 + _LOG_ROOT + self.log_std).sum()
        return value, log_prob, entropy.expand(len(obs))

    def _heads(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        actor, critic = self.mlp_extractor(obs.float().flatten(1))
        return self.action_net(actor), self.value_net(critic)


class OneByOne(RunningMeanStd):
    """Running moments of a stream of single rows, for which the batch variance is zero."""

    def update(self, arr: NDArray[Any]) -> None:
        """Update the moments with a row."""
        if len(arr) != 1:
            super().update(arr)
            return
        delta = arr[0] - self.mean
        count = self.count + 1.0
        self.var = (self.var * self.count + np.square(delta) * (self.count / count)) / count
        self.mean = self.mean + delta / count
        self.count = count
