"""Policies: how an agent chooses among actions whose rewards it is unsure of.

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
"""What a draw of Thompson sampling is made of."""

_DRAWS = {"weights": weight_draws, "outputs": output_draws}
_RENAMED = {"Thompson": {"of": "sample"}}
"""Arguments as files of format 1 call them, and as they are called now."""


class Policy(ABC):
    """Chooses one of several actions."""

    kinds: ClassVar[dict[str, type[Policy]]] = {}
    """All policies that are defined, by name."""

    def __init_subclass__(cls) -> None:
        """Make the policy known to ``Bandit.load``."""
        super().__init_subclass__()
        Policy.kinds[cls.__name__] = cls

    @abstractmethod
    def choose(self, learner: Learner, x: Tensor, generator: torch.Generator) -> int:
        """The number of an action, given one row of inputs per action."""

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """The constructor's arguments, as JSON values."""

    def __repr__(self) -> str:
        arguments = ", ".join(f"{key}={value!r}" for key, value in self.config().items())
        return f"{type(self).__name__}({arguments})"


class Greedy(Policy):
    """The action of highest expected reward."""

    def choose(self, learner: Learner, x: Tensor, generator: torch.Generator) -> int:
        """See ``Policy``."""
        return int(mean_rewards(learner, x).argmax())

    def config(self) -> dict[str, Any]:
        """See ``Policy``."""
        return {}


class EpsilonGreedy(Policy):
    """A random action with probability ``eps``, else that of highest expected reward.

    Args:
        eps: between 0 (``Greedy``) and 1 (blind chance).
    """

    def __init__(self, eps: float = 0.05) -> None:
        if not 0 <= eps <= 1:
            raise ValueError(f"eps is a probability, between 0 and 1; got {eps}")
        self.eps = float(eps)

    def choose(self, learner: Learner, x: Tensor, generator: torch.Generator) -> int:
        """See ``Policy``."""
        if float(torch.rand((), generator=generator)) < self.eps:
            return int(torch.randint(len(x), (), generator=generator))
        return int(mean_rewards(learner, x).argmax())

    def config(self) -> dict[str, Any]:
        """See ``Policy``."""
        return {"eps": self.eps}


class Thompson(Policy):
    """The action that is best under a draw from the posterior.

    With ``sample="weights"`` this is Thompson sampling for the learner's posterior: one draw of
    all weights, seen by all actions.  ``sample="outputs"`` draws each action's expected reward
    from the Gaussian that moments give it: closed form for ``TAGI``, and cheaper for large
    networks, but actions are drawn apart although they share weights.

    Args:
        samples: draws that are averaged before the actions are compared.  One is Thompson's
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
        """See ``Policy``."""
        return int(_DRAWS[self.sample](learner, x, self.samples, generator).mean(0).argmax())

    def config(self) -> dict[str, Any]:
        """See ``Policy``."""
        return {"samples": self.samples, "sample": self.sample}


def current(config: dict[str, Any]) -> dict[str, Any]:
    """The name and arguments of a policy, as they are called now.

    >>> current({"name": "Thompson", "samples": 1, "of": "outputs"})  # from a file of format 1
    {'name': 'Thompson', 'samples': 1, 'sample': 'outputs'}
    """
    renamed = _RENAMED.get(str(config.get("name")), {})
    return {renamed.get(key, key): value for key, value in config.items()}


def policy(given: Policy | dict[str, Any]) -> Policy:
    """A policy from what a user or a file may give.

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
        raise ValueError(f"unknown policy {name!r}; there are {', '.join(Policy.kinds)}")
    raise TypeError(f"policy must be one of tractable.agents, got {type(given).__name__}")
