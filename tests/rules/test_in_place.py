"""In-place functions affect every reference, base and view of a Gaussian, as in torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tractable as tr
from tractable import Gaussian
from tractable.testing.gaussians import generator, normal


def relu_then_skip(h: Any) -> Any:
    return F.relu(h, inplace=True) + h


def positional(h: Any) -> Any:
    return F.hardtanh(h, -0.5, 0.5, True) + h


def module_then_skip(h: Any) -> Any:
    return nn.LeakyReLU(0.3, inplace=True)(h) + h


def over_a_list(h: Any) -> Any:
    states = [h, h * 2]
    for state in states:
        state += 1
    return states[0] * states[1]


def method(h: Any) -> Any:
    other = h
    h.mul_(2).sub_(1).clamp_(max=1)
    return other


def view_sees_base(h: Any) -> Any:
    v = h.view(2, 6)
    h += 1
    return v


def base_sees_view(h: Any) -> Any:
    h[:, 0].add_(1)
    return h


def sibling_sees_view(h: Any) -> Any:
    w = h.t()
    v = h.view(2, 6)[:, 1:3]
    v *= 2
    return w


def narrowed(h: Any) -> Any:
    h.narrow(1, 1, 2).relu_()
    return h


def copy_does_not_see(h: Any) -> Any:
    k = h.clone()
    h.fill_(2.0)
    return k


def detached_sees(h: Any) -> Any:
    d = h.detach()
    h.add_(1)
    return d


def item_by_mask(h: Any) -> Any:
    h[h > 0] = 0.5
    return h


def row_plus_row(h: Any) -> Any:
    h[1] += h[0]
    return h


def filled_zeros(h: Any) -> Any:
    z = torch.zeros(3, 4, dtype=h.dtype)
    z[:, :2] = h[:, :2]
    return z * 1


def view_of_zeros(h: Any) -> Any:
    z = torch.zeros(3, 4, dtype=h.dtype)
    v = z[:, 1:3]
    v += h[:, :2]
    return z * 1


def empty_then_copy(h: Any) -> Any:
    z = torch.empty_like(h)
    z.copy_(h)
    return z


def scattered(h: Any) -> Any:
    index = torch.tensor([[0] * 4, [1] * 4, [0] * 4])
    return h.new_zeros(2, 4).scatter_add_(0, index, h)


def dropout_keeps(h: Any) -> Any:
    z = F.dropout(h, 0.5, training=False)
    z += 1
    return h


CASES = [
    relu_then_skip, positional, module_then_skip, over_a_list, method, view_sees_base,
    base_sees_view, sibling_sees_view, narrowed, copy_does_not_see, detached_sees,
    item_by_mask, row_plus_row, filled_zeros, view_of_zeros, empty_then_copy, scattered,
    dropout_keeps,
]  # fmt: skip


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_the_result_and_its_messages_are_torchs(function: Callable[[Any], Any]) -> None:
    """Without variance: the same values, and messages that are gradients."""
    loc = normal(torch.zeros(3, 4, dtype=torch.float64), generator("in place"))
    plain = loc.clone().requires_grad_()
    wanted = function(plain * 1.5)
    state, spread = loc.clone().requires_grad_(), torch.zeros_like(loc).requires_grad_()
    z = function(Gaussian.wrap(state, spread) * 1.5)
    assert isinstance(z, Gaussian)
    torch.testing.assert_close(z.loc, wanted, rtol=1e-14, atol=1e-14)
    assert not z.variance.any()
    if not wanted.requires_grad:
        return
    d = normal(wanted, generator("message in place"))
    moments: list[Tensor] = [state, spread]
    got = torch.autograd.grad([z.loc, z.variance], moments, [d, -d.abs()], allow_unused=True)
    (gradient,) = torch.autograd.grad(wanted, plain, d)
    torch.testing.assert_close(got[0], gradient, rtol=1e-13, atol=1e-13)


def test_a_network_that_adds_to_its_input_leaves_the_rows_alone() -> None:
    class Net(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            x += self.bias
            return super().forward(x)

    x = torch.zeros(4, 2)
    model = tr.TAGI(Net(2, 2), tr.likelihoods.Normal(1.0), engine="torch")
    model.predict(x)
    assert type(x) is Tensor
    assert not x.any()


def test_a_buffer_filled_with_a_state_keeps_its_mean() -> None:
    class Net(nn.Linear):
        seen: Tensor

        def __init__(self) -> None:
            super().__init__(2, 2)
            self.register_buffer("seen", torch.zeros(2))

        def forward(self, x: Tensor) -> Tensor:
            z = super().forward(x)
            self.seen.copy_(z.mean(0))
            return z

    model = tr.TAGI(Net(), tr.likelihoods.Normal(1.0), engine="torch")
    model.update(torch.ones(4, 2), torch.ones(4, 2))
    assert type(model.state.buffers["seen"]) is Tensor
    assert model.state.buffers["seen"].abs().sum() > 0
