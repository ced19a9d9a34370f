"""Policies: how an agent chooses among actions whose rewards it is unsure of.

Source: "Weight uncertainty in neural networks" (a replication of Bayes by Backprop), section 2.7.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from tractable.agents.draws import mean_rewards, output_draws, weight_draws
from tractable.learners import Learner

Of = Literal["weights", "outputs"]
_DRAWS = {"weights": weight_draws, "outputs": output_draws}


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

    With ``of="weights"`` this is Thompson sampling for the learner's mean-field posterior: one
    draw of all weights, seen by all actions.  ``of="outputs"`` draws each action's expected
    reward from the Gaussian that moments give it: closed form for ``TAGI``, and cheaper for large
    networks, but actions are drawn apart although they share weights.

    Args:
        samples: draws that are averaged before the actions are compared.  One is Thompson's
            rule; two, as in the source, explore less (the variance is halved).
        of: what is drawn: ``"weights"`` or ``"outputs"``.
    """

    def __init__(self, samples: int = 2, *, of: Of = "weights") -> None:
        if isinstance(samples, bool) or not isinstance(samples, int) or samples < 1:
            raise ValueError(f"samples must be a whole number of at least 1, got {samples!r}")
        if of not in _DRAWS:
            raise ValueError(f"of must be one of {', '.join(_DRAWS)}; got {of!r}")
        self.samples = samples
        self.of: Of = of

    def choose(self, learner: Learner, x: Tensor, generator: torch.Generator) -> int:
        """See ``Policy``."""
        return int(_DRAWS[self.of](learner, x, self.samples, generator).mean(0).argmax())

    def config(self) -> dict[str, Any]:
        """See ``Policy``."""
        return {"samples": self.samples, "of": self.of}


def policy(given: Policy | dict[str, Any]) -> Policy:
    """A policy from what a user or a file may give."""
    if isinstance(given, Policy):
        return given
    if isinstance(given, dict):
        arguments = dict(given)
        name = str(arguments.pop("name", ""))
        if name in Policy.kinds:
            return Policy.kinds[name](**arguments)
        raise ValueError(f"unknown policy {name!r}; there are {', '.join(Policy.kinds)}")
    raise TypeError(f"policy must be one of tractable.agents, got {type(given).__name__}")
