"""Recurrent layers and cells: torch's own results and gradients without variance, samples with."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tractable import Gaussian, NoMomentRule
from tractable.testing.regimes import generator, normal

LAYERS: list[tuple[str, Any]] = [
    ("RNN", lambda: nn.RNN(3, 4)),
    ("RNN, relu, batch first", lambda: nn.RNN(3, 4, nonlinearity="relu", batch_first=True)),
    ("GRU, bidirectional", lambda: nn.GRU(3, 4, bidirectional=True)),
    ("LSTM, two layers", lambda: nn.LSTM(3, 4, 2)),
    ("LSTM, no bias, both ways", lambda: nn.LSTM(3, 4, 2, bias=False, bidirectional=True)),
    ("LSTM, projected", lambda: nn.LSTM(3, 4, proj_size=2)),
    ("RNNCell", lambda: nn.RNNCell(3, 4)),
    ("GRUCell", lambda: nn.GRUCell(3, 4)),
    ("LSTMCell", lambda: nn.LSTMCell(3, 4)),
]
each_layer = pytest.mark.parametrize("make", [m for _, m in LAYERS], ids=[n for n, _ in LAYERS])


def prepared(make: Any) -> tuple[nn.Module, Tensor, dict[str, Tensor]]:
    torch.manual_seed(0)
    layer = make().double()
    shape = (2, 3) if "Cell" in type(layer).__name__ else (3, 2, 3)
    x = normal(torch.zeros(shape, dtype=torch.float64), generator("x"))
    return layer, x, {n: p.detach().clone() for n, p in layer.named_parameters()}


def flat(out: Any) -> list[Any]:
    return [out] if isinstance(out, Tensor) else [t for part in out for t in flat(part)]


@each_layer
def test_without_variance_it_is_torchs(make: Any) -> None:
    layer, x, weights = prepared(make)
    leaves = {n: w.requires_grad_() for n, w in weights.items()}
    wanted = flat(torch.func.functional_call(layer, leaves, (x,)))
    sure = {n: Gaussian.wrap(w, torch.zeros_like(w)) for n, w in leaves.items()}
    got = flat(torch.func.functional_call(layer, sure, (x,)))
    assert len(got) == len(wanted)
    for z, plain in zip(got, wanted, strict=True):
        torch.testing.assert_close(z.loc, plain, rtol=1e-12, atol=1e-12)
        assert not z.variance.any()
    d = normal(wanted[0], generator("d"))
    messages = torch.autograd.grad(
        [got[0].loc, got[0].variance], list(leaves.values()), [d, -d.abs()], allow_unused=True
    )
    gradients = torch.autograd.grad(wanted[0], list(leaves.values()), d, allow_unused=True)
    torch.testing.assert_close(list(messages), list(gradients), rtol=1e-10, atol=1e-12)


@each_layer
def test_variance_is_that_of_samples_in_the_first_step(make: Any) -> None:
    """Later steps use a weight again, which counts as another one."""
    layer, x, weights = prepared(make)
    x = x[:, :1] if getattr(layer, "batch_first", False) else x[:1]
    if "Cell" in type(layer).__name__ or getattr(layer, "num_layers", 1) > 1:
        x = x[:1]
    uncertain = {n: Gaussian(w, 1e-4) for n, w in weights.items()}
    z: Any = flat(torch.func.functional_call(layer, uncertain, (x,)))[0]
    source = generator("draws")
    samples = []
    for _ in range(600):
        drawn = {n: w + 1e-2 * normal(w, source) for n, w in weights.items()}
        samples.append(flat(torch.func.functional_call(layer, drawn, (x,)))[0].detach())
    spread = torch.stack(samples).var(0)
    kept = spread > 1e-9
    ratio = float(z.variance[kept].sum() / spread[kept].sum())
    assert 0.85 < ratio < 1.2, ratio


def test_packed_sequences_are_refused_by_name() -> None:
    layer = nn.LSTM(3, 4)
    packed = nn.utils.rnn.pack_sequence([torch.zeros(3, 3), torch.zeros(2, 3)])
    weights = {n: Gaussian(p.detach(), 0.1) for n, p in layer.named_parameters()}
    with pytest.raises(NoMomentRule, match="packed"):
        torch.func.functional_call(layer, weights, (packed,))
