"""How a function is called makes no difference: keywords, methods, in place, aliases, ``axis``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._pytree import tree_map

from tractable import Gaussian
from tractable.testing.gaussians import gaussian, generator

INDEX = torch.tensor([[0, 2, 1], [1, 1, 0]])
MASK = INDEX == 1

CALLS: list[tuple[str, tuple[str, ...], tuple[Any, ...]]] = [
    ("baddbmm", ("input", "batch1", "batch2"), ((2, 3, 5), (2, 3, 4), (2, 4, 5))),
    ("addbmm", ("input", "batch1", "batch2"), ((3, 5), (2, 3, 4), (2, 4, 5))),
    ("addmm", ("input", "mat1", "mat2"), ((3, 5), (3, 4), (4, 5))),
    ("addmv", ("input", "mat", "vec"), ((3,), (3, 4), (4,))),
    ("addr", ("input", "vec1", "vec2"), ((3, 4), (3,), (4,))),
    ("addcmul", ("input", "tensor1", "tensor2"), ((3,), (3,), (3,))),
    ("addcdiv", ("input", "tensor1", "tensor2"), ((3,), (3,), (3,))),
    ("mm", ("input", "mat2"), ((3, 4), (4, 2))),
    ("bmm", ("input", "mat2"), ((2, 3, 4), (2, 4, 2))),
    ("mv", ("input", "vec"), ((3, 4), (4,))),
    ("dot", ("input", "tensor"), ((4,), (4,))),
    ("vdot", ("input", "other"), ((4,), (4,))),
    ("inner", ("input", "other"), ((2, 4), (3, 4))),
    ("outer", ("input", "vec2"), ((2,), (3,))),
    ("ger", ("input", "vec2"), ((2,), (3,))),
    ("matmul", ("input", "other"), ((2, 3), (3, 2))),
    ("add", ("input", "other"), ((2, 3), (3,))),
    ("sub", ("input", "other"), ((2, 3), (3,))),
    ("mul", ("input", "other"), ((2, 3), (3,))),
    ("div", ("input", "other"), ((2, 3), (3,))),
    ("maximum", ("input", "other"), ((2, 3), (3,))),
    ("lerp", ("input", "end", "weight"), ((3,), (3,), (3,))),
    ("cosine_similarity", ("x1", "x2"), ((2, 3), (2, 3))),
    ("view_as", ("input", "other"), ((2, 3), (3, 2))),
    ("reshape_as", ("input", "other"), ((2, 3), (3, 2))),
    ("expand_as", ("input", "other"), ((1, 3), (2, 3))),
    ("pow", ("input", "exponent"), ((2, 3), 3)),
    ("pow", ("input", "exponent"), ((2, 3), 1)),
    ("softmax", ("input", "dim"), ((2, 3), 1)),
    ("sum", ("input", "dim", "keepdim"), ((2, 3), 1, True)),
    ("mean", ("input", "dim"), ((2, 3), 1)),
    ("max", ("input", "dim"), ((2, 3), 1)),
    ("transpose", ("input", "dim0", "dim1"), ((2, 3), 0, 1)),
    ("narrow", ("input", "dim", "start", "length"), ((2, 3), 1, 0, 2)),
    ("gather", ("input", "dim", "index"), ((2, 3), 1, INDEX)),
    ("masked_fill", ("input", "mask", "value"), ((2, 3), MASK, 2.0)),
    ("index_fill", ("input", "dim", "index", "value"), ((2, 3), 1, INDEX[0, :2], 2.0)),
    ("scatter", ("input", "dim", "index", "src"), ((2, 3), 1, INDEX, (2, 3))),
    ("scatter", ("input", "dim", "index", "value"), ((2, 3), 1, INDEX, 2.0)),
    ("scatter_add", ("input", "dim", "index", "src"), ((2, 3), 1, INDEX, (2, 3))),
    ("index_add", ("input", "dim", "index", "source"), ((2, 3), 1, INDEX[0], (2, 3))),
    ("where", ("condition", "input", "other"), (MASK, (2, 3), (2, 3))),
    ("clamp", ("input", "min", "max"), ((2, 3), -0.5, 0.5)),
    ("diff", ("input", "n", "dim"), ((2, 3), 2, 1)),
    ("repeat_interleave", ("input", "repeats", "dim"), ((2, 3), 2, 1)),
    ("roll", ("input", "shifts", "dims"), ((2, 3), 1, 0)),
    ("flip", ("input", "dims"), ((2, 3), (0,))),
    ("chunk", ("input", "chunks", "dim"), ((2, 4), 2, 1)),
    ("var", ("input", "dim"), ((2, 3), 1)),
    ("prod", ("input", "dim"), ((2, 3), 1)),
    ("logsumexp", ("input", "dim"), ((2, 3), 1)),
    ("topk", ("input", "k", "dim"), ((2, 3), 2, 1)),
    ("cumsum", ("input", "dim"), ((2, 3), 1)),
]
"""Name and arguments in order; a shape denotes a Gaussian."""
NO_SHAPES = ("flip",)


def values(name: str, arguments: tuple[Any, ...]) -> list[Any]:
    source = generator("calls", name)
    shapes = [
        isinstance(a, tuple) and (i == 0 or name not in NO_SHAPES) for i, a in enumerate(arguments)
    ]
    return [
        gaussian(a, "moderate", source) if shape else a
        for a, shape in zip(arguments, shapes, strict=True)
    ]


def same(a: Any, b: Any) -> None:
    if isinstance(a, tuple | list):
        for one, other in zip(a, b, strict=True):
            same(one, other)
    elif isinstance(a, Gaussian):
        assert isinstance(b, Gaussian)
        torch.testing.assert_close([a.loc, a.variance], [b.loc, b.variance], rtol=0, atol=0)
    else:
        assert torch.equal(a, b)


def mean(value: Any) -> Any:
    return value.loc.clone() if isinstance(value, Gaussian) else value


@pytest.mark.parametrize(
    ("name", "names", "arguments"), CALLS, ids=[f"{c[0]}-{c[1][-1]}" for c in CALLS]
)
def test_keywords_are_positions(
    name: str, names: tuple[str, ...], arguments: tuple[Any, ...]
) -> None:
    """With every number of arguments by keyword that torch takes, as function and as method."""
    given = values(name, arguments)
    ways: list[tuple[Any, int]] = []
    if hasattr(torch, name):
        ways += [(getattr(torch, name), n) for n in range(len(given) + 1)]
    if names[0] == "input":
        ways += [(getattr(Tensor, name), n) for n in range(1, len(given) + 1)]
    taken, first = 0, None
    for function, n in ways:
        named = dict(zip(names[n:], given[n:], strict=True))
        try:  # calls refused by torch are excluded
            plain = function(*map(mean, given[:n]), **{k: mean(v) for k, v in named.items()})
        except TypeError:
            continue
        found = function(*given[:n], **named)
        first = found if first is None else first
        same(first, found)
        means = tree_map(mean, found)
        torch.testing.assert_close(
            tuple(means) if isinstance(means, tuple | list) else means,
            tuple(plain) if isinstance(plain, tuple | list) else plain,
        )
        taken += 1
    assert taken > 1


def test_constants_in_every_place_of_a_product() -> None:
    """One Gaussian among constants: the others are numbers to be multiplied by."""
    for name, _, shapes in CALLS[:9]:
        function = getattr(torch, name)
        given = values(name, shapes)
        for k in range(len(given)):
            mixed = [g if i == k else g.loc for i, g in enumerate(given)]
            z = function(*mixed)
            assert isinstance(z, Gaussian)
            torch.testing.assert_close(z.loc, function(*(g.loc for g in given)))
            j: Any = torch.autograd.functional.jacobian(
                lambda t, k=k, mixed=mixed, f=function: f(*mixed[:k], t, *mixed[k + 1 :]),
                given[k].loc,
            )
            spread = j.reshape(z.numel(), -1).square() @ given[k].variance.reshape(-1)
            if name != "addcdiv" or k < 2:  # a Gaussian divisor has a tangent: below
                torch.testing.assert_close(z.variance.reshape(-1), spread)


REDUCTIONS = """sum mean prod amax amin max min median mode cummax cummin sort argsort logsumexp var
    std nansum nanmean softmax log_softmax cumsum diff all any argmax argmin""".split()


@pytest.mark.parametrize("name", REDUCTIONS)
def test_axis_and_keepdims_are_dim_and_keepdim(name: str) -> None:
    """NumPy names of arguments, which torch supports too."""
    x = gaussian((2, 3, 4), "moderate", generator("axis", name))
    for home in (torch, Tensor):
        function = getattr(home, name, None)
        if function is None:
            continue
        for axis in (0, 1, -1):
            same(function(x, axis=axis), function(x, dim=axis))
            plain = function(x.loc, axis=axis)
            plain = plain[0] if isinstance(plain, tuple) else plain
            found = function(x, axis=axis)
            found = found[0] if isinstance(found, tuple) else found
            torch.testing.assert_close(mean(found), plain)
            try:
                function(x.loc, axis=axis, keepdims=True)
            except TypeError:
                continue
            same(function(x, axis=axis, keepdims=True), function(x, dim=axis, keepdim=True))


ALIASES: dict[str, Callable[[Any], Any]] = {
    "float": lambda x: x.float(),
    "to type": lambda x: x.to(torch.float32),
    "to device and type": lambda x: x.to("cpu", torch.float32),
    "to copy": lambda x: x.to(torch.float32, copy=True),
    "type": lambda x: x.type(torch.float32),
    "type_as": lambda x: x.type_as(x),
    "cpu": lambda x: x.cpu(),
    "contiguous": lambda x: x.contiguous(),
    "contiguous, transposed": lambda x: x.mT.contiguous(),
    "positive": lambda x: +x,
    "resolve_conj": lambda x: x.resolve_conj(),
    "float, then view": lambda x: x.float().view(-1),
    "double and back": lambda x: x.double().float(),
    "clone": lambda x: x.clone(),
    "detach": lambda x: x.detach(),
    "power of one": lambda x: x**1,
    "times one": lambda x: x * 1,
    "plus nothing": lambda x: x + 0,
    "relu": lambda x: x.relu(),
    "largest": lambda x: x.max(),
    "smallest": lambda x: x.min(),
    "median": lambda x: x.median(),
    "largest of a dimension": lambda x: x.amax(1),
    "first": lambda x: x[0],
    "first by a list": lambda x: x[[0]],
    "first by a slice": lambda x: x[:1],
    "transposed": lambda x: x.mT,
    "reshaped": lambda x: x.reshape(-1),
    "expanded to itself": lambda x: x.expand(x.shape),
    "repeated once": lambda x: x.repeat(1, 1),
    "dropout that drops nothing": lambda x: F.dropout(x, 0.5, False),
    "concatenated with nothing": lambda x: torch.cat([x]),
    "diagonal": lambda x: x.diagonal(),
    "split": lambda x: x.split(1)[0],
    "no difference": lambda x: torch.diff(x, n=0),
}

IN_PLACE: dict[str, Callable[[Any], Any]] = {
    "add_": lambda y: y.add_(1.5),
    "mul_": lambda y: y.mul_(-2.0),
    "assignment": lambda y: y.__setitem__(..., 5.0),
    "relu": lambda y: F.relu(y, inplace=True),
    "zero_": lambda y: y.zero_(),
    "copy_": lambda y: y.copy_(torch.full_like(y, 3.0)),
}


@pytest.mark.parametrize("change", IN_PLACE)
@pytest.mark.parametrize("name", ALIASES)
def test_an_in_place_change_reaches_tensors_that_share_memory_in_torch(
    name: str, change: str
) -> None:
    """And nothing else; of the result and of its source, in both directions."""
    take, write = ALIASES[name], IN_PLACE[change]
    x = gaussian((3, 3), "moderate", generator("alias", name)).float()
    for forward in (True, False):
        plain, g = x.loc.clone(), Gaussian(x.loc.clone(), x.variance.clone())
        y, z = take(plain), take(g)
        write(y if forward else plain)
        write(z if forward else g)
        torch.testing.assert_close(g.loc, plain)
        torch.testing.assert_close(z.loc, y)


def test_polygamma_in_place_has_the_order_of_the_method() -> None:
    x: Any = Gaussian(torch.tensor([0.7, 1.9]), 0.01)
    wanted: Any = torch.polygamma(1, x)
    x.polygamma_(1)
    same(x, wanted)
