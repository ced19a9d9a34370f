"""Attention and transformers of the book (TRF), and torch's modules with all their options."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from tractable import Gaussian
from tractable.testing.gaussians import generator, normal

D = torch.float64


def fill(shape: tuple[int, ...], k: int) -> Tensor:
    n = torch.Size(shape).numel()
    return torch.sin(torch.arange(k + 1, k + 1 + n, dtype=D)).reshape(shape)


def book(scale: float | None, code: bool = False) -> Tensor:
    """Self-attention of equations 12.8, 12.9 and 12.17; tokens are columns there."""
    x = fill((2, 3), 0)
    at = x + fill((2, 3), 7) if code else x
    v, q, k = (
        fill((2,), b)[:, None] + fill((2, 2), w) @ given
        for b, w, given in ((1, 2, x), (3, 4, at), (5, 6, at))
    )
    moments: Any = [Gaussian(part.mT.unsqueeze(0), 0.0) for part in (q, k, v)]
    z: Any = F.scaled_dot_product_attention(*moments, scale=scale)
    return z.loc[0].mT


def test_trf_01_weights_of_attention_and_of_a_dense_layer() -> None:
    layer, dense = nn.MultiheadAttention(4, 1), nn.Linear(4 * 5, 4 * 5)
    assert layer.in_proj_weight.numel() == 48
    assert layer.in_proj_bias.numel() == 12
    assert (dense.weight.numel(), dense.bias.numel()) == (400, 20)
    weights = {n: Gaussian(p.detach(), 0.01) for n, p in layer.named_parameters()}
    x = torch.zeros(5, 1, 4)
    assert torch.func.functional_call(layer, weights, (x, x, x))[1].numel() == 25


@pytest.mark.parametrize(
    ("scale", "code", "wanted"),
    [
        (None, False, [[1.449212896, 1.439881009, 1.444022963],
                       [-0.224498885, -0.215473789, -0.220563028]]),
        (1.0, False, [[1.426270295, 1.412915543, 1.418985481],
                      [-0.201267722, -0.188321783, -0.195617211]]),
        (None, True, [[1.350301457, 1.321334427, 1.345782675],
                      [-0.119371691, -0.091325767, -0.117502377]]),
    ],
    ids=["TRF-02 scaled", "TRF-02 unscaled", "TRF-03 positions"],
)  # fmt: skip
def test_trf_02_03_dot_product_attention(scale: Any, code: bool, wanted: Any) -> None:
    target = torch.tensor(wanted, dtype=D)
    assert float((book(scale, code) - target).abs().max()) < 1e-8


def test_trf_04_attention_permutes_with_its_tokens() -> None:
    q, k, v = (Gaussian(normal(torch.zeros(5, 3, dtype=D), generator(i)), 0.1) for i in range(3))
    order = torch.tensor([3, 0, 4, 1, 2])
    z: Any = F.scaled_dot_product_attention(q, k, v)
    moved: Any = F.scaled_dot_product_attention(*(g[order] for g in (q, k, v)))
    torch.testing.assert_close(moved.loc, z.loc[order])
    torch.testing.assert_close(moved.variance, z.variance[order])


def test_trf_06_a_sure_softmax_has_no_slope_and_no_nan() -> None:
    at = torch.tensor([-3.0, 1, 100, 5, -1])
    p = torch.softmax(at.double(), 0)
    slopes = (torch.diag(p) - torch.outer(p, p)).abs()
    assert float(slopes.max()) == pytest.approx(5.521082277e-42, rel=1e-8)
    z: Any = torch.softmax(Gaussian(at, 1.0), 0)
    assert bool(torch.isfinite(z.loc).all() & torch.isfinite(z.variance).all())
    assert float(z.variance.max()) < 1e-60


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_trf_07_heads_by_hand_are_torchs(heads: int) -> None:
    """Equations 12.10 to 12.12, head by head, with Gaussian weights of no variance."""
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(4, heads, batch_first=True).double()
    x = normal(torch.zeros(1, 3, 4, dtype=D), generator("x"))
    weights = {n: Gaussian(p.detach(), 0.0) for n, p in layer.named_parameters()}
    z = torch.func.functional_call(layer, weights, (x, x, x))[0]
    q, k, v = F.linear(x[0], layer.in_proj_weight, layer.in_proj_bias).chunk(3, -1)
    size = 4 // heads
    found = [
        torch.softmax(a @ b.mT / size**0.5, -1) @ c
        for a, b, c in zip(q.split(size, -1), k.split(size, -1), v.split(size, -1), strict=True)
    ]
    wanted = F.linear(torch.cat(found, -1), layer.out_proj.weight)
    torch.testing.assert_close(z.loc[0], wanted.detach(), rtol=1e-12, atol=1e-12)


def test_trf_10_scores_of_patches_and_of_channels() -> None:
    """Counted while torch multiplies; an addition goes with every multiplication."""
    x = torch.empty(16 * 16, 512, device="meta")
    for rows, wanted in ((x, 33_554_432), (x.mT, 67_108_864)):
        with FlopCounterMode(display=False) as counter:
            scores = rows @ rows.mT
        assert scores.shape == (len(rows), len(rows))
        assert counter.get_total_flops() == 2 * wanted


def test_trf_12_a_layer_written_by_hand_equals_that_of_torch() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True).double()
    x = normal(torch.zeros(2, 3, 4, dtype=D), generator("x"))
    weights = {n: Gaussian(p.detach(), 0.0) for n, p in layer.named_parameters()}
    z: Any = torch.func.functional_call(layer, weights, (x,))
    after = x + layer.self_attn(x, x, x)[0]
    after = F.layer_norm(after, [4], layer.norm1.weight, layer.norm1.bias)
    hidden = layer.linear2(torch.relu(layer.linear1(after)))
    wanted = F.layer_norm(after + hidden, [4], layer.norm2.weight, layer.norm2.bias)
    torch.testing.assert_close(z.loc, wanted.detach(), rtol=1e-12, atol=1e-12)


CAUSAL = nn.Transformer.generate_square_subsequent_mask(3, dtype=D)
LATER = torch.ones(3, 3, dtype=torch.bool).triu(1)
PADDED = torch.tensor([[False, False, True], [False, False, False]])
BOOLEAN = torch.tensor([[False, True, False], [False, False, True], [False, False, False]])
ATTENTION: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "causal, added": ({}, {"attn_mask": CAUSAL}),
    "causal, said": ({}, {"attn_mask": CAUSAL, "is_causal": True, "need_weights": False}),
    "boolean mask": ({}, {"attn_mask": BOOLEAN}),
    "mask for each head": ({}, {"attn_mask": BOOLEAN.repeat(4, 1, 1)}),
    "padding": ({}, {"key_padding_mask": PADDED}),
    "both masks": ({}, {"attn_mask": BOOLEAN, "key_padding_mask": PADDED}),
    "no weights": ({}, {"need_weights": False}),
    "weights of each head": ({}, {"average_attn_weights": False}),
    "bias of keys": ({"add_bias_kv": True}, {}),
    "a zero to attend to": ({"add_zero_attn": True}, {"key_padding_mask": PADDED}),
    "no bias": ({"bias": False}, {}),
    "other sizes of keys": ({"kdim": 5, "vdim": 6}, {}),
    "steps first": ({"batch_first": False}, {}),
    "dropout, not training": ({"dropout": 0.5}, {}),
}


@pytest.mark.parametrize("name", ATTENTION)
def test_multihead_attention_with_every_option(name: str) -> None:
    made, called = ATTENTION[name]
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(4, 2, **{"batch_first": True, **made}).double().eval()
    query, key, value = (
        normal(torch.zeros(2, 3, n, dtype=D), generator(n))
        for n in (4, made.get("kdim", 4), made.get("vdim", 4))
    )
    if not made.get("batch_first", True):
        query, key, value = (t.transpose(0, 1) for t in (query, key, value))
    leaves = {n: p.detach().clone().requires_grad_() for n, p in layer.named_parameters()}
    plain, p = torch.func.functional_call(layer, leaves, (query, key, value), called)
    sure = {n: Gaussian.wrap(w, torch.zeros_like(w)) for n, w in leaves.items()}
    z, q = torch.func.functional_call(layer, sure, (query, key, value), called)
    torch.testing.assert_close(z.loc, plain, rtol=1e-12, atol=1e-12)
    assert (q is None) == (p is None)
    if p is not None:
        torch.testing.assert_close(q.loc, p, rtol=1e-12, atol=1e-12)
    d = normal(plain, generator("d"))
    ends = list(leaves.values())
    got = torch.autograd.grad([z.loc, z.variance], ends, [d, -d.abs()], allow_unused=True)
    wanted = torch.autograd.grad(plain, ends, d, allow_unused=True)
    for mine, theirs in zip(got, wanted, strict=True):
        mine = torch.zeros(()) if mine is None else mine
        theirs = torch.zeros_like(mine) if theirs is None else theirs
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-11)


LAYER = {"d_model": 4, "nhead": 2, "dim_feedforward": 6, "batch_first": True}
MODULES: dict[str, tuple[Any, Any]] = {
    "encoder": (
        lambda **k: nn.TransformerEncoder(nn.TransformerEncoderLayer(**LAYER, **k), 2,
                                          nn.LayerNorm(4), enable_nested_tensor=False),
        lambda x: ((x,), {"mask": LATER, "src_key_padding_mask": PADDED}),
    ),
    "encoder, causal": (
        lambda **k: nn.TransformerEncoder(nn.TransformerEncoderLayer(**LAYER, **k), 1,
                                          enable_nested_tensor=False),
        lambda x: ((x,), {"mask": CAUSAL, "is_causal": True}),
    ),
    "decoder": (
        lambda **k: nn.TransformerDecoder(nn.TransformerDecoderLayer(**LAYER, **k), 2),
        lambda x: ((x, x[:, :2]), {"tgt_mask": LATER, "tgt_is_causal": True,
                                   "tgt_key_padding_mask": PADDED,
                                   "memory_key_padding_mask": PADDED[:, 1:]}),
    ),
    "both": (
        lambda **k: nn.Transformer(4, 2, 1, 1, 6, batch_first=True, **k),
        lambda x: ((x[:, :2], x), {"tgt_mask": CAUSAL}),
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize(
    "options", [{}, {"norm_first": True, "activation": "gelu"}], ids=["norm last", "norm first"]
)
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_transformers_are_torchs(name: str, options: dict[str, Any], training: bool) -> None:
    make, call = MODULES[name]
    torch.manual_seed(0)
    net = make(dropout=0.0, **options).double().train(training)
    x = normal(torch.zeros(2, 3, 4, dtype=D), generator("x"))
    args, kwargs = call(x)
    with torch.no_grad():
        plain = net(*args, **kwargs)
        weights = {n: Gaussian(p.detach(), 0.0) for n, p in net.named_parameters()}
        z: Any = torch.func.functional_call(net, weights, args, kwargs)
    torch.testing.assert_close(z.loc, plain, rtol=1e-12, atol=1e-12)
    assert not z.variance.any()


def test_padded_keys_get_no_message() -> None:
    """Padded positions have no effect, and receive no message."""
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(4, 2, batch_first=True).double()
    weights = {n: Gaussian(p.detach(), 0.05) for n, p in layer.named_parameters()}
    query = normal(torch.zeros(2, 3, 4, dtype=D), generator("q"))
    found = []
    for filler in (0.0, 9.0):
        keys = normal(torch.zeros(2, 3, 4, dtype=D), generator("k"))
        keys[0, 2] = filler
        leaf = keys.requires_grad_()
        z = torch.func.functional_call(
            layer, weights, (query, leaf, leaf), {"key_padding_mask": PADDED}
        )[0]
        d = normal(z.loc.detach(), generator("d"))
        (message,) = torch.autograd.grad([z.loc, z.variance], leaf, [d, -d.abs()])
        assert not message[0, 2].any()
        assert bool(message[1].any())
        found.append((z.loc.detach(), z.variance.detach()))
    for a, b in zip(*found, strict=True):
        assert torch.equal(a, b)
