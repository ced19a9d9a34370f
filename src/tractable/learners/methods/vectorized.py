"""Training of all members of a small ensemble of point estimates in one pass, by ``vmap``."""

from __future__ import annotations

import torch
from torch import Tensor

from tractable.errors import InvalidInput
from tractable.learners.methods.backprop import BackpropMethod
from tractable.learners.methods.base import BatchPosition, OnBatch
from tractable.learners.methods.gradient import GradientState
from tractable.training.data import ArrayData


def run_epoch_vectorized(
    method: BackpropMethod,
    states: list[GradientState],
    source: ArrayData,
    orders: list[Tensor | None],
    progress: float,
    on_batch: OnBatch,
) -> None:
    """Train all members for one epoch, each with its own order of the rows.

    Exact: up to rounding, the steps are those of training one member after the other.
    """
    for batch, parts in enumerate(zip(*[source.epoch(order) for order in orders], strict=True)):
        x, y = (torch.stack(tensors) for tensors in zip(*parts, strict=True))
        rows = x.shape[1]
        position = BatchPosition(rows / len(source), progress, batch, source.batches)
        log_likelihoods, gradient = _gradients(method, states, x, y)
        for state, value, d_w in zip(states, log_likelihoods.tolist(), gradient, strict=True):
            state.rows, weight = method.shared_by(state, rows, position)
            method.step(state, value, [method.with_prior(state, d_w, weight)], rows, position)
            state.log_likelihood += value
        on_batch(1)


def supports_vmap(method: BackpropMethod, state: GradientState, source: ArrayData) -> bool:
    """Return whether ``vmap`` supports the network."""
    if not isinstance(source.x, Tensor):
        return False
    one_row = (torch.stack([part[:1]] * 2) for part in (source.x, source.y))
    try:
        _gradients(method, [state, state], *one_row)
    except (RuntimeError, IndexError, InvalidInput):
        return False
    return True


def _gradients(
    method: BackpropMethod, states: list[GradientState], x: Tensor, y: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the log-likelihood of every member and its negative gradient."""
    network, likelihood = method.network, states[0].likelihood

    def log_likelihood(w: Tensor, x: Tensor, y: Tensor) -> Tensor:
        z = network(network.with_flat(w), x, train=True)
        return likelihood.log_prob(y, z).sum()

    leaf = torch.stack([s.vectors[0].detach() for s in states]).requires_grad_()
    values = torch.func.vmap(log_likelihood)(leaf, x, y)
    return values, torch.autograd.grad(-values.sum(), leaf)[0]
