"""Action values predicted by any learner: one output per action.

The target of an action that was not taken has an infinite variance, because the step carries no
information about its value.  For methods that use gradients of the log-likelihood, the variance is
finite but so large that the gradient vanishes by rounding.
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
from tractable.nn import mlp

Array = NDArray[np.float64]
Rows = NDArray[Any]
Values = Callable[[Rows], tuple[Rows, Rows]]
"""Function from rows of inputs to mean and variance of every action's value."""
MakeLearner = Callable[..., Learner]
"""Function from a network, a likelihood and ``seed=`` to a learner."""

_HARDLY_SEEN = 1e30  # variance of targets without information, for gradient-based learners


def value_net(inputs: int, hidden_layer_sizes: tuple[int, ...], outputs: int) -> nn.Sequential:
    """Return linear layers with ReLU between them."""
    return mlp(inputs, hidden_layer_sizes, outputs)


class Critic:
    """Predicts action values with their variance, and learns them from targets.

    Args:
        learner: learner with one output per action.
        actions: number of actions.
        target: copy of the learner that predicts the values of the next step (target network);
            None: the learner itself.
    """

    def __init__(self, learner: Learner, actions: int, target: Learner | None = None) -> None:
        self.learner, self.actions, self.target = learner, actions, target
        self._frozen: Values | None = None

    @property
    def unseen(self) -> float:
        """Variance of the target of an action that was not taken."""
        return np.inf if isinstance(self.learner, TAGI) else _HARDLY_SEEN

    def values(self) -> Values:
        """Return the current value function; later training may or may not change it."""
        return moments_of(self.learner)

    def next_values(self) -> Values:
        """Return the value function for the next step, of the target network if there is one."""
        if self.target is None:
            return self.values()
        if self._frozen is None:
            self._frozen = moments_of(self.target)
        return self._frozen

    def renew_target(self) -> None:
        """Copy the learner into the target network."""
        self.target, self._frozen = self.learner.clone(), None

    def drawn(self, seed: int, temper: float) -> Values:
        """Return the value function under one draw of all weights; it is determined by ``seed``."""
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
        """Learn the targets of the actions taken, in batches, in the given order."""
        kind = self.learner.dtype
        memory = memory if self.learner.method.online else None
        x: Tensor = torch.from_numpy(rows)
        x = x.to(kind) if x.is_floating_point() else x
        y, spread = targets_of(self.actions, actions, mean, variance, self.unseen)
        target, bars = torch.from_numpy(y).to(kind), torch.from_numpy(spread).to(kind)
        for start in range(0, len(order), batch_size):
            chosen = torch.from_numpy(order[start : start + batch_size])
            self.learner.learn_batch(
                x[chosen], Gaussian.wrap(target[chosen], bars[chosen]), memory_rows=memory
            )

    def set_noise(self, sigma: float) -> None:
        """Set the standard deviation of the targets, unless the likelihood learns its noise."""
        states = getattr(self.learner.state, "members", [self.learner.state])
        for state in (self.learner.state, *states):
            if isinstance(state.likelihood, Normal) and not state.likelihood.learns_noise:
                state.likelihood.noise_mean.fill_(sigma**2)


def targets_of(
    outputs: int, actions: NDArray[np.int64], mean: Array, variance: Array, unseen: float
) -> tuple[Array, Array]:
    """Return targets and variances of all outputs; for actions not taken, ``unseen``.

    >>> targets_of(2, np.array([1]), np.array([3.0]), np.array([0.5]), np.inf)
    (array([[0., 3.]]), array([[inf, 0.5]]))
    """
    y = np.zeros((len(actions), outputs))
    spread = np.full((len(actions), outputs), unseen)
    at = np.arange(len(actions))
    y[at, actions], spread[at, actions] = mean, variance
    return y, spread


def moments_of(learner: Learner) -> Values:
    """Return a function from rows of inputs to mean and variance of the outputs, as arrays."""
    if _quick(learner):
        assert isinstance(learner, TAGI)
        return learner.snapshot()

    def values(rows: Rows) -> tuple[Rows, Rows]:
        mean, variance = learner.outputs(learner.format.inputs(rows), batch_size=None).moments()
        return mean.detach().double().numpy(), variance.detach().double().numpy()

    return values


def _quick(learner: Learner) -> bool:
    """Return whether a snapshot can be used: single-precision arrays, without checks."""
    return isinstance(learner, TAGI) and learner.dtype == torch.float32
