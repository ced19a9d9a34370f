"""Softmax and attention: the zero-variance limit, messages, and variances against samples."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tractable import Gaussian
from tractable.testing.gaussians import generator, normal, uniform

SAMPLES = 20_000


def drawn(g: Gaussian, source: torch.Generator, n: int = SAMPLES) -> Tensor:
    noise = torch.randn(n, *g.shape, generator=source, dtype=g.dtype)
    return g.loc + g.stddev * noise


def state(shape: tuple[int, ...], spread: float, *words: object, shift: float = 0.0) -> Gaussian:
    source = generator(*words)
    loc = normal(torch.zeros(shape, dtype=torch.float64), source) + shift
    return Gaussian(loc, uniform(shape, 0.5 * spread, 1.5 * spread, source))


MASKS: list[tuple[str, dict[str, Any]]] = [
    ("plain", {}),
    ("causal", {"is_causal": True}),
    ("boolean", {"attn_mask": torch.tensor([[1, 1, 0], [1, 1, 1], [0, 1, 1]]).bool()}),
    ("added", {"attn_mask": torch.tensor([[0.0, float("-inf"), 0.5]] * 3).double()}),
    ("scaled", {"scale": 0.3}),
    ("grouped", {"enable_gqa": True}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options"), MASKS, ids=[m[0] for m in MASKS])
def test_without_variance_it_equals_attention_of_torch(name: str, options: dict[str, Any]) -> None:
    heads = 2 if name == "grouped" else 1
    q, k, v = (
        normal(torch.zeros(2, n, 3, 4, dtype=torch.float64), generator(i)).requires_grad_()
        for i, n in enumerate((heads, 1, 1))
    )
    wanted = F.scaled_dot_product_attention(q, k, v, **options)
    gaussians = [Gaussian.wrap(t, torch.zeros_like(t).requires_grad_()) for t in (q, k, v)]
    z: Any = F.scaled_dot_product_attention(*gaussians, **options)
    torch.testing.assert_close(z.loc, wanted, rtol=1e-12, atol=1e-12)
    assert not z.variance.any()
    d = normal(wanted, generator("d"))
    got = torch.autograd.grad([z.loc, z.variance], [q, k, v], [d, -d.abs()])
    torch.testing.assert_close(got, torch.autograd.grad(wanted, [q, k, v], d))


@pytest.mark.parametrize("shift", [0.0, 2.0])
def test_variance_of_attention_is_that_of_samples(shift: float) -> None:
    """Also where the values share a mean, which softmax times values would count as uncertain."""
    q, k, v = (state((3, 4), 0.02, "attention", i, shift=shift * (i == 2)) for i in range(3))
    z: Any = F.scaled_dot_product_attention(q, k, v)
    source = generator("draws of attention")
    samples = F.scaled_dot_product_attention(*(drawn(g, source) for g in (q, k, v)))
    ratio = z.variance / samples.var(0)
    assert bool(((ratio > 0.8) & (ratio < 1.25)).all()), ratio  # keys share a query
    assert 0.93 < float(ratio.mean()) < 1.07
    assert float((z.loc - samples.mean(0)).abs().max()) < 0.05
    composed: Any = torch.softmax(q @ k.mT / 2, -1) @ v
    if shift:
        assert float((composed.variance / samples.var(0)).mean()) > 1.2


def test_messages_of_attention_are_squares_of_the_jacobian() -> None:
    """The variance is linear in those of scores and values, but for a term without messages."""
    q, k, v = (state((2, 3), 0.1, "messages", i) for i in range(3))
    leaves = [g.variance.clone().requires_grad_() for g in (q, k, v)]
    moments = [Gaussian.wrap(g.loc, s) for g, s in zip((q, k, v), leaves, strict=True)]
    z: Any = F.scaled_dot_product_attention(*moments)
    d = -normal(z.loc, generator("d")).abs()
    to_v = torch.autograd.grad([z.loc, z.variance], leaves, [d, d], allow_unused=True)[2]
    j = torch.func.jacrev(lambda t: F.scaled_dot_product_attention(q.loc, k.loc, t))(v.loc)
    torch.testing.assert_close(to_v, torch.einsum("abcd,ab->cd", j**2, d))


def share_of_queries(
    keys: int, shift: float, scale: float, seed: int, dtype: torch.dtype
) -> Tensor:
    """Return the variance due to the queries: by the rule and by the Jacobian, all outputs."""
    source = generator("queries", keys, shift, scale, seed)
    zeros = torch.zeros(5, 8, dtype=torch.float64)
    q = scale * normal(zeros, source)
    k = normal(zeros.new_zeros(keys, 8), source) + shift * normal(zeros[0], source)
    v = normal(zeros.new_zeros(keys, 4), source) + shift
    g = Gaussian(q.to(dtype), uniform((5, 8), 0.5e-6, 2e-6, source).to(dtype))
    z: Any = F.scaled_dot_product_attention(g, k.to(dtype), v.to(dtype))
    j = torch.func.jacrev(lambda t: F.scaled_dot_product_attention(t, k, v))(q)
    spread = torch.einsum("odqa,qa->od", j.square(), g.variance.double())
    return torch.stack([z.variance.double().sum(), spread.sum()])


@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("shift", [0.0, 3.0, 30.0])
def test_the_common_part_of_the_scores_of_a_query_has_no_effect(shift: float, scale: float) -> None:
    """Keys with a common part once gave 10 to 60 times the variance, and more for larger parts."""
    for seed in range(5):  # two keys: exact
        got, wanted = share_of_queries(2, shift, scale, seed, torch.float64)
        torch.testing.assert_close(got, wanted, rtol=1e-6, atol=0)
    for keys in (3, 8, 40):
        found = [share_of_queries(keys, shift, scale, seed, torch.float64) for seed in range(12)]
        ratio = torch.stack([got / wanted for got, wanted in found])
        assert 0.85 < float(ratio.mean()) < 1.15
        assert bool(((ratio > 0.5) & (ratio < 2.2)).all()), ratio


def test_what_queries_share_in_single_precision() -> None:
    for shift in (0.0, 3.0, 30.0):
        for seed in range(5):
            single = share_of_queries(8, shift, 0.5, seed, torch.float32)[0]
            double = share_of_queries(8, shift, 0.5, seed, torch.float64)[0]
            torch.testing.assert_close(single, double, rtol=2e-3, atol=0)


@pytest.mark.parametrize("masked", [False, True])
def test_every_message_is_the_derivative_of_the_variance(masked: bool) -> None:
    """The variance is linear in each argument's, but for the product of scores and values."""
    shapes = [(2, 3, 4), (2, 5, 4), (2, 5, 3), (3, 5)]
    q, k, v, m = (state(shape, 0.1, "every", i, shift=1.0) for i, shape in enumerate(shapes))
    mask: Any = m if masked else None
    given = [q, k, v, *([m] if masked else [])]
    for at, name in enumerate(("query", "key", "value", "mask")[: len(given)]):
        spread = given[at].variance.clone().requires_grad_()
        alone = [Gaussian.wrap(g.loc, spread) if i == at else g.loc for i, g in enumerate(given)]
        z: Any = F.scaled_dot_product_attention(*alone[:3], alone[3] if masked else mask)
        d = -normal(z.loc, generator("d", name)).abs()
        (got,) = torch.autograd.grad([z.loc, z.variance], [spread], [d, d])
        # Linear: half as much variance is half as much.
        torch.testing.assert_close((got * spread).sum(), (d * z.variance).sum(), rtol=1e-9, atol=0)
        step = torch.zeros_like(spread)
        step.reshape(-1)[1] = 1.0
        more = [
            Gaussian.wrap(g.loc, g.variance + step) if i == at else g.loc
            for i, g in enumerate(given)
        ]
        w: Any = F.scaled_dot_product_attention(*more[:3], more[3] if masked else mask)
        difference = (d * (w.variance - z.variance)).sum()
        torch.testing.assert_close(got.reshape(-1)[1], difference, rtol=1e-9, atol=1e-12)


def test_an_uncertain_mask_counts_as_the_scores_do() -> None:
    for seed in range(4):
        q, k, v, m = (state((3, 4), 1e-7, "mask", seed, i) for i in range(4))
        mask = Gaussian(m.loc[:, :3], m.variance[:, :3])
        z: Any = F.scaled_dot_product_attention(q.loc, k.loc, v.loc, mask)  # type: ignore[arg-type]
        j = torch.func.jacrev(
            lambda t, q=q, k=k, v=v: F.scaled_dot_product_attention(q.loc, k.loc, v.loc, t)
        )(mask.loc)
        spread = torch.einsum("odqk,qk->od", j.square(), mask.variance)
        torch.testing.assert_close(z.variance, spread, rtol=1e-9, atol=0)
        alone: Any = F.scaled_dot_product_attention(q, k, v)
        both: Any = F.scaled_dot_product_attention(q, k, v, mask)
        assert bool((both.variance > 0).all())
        assert alone.variance.shape == both.variance.shape


@pytest.mark.parametrize("shift", [0.0, 4.0])
@pytest.mark.parametrize("spread", [1e-4, 1e-2])
def test_attention_with_shared_keys_is_that_of_samples(shift: float, spread: float) -> None:
    """Averaged over outputs: the curvature of wide inputs is not followed."""
    ratios = []
    for seed in range(4):
        source = generator("shared", seed)
        shapes = ((4, 6), (7, 6), (7, 6))
        q, k, v = (state(s, spread, "shared", seed, i) for i, s in enumerate(shapes))
        shared = normal(torch.zeros(6, dtype=torch.float64), source)
        k = Gaussian(k.loc + shift * shared, k.variance)
        z: Any = F.scaled_dot_product_attention(q, k, v)
        samples = F.scaled_dot_product_attention(*(drawn(g, source, 4_000) for g in (q, k, v)))
        ratios.append(z.variance.sum() / samples.var(0).sum())
    assert 0.85 < float(torch.stack(ratios).mean()) < 1.15, ratios


def test_later_tokens_do_not_reach_earlier_ones() -> None:
    q, k, v = (state((1, 4, 4), 0.1, "causal", i) for i in range(3))
    first: Any = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    for g in (k, v):
        g.loc[:, 3] += 5
        g.variance[:, 3] += 1
    second: Any = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert torch.equal(first.loc[:, :3], second.loc[:, :3])
    assert torch.equal(first.variance[:, :3], second.variance[:, :3])


@pytest.mark.parametrize("wanted", [True, False])
def test_multihead_attention_equals_that_of_torch(wanted: bool) -> None:
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(4, 2, batch_first=True, add_bias_kv=True).double().eval()
    x = normal(torch.zeros(2, 3, 4, dtype=torch.float64), generator("x"))
    mask = torch.tensor([[False, False, True], [False, False, False]])
    options: dict[str, Any] = {"key_padding_mask": mask, "need_weights": wanted}
    plain = layer(x, x, x, **options)
    weights = {n: Gaussian(p.detach(), 0.0) for n, p in layer.named_parameters()}
    z, p = torch.func.functional_call(layer, weights, (x, x, x), options)
    torch.testing.assert_close(z.loc, plain[0])
    assert (p is None) == (not wanted)
    if wanted:
        torch.testing.assert_close(p.loc, plain[1])
    weights = {n: Gaussian(p.detach(), 0.01) for n, p in layer.named_parameters()}
    spread = torch.func.functional_call(layer, weights, (x, x, x), options)[0].variance
    assert bool((spread > 0).all())


def test_a_sure_choice_has_no_variance_and_none_is_negative() -> None:
    g: Any = Gaussian(torch.tensor([60.0, 0.0, -60.0]), torch.tensor([1.0, 2.0, 3.0]))
    z = torch.softmax(g, 0)
    assert bool((z.variance >= 0).all())
    assert float(z.variance.max()) < 1e-20
    assert float(torch.log_softmax(g, 0).variance[0]) < 1e-12
