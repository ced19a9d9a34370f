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

Sampled = Literal["weights", "outputs"]
"""Quantities that Thompson sampling can draw."""

_DRAWS = {"weights": weight_draws, "outputs": output_draws}
_RENAMED = {"Thompson": {"of": "sample"}}
"""New names of arguments that were renamed since files of format 1, by policy."""


class Policy(ABC):
    """Rule that chooses one of several actions."""

    kinds: ClassVar[dict[str, type[Policy]]] = {}
    """All policies that are defined, by class name."""

    def __init_subclass__(cls) -> None:
        """Register the policy so that ``Bandit.load`` finds it."""
        super().__init_subclass__()
        Policy.kinds[cls.__name__] = cls

    @abstractmethod
    def choose(self, learner: Learner, x: Tensor, generator: torch.Generator) -> int:
        """Return the number of an action, given one row of inputs per action."""

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Return the constructor arguments as JSON values."""

    def __repr__(self) -> str:
        arguments = ", ".join(f"{key}={value!r}" for key, value in self.config().items())
        return f"{type(self).__name__}({arguments})"


class Greedy(Policy):
    """Policy that takes the action with the highest expected reward."""

    def choose(self, learner: Learner, x: Tensor, generator: torch.Generator) -> int:
        """Return the action with the highest expected reward."""
        return int(mean_rewards(learner, x).argmax())

    def config(self) -> dict[str, Any]:
        """Return the constructor arguments as JSON values."""
        return {}


class EpsilonGreedy(Policy):
    """Policy that takes a random action with probability ``eps``, else the greedy action.

    Args:
        eps: probability between 0 (``Greedy``) and 1 (uniformly random actions).
    """

    def __init__(self, eps: float = 0.05) -> None:
        if not 0 <= eps <= 1:
            raise ValueError(f"eps is a probability and must be between 0 and 1, got {eps}")
        self.eps = float(eps)

    def choose(self, learner: Learner, x: Tensor, generator: torch.Generator) -> int:
        """Return a uniformly random action or the one with the highest expected reward."""
        if float(torch.rand((), generator=generator)) < self.eps:
            return int(torch.randint(len(x), (), generator=generator))
        return int(mean_rewards(learner, x).argmax())

    def config(self) -> dict[str, Any]:
        """Return the constructor arguments as JSON values."""
        return {"eps": self.eps}


class Thompson(Policy):
    """Thompson sampling: take the action that is best under a draw from the posterior.

    With ``sample="weights"``, the same draw of all weights is used for all actions.
    ``sample="outputs"`` draws each action's expected reward from the Gaussian given by the
    predicted moments.  That is closed form for ``TAGI`` and cheaper for large networks, but the
    actions are drawn independently although they share weights.

    Args:
        samples: number of draws averaged before the actions are compared.  One is Thompson's
            rule; two, as in the source, explore less (the variance is halved).
        sample: what is drawn: ``"weights"`` or ``"outputs"``.
    """

    def __init__(self, samples: int = 2, *, sample: Sampled = "weights") -> None:
        if isinstance(samples, bool) or not isinstance(samples, int) or samples < 1:
            raise ValueError(f"samples must be a whole number of at least 1, got {samples!r}")
        if sample not in _DRAWS:
            raise ValueError(f"sample must be one of {', '.join(_DRAWS)}; got {sample!r}")
        self.samples = samples
        self.sample: Sampled = sample

    def choose(self, learner: Learner, x: Tensor, generator: torch.Generator) -> int:
        """Return the action with the highest mean reward over the draws."""
        return int(_DRAWS[self.sample](learner, x, self.samples, generator).mean(0).argmax())

    def config(self) -> dict[str, Any]:
        """Return the constructor arguments as JSON values."""
        return {"samples": self.samples, "sample": self.sample}


def current(config: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration of a policy with arguments renamed to their current names.

    >>> current({"name": "Thompson", "samples": 1, "of": "outputs"})  # from a file of format 1
    {'name': 'Thompson', 'samples': 1, 'sample': 'outputs'}
    """
    renamed = _RENAMED.get(str(config.get("name")), {})
    return {renamed.get(key, key): value for key, value in config.items()}


def policy(given: Policy | dict[str, Any]) -> Policy:
    """Return a policy from an instance or from its configuration.

    >>> policy({"name": "EpsilonGreedy", "eps": 0.1})
    EpsilonGreedy(eps=0.1)
    """
    if isinstance(given, Policy):
        return given
    if isinstance(given, dict):
        arguments = current(given)
        name = str(arguments.pop("name", ""))
        if name in Policy.kinds:
            return Policy.kinds[name](**arguments)
        raise ValueError(f"unknown policy {name!r}; available are {', '.join(Policy.kinds)}")
    raise TypeError(f"policy must be one of tractable.agents, got {type(given).__name__}")
