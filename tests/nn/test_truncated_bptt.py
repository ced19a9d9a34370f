"""Back-propagation through time: the recursion of the book, and the effect of truncation."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tractable as tr
from tractable.nn import TruncatedBPTT
from tractable.testing.gaussians import generator, normal

D = torch.float64
W = torch.tensor([[0.2, -0.4, 0.1], [0.3, 0.1, -0.2], [-0.1, 0.5, 0.2]], dtype=D)
B = torch.tensor([0.1, -0.2, 0.3], dtype=D)
C = torch.tensor([1.0, -2.0, 0.5], dtype=D)
START = torch.tensor([0.5, -0.5, 0.2], dtype=D)
STEPS = 4


def slides() -> nn.RNN:
    """``x(t) = f(W x(t-1) + b(t))`` with the inputs as ``b(t)``."""
    layer = nn.RNN(3, 3, bias=False).double()
    with torch.no_grad():
        layer.weight_ih_l0.copy_(torch.eye(3))
        layer.weight_hh_l0.copy_(W)
    return layer


def trajectory(steps: int) -> tuple[Tensor, Tensor, Tensor, nn.RNN]:
    """Return states, their inputs, ``dR/dW`` and the layer, with ``R = sum c.x(t)``."""
    layer = slides()
    b = B.repeat(STEPS, 1, 1).requires_grad_()
    out, _ = TruncatedBPTT(layer, steps)(b, START.reshape(1, 1, 3))
    return (
        out,
        b,
        torch.autograd.grad((out @ C).sum(), layer.weight_hh_l0, retain_graph=True)[0],
        layer,
    )


def close(got: Tensor, wanted: Any) -> None:
    torch.testing.assert_close(got, torch.tensor(wanted, dtype=D), atol=1e-9, rtol=0)


def test_rec_04_the_case_of_the_slides() -> None:
    out, b, d_w, _ = trajectory(STEPS)
    close((out @ C).sum().detach(), 2.683480878)
    (d_b,) = torch.autograd.grad((out @ C).sum(), b)
    close(d_b.sum((0, 1)), [2.112647764, -7.802901185, 3.778195622])
    close(
        d_w,
        [
            [0.600558653, -0.42237248, 0.425841608],
            [-2.537248772, 1.690382698, -1.356409274],
            [1.364648061, -0.920454922, 0.593786532],
        ],
    )


def test_gradients_are_the_recursion_of_the_slides() -> None:
    """``s(t) = D(t) W^T s(t+1) + D(t) dR/dx(t)``, ``dW = sum s(t) x(t-1)^T``, ``db = sum s(t)``."""
    out, b, d_w, _ = trajectory(STEPS)
    (d_b,) = torch.autograd.grad((out @ C).sum(), b)
    states = torch.cat([START.reshape(1, 3), out.detach()[:, 0]])
    s, total = torch.zeros(3, dtype=D), torch.zeros(3, 3, dtype=D)
    for t in range(STEPS, 0, -1):
        slopes = 1 - states[t].square()
        s = slopes * (W.mT @ s + C)
        torch.testing.assert_close(d_b[t - 1, 0], s)
        total += torch.outer(s, states[t - 1])
    torch.testing.assert_close(d_w, total)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_truncated_gradients_equal_the_recursion_restarted_at_each_segment(steps: int) -> None:
    whole, _, _, _ = trajectory(STEPS)
    out, _, d_w, _ = trajectory(steps)
    torch.testing.assert_close(out, whole)  # no value changes
    states = torch.cat([START.reshape(1, 3), out.detach()[:, 0]])
    total = torch.zeros(3, 3, dtype=D)
    s = torch.zeros(3, dtype=D)
    for t in range(STEPS, 0, -1):
        if t % steps == 0:  # the last step of a segment gets no gradient from later ones
            s = torch.zeros(3, dtype=D)
        s = (1 - states[t].square()) * (W.mT @ s + C)
        total += torch.outer(s, states[t - 1])
    torch.testing.assert_close(d_w, total)


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_truncated_is_full_where_the_window_covers_all(kind: Any) -> None:
    """Moments and messages of Gaussians, too."""
    torch.manual_seed(0)
    layer = kind(2, 3, 2, batch_first=True).double()
    x = normal(torch.zeros(2, 5, 2, dtype=D), generator("x"))

    def run(module: nn.Module, prefix: str) -> tuple[Any, Any]:
        leaves = [
            (p.detach().clone().requires_grad_(), torch.full_like(p, 0.05).requires_grad_())
            for p in layer.parameters()
        ]
        names = [f"{prefix}{n}" for n, _ in layer.named_parameters()]
        weights = {n: tr.Gaussian.wrap(*pair) for n, pair in zip(names, leaves, strict=True)}
        z = torch.func.functional_call(module, weights, (x,))[0]
        d = normal(z.loc.detach(), generator("d"))
        ends = [part for pair in leaves for part in pair]
        return (z.loc, z.variance), torch.autograd.grad([z.loc, z.variance], ends, [d, -d.abs()])

    full = run(layer, "")
    torch.testing.assert_close(run(TruncatedBPTT(layer, 5), "module."), full)
    values, messages = run(TruncatedBPTT(layer, 2), "module.")
    torch.testing.assert_close(values, full[0])
    assert not all(torch.allclose(a, b) for a, b in zip(messages, full[1], strict=True))


def test_invalid_arguments_raise() -> None:
    with pytest.raises(TypeError, match="got Linear"):
        TruncatedBPTT(nn.Linear(1, 1), 2)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="unidirectional"):
        TruncatedBPTT(nn.GRU(1, 1, bidirectional=True), 2)
    with pytest.raises(ValueError, match="at least 1, got 0"):
        TruncatedBPTT(nn.GRU(1, 1), 0)
    packed = nn.utils.rnn.pack_sequence([torch.zeros(3, 1)])
    with pytest.raises(TypeError, match="got a PackedSequence"):
        TruncatedBPTT(nn.GRU(1, 1), 2)(packed)
