"""Autograd functions whose backward propagates messages in place of gradients.

Functions that are linear with constant coefficients need none: their ordinary gradients with
respect to ``loc`` and ``variance`` are the messages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tractable.moments import bilinear, shared_variance
from tractable.moments.bilinear import BilinearMap
from tractable.moments.maps import Convolution

Moments = tuple[Tensor, Tensor]
Kernel = Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]


class BilinearFunction(torch.autograd.Function):
    """``map(x, w) + b`` of moments; see ``tractable.moments.bilinear``."""

    @staticmethod
    def forward(
        ctx: Any,
        map: BilinearMap,
        mu_x: Tensor,
        var_x: Tensor | None,
        mu_w: Tensor,
        var_w: Tensor | None,
        mu_b: Tensor | None,
        var_b: Tensor | None,
    ) -> Moments:
        """Return mean and variance."""
        ctx.map = map
        ctx.save_for_backward(mu_x, mu_w)
        ctx.set_materialize_grads(False)
        return bilinear.forward(map, (mu_x, var_x), (mu_w, var_w), (mu_b, var_b))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *messages: Tensor | None) -> Any:
        """Return the messages to x, w and b."""
        d_mu, d_var = require_both(*messages)
        mu_x, mu_w = ctx.saved_tensors
        _, x, vx, w, vw, b, vb = ctx.needs_input_grad
        (dx, dw, db), (dvx, dvw, dvb) = bilinear.messages(
            ctx.map, d_mu, d_var, mu_x, mu_w, (x, w, b), (vx, vw, vb)
        )
        return None, dx, dvx, dw, dvw, db, dvb


class ConvolutionSharedVariance(torch.autograd.Function):
    """Variance of the mean over positions of a convolution (``moments.shared_variance``)."""

    @staticmethod
    def forward(
        ctx: Any, map: Convolution, x: Tensor, incoming: Tensor | None, w: Tensor,
        var_w: Tensor | None, var_b: Tensor | None, out: torch.Size,
    ) -> Tensor:  # fmt: skip
        """Return the variance of the mean over positions, ``[rows, channels, 1, ...]``."""
        found, squares, through = shared_variance.convolution(
            map, x, incoming, w, var_w, var_b, out
        )
        ctx.groups = map.groups
        ctx.save_for_backward(squares, through)
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_var: Tensor) -> Any:
        """Return the variance messages to the input, weights and bias."""
        squares, through = ctx.saved_tensors
        d_in, d_w, d_b = shared_variance.convolution_messages(d_var, squares, through, ctx.groups)
        _, _, incoming, _, var_w, var_b, _ = ctx.needs_input_grad
        return (
            None, None, d_in if incoming else None, None,
            d_w if var_w else None, d_b if var_b else None, None,
        )  # fmt: skip


class ElementwiseFunction(torch.autograd.Function):
    """``phi(z)`` entry by entry; ``kernel`` returns mean, variance, ``J = cov(phi, z) / var``."""

    @staticmethod
    def forward(ctx: Any, mu: Tensor, var: Tensor, kernel: Kernel) -> Moments:
        """Return mean and variance; the slope J is saved."""
        mean, variance, slope = kernel(mu, var)
        ctx.save_for_backward(slope)
        ctx.set_materialize_grads(False)
        return mean, variance

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *messages: Tensor | None) -> Any:
        """Return ``J d_mu`` and ``J^2 d_var``."""
        d_mu, d_var = require_both(*messages)
        (slope,) = ctx.saved_tensors
        return d_mu * slope, d_var * squared(slope), None


class ReLUFunction(torch.autograd.Function):
    """The linearized ReLU (eq. 48), with one pass over memory for each moment and message.

    Its slope is not saved, because it is 1 where the output is positive and 0 elsewhere.
    """

    @staticmethod
    def forward(ctx: Any, mu: Tensor, var: Tensor) -> Moments:
        """Return mean and variance."""
        mean = mu.clamp_min(0)
        ctx.save_for_backward(mean)
        ctx.set_materialize_grads(False)
        return mean, _where_positive(var, mean)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *messages: Tensor | None) -> Any:
        """Return the messages where the mean is positive, zeros elsewhere."""
        d_mu, d_var = require_both(*messages)
        (mean,) = ctx.saved_tensors
        return _where_positive(d_mu, mean), _where_positive(d_var, mean)


def _where_positive(values: Tensor, condition: Tensor) -> Tensor:
    return torch.ops.aten.threshold_backward(values, condition, 0)


def squared(slope: Tensor) -> Tensor:
    """Return ``J^2``; booleans are their own square and take a quarter of the memory."""
    return slope if slope.dtype == torch.bool else slope * slope


def require_both(d_mu: Tensor | None = None, d_var: Tensor | None = None) -> Moments:
    """Return the messages to mean and variance.

    Raises:
        RuntimeError: one of them is missing, so that the backward pass would ignore it.
    """
    if d_mu is None or d_var is None:
        missing = "mean" if d_mu is None else "variance"
        raise RuntimeError(
            f"a state received no {missing} message: send both, for instance with "
            "torch.autograd.grad([z.loc, z.variance], ..., [d_mu, d_var])"
        )
    return d_mu, d_var
