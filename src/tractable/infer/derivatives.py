"""Derivatives of the output with respect to the input, as Gaussians (appendix B).

The formulas are in ``tractable.moments.input_derivative``; this module applies them to a trained
network.

Supported: ``nn.Sequential`` (also nested) of ``nn.Linear`` with at most one activation between two
of them, before the first or after the last: Tanh, Sigmoid, ReLU, LeakyReLU, Identity.  First
derivatives have a mean, a variance and a covariance with the input; second derivatives a mean.

Exact: the mean if all variances are zero (it is then the derivative of autograd), and linear
networks.
Approximate: see ``tractable.moments.input_derivative``.  A layer that is used twice is treated as
two independent layers.  Activations are linearized (eq. 10) even if the model was trained with
exact moments.  The mean of second derivatives treats layers as independent, so it is correct to
zeroth order in the variances of the weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from tractable import layer_iteration
from tractable.errors import UnsupportedLayer
from tractable.gaussian import Gaussian
from tractable.infer import message_passing
from tractable.learners import TAGI
from tractable.moments import bilinear, input_derivative, maps
from tractable.moments.input_derivative import (
    SUMS,
    ActivationMoments,
    GaussianWeights,
    Slopes,
    Sums,
)


@dataclass(frozen=True)
class Derivatives:
    """Moments of ``dz_k/dx_j``, all of shape ``[rows, outputs, inputs]``.

    Attributes:
        value: the outputs, ``[rows, outputs]``.
        mean: mean of the derivative.
        variance: variance of the derivative.
        curvature: ``cov(dz_k/dx_j, x_j) / var(x_j)``, which is also defined for known inputs; for
            smooth functions it estimates the second derivative.
        covariance: ``cov(dz_k/dx_j, x_j)``.
        hessian: mean of ``d2z_k / dx_j dx_i``, ``[rows, outputs, inputs, inputs]``, for order 2.
    """

    value: Gaussian
    mean: Tensor
    variance: Tensor
    curvature: Tensor
    covariance: Tensor
    hessian: Tensor | None = None


@dataclass(frozen=True)
class Chain:
    """A network as the formulas use it: ``slopes[0]``, then linear layers, each followed by
    slopes.
    """

    weights: list[GaussianWeights]
    biases: list[tuple[Tensor | None, Tensor | None]]
    slopes: list[Slopes]


def derivatives(
    model: TAGI,
    x: Any,
    order: int = 1,
    *,
    input_std: float | None = None,
    sums: Sums = "nodes",
) -> Derivatives:
    """Return mean, variance and covariance of the derivative of every output by every input.

    Args:
        model: a fitted ``TAGI`` model of a supported network (see the module).
        x: a ``Gaussian``, or a tensor of means, ``[rows, inputs]``.
        order: 1, or 2 to compute the mean of second derivatives as well.
        input_std: standard deviation of the inputs if ``x`` is a tensor. None: known exactly.
        sums: ``"nodes"`` adds up branches at every unit; ``"branches"`` omits the covariances
            between all branches, as published (same mean, different variance).

    >>> import tractable as tr
    >>> model = tr.TAGI(nn.Linear(2, 1), tr.likelihoods.Normal(0.1)).update([[1.0, 0.0]], [2.0])
    >>> slope = derivatives(model, [[0.0, 0.0]])
    >>> bool((slope.mean[0] == model.posterior["weight"].loc).all())
    True
    """
    model = message_passing.trained(model)
    if order not in (1, 2):
        raise ValueError(f"order must be 1, or 2 (means only); got {order}")
    if sums not in SUMS:
        raise ValueError(f"sums must be one of {', '.join(SUMS)}; got {sums!r}")
    state = message_passing.prior(model, x, input_std)
    with torch.no_grad():
        return run(chain(model), state, order, sums)


def input_slopes(model: TAGI, x: Gaussian) -> tuple[Tensor, Tensor, Tensor]:
    """Return mean, variance and curvature of the single output by every input, ``[rows, inputs]``.

    The result is that of ``derivatives(model, x)``, without its checks and by the compiled kernel
    if it supports the model.  It is meant for loops over small batches.
    """
    slopes = model.slopes(x)
    if slopes is not None:
        return slopes
    with torch.no_grad():
        computed = run(chain(model), x)
    return computed.mean[:, 0], computed.variance[:, 0], computed.curvature[:, 0]


def chain(model: TAGI) -> Chain:
    """Return the linear layers and activations of a model, or raise ``UnsupportedLayer``."""
    weights: list[GaussianWeights] = []
    biases: list[tuple[Tensor | None, Tensor | None]] = []
    slopes: list[Slopes | None] = [None]
    parameters = model.posterior.gaussians()
    names = layer_iteration.parameter_names(model.net)
    for name, layer in ((found.name, found.module) for found in layer_iteration.layers(model.net)):
        if isinstance(layer, nn.Linear):
            weights.append(GaussianWeights(*_moments(parameters, names, layer.weight)))
            if layer.bias is None:
                biases.append((None, None))
            else:
                biases.append(_moments(parameters, names, layer.bias))
            slopes.append(None)
        elif not isinstance(layer, nn.Identity | nn.Dropout):
            if slopes[-1] is not None:
                raise UnsupportedLayer(
                    f"{name!r} is a second activation after one linear layer: {_SUPPORTED}"
                )
            slopes[-1] = _slopes(name, layer)
    if not weights:
        raise UnsupportedLayer(f"the network has no nn.Linear: {_SUPPORTED}")
    return Chain(weights, biases, [s or input_derivative.linear for s in slopes])


def run(net: Chain, x: Gaussian, order: int = 1, sums: Sums = "nodes") -> Derivatives:
    """Propagate moments forward and derivatives backward through the layers, unchecked."""
    layers = [net.slopes[0](x.loc, x.variance)]
    for w, b, slopes in zip(net.weights, net.biases, net.slopes[1:], strict=True):
        below = layers[-1]
        z = bilinear.forward(
            maps.LinearMap(), (below.mean, below.variance), (w.mean, w.variance), b
        )
        layers.append(slopes(*z))
    value = Gaussian.wrap(layers[-1].mean, layers[-1].variance)
    hessian = _hessian(net, layers) if order == 2 else None
    top = layers.pop()
    branches = input_derivative.start(top)
    curvature = branches.mean
    for w in reversed(net.weights):
        low = layers.pop()
        if not layers:
            curvature = input_derivative.input_covariance(branches, top, w, low)
        branches = input_derivative.pull(branches, top, w, low, sums)
        top = low
    covariance = curvature * x.variance.unsqueeze(1)
    return Derivatives(value, branches.mean, branches.variance, curvature, covariance, hessian)


def _hessian(net: Chain, layers: list[ActivationMoments]) -> Tensor:
    """Return the sum over layers of (output by a_i) E[phi''(z_i)] (z_i by x_j) (z_i by x_k)."""
    rows, inputs = layers[0].mean.shape
    like = layers[0].mean
    down = torch.eye(inputs, dtype=like.dtype, device=like.device).expand(rows, -1, -1)
    downs = [down]
    for w, units in zip(net.weights, layers[:-1], strict=True):
        down = w.mean @ (units.slope.unsqueeze(2) * down)
        downs.append(down)
    outputs = layers[-1].mean.shape[1]
    up = torch.eye(outputs, dtype=like.dtype, device=like.device).expand(rows, -1, -1)
    total = like.new_zeros(rows, outputs, inputs, inputs)
    for i in range(len(layers) - 1, -1, -1):
        units = layers[i]
        second = units.second
        if second is not None:
            total += torch.einsum("bki,bij,bil->bkjl", up * second.unsqueeze(1),
                                  downs[i], downs[i])  # fmt: skip
        if i:
            up = (up * units.slope.unsqueeze(1)) @ net.weights[i - 1].mean
    return total


def _moments(
    parameters: dict[str, Gaussian], names: dict[int, str], parameter: Tensor
) -> tuple[Tensor, Tensor]:
    """Return mean and variance of a parameter, looked up by its (possibly shared) name."""
    name = names[id(parameter)]
    if name in parameters:
        return parameters[name].loc, parameters[name].variance
    return parameter.detach(), torch.zeros_like(parameter)


def _slopes(name: str, layer: nn.Module) -> Slopes:
    if isinstance(layer, nn.LeakyReLU):
        return partial(input_derivative.leaky_relu, negative_slope=layer.negative_slope)
    for kind, slopes in _SLOPES.items():
        if type(layer) is kind:
            return slopes
    where = f"layer {name!r}" if name else "the network"
    raise UnsupportedLayer(f"{where} is a {type(layer).__name__}: {_SUPPORTED}")


_SLOPES: dict[type[nn.Module], Slopes] = {
    nn.Tanh: input_derivative.tanh,
    nn.Sigmoid: input_derivative.sigmoid,
    nn.ReLU: input_derivative.relu,
}
_SUPPORTED = (
    "derivatives cover nn.Sequential of nn.Linear with one activation between two of them "
    "(Tanh, Sigmoid, ReLU, LeakyReLU or Identity)"
)
