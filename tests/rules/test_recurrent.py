"""Recurrent layers and cells: torch's own results and gradients without variance, samples with."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tractable import Gaussian, activation_moments
from tractable.rules.recurrent_steps import unroll_recurrent
from tractable.testing.gaussians import generator, normal

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
def test_without_variance_it_equals_the_layer_of_torch(make: Any) -> None:
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


def messages(
    layer: nn.Module, given: tuple[Any, ...], leaves: dict[str, tuple[Tensor, Tensor]]
) -> tuple[list[Tensor], Any]:
    """All moments that a layer gives, and the messages of all of them to its parameters."""
    weights = {n: Gaussian.wrap(*pair) for n, pair in leaves.items()}
    out = flat(torch.func.functional_call(layer, weights, given))
    moments = [m for z in out for m in (z.loc, z.variance)]
    d = [normal(m, generator("d", i)) for i, m in enumerate(moments)]
    ends = [m for pair in leaves.values() for m in pair]
    return moments, torch.autograd.grad(moments, ends, d)


def uncertain(layer: nn.Module, variance: float) -> dict[str, tuple[Tensor, Tensor]]:
    return {
        n: (p.detach().clone().requires_grad_(), torch.full_like(p, variance).requires_grad_())
        for n, p in layer.named_parameters()
    }


@pytest.mark.parametrize("mode", ["auto", "linear"])
@pytest.mark.parametrize("kind", ["RNN", "relu", "GRU", "LSTM"])
def test_all_steps_at_once_are_the_steps_one_by_one(kind: str, mode: Any) -> None:
    """The node with moments and messages by hand, against the rules of its parts."""
    torch.manual_seed(1)
    options: dict[str, Any] = {"num_layers": 2, "bidirectional": True}
    layer = {
        "RNN": lambda: nn.RNN(3, 4, **options),
        "relu": lambda: nn.RNN(3, 4, nonlinearity="relu", **options),
        "GRU": lambda: nn.GRU(3, 4, **options),
        "LSTM": lambda: nn.LSTM(3, 4, **options),
    }[kind]().double()
    leaves = uncertain(layer, 0.05)
    state = Gaussian(normal(torch.zeros(4, 2, 4, dtype=torch.float64), generator("h")), 0.2)
    x = Gaussian(normal(torch.zeros(5, 2, 3, dtype=torch.float64), generator("x")), 0.1)
    given = (x, (state, state) if kind == "LSTM" else state)
    with activation_moments(mode):
        at_once = messages(layer, given, leaves)
        with unroll_recurrent() as seen:
            by_steps = messages(layer, given, leaves)
    assert len(seen) == 4
    assert all(len(steps) == 5 for steps in seen)
    torch.testing.assert_close(at_once, by_steps, rtol=1e-12, atol=1e-13)


def test_a_layer_and_direction_is_one_node() -> None:
    layer = nn.LSTM(3, 4, 2, bidirectional=True)
    weights = {n: Gaussian.wrap(*pair) for n, pair in uncertain(layer, 0.1).items()}
    z = torch.func.functional_call(layer, weights, (torch.zeros(6, 2, 3),))[0]
    found, todo = set(), [z.loc.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None and node not in found:
            found.add(node)
            todo += [before for before, _ in node.next_functions]
    assert sum("RecurrentFunction" in node.name() for node in found) == 4


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
@pytest.mark.parametrize("ordered", [True, False])
def test_packed_sequences_are_torchs(kind: Any, ordered: bool) -> None:
    torch.manual_seed(0)
    layer = kind(3, 4, 2, bidirectional=True).double()
    lengths = (4, 2, 1) if ordered else (1, 4, 2)
    source = generator("packed")
    rows = [normal(torch.zeros(n, 3, dtype=torch.float64), source) for n in lengths]
    packed = nn.utils.rnn.pack_sequence(rows, enforce_sorted=ordered)
    leaves = {n: p.detach().clone().requires_grad_() for n, p in layer.named_parameters()}
    plain, last = torch.func.functional_call(layer, leaves, (packed,))
    sure = {n: Gaussian.wrap(w, torch.zeros_like(w)) for n, w in leaves.items()}
    got, ends = torch.func.functional_call(layer, sure, (packed,))
    torch.testing.assert_close(got.data.loc, plain.data, rtol=1e-12, atol=1e-12)
    for z, wanted in zip(flat([ends]), flat([last]), strict=True):
        torch.testing.assert_close(z.loc, wanted, rtol=1e-12, atol=1e-12)
    d = normal(plain.data, generator("d"))
    ours = torch.autograd.grad(
        [got.data.loc, got.data.variance], list(leaves.values()), [d, -d.abs()]
    )
    theirs = torch.autograd.grad(plain.data, list(leaves.values()), d)
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("first", [True, False], ids=["rows first", "steps first"])
def test_a_network_that_packs_and_pads_equals_torch(first: bool) -> None:
    """Uncertain states are packed, read and padded again; padding gets no message."""
    torch.manual_seed(0)
    before, layer = nn.Linear(2, 3).double(), nn.LSTM(3, 4, batch_first=first).double()
    x = normal(torch.zeros(3, 5, 2, dtype=torch.float64), generator("x"))
    x, lengths = x if first else x.transpose(0, 1), torch.tensor([2, 5, 3])
    leaves = {
        n: p.detach().clone().requires_grad_()
        for part in (before, layer)
        for n, p in part.named_parameters()
    }
    rnn: Any = nn.utils.rnn

    def run(weights: dict[str, Any]) -> Any:
        h = nn.functional.linear(x, weights["weight"], weights["bias"])
        own = {n: w for n, w in weights.items() if "_" in n}
        packed = rnn.pack_padded_sequence(h, lengths, first, enforce_sorted=False)
        out = torch.func.functional_call(layer, own, (packed,))[0]
        return rnn.pad_packed_sequence(out, first, padding_value=0.5, total_length=6)

    plain, ends = run(leaves)
    z, same = run({n: Gaussian.wrap(w, torch.zeros_like(w)) for n, w in leaves.items()})
    assert torch.equal(ends, same)
    torch.testing.assert_close(z.loc, plain, rtol=1e-12, atol=1e-12)
    d = normal(plain, generator("d"))
    ours = torch.autograd.grad([z.loc, z.variance], list(leaves.values()), [d, -d.abs()])
    theirs = torch.autograd.grad(plain, list(leaves.values()), d)
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_padding_of_a_packed_sequence_has_no_effect() -> None:
    """Each row by itself has the moments that it has among longer ones."""
    torch.manual_seed(0)
    layer = nn.GRU(3, 4, bidirectional=True).double()
    rows = [normal(torch.zeros(n, 3, dtype=torch.float64), generator(n)) for n in (5, 2)]
    weights = {n: Gaussian(p.detach(), 0.05) for n, p in layer.named_parameters()}
    packed = nn.utils.rnn.pack_sequence(rows)
    together = torch.func.functional_call(layer, weights, (packed,))[1]
    for i, row in enumerate(rows):
        alone = torch.func.functional_call(layer, weights, (row.unsqueeze(1),))[1]
        torch.testing.assert_close(together.loc[:, i], alone.loc[:, 0])
        torch.testing.assert_close(together.variance[:, i], alone.variance[:, 0])


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_variances_stay_finite_over_a_thousand_steps(kind: Any) -> None:
    """Tangents of gates have no bound: their variances would overflow."""
    torch.manual_seed(0)
    layer = kind(1, 8)
    weights = {n: Gaussian(p.detach(), 4.0) for n, p in layer.named_parameters()}
    z = torch.func.functional_call(layer, weights, (torch.randn(1000, 2, 1),))[0]
    assert bool(torch.isfinite(z.variance).all())
    assert float(z.variance.max()) <= 1.0  # of numbers between -1 and 1
    if kind is not nn.RNN:
        with activation_moments("linear"):
            z = torch.func.functional_call(layer, weights, (torch.randn(1000, 2, 1),))[0]
        assert not bool(torch.isfinite(z.variance).all())


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_invalid_sequences_and_states_raise(kind: Any) -> None:
    layer = kind(3, 4)
    weights = {n: Gaussian(p.detach(), 0.1) for n, p in layer.named_parameters()}
    with pytest.raises(ValueError, match=r"at least one step; got inputs of shape \(0, 2, 3\)"):
        torch.func.functional_call(layer, weights, (torch.zeros(0, 2, 3),))
    state = torch.zeros(1, 5, 4)
    with pytest.raises(RuntimeError, match=r"\(1, 2, 4\), got \[1, 5, 4\]"):  # torch's own
        torch.func.functional_call(
            layer, weights, (torch.zeros(3, 2, 3), (state, state) if kind is nn.LSTM else state)
        )


def test_a_cell_refuses_a_state_of_other_rows() -> None:
    cell = nn.GRUCell(3, 4)
    weights = {n: Gaussian(p.detach(), 0.1) for n, p in cell.named_parameters()}
    with pytest.raises(ValueError, match="a state of 1 rows for inputs of 2"):
        torch.func.functional_call(cell, weights, (torch.zeros(2, 3), torch.zeros(1, 4)))
