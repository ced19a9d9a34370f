"""Values of actions by any learner: a network with an output for every action, or several.

An action that was not taken says nothing about its value: its target has an infinite variance
(for methods that follow a gradient of the log-likelihood, one so large that the gradient is lost
in rounding).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tractable.gaussian import Gaussian
from tractable.learners import TAGI, Learner
from tractable.likelihoods import Normal

Array = NDArray[np.float64]
Rows = NDArray[Any]
Values = Callable[[Rows], tuple[Rows, Rows]]
"""Mean and variance of every action's value, from rows of inputs."""
MakeLearner = Callable[..., Learner]
"""Takes a network, a likelihood and ``seed=``; gives a learner."""

_HARDLY_SEEN = 1e30


def value_net(inputs: int, hidden: tuple[int, ...], outputs: int) -> nn.Sequential:
    """Linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for units in hidden:
        layers += [nn.Linear(inputs, units), nn.ReLU()]
        inputs = units
    return nn.Sequential(*layers, nn.Linear(inputs, outputs))


class Critic:
    """Learns values, and says what it knows of them.

    Args:
        learner: with one output for every action.
        actions: how many there are.
        target: a copy that values the next step, if there is one.
    """

    def __init__(self, learner: Learner, actions: int, target: Learner | None = None) -> None:
        self.learner, self.actions, self.target = learner, actions, target
        self._frozen: Values | None = None

    @property
    def unseen(self) -> float:
        """Variance of the target of an action that was not taken."""
        return np.inf if isinstance(self.learner, TAGI) else _HARDLY_SEEN

    def values(self) -> Values:
        """What is known now; what is learnt later may or may not change it."""
        return moments_of(self.learner)

    def next_values(self) -> Values:
        """What values the next step: the target network if there is one, else what is known."""
        if self.target is None:
            return self.values()
        if self._frozen is None:
            self._frozen = moments_of(self.target)
        return self._frozen

    def renew_target(self) -> None:
        """The target network becomes that of now."""
        self.target, self._frozen = self.learner.clone(), None

    def drawn(self, seed: int, temper: float) -> Values:
        """Values under one draw of all weights, the same for the same seed."""
        learner = self.learner
        if _quick(learner):
            assert isinstance(learner, TAGI)
            size = learner.state.posterior.loc.numel()
            noise = np.random.default_rng(seed).standard_normal(size, dtype=np.float32)
            return learner.snapshot(np.float32(temper) * noise)

        def values(rows: Rows) -> tuple[Rows, Rows]:
            x = learner.format.inputs(rows)
            generator = torch.Generator().manual_seed(seed)
            drawn = learner.sample(x, 1, generator)[0].double()
            if temper != 1:
                mean = learner.outputs(x, batch_size=None).moments()[0].double()
                drawn = mean + temper * (drawn - mean)
            return drawn.numpy(), np.zeros(drawn.shape)

        return values

    def learn(
        self,
        rows: Rows,
        actions: NDArray[np.int64],
        mean: Array,
        variance: Array,
        order: NDArray[np.int64],
        batch_size: int,
        memory: float | None,
    ) -> None:
        """Learn targets of the actions that were taken, batch by batch in this order."""
        kind = self.learner.dtype
        memory = memory if self.learner.method.online else None
        x: Tensor = torch.from_numpy(rows)
        x = x.to(kind) if x.is_floating_point() else x
        y, spread = targets_of(self.actions, actions, mean, variance, self.unseen)
        target, bars = torch.from_numpy(y).to(kind), torch.from_numpy(spread).to(kind)
        for start in range(0, len(order), batch_size):
            chosen = torch.from_numpy(order[start : start + batch_size])
            self.learner.learn_batch(
                x[chosen], Gaussian.wrap(target[chosen], bars[chosen]), memory=memory
            )

    def set_noise(self, sigma: float) -> None:
        """The standard deviation of the targets from now on, where it is known to the learner."""
        states = getattr(self.learner.state, "members", [self.learner.state])
        for state in (self.learner.state, *states):
            if isinstance(state.likelihood, Normal) and not state.likelihood.learns_noise:
                state.likelihood.noise_mean.fill_(sigma**2)


def targets_of(
    outputs: int, actions: NDArray[np.int64], mean: Array, variance: Array, unseen: float
) -> tuple[Array, Array]:
    """Targets of all outputs, of which only those of the actions taken say something.

    >>> targets_of(2, np.array([1]), np.array([3.0]), np.array([0.5]), np.inf)
    (array([[0., 3.]]), array([[inf, 0.5]]))
    """
    y = np.zeros((len(actions), outputs))
    spread = np.full((len(actions), outputs), unseen)
    at = np.arange(len(actions))
    y[at, actions], spread[at, actions] = mean, variance
    return y, spread


def moments_of(learner: Learner) -> Values:
    """Mean and variance of the outputs, as arrays."""
    if _quick(learner):
        assert isinstance(learner, TAGI)
        return learner.snapshot()

    def values(rows: Rows) -> tuple[Rows, Rows]:
        mean, variance = learner.outputs(learner.format.inputs(rows), batch_size=None).moments()
        return mean.detach().double().numpy(), variance.detach().double().numpy()

    return values


def _quick(learner: Learner) -> bool:
    """Whether a snapshot serves: arrays in single precision, without checks."""
    return isinstance(learner, TAGI) and learner.dtype == torch.float32
