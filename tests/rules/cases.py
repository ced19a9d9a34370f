"""The table of rules under test: each torch function with the shapes of its arguments.

Three kinds, by what is true of them:

* ``LINEAR``: affine in all arguments together; moments and messages follow from a matrix.
* ``BILINEAR``: linear in each of two independent arguments, plus a bias.
* ``ELEMENTWISE``: a curve, entry by entry; some with exact moments.

Add a rule's torch function here and every test of the battery covers it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.rules import functions
from tractable.moments.bilinear import BilinearMap
from tractable.moments.maps import Convolution, LinearMap, MatMul, Multiply
from tractable.testing import RuleCase
from tractable.testing.rules import Kind


@dataclass(frozen=True)
class Case(RuleCase):
    """A function that is linear in each of its arguments."""

    map: BilinearMap | None = None
    """For a bilinear case that is only a map of ``tractable.moments.maps``."""


_ROWS = torch.tensor([[0, 2, 2], [1, 0, 2]])
_COLUMN = torch.tensor([[0.7], [-1.3], [2.1]], dtype=torch.float64)
_CENTER = torch.tensor([0.4, -1.1], dtype=torch.float64)
_SPREAD = torch.tensor([0.3, 2.2], dtype=torch.float64)
_PLANE = (1, 2, 3, 5)


def _scale(x: Tensor, function: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    return function(x, _COLUMN.to(x.dtype))


def _running(x: Tensor, weight: Any = None, bias: Any = None) -> Tensor:
    # With a weight the center is zero, so that the case is purely bilinear.
    center = _CENTER if weight is None else torch.zeros_like(_CENTER)
    return F.batch_norm(x, center.to(x.dtype), _SPREAD.to(x.dtype), weight, bias, training=False)


def _in_place_add(x: Tensor, y: Tensor) -> Tensor:
    z = x + 0.0
    z += y
    return z


LINEAR = [
    Case("sum", torch.sum, ((2, 3),)),
    Case("sum over a dimension", lambda x: x.sum(1, keepdim=True), ((2, 3),)),
    Case("mean", torch.mean, ((2, 3),)),
    Case("mean over dimensions", lambda x: x.mean((0, 2)), ((2, 3, 2),)),
    Case("add", torch.add, ((2, 3), (2, 3))),
    Case("add, broadcast", lambda x, y: x + y, ((2, 3), (2, 1))),
    Case("add with alpha", lambda x, y: torch.add(x, y, alpha=-2.5), ((2, 3), (3,))),
    Case("add to itself", lambda x: x + x, ((2, 3),)),
    Case("in-place add", _in_place_add, ((2, 3), (2, 3))),
    Case("add a constant", lambda x: _scale(x, torch.add), ((2, 3, 2),)),
    Case("add a number", lambda x: 1.5 + x, ((2, 3),)),
    Case("subtract", lambda x, y: x - y, ((2, 3), (3,))),
    Case("subtract with alpha", lambda x, y: torch.sub(x, y, alpha=3), ((2, 3), (2, 3))),
    Case("subtract from itself", lambda x: x - x, ((2, 3),)),
    Case("subtract from a number", lambda x: 2 - x, ((2, 3),)),
    Case("subtract from a constant", lambda x: _scale(x, lambda a, c: c - a), ((2, 3, 2),)),
    Case("negate", lambda x: -x, ((2, 3),)),
    Case("multiply by a number", lambda x: x * -1.7, ((2, 3),)),
    Case("multiply by a constant", lambda x: _scale(x, lambda a, c: c * a), ((2, 3, 2),)),
    Case("divide by a number", lambda x: x / 3, ((2, 3),)),
    Case("divide by a constant", lambda x: _scale(x, torch.div), ((2, 3, 2),)),
    Case("avg_pool1d", lambda x: F.avg_pool1d(x, 2), ((1, 2, 5),)),
    Case("avg_pool1d, padded", lambda x: F.avg_pool1d(x, 3, 2, 1), ((1, 2, 6),)),
    Case(
        "avg_pool1d, ceil, pad not counted",
        lambda x: F.avg_pool1d(x, (3,), (2,), (1,), True, False),
        ((2, 6),),
    ),
    Case("avg_pool2d", lambda x: F.avg_pool2d(x, 2), (_PLANE,)),
    Case("avg_pool2d, overlapping", lambda x: F.avg_pool2d(x, (2, 3), stride=1), (_PLANE,)),
    Case("avg_pool2d, padded", lambda x: F.avg_pool2d(x, 2, padding=1), (_PLANE,)),
    Case(
        "avg_pool2d, padded, pad not counted",
        lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        (_PLANE,),
    ),
    Case("avg_pool2d, ceil", lambda x: F.avg_pool2d(x, 2, ceil_mode=True), (_PLANE,)),
    Case(
        "avg_pool2d, ceil, padded",
        lambda x: F.avg_pool2d(x, (3, 2), (2, 3), (1, 1), ceil_mode=True),
        (_PLANE,),
    ),
    Case("avg_pool2d, divisor", lambda x: F.avg_pool2d(x, 2, divisor_override=3), (_PLANE,)),
    Case(
        "avg_pool2d, divisor, padded",
        lambda x: F.avg_pool2d(x, 2, padding=1, divisor_override=3),
        (_PLANE,),
    ),
    Case("avg_pool2d, unbatched", lambda x: F.avg_pool2d(x, 2, padding=1), ((2, 3, 3),)),
    Case("avg_pool3d", lambda x: F.avg_pool3d(x, 2, padding=1), ((1, 1, 2, 3, 2),)),
    Case("adaptive_avg_pool1d", lambda x: F.adaptive_avg_pool1d(x, 3), ((1, 2, 5),)),
    Case("adaptive_avg_pool2d to 1", lambda x: F.adaptive_avg_pool2d(x, 1), (_PLANE,)),
    Case("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (2, 3)), (_PLANE,)),
    Case("adaptive_avg_pool2d, None", lambda x: F.adaptive_avg_pool2d(x, (None, 2)), (_PLANE,)),
    Case("adaptive_avg_pool3d", lambda x: F.adaptive_avg_pool3d(x, (1, 2, 2)), ((1, 3, 3, 2),)),
    Case("embedding", lambda w: F.embedding(_ROWS, w), ((3, 2),)),
    Case("cat", lambda x, y: torch.cat([x, y], dim=1), ((2, 3), (2, 1))),
    Case("stack", lambda x, y: torch.stack((x, y), -1), ((2, 3), (2, 3))),
    Case("hstack", lambda x, y: torch.hstack([x, y]), ((2,), (3,))),
    Case("view", lambda x: x.view(3, 2), ((2, 3),)),
    Case("reshape", lambda x: x.T.reshape(-1), ((2, 3),)),
    Case("flatten", lambda x: torch.flatten(x, 1), ((2, 3, 2),)),
    Case("unflatten", lambda x: x.unflatten(1, (2, -1)), ((2, 4),)),
    Case("permute", lambda x: x.permute(2, 0, 1), ((2, 3, 2),)),
    Case("transpose", lambda x: x.transpose(0, 1), ((2, 3),)),
    Case("mT", lambda x: x.mT, ((2, 3, 2),)),
    Case("movedim", lambda x: x.movedim(0, 2), ((2, 3, 2),)),
    Case("squeeze", lambda x: x.squeeze(1), ((2, 1, 3),)),
    Case("unsqueeze", lambda x: x.unsqueeze(0), ((2, 3),)),
    Case("index", lambda x: x[1], ((2, 3),)),
    Case("slice", lambda x: x[:, ::2, None], ((2, 3),)),
    Case("index by a list", lambda x: x[:, [2, 0, 0]], ((2, 3),)),
    Case("index_select", lambda x: x.index_select(1, torch.tensor([2, 0])), ((2, 3),)),
    Case("narrow", lambda x: x.narrow(1, 1, 2), ((2, 3),)),
    Case("select", lambda x: x.select(1, 1), ((2, 3),)),
    Case("gather", lambda x: x.gather(1, torch.tensor([[2, 1], [0, 0]])), ((2, 3),)),
    Case("chunk", lambda x: x.chunk(2, 1)[1], ((2, 3),)),
    Case("split", lambda x: torch.split(x, [1, 2], 1)[1], ((2, 3),)),
    Case("unbind", lambda x: x.unbind(1)[2], ((2, 3),)),
    Case("iterate", lambda x: list(x)[1], ((2, 3),)),
    Case("expand", lambda x: x.expand(2, 3), ((3,),)),
    Case("repeat", lambda x: x.repeat(2, 1), ((2, 3),)),
    Case("flip", lambda x: x.flip(1), ((2, 3),)),
    Case("roll", lambda x: x.roll(1, 0), ((2, 3),)),
    Case("tril", torch.tril, ((3, 3),)),
    Case("pad", lambda x: F.pad(x, (1, 2), value=0.7), ((2, 3),)),
    Case("pad, reflect", lambda x: F.pad(x, (1, 2), mode="reflect"), ((2, 3),)),
    Case("pad, circular", lambda x: F.pad(x, (1, 2), mode="circular"), ((1, 2, 3),)),
    Case("dropout", lambda x: F.dropout(x, 0.0), ((2, 3),)),
    Case("batch_norm, running statistics", _running, ((3, 2),)),
]


def _same(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    with warnings.catch_warnings():  # torch warns that uneven padding costs a copy
        warnings.simplefilter("ignore")
        return F.conv2d(x, w, b, padding="same", dilation=(1, 2))


def _conv(
    name: str, function: Any, x: Any, w: Any, bias: int | None, geometry: Convolution
) -> Case:
    options: dict[str, Any] = {
        "stride": geometry.stride,
        "padding": geometry.padding,
        "dilation": geometry.dilation,
        "groups": geometry.groups,
    }
    if geometry.transposed:
        options["output_padding"] = geometry.output_padding
    shapes = (x, w) if bias is None else (x, w, (bias,))
    return Case(name, lambda *args: function(*args, **options), shapes, map=geometry)


BILINEAR = [
    Case("linear", F.linear, ((3, 4), (2, 4), (2,)), map=LinearMap()),
    Case("linear, no bias", F.linear, ((3, 4), (2, 4)), map=LinearMap()),
    Case("linear, one row", F.linear, ((4,), (2, 4), (2,)), map=LinearMap()),
    Case("linear, sequence", F.linear, ((2, 2, 3), (2, 3), (2,)), map=LinearMap()),
    Case("linear, one unit", F.linear, ((3, 4), (4,))),
    _conv("conv1d", F.conv1d, (2, 2, 4), (3, 2, 2), 3, Convolution((1,), (0,), (1,), 1)),
    _conv("conv1d, dilated", F.conv1d, (1, 2, 6), (2, 2, 2), 2, Convolution((2,), (1,), (2,), 1)),
    _conv(
        "conv2d",
        F.conv2d,
        (1, 2, 3, 3),
        (2, 2, 2, 2),
        2,
        Convolution((1, 1), (0, 0), (1, 1), 1),
    ),
    _conv(
        "conv2d, stride, padding, dilation",
        F.conv2d,
        (1, 1, 4, 3),
        (2, 1, 2, 2),
        None,
        Convolution((2, 1), (1, 1), (2, 1), 1),
    ),
    _conv(
        "conv2d, groups",
        F.conv2d,
        (1, 4, 2, 2),
        (2, 2, 2, 1),
        2,
        Convolution((1, 1), (1, 0), (1, 1), 2),
    ),
    Case("conv2d, same", _same, ((1, 1, 3, 4), (2, 1, 2, 2), (2,))),
    Case("conv2d, unbatched", F.conv2d, ((1, 3, 3), (2, 1, 2, 2), (2,))),
    Case("conv1d, valid", lambda x, w: F.conv1d(x, w, padding="valid"), ((1, 2, 4), (1, 2, 3))),
    _conv(
        "conv3d",
        F.conv3d,
        (1, 1, 2, 2, 2),
        (1, 1, 2, 1, 2),
        1,
        Convolution((1, 1, 1), (0, 0, 1), (1, 1, 1), 1),
    ),
    _conv(
        "conv_transpose1d",
        F.conv_transpose1d,
        (1, 2, 3),
        (2, 2, 2),
        2,
        Convolution((2,), (0,), (1,), 1, True, (0,)),
    ),
    _conv(
        "conv_transpose2d",
        F.conv_transpose2d,
        (1, 2, 2, 2),
        (2, 1, 2, 2),
        1,
        Convolution((2, 1), (0, 1), (1, 1), 1, True, (1, 0)),
    ),
    _conv(
        "conv_transpose2d, groups",
        F.conv_transpose2d,
        (1, 2, 2, 2),
        (2, 1, 2, 2),
        2,
        Convolution((1, 1), (0, 0), (2, 1), 2, True, (0, 0)),
    ),
    Case("conv_transpose2d, unbatched", F.conv_transpose2d, ((1, 2, 2), (1, 2, 2, 2), (2,))),
    Case("matmul", torch.matmul, ((3, 4), (4, 2)), map=MatMul()),
    Case("matmul, batched", lambda x, y: x @ y, ((2, 2, 3), (2, 3, 2)), map=MatMul()),
    Case("matmul, broadcast", torch.matmul, ((2, 2, 3), (3, 2)), map=MatMul()),
    Case("matmul, broadcast left", torch.matmul, ((2, 3), (2, 1, 3, 2)), map=MatMul()),
    Case("matmul of vectors", torch.matmul, ((4,), (4,))),
    Case("matmul, vector first", torch.matmul, ((4,), (4, 3))),
    Case("matmul, vector last", lambda x, y: x @ y, ((2, 3, 4), (4,))),
    Case("mm", torch.mm, ((2, 3), (3, 2)), map=MatMul()),
    Case("bmm", torch.bmm, ((2, 1, 3), (2, 3, 2)), map=MatMul()),
    Case("multiply", torch.mul, ((2, 3), (2, 3)), map=Multiply()),
    Case("multiply, broadcast", lambda x, y: x * y, ((2, 1, 3), (4, 1)), map=Multiply()),
    Case("batch_norm, running statistics", _running, ((3, 2), (2,), (2,))),
]


LINEAR += [Case(*row) for row in functions.LINEAR]
BILINEAR += [Case(*row) for row in functions.BILINEAR]
TANGENT = [RuleCase(*row, kind="tangent") for row in functions.TANGENT]


@dataclass(frozen=True)
class Curve:
    """An elementwise function; ``positive`` if it is defined for positive numbers only."""

    name: str
    function: Callable[[Tensor], Tensor]
    positive: bool = False
    smooth: bool = True
    exact: bool = False
    """Whether ``activation_moments("exact")`` has a closed form."""
    always_exact: bool = False
    bounded: bool = False
    """Whether that mode has bounded moments, which are nearly exact."""

    def case(self, kind: Kind) -> RuleCase:
        """This curve, held to the tangent or to its exact moments."""
        scale = 0.1 if kind == "exact" and self.name == "exp" else 1.0
        return RuleCase(self.name, self.function, ((8,),), kind, self.positive, scale)


ELEMENTWISE = [
    Curve("relu", torch.relu, smooth=False, exact=True),
    Curve("relu of F, in place", lambda x: F.relu(x + 0, inplace=True), smooth=False, exact=True),
    Curve("leaky_relu", F.leaky_relu, smooth=False, exact=True),
    Curve("leaky_relu, 0.3", lambda x: F.leaky_relu(x, 0.3), smooth=False, exact=True),
    Curve("abs", torch.abs, smooth=False, exact=True),
    Curve("tanh", torch.tanh, bounded=True),
    Curve("sigmoid", torch.sigmoid, bounded=True),
    Curve("softplus", F.softplus),
    Curve("softplus, beta", lambda x: F.softplus(x, beta=2)),
    Curve("gelu", F.gelu),
    Curve("gelu, tanh", lambda x: F.gelu(x, approximate="tanh")),
    Curve("silu", F.silu),
    Curve("elu", lambda x: F.elu(x, 0.8), smooth=False),
    Curve("exp", torch.exp, exact=True),
    Curve("log", torch.log, positive=True),
    Curve("sqrt", torch.sqrt, positive=True),
    Curve("reciprocal", torch.reciprocal, positive=True),
    Curve("divide a number", lambda x: 2 / x, positive=True),
    Curve("sin", torch.sin, exact=True),
    Curve("cos", torch.cos, exact=True),
    Curve("cube", lambda x: x**3),
    Curve("power", lambda x: torch.pow(x, -1.5), positive=True),
    Curve("square", torch.square, exact=True, always_exact=True),
    Curve("power of two", lambda x: x**2, exact=True, always_exact=True),
    Curve("product with itself", lambda x: x * x, exact=True, always_exact=True),
]
EXACT = [curve for curve in ELEMENTWISE if curve.exact]
LINEARIZED = [curve for curve in ELEMENTWISE if not curve.always_exact]


def label(case: RuleCase | Curve) -> str:
    """The name pytest shows."""
    return case.name.replace(" ", "-").replace(",", "")
