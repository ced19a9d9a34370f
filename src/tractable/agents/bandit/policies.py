"""Policies: rules that choose an action from the posterior distribution of its reward.

Source: "Weight uncertainty in neural networks" (a replication of Bayes by Backprop), section 2.7.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from tractable.agents.bandit.rewards import mean_rewards, output_draws, weight_draws
from tractable.learners import Learner

Space = Literal["weights", "outputs"]
"""Quantities that Thompson sampling can draw."""

_DRAWS = {"weights": weight_draws, "outputs": output_draws}
_RENAMED = {
    "Thompson": {"sample": "space", "samples": "n_samples"},
    "EpsilonGreedy": {"eps": "epsilon"},
}
"""New names of arguments that were renamed, by policy; files may hold the old ones."""


class BanditPolicy(ABC):
    """Rule that chooses one of several actions."""

    kinds: ClassVar[dict[str, type[BanditPolicy]]] = {}
    """All policies that are defined, by class name."""

    def __init_subclass__(cls) -> None:
        """Register the policy so that ``Bandit.load`` finds it."""
        super().__init_subclass__()
        BanditPolicy.kinds[cls.__name__] = cls

    @abstractmethod
    def choose(self, learner: Learner, x: Tensor, generator: torch.Generator) -> int:
        """Return the number of an action, given one row of inputs per action."""

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Return the constructor arguments as JSON values."""

    def __repr__(self) -> str:
        arguments = ", ".join(f"{key}={value!r}" for key, value in self.config().items())
        return f"{type(self).__name__}({arguments})"


class Greedy(BanditPolicy):
    """Policy that takes the action with the highest expected reward."""

    def choose(self, learner: Learner, x: Tensor, generator: torch.Generator) -> int:
        """Return the action with the highest expected reward."""
        return int(mean_rewards(learner, x).argmax())

    def config(self) -> dict[str, Any]:
        """Return the constructor arguments as JSON values."""
        return {}


class EpsilonGreedy(BanditPolicy):
    """Policy that takes a random action with probability ``epsilon``, else the greedy action.

    Args:
        epsilon: probability between 0 (``Greedy``) and 1 (uniformly random actions).
    """

    def __init__(self, epsilon: float = 0.05) -> None:
        if not 0 <= epsilon <= 1:
            raise ValueError(f"epsilon is a probability and must be between 0 and 1, got {epsilon}")
        self.epsilon = float(epsilon)

    def choose(self, learner: Learner, x: Tensor, generator: torch.Generator) -> int:
        """Return a uniformly random action or the one with the highest expected reward."""
        if float(torch.rand((), generator=generator)) < self.epsilon:
            return int(torch.randint(len(x), (), generator=generator))
        return int(mean_rewards(learner, x).argmax())

    def config(self) -> dict[str, Any]:
        """Return the constructor arguments as JSON values."""
        return {"epsilon": self.epsilon}


class Thompson(BanditPolicy):
    """Thompson sampling: take the action that is best under a draw from the posterior.

    With ``space="weights"``, the same draw of all weights is used for all actions.
    ``space="outputs"`` draws each action's expected reward from the Gaussian given by the
    predicted moments.  That is closed form for ``TAGI`` and cheaper for large networks, but the
    actions are drawn independently although they share weights.

    Args:
        n_samples: number of draws averaged before the actions are compared.  One is Thompson's
            rule; two, as in the source, explore less (the variance is halved).
        space: what is sampled: ``"weights"`` or ``"outputs"``.
    """

    def __init__(self, n_samples: int = 2, *, space: Space = "weights") -> None:
        if isinstance(n_samples, bool) or not isinstance(n_samples, int) or n_samples < 1:
            raise ValueError(f"n_samples must be a whole number of at least 1, got {n_samples!r}")
        if space not in _DRAWS:
            raise ValueError(f"space must be one of {', '.join(_DRAWS)}; got {space!r}")
        self.n_samples = n_samples
        self.space: Space = space

    def choose(self, learner: Learner, x: Tensor, generator: torch.Generator) -> int:
        """Return the action with the highest mean reward over the draws."""
        return int(_DRAWS[self.space](learner, x, self.n_samples, generator).mean(0).argmax())

    def config(self) -> dict[str, Any]:
        """Return the constructor arguments as JSON values."""
        return {"n_samples": self.n_samples, "space": self.space}


def current(config: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration of a policy with arguments renamed to their current names.

    >>> current({"name": "Thompson", "samples": 1, "sample": "outputs"})  # from an earlier file
    {'name': 'Thompson', 'n_samples': 1, 'space': 'outputs'}
    """
    renamed = _RENAMED.get(str(config.get("name")), {})
    return {renamed.get(key, key): value for key, value in config.items()}


def policy(given: BanditPolicy | dict[str, Any]) -> BanditPolicy:
    """Return a policy from an instance or from its configuration.

    >>> policy({"name": "EpsilonGreedy", "epsilon": 0.1})
    EpsilonGreedy(epsilon=0.1)
    """
    if isinstance(given, BanditPolicy):
        return given
    if isinstance(given, dict):
        arguments = current(given)
        name = str(arguments.pop("name", ""))
        if name in BanditPolicy.kinds:
            return BanditPolicy.kinds[name](**arguments)
        raise ValueError(f"unknown policy {name!r}; available are {', '.join(BanditPolicy.kinds)}")
    raise TypeError(f"policy must be one of tractable.agents, got {type(given).__name__}")
