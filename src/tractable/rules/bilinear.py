"""Moment rules of products: linear layers, convolutions, matrix and elementwise products.

Exact: mean and variance of each entry, for independent factors.
Approximate: the entries of a result share factors and are correlated; they are treated as
independent and Gaussian.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tractable.gaussian import Gaussian, moment_rule
from tractable.moments import activation as act
from tractable.moments.bilinear import BilinearMap
from tractable.moments.maps import Convolution, LinearMap, MatMul, Multiply
from tractable.rules import shared_variance_products
from tractable.rules.activation import elementwise
from tractable.rules.autograd import BilinearFunction
from tractable.torch_functions import torch_functions

Operand = Gaussian | Tensor


def moments_of(x: Any) -> tuple[Any, Tensor | None]:
    """Return mean and variance of an operand; the variance of a constant is None."""
    if isinstance(x, Gaussian):
        return x.loc, x.variance
    return x, None


def product(map: BilinearMap, x: Operand, w: Operand, b: Operand | None = None) -> Gaussian:
    """Return ``map(x, w) + b``, where each operand is a Gaussian or a constant."""
    if not isinstance(x, Gaussian) and not isinstance(w, Gaussian):
        if b is None:
            raise TypeError("a product of two constants is not a Gaussian: pass at least one")
        constant = map.apply(x, w, None)
        assert isinstance(b, Gaussian)
        shape = [1] * constant.ndim
        shape[1 if isinstance(map, Convolution) else -1] = -1
        z: Any = constant + b.reshape(shape)
        return Gaussian.wrap(
            z.loc, z.variance, shared_variance_products.of_product(map, x, w, b, z.variance)
        )
    b_moments = (None, None) if b is None else moments_of(b)
    loc, variance = BilinearFunction.apply(map, *moments_of(x), *moments_of(w), *b_moments)
    return Gaussian.wrap(loc, variance, shared_variance_products.of_product(map, x, w, b, variance))


@moment_rule(F.linear)
def linear(input: Operand, weight: Operand, bias: Operand | None = None) -> Gaussian:
    """Return ``input weight^T + bias``."""
    if weight.dim() == 1 and bias is None:
        return matmul(input, weight)
    return product(LinearMap(), input, weight, bias)


def _convolution(dims: int, transposed: bool) -> Any:
    def per_dim(value: int | tuple[int, ...]) -> tuple[int, ...]:
        return (value,) * dims if isinstance(value, int) else tuple(value) * (dims // len(value))

    def run(x: Operand, weight: Operand, bias: Operand | None, geometry: Convolution) -> Gaussian:
        batched = x.dim() == dims + 2
        z = product(geometry, x if batched else x.unsqueeze(0), weight, bias)
        return z if batched else z.squeeze(0)  # type: ignore[return-value]

    def convolve(
        input: Operand,
        weight: Operand,
        bias: Operand | None = None,
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] | str = 0,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
    ) -> Gaussian:
        dilation = per_dim(dilation)
        if padding == "valid":
            padding = 0
        if padding == "same":
            total = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
            pads = [side for t in reversed(total) for side in (t // 2, t - t // 2)]
            if any(s != 1 for s in per_dim(stride)):
                raise ValueError(f"padding='same' needs stride 1, got {stride}")
            return convolve(F.pad(input, pads), weight, bias, stride, 0, dilation, groups)
        if isinstance(padding, str):
            raise ValueError(
                f"padding must be 'valid', 'same', an integer or a tuple, got {padding!r}"
            )
        geometry = Convolution(per_dim(stride), per_dim(padding), dilation, groups)
        return run(input, weight, bias, geometry)

    def convolve_transposed(
        input: Operand,
        weight: Operand,
        bias: Operand | None = None,
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        output_padding: int | tuple[int, ...] = 0,
        groups: int = 1,
        dilation: int | tuple[int, ...] = 1,
    ) -> Gaussian:
        geometry = Convolution(
            per_dim(stride),
            per_dim(padding),
            per_dim(dilation),
            groups,
            True,
            per_dim(output_padding),
        )
        return run(input, weight, bias, geometry)

    return convolve_transposed if transposed else convolve


for _dims, _plain, _transposed in (
    (1, F.conv1d, F.conv_transpose1d),
    (2, F.conv2d, F.conv_transpose2d),
    (3, F.conv3d, F.conv_transpose3d),
):
    moment_rule(_plain)(_convolution(_dims, transposed=False))
    moment_rule(_transposed)(_convolution(_dims, transposed=True))


@moment_rule(*torch_functions("matmul"), Tensor.__matmul__)
def matmul(input: Operand, other: Operand) -> Gaussian:
    """Return ``input @ other``; both are treated as independent."""
    x = input.unsqueeze(0) if input.dim() == 1 else input
    w = other.unsqueeze(-1) if other.dim() == 1 else other
    z: Any = product(MatMul(), x, w)
    if input.dim() == 1:
        z = z.squeeze(-2)
    return z.squeeze(-1) if other.dim() == 1 else z


@moment_rule(Tensor.__rmatmul__)
def _reflected_matmul(input: Operand, other: Operand) -> Gaussian:
    return matmul(other, input)


@moment_rule(*torch_functions("mul"), *torch_functions("multiply"), Tensor.__mul__, Tensor.__rmul__)
def multiply(input: Operand | float, other: Operand | float) -> Gaussian:
    """Return ``input * other`` (eqs. 11 and 14).

    Exact: by a constant, and of a Gaussian with itself.
    Approximate: two different Gaussians are treated as independent.
    """
    if isinstance(input, Gaussian) and input is other:
        return square(input)
    if isinstance(input, Gaussian) and isinstance(other, Gaussian):
        return product(Multiply(), input, other)
    x, c = (input, other) if isinstance(input, Gaussian) else (other, input)
    assert isinstance(x, Gaussian)
    # Not c * c first: it would overflow for integers and round to the precision of c.
    return x.with_moments(x.loc * c, x.variance * c * c)


@moment_rule(*torch_functions("square"))
def square(input: Gaussian) -> Gaussian:
    """Return ``input ** 2``, whose first two moments are exact."""
    return elementwise(input, act.square)


@moment_rule(torch.pow, Tensor.pow, Tensor.__pow__)
def power(input: Gaussian, exponent: Any) -> Gaussian:
    """Return ``input ** exponent`` for a constant exponent; exact for 1 and 2, else linearized."""
    if isinstance(exponent, Gaussian) or not isinstance(input, Gaussian):
        raise TypeError("a Gaussian exponent has no moment rule: the exponent must be a constant")
    if isinstance(exponent, int | float) and exponent == 1:
        return multiply(input, 1)  # a new Gaussian, which may be changed in place
    if isinstance(exponent, int | float) and exponent == 2:
        return square(input)

    def kernel(mu: Tensor, var: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        slope = exponent * mu ** (exponent - 1)
        slope = torch.where(torch.as_tensor(exponent == 0), 0.0, slope)  # also where mu is 0
        return mu**exponent, slope * slope * var, slope

    return elementwise(input, kernel)
