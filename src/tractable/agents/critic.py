"""Values predicted by any learner, with their variance: one output per action.

The target of an action that was not taken has an infinite variance, because the step carries no
information about its value.  For methods that use gradients of the log-likelihood, the variance is
finite but so large that the gradient vanishes by rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import tractable.learners
from tractable.gaussian import Gaussian
from tractable.learners import TAGI, Learner
from tractable.likelihoods import Normal

Array = NDArray[np.float64]
Rows = NDArray[Any]
ValueFunction = Callable[[Rows], tuple[Rows, Rows]]
"""Function from rows of inputs to mean and variance of every action's value."""
LearnerFactory = Callable[..., Learner]
"""Function from a network, a likelihood and ``seed=`` to a learner, such as a learner's class."""

_UNOBSERVED_VARIANCE = 1e30  # for gradient-based learners: the gradient vanishes by rounding


def learner_factory(
    learner: LearnerFactory | str | None, learner_kwargs: dict[str, Any] | None, *, gain: float
) -> LearnerFactory:
    """Return the function that constructs an agent's learners.

    Args:
        learner: a class of learners, its name, or any function from a network, a likelihood and
            ``seed=`` to a learner; None: ``TAGI`` with ``gain`` and without outlier rejection,
            because a surprisingly high reward is what an agent searches for.
        learner_kwargs: further arguments of the learner.
        gain: factor on the prior variances of TAGI's weights, for the default learner.
    """
    if learner is None:
        return partial(TAGI, **{"gain": gain, "robust": False, **(learner_kwargs or {})})
    if isinstance(learner, str):
        found = getattr(tractable.learners, learner, None)
        if not (isinstance(found, type) and issubclass(found, Learner)):
            raise ValueError(f"unknown learner {learner!r}: use a class such as 'TAGI', 'Backprop'")
        learner = found
    return partial(learner, **learner_kwargs) if learner_kwargs else learner


class Critic:
    """Predictor of action values with their variance, trained on Gaussian targets.

    Args:
        learner: learner with one output per action.
        n_actions: number of actions.
        target: copy of the learner that predicts the values of the next step (target network);
            None: the learner itself.
    """

    def __init__(self, learner: Learner, n_actions: int, target: Learner | None = None) -> None:
        self.learner, self.n_actions, self.target = learner, n_actions, target
        self._target_values: ValueFunction | None = None

    @property
    def unobserved_variance(self) -> float:
        """Variance of the target of an action that was not taken."""
        return np.inf if isinstance(self.learner, TAGI) else _UNOBSERVED_VARIANCE

    def values(self) -> ValueFunction:
        """Return the current value function, which may share its weights with the critic."""
        return value_function(self.learner)

    def next_values(self) -> ValueFunction:
        """Return the value function for the next step, of the target network if there is one."""
        if self.target is None:
            return self.values()
        if self._target_values is None:
            self._target_values = value_function(self.target)
        return self._target_values

    def update_target(self) -> None:
        """Copy the learner into the target network."""
        self.target, self._target_values = self.learner.clone(), None

    def sampled_values(self, seed: int, scale: float) -> ValueFunction:
        """Return the value function under one sample of all weights.

        Args:
            seed: seed of the sample, which determines it.
            scale: factor on the standard deviations of the weights, or of the sampled values.
        """
        learner = self.learner
        if _supports_snapshot(learner):
            assert isinstance(learner, TAGI)
            size = learner.state.posterior.loc.numel()
            noise = np.random.default_rng(seed).standard_normal(size, dtype=np.float32)
            return learner.snapshot(np.float32(scale) * noise)

        def values(rows: Rows) -> tuple[Rows, Rows]:
            x = learner.checks.format.inputs(rows)
            generator = torch.Generator().manual_seed(seed)
            sampled = learner.sample(x, 1, generator=generator)[0].double()
            if scale != 1:
                mean = learner.outputs(x, batch_size=None).moments()[0].double()
                sampled = mean + scale * (sampled - mean)
            return sampled.numpy(), np.zeros(sampled.shape)

        return values

    def train(
        self,
        rows: Rows,
        actions: NDArray[np.int64],
        mean: Array,
        variance: Array,
        order: NDArray[np.int64],
        batch_size: int,
        memory_rows: float | None,
    ) -> None:
        """Learn the targets of the actions taken, in batches.

        Args:
            rows: rows of network inputs.
            actions: action taken in each row.
            mean: mean of the target of each row.
            variance: variance of the target of each row.
            order: order of the rows.
            batch_size: rows per batch.
            memory_rows: effective number of past rows in the posterior of an online learner.
        """
        dtype = self.learner.dtype
        memory_rows = memory_rows if self.learner.method.online else None
        x: Tensor = torch.from_numpy(rows)
        x = x.to(dtype) if x.is_floating_point() else x
        y, y_variance = masked_targets(
            self.n_actions, actions, mean, variance, self.unobserved_variance
        )
        targets, variances = torch.from_numpy(y).to(dtype), torch.from_numpy(y_variance).to(dtype)
        for start in range(0, len(order), batch_size):
            chosen = torch.from_numpy(order[start : start + batch_size])
            batch = Gaussian.wrap(targets[chosen], variances[chosen])
            self.learner.learn_batch(x[chosen], batch, memory_rows=memory_rows)

    def set_target_std(self, std: float) -> None:
        """Set the standard deviation of the targets, unless the likelihood learns its noise."""
        states = getattr(self.learner.state, "members", [self.learner.state])
        for state in (self.learner.state, *states):
            if isinstance(state.likelihood, Normal) and not state.likelihood.traits.learns_noise:
                state.likelihood.noise_mean.fill_(std**2)


def masked_targets(
    n_outputs: int,
    actions: NDArray[np.int64],
    mean: Array,
    variance: Array,
    unobserved_variance: float,
) -> tuple[Array, Array]:
    """Return targets and variances of all outputs, ``[rows, n_outputs]``.

    Actions that were not taken have the target 0 and the variance ``unobserved_variance``.

    >>> masked_targets(2, np.array([1]), np.array([3.0]), np.array([0.5]), np.inf)
    (array([[0., 3.]]), array([[inf, 0.5]]))
    """
    y = np.zeros((len(actions), n_outputs))
    y_variance = np.full((len(actions), n_outputs), unobserved_variance)
    index = np.arange(len(actions))
    y[index, actions], y_variance[index, actions] = mean, variance
    return y, y_variance


def value_function(learner: Learner) -> ValueFunction:
    """Return a function from rows of inputs to mean and variance of the outputs, as arrays."""
    if _supports_snapshot(learner):
        assert isinstance(learner, TAGI)
        return learner.snapshot()

    def values(rows: Rows) -> tuple[Rows, Rows]:
        mean, variance = learner.outputs(
            learner.checks.format.inputs(rows), batch_size=None
        ).moments()
        return mean.detach().double().numpy(), variance.detach().double().numpy()

    return values


def _supports_snapshot(learner: Learner) -> bool:
    """Return whether a snapshot can be used: single-precision arrays, without checks."""
    return isinstance(learner, TAGI) and learner.dtype == torch.float32
