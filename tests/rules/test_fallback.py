"""Rules that no battery reaches: bounded moments, statistics, bodies, choices, several factors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tractable import Gaussian
from tractable.moments import activation as act
from tractable.rules import activation_moments
from tractable.testing.gaussians import assert_moments_agree, gaussian, generator, normal

GRID = torch.cartesian_prod(
    torch.tensor([0.0, 1.0, -3.0], dtype=torch.float64),
    torch.tensor([0.1, 1.0, 4.0, 25.0], dtype=torch.float64),
)


@pytest.mark.parametrize(
    ("name", "within"), [("sigmoid", 0.006), ("tanh", 0.025)], ids=["sigmoid", "tanh"]
)
def test_bounded_moments_are_nearly_those_of_integration(name: str, within: float) -> None:
    """By Gauss-Hermite-like sums on a fine grid, out to eight standard deviations."""
    mu, var = GRID.T
    curve, bounded = getattr(torch, name), getattr(act, f"bounded_{name}")
    e = torch.linspace(-8, 8, 4001, dtype=torch.float64)
    p = torch.softmax(-0.5 * e**2, 0)
    values = curve(mu[:, None] + var.sqrt()[:, None] * e)
    mean = values @ p
    variance = (values - mean[:, None]) ** 2 @ p
    slope = (values * e) @ p / var.sqrt()
    got_mean, got_variance, got_slope = bounded(mu, var)
    assert float((got_mean - mean).abs().max()) < within
    assert bool(((got_variance / variance > 0.9) & (got_variance / variance < 1.3)).all())
    assert bool(((got_slope / slope > 0.9) & (got_slope / slope < 1.2)).all())
    assert bool((got_slope**2 * var <= got_variance * (1 + 1e-12)).all())


def test_bounded_moments_stay_in_range() -> None:
    wide: Any = Gaussian(torch.tensor([-50.0, 0.0, 3.0]), 1e8)
    with activation_moments("exact"):
        for curve, most in ((torch.sigmoid, 0.25), (torch.tanh, 1.0)):
            assert float(curve(wide).variance.max()) <= most


@pytest.mark.parametrize(
    "function",
    [
        F.softsign,
        F.tanhshrink,
        lambda x: F.local_response_norm(x, 2),
        lambda x: F.lp_pool1d(x, 2, 2),
    ],
    ids=["softsign", "tanhshrink", "local_response_norm", "lp_pool1d"],
)
def test_bodies_of_composites_run_on_gaussians(function: Any) -> None:
    x = normal(torch.zeros(2, 3, 4, dtype=torch.float64), generator("bodies")).requires_grad_()
    wanted = function(x)
    spread = torch.zeros_like(x).requires_grad_()
    z = function(Gaussian.wrap(x, spread))
    torch.testing.assert_close(z.loc, wanted)
    d = normal(wanted, generator("d"))
    got = torch.autograd.grad([z.loc, z.variance], [x, spread], [d, -d.abs()])
    torch.testing.assert_close(got[0], torch.autograd.grad(wanted, x, d)[0])


def test_all_distances() -> None:
    """Row by row: ``torch.func.jacrev`` gives wrong derivatives of ``cdist`` in torch 2.13."""
    x, y = (gaussian(s, "skewed", generator("cdist", i)) for i, s in enumerate(((3, 2), (2, 2))))
    z: Any = torch.cdist(x, y)
    locs = [g.loc.clone().requires_grad_() for g in (x, y)]
    wanted = torch.cdist(*locs)
    torch.testing.assert_close(z.loc, wanted)
    for i in range(3):
        for k in range(2):
            slopes = torch.autograd.grad(wanted[i, k], locs, retain_graph=True)
            spread = sum((j**2 * g.variance).sum() for j, g in zip(slopes, (x, y), strict=True))
            torch.testing.assert_close(z.variance[i, k], spread)


@pytest.mark.parametrize("tracked", [True, False])
def test_instance_norm_equals_that_of_torch(tracked: bool) -> None:
    layers = [nn.InstanceNorm2d(2, affine=True, track_running_stats=tracked).double() for _ in "ab"]
    x = normal(torch.zeros(3, 2, 4, 4, dtype=torch.float64), generator("instance"))
    for training in (True, False):
        wanted = layers[0].train(training)(x)
        z: Any = layers[1].train(training)(Gaussian(x, 0.0))
        torch.testing.assert_close(z.loc, wanted)
    if tracked:
        torch.testing.assert_close(dict(layers[1].named_buffers()), dict(layers[0].named_buffers()))


def test_weight_norm_and_spectral_norm() -> None:
    torch.manual_seed(0)
    x = normal(torch.zeros(3, 4), generator("x"))
    for wrap in (nn.utils.parametrizations.weight_norm, nn.utils.parametrizations.spectral_norm):
        layer = wrap(nn.Linear(4, 2)).eval()
        weights = {n: Gaussian(p.detach(), 0.0) for n, p in layer.named_parameters()}
        z: Any = torch.func.functional_call(layer, weights, (x,))
        torch.testing.assert_close(z.loc, layer(x))


def test_several_factors_and_sums_of_one_alone() -> None:
    x, w, v = (gaussian(s, "moderate", generator("einsum", i)) for i, s in enumerate(((2, 3),) * 3))

    def alone(x: Tensor, w: Tensor) -> Tensor:
        return torch.einsum("...ij,...ok->...j", x, w)

    def rows(x: Tensor, w: Tensor) -> Tensor:
        return alone(x.reshape(-1, 2, 3), w.reshape(-1, 2, 3))

    assert_moments_agree(alone(x, w), rows, x, w)
    z: Any = torch.einsum("ij,kj,ij->ik", x, w, v)
    torch.testing.assert_close(z.loc, torch.einsum("ij,kj,ij->ik", x.loc, w.loc, v.loc))
    layer = nn.Bilinear(3, 3, 2).double()
    sure = {n: Gaussian(p.detach(), 0.0) for n, p in layer.named_parameters()}
    z = torch.func.functional_call(layer, sure, (x, w))
    torch.testing.assert_close(z.loc, layer(x.loc, w.loc))
    z = torch.einsum(x, [0, 1], w, [2, 1], [0, 2])
    torch.testing.assert_close(z.variance, torch.einsum("ij,kj->ik", x, w).variance)


def test_choices_return_indices_of_the_means_with_the_types_of_torch() -> None:
    g: Any = gaussian((3, 4), "moderate", generator("choices"))
    calls: list[Any] = [
        lambda t: t.max(1), lambda t: torch.min(t, 0, keepdim=True), lambda t: t.sort(),
        lambda t: t.topk(2, 0), lambda t: t.kthvalue(2, 1), lambda t: t.median(1),
    ]  # fmt: skip
    for call in calls:
        values, indices = call(g)
        plain = call(g.loc)
        assert torch.equal(indices, plain.indices)
        torch.testing.assert_close(values.loc, plain.values, rtol=0, atol=0)
        assert call(g).values.shape == plain.values.shape
    assert torch.equal(g.max().loc, g.loc.max())
    assert torch.equal(g.median().loc, g.loc.median())
    assert torch.equal(g.argmax(1), g.loc.argmax(1))


def test_what_is_made_new_of_a_gaussian_is_certain() -> None:
    g: Any = Gaussian(torch.ones(2, 3, dtype=torch.float64), 0.1)
    for z in (g.new_zeros(2), torch.zeros_like(g), g.new_ones(1), torch.full_like(g, 2.0)):
        assert type(z) is Tensor
        assert z.dtype == torch.float64


PLACES = torch.tensor([[0, 2], [1, 0]])


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda w: F.embedding_bag(PLACES, w), (3, 2)),
        (
            lambda w: F.embedding_bag(
                PLACES, w, mode="sum", per_sample_weights=torch.full((2, 2), 0.5).to(w.dtype)
            ),
            (3, 2),
        ),
        (lambda t: F.affine_grid(t, [1, 1, 2, 2], align_corners=False), (1, 2, 3)),
    ],
    ids=["embedding_bag", "embedding_bag, weighed", "affine_grid"],
)
def test_linear_maps_that_torch_cannot_batch_have_the_moments_of_their_matrix(function, shape):
    """Sampling is slow for these; compare their matrix."""
    draw = torch.Generator().manual_seed(0)
    loc, variance = (torch.rand(shape, generator=draw, dtype=torch.float64) for _ in range(2))
    matrix = torch.autograd.functional.jacobian(function, loc).reshape(-1, loc.numel())
    z = function(Gaussian(loc, variance))
    assert torch.allclose(z.loc, function(loc))
    expected = (matrix.square() @ variance.flatten()).reshape(z.shape)
    assert torch.allclose(z.variance, expected)
