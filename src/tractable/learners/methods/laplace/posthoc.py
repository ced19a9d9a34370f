"""Base class of methods that train a point estimate and then compute a posterior around it."""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import Tensor
from typing_extensions import override

from tractable.learners.methods.backprop import BackpropMethod
from tractable.learners.methods.base import Method, TensorDict
from tractable.learners.methods.gradient import GradientState
from tractable.learners.outputs import GaussianOutputs
from tractable.training.callbacks import EpochRecord
from tractable.training.inputs import Inputs

P = TypeVar("P", bound=GradientState)


class PostHoc(Method[P]):
    """Base class of methods that train weights like ``Backprop`` and add a posterior afterwards.

    Args:
        mode: method that trains the weights; its state is extended by further fields.

    ``outputs`` must accept ``spread=False``, for outputs without variance; see ``at_mode``.
    """

    def __init__(self, mode: BackpropMethod, options: Any) -> None:
        super().__init__(mode.network, mode.likelihood, options)
        self.mode = mode

    @override
    def end_epoch(self, state: P) -> EpochRecord:
        return self.mode.end_epoch(state)

    @override
    def update_noise_from_statistics(self, state: P) -> None:
        self.mode.update_noise_from_statistics(state)

    @override
    def step_schedule(self, state: P) -> None:
        self.mode.step_schedule(state)

    def log_prob_gradient(self, state: P, x: Tensor, y: Tensor) -> Tensor:
        """Return the gradient through everything that ``outputs`` depends on."""
        leaf = x.detach().clone().requires_grad_()
        log_prob = self.outputs(state, leaf).predictive().log_prob(y)
        return torch.autograd.grad(log_prob.sum(), leaf)[0]

    def at_mode(self, state: P, x: Inputs, batch_size: int | None) -> GaussianOutputs:
        """Return the outputs of the weights alone, without variance."""
        z = self.mode.outputs(state, x, batch_size=batch_size).values[0]
        return GaussianOutputs(z, torch.zeros_like(z), state.likelihood)

    def scoring_options(self) -> dict[str, Any]:
        """Return options without variance: the posterior is computed only at the end of a fit."""
        return {"spread": False}

    @override
    def output_shape(self, state: P, x: Inputs) -> torch.Size:
        return self.mode.output_shape(state, x)

    @override
    def training(self, state: P) -> tuple[TensorDict, Any]:
        return self.mode.training(state)

    @override
    def restore_training(self, state: P, tensors: TensorDict, values: Any) -> None:
        self.mode.restore_training(state, tensors, values)
