"""A custom ``autograd.Function`` is supported if its backward is its derivative."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import tractable as tr

X, Y = torch.linspace(-1, 1, 8).unsqueeze(1), torch.ones(8, 1)


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx: Any, *d: Any) -> Any:
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return d[0] * s * (1 + x * (1 - s))


class SwishWithContext(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x * torch.sigmoid(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    backward = Swish.backward


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *d: Any) -> Any:
        return -d[0]


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return torch.sign(x)

    @staticmethod
    def backward(ctx: Any, *d: Any) -> Any:
        return d[0]


class Call(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)  # type: ignore[no-any-return]


def by_hand(x: Tensor) -> Tensor:
    return x * torch.sigmoid(x)


def model(function: Any) -> Any:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(1, 3), Call(function), nn.Linear(3, 1))
    return tr.TAGI(net, tr.likelihoods.Normal(0.5), engine="torch", seed=1)


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad:UserWarning")
@pytest.mark.parametrize(
    "function",
    [Swish.apply, SwishWithContext.apply, lambda x: checkpoint(by_hand, x, use_reentrant=True)],
    ids=["Function", "setup_context", "reentrant checkpoint"],
)
def test_messages_pass_as_through_the_functions_of_the_forward(function: Any) -> None:
    ours, wanted = model(function).update(X, Y), model(by_hand).update(X, Y)
    assert torch.equal(ours.posterior.loc, wanted.posterior.loc)
    assert torch.equal(ours.posterior.variance, wanted.posterior.variance)


@pytest.mark.parametrize("function", [Reverse, StraightThrough], ids=lambda f: f.__name__)
def test_another_backward_raises_an_error_with_the_name(function: Any) -> None:
    learner = model(function.apply)
    before = copy.deepcopy(learner.posterior.loc)
    for _ in range(2):  # the answer is kept, not forgotten
        with pytest.raises(tr.NoMomentRule, match=function.__name__):
            learner.update(X, Y)
    assert torch.equal(learner.posterior.loc, before)
    learner.predict(X)  # needs no messages


def test_a_part_without_gradients_stays_without_messages() -> None:
    """``torch.no_grad`` in a network has the same meaning as in torch."""

    class Frozen(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(1, 3), nn.Linear(3, 1)

        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():
                h = torch.tanh(self.a(x))
            return self.b(h)  # type: ignore[no-any-return]

    learner = tr.TAGI(Frozen(), tr.likelihoods.Normal(0.5), engine="torch")
    first = {name: g.loc.clone() for name, g in learner.posterior.items()}
    learner.update(X, Y)
    moved = {n for n, g in learner.posterior.items() if not torch.equal(g.loc, first[n])}
    assert moved == {"b.weight", "b.bias"}
