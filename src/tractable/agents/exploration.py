"""Exploration strategies: probabilities of actions from their values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from tractable.agents.bandit.policies import BanditPolicy, mean_rewards
from tractable.learners import Learner


class Exploration(ABC):
    """Base class of strategies that choose random actions with probabilities from their values."""

    @abstractmethod
    def probabilities(self, q: Tensor) -> Tensor:
        """Return the probability of each action.

        Args:
            q: values of actions, in the last dimension.
        """

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Return the constructor arguments as JSON values."""

    def __repr__(self) -> str:
        arguments = ", ".join(f"{key}={value!r}" for key, value in self.config().items())
        return f"{type(self).__name__}({arguments})"


class EpsilonGreedy(Exploration, BanditPolicy):
    """Take a random action with probability ``epsilon``, else the greedy action.

    Args:
        epsilon: probability between 0 (greedy) and 1 (uniformly random actions).

    >>> EpsilonGreedy(0.3).probabilities(torch.tensor([1.0, 2.0, 0.0]))
    tensor([0.1000, 0.8000, 0.1000])
    """

    def __init__(self, epsilon: float = 0.1) -> None:
        self.epsilon = _checked_probability(epsilon)

    @override
    def probabilities(self, q: Tensor) -> Tensor:
        is_best = (q == q.amax(-1, keepdim=True)).to(q.dtype)
        best = is_best / is_best.sum(-1, keepdim=True)  # equal values share the probability
        return (1 - self.epsilon) * best + self.epsilon / q.shape[-1]

    @override
    def choose(self, learner: Learner, x: Tensor, generator: torch.Generator) -> int:
        if float(torch.rand((), generator=generator)) < self.epsilon:
            return int(torch.randint(len(x), (), generator=generator))
        return int(mean_rewards(learner, x).argmax())

    @override
    def config(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon}


class Boltzmann(Exploration):
    """Choose actions with probabilities ``softmax(q / temperature)`` (E 19.45).

    Args:
        temperature: positive; differences of values far below it have little effect.
        epsilon: probability of a uniformly random action instead.

    >>> Boltzmann(1.0).probabilities(torch.tensor([0.0, 0.0]))
    tensor([0.5000, 0.5000])
    """

    def __init__(self, temperature: float, epsilon: float = 0.0) -> None:
        if not temperature > 0:
            raise ValueError(f"temperature must be positive, got {temperature}")
        self.temperature, self.epsilon = float(temperature), _checked_probability(epsilon)

    @override
    def probabilities(self, q: Tensor) -> Tensor:
        probabilities = torch.softmax(q / self.temperature, -1)
        return (1 - self.epsilon) * probabilities + self.epsilon / q.shape[-1]

    @override
    def config(self) -> dict[str, Any]:
        return {"temperature": self.temperature, "epsilon": self.epsilon}


def exploration_from_config(config: dict[str, Any] | None) -> Exploration | None:
    """Return the strategy with this configuration (``name`` and arguments), or None."""
    if config is None:
        return None
    arguments = dict(config)
    name = arguments.pop("name")
    strategies: dict[str, type[Exploration]] = {
        "EpsilonGreedy": EpsilonGreedy,
        "Boltzmann": Boltzmann,
    }
    if name not in strategies:
        raise ValueError(f"unknown exploration {name!r}; available are {', '.join(strategies)}")
    return strategies[name](**arguments)


def _checked_probability(epsilon: float) -> float:
    if not 0 <= epsilon <= 1:
        raise ValueError(f"epsilon is a probability and must be between 0 and 1, got {epsilon}")
    return float(epsilon)
