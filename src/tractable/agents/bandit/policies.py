"""Policies of bandits: rules that choose an action from the posterior of its reward.

Rewards are predicted by their posterior mean, or under samples of the posterior.  The functions for
this take one row of inputs per action and return one number per action.  The expected reward given
an output z is the mean of the likelihood at z.  Normal rewards and rewards of zero or one
(``Bernoulli``) are therefore treated in the same way.

Source: "Weight uncertainty in neural networks" (a replication of Bayes by Backprop), section 2.7.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from tractable.learners import Learner
from tractable.likelihoods import Normal

Space = Literal["weights", "outputs"]
"""Quantities that Thompson sampling can sample."""

_RENAMED = {
    "Thompson": {"sample": "space", "samples": "n_samples"},
    "EpsilonGreedy": {"eps": "epsilon"},
}
"""New names of arguments that were renamed, by policy; files may hold the old ones."""


class BanditPolicy(ABC):
    """Rule that chooses one of several actions."""

    registry: ClassVar[dict[str, type[BanditPolicy]]] = {}
    """All policies that are defined, by class name."""

    def __init_subclass__(cls) -> None:
        """Register the policy so that ``Bandit.load`` finds it."""
        super().__init_subclass__()
        BanditPolicy.registry[cls.__name__] = cls

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


def mean_rewards(learner: Learner, x: Tensor) -> Tensor:
    """Return the expected reward of each row, averaged over the posterior."""
    with torch.no_grad():
        return learner.outputs(x, batch_size=None).predictive().mean.reshape(len(x))


def weight_samples(
    learner: Learner, x: Tensor, n_samples: int, generator: torch.Generator
) -> Tensor:
    """Return expected rewards under ``n_samples`` samples of the weights, ``[n_samples, rows]``.

    All rows of ``x`` share the weights of a sample.  The learner's method defines what is sampled
    (``Learner.sample``).
    """
    with torch.no_grad():
        outputs = learner.sample(x, n_samples, generator=generator)
        return _rewards(learner, outputs.flatten(0, 1)).reshape(n_samples, len(x))


def output_samples(
    learner: Learner, x: Tensor, n_samples: int, generator: torch.Generator
) -> Tensor:
    """Return expected rewards with each row's output sampled from its own Gaussian, by moments.

    Approximate: the outputs of two rows are sampled independently, although they share weights, so
    that differences between actions have more variance than under the posterior.
    """
    with torch.no_grad():
        mean, variance = learner.outputs(x, batch_size=None).moments()
        shape = (n_samples, *mean.shape)
        eps = torch.randn(shape, generator=generator, dtype=mean.dtype).to(mean.device)
        z = mean + variance.sqrt() * eps
        return _rewards(learner, z.flatten(0, 1)).reshape(n_samples, len(x))


def _rewards(learner: Learner, z: Tensor) -> Tensor:
    if isinstance(learner.state.likelihood, Normal):  # the common case, whose mean is the output
        return z.reshape(len(z))
    return learner.state.likelihood.predictive(z, torch.zeros_like(z)).mean.reshape(len(z))


_SAMPLERS = {"weights": weight_samples, "outputs": output_samples}


class Thompson(BanditPolicy):
    """Thompson sampling: take the action that is best under a sample from the posterior.

    With ``space="weights"``, the same sample of all weights is used for all actions.
    ``space="outputs"`` samples each action's expected reward from the Gaussian given by the
    predicted moments.  That is closed form for ``TAGI`` and cheaper for large networks, but the
    actions are sampled independently although they share weights.

    Args:
        n_samples: number of samples averaged before the actions are compared.  One is Thompson's
            rule; two, as in the source, explore less (the variance is halved).
        space: what is sampled: ``"weights"`` or ``"outputs"``.
    """

    def __init__(self, n_samples: int = 2, *, space: Space = "weights") -> None:
        if isinstance(n_samples, bool) or not isinstance(n_samples, int) or n_samples < 1:
            raise ValueError(f"n_samples must be a whole number of at least 1, got {n_samples!r}")
        if space not in _SAMPLERS:
            raise ValueError(f"space must be one of {', '.join(_SAMPLERS)}; got {space!r}")
        self.n_samples = n_samples
        self.space: Space = space

    def choose(self, learner: Learner, x: Tensor, generator: torch.Generator) -> int:
        """Return the action with the highest mean reward over the samples."""
        return int(_SAMPLERS[self.space](learner, x, self.n_samples, generator).mean(0).argmax())

    def config(self) -> dict[str, Any]:
        """Return the constructor arguments as JSON values."""
        return {"n_samples": self.n_samples, "space": self.space}


def with_current_names(config: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration of a policy with arguments renamed to their current names.

    >>> with_current_names({"name": "Thompson", "samples": 1, "sample": "outputs"})
    {'name': 'Thompson', 'n_samples': 1, 'space': 'outputs'}
    """
    renamed = _RENAMED.get(str(config.get("name")), {})
    return {renamed.get(key, key): value for key, value in config.items()}


def make_policy(policy: BanditPolicy | dict[str, Any]) -> BanditPolicy:
    """Return a policy from an instance or from its configuration.

    >>> make_policy({"name": "Thompson", "n_samples": 1})
    Thompson(n_samples=1, space='weights')
    """
    if isinstance(policy, BanditPolicy):
        return policy
    if isinstance(policy, dict):
        arguments = with_current_names(policy)
        name = str(arguments.pop("name", ""))
        if name in BanditPolicy.registry:
            return BanditPolicy.registry[name](**arguments)
        raise ValueError(
            f"unknown policy {name!r}; available are {', '.join(BanditPolicy.registry)}"
        )
    raise TypeError(f"policy must be one of tractable.agents, got {type(policy).__name__}")
