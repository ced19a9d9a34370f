"""Every module of ``torch.nn.modules.activation`` on Gaussians, in every mode of the moments.

The reference at small variances is the Jacobian of the module; where the mode ``"exact"`` claims
exact or bounded moments, it is an integral over the Gaussian.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules import activation

from tractable import Gaussian
from tractable.rules.activation import MODES, Mode, activation_moments
from tractable.testing.gaussians import generator, normal, uniform

ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "Threshold": (0.4, 0.1),
    "Softmax": (-1,),
    "LogSoftmax": (-1,),
    "Softmin": (-1,),
}
MODULES = sorted(set(activation.__all__) - {"MultiheadAttention"})
"""Attention has separate tests."""
EXACT = ("ReLU", "LeakyReLU", "RReLU")


@dataclass(frozen=True)
class Bound:
    """What the docstring of a bounded moment states."""

    mean: float
    near: float
    mean_near: float
    variance: float


BOUNDED = {"Sigmoid": Bound(0.018, 3.0, 0.005, 0.042), "Tanh": Bound(0.036, 1.5, 0.01, 0.17)}


def made(name: str) -> nn.Module:
    module: nn.Module = getattr(activation, name)(*ARGUMENTS.get(name, ()))
    return module.double().eval().requires_grad_(False)


def locations(name: str, scale: float, shift: float, seed: int) -> Tensor:
    shape = (2, 4, 1, 1) if name == "Softmax2d" else (2, 4)
    source = generator("activation", name, scale, shift, seed)
    loc = shift + scale * normal(torch.zeros(shape, dtype=torch.float64), source)
    # Away from kinks, which are at multiples of 0.1.
    return torch.where((10 * loc - (10 * loc).round()).abs() < 1e-3, loc + 1e-3, loc)


def jacobian(module: nn.Module, loc: Tensor) -> Tensor:
    found: Any = torch.autograd.functional.jacobian(module, loc)
    return found.reshape(-1, loc.numel())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", MODULES)
def test_small_variances_go_through_the_jacobian(name: str, mode: Mode) -> None:
    module = made(name)
    places = [
        (s, m, seed) for s in (0.01, 0.3, 1.0, 3.0) for m in (0.0, -2.0, 1.5) for seed in (0, 1)
    ]
    for scale, shift, seed in places:
        loc = locations(name, scale, shift, seed)
        source = generator("variance", name, scale, shift, seed)
        variance = uniform(tuple(loc.shape), 0.5e-9, 2e-9, source)
        leaves = [loc.clone().requires_grad_(), variance.clone().requires_grad_()]
        with activation_moments(mode):
            z: Any = module(Gaussian.wrap(*leaves))
        j = jacobian(module, loc)
        spread = (j.square() @ variance.reshape(-1)).reshape(z.shape)
        torch.testing.assert_close(z.loc, module(loc), rtol=1e-6, atol=1e-8)
        torch.testing.assert_close(z.variance, spread, rtol=1e-4, atol=1e-16)
        d_mu = normal(z.loc, source)
        d_var = -normal(z.loc, source).abs()
        got = torch.autograd.grad([z.loc, z.variance], leaves, [d_mu, d_var], allow_unused=True)
        wanted = [j.T @ d_mu.reshape(-1), j.square().T @ d_var.reshape(-1)]
        for message, want in zip(got, wanted, strict=True):
            flat = torch.zeros_like(loc) if message is None else message
            torch.testing.assert_close(flat.reshape(-1), want, rtol=1e-4, atol=1e-7)


def integrals(curve: Callable[[Tensor], Tensor], mu: Tensor, var: Tensor) -> tuple[Tensor, ...]:
    """Mean, variance and ``cov(a, z) / var`` by a sum over a fine grid of ten deviations."""
    e = torch.linspace(-10, 10, 40_001, dtype=torch.float64)
    p = torch.softmax(-0.5 * e * e, 0)
    values = curve(mu[:, None] + var.sqrt()[:, None] * e)
    mean = values @ p
    return mean, (values - mean[:, None]).square() @ p, (values * e) @ p / var.sqrt()


GRID = torch.cartesian_prod(
    torch.tensor([0.0, 0.3, -0.8, 2.0, -5.0, 12.0], dtype=torch.float64),
    torch.tensor([1e-4, 1e-2, 0.3, 2.0, 30.0, 400.0], dtype=torch.float64),
)


@pytest.mark.parametrize("name", EXACT)
def test_exact_moments_are_integrals(name: str) -> None:
    module, (mu, var) = made(name), GRID.T
    mu = mu.clone().requires_grad_()
    with activation_moments("exact"):
        z: Any = module(Gaussian.wrap(mu, var))
    (slope,) = torch.autograd.grad(
        [z.loc, z.variance], mu, [torch.ones_like(mu), torch.zeros_like(mu)]
    )
    mean, variance, wanted = integrals(module, mu.detach(), var)
    scale = var.sqrt()
    assert float(((z.loc.detach() - mean) / scale).abs().max()) < 1e-6
    assert float(((z.variance.detach() - variance) / var).abs().max()) < 1e-6
    assert float((slope - wanted).abs().max()) < 1e-4


@pytest.mark.parametrize("name", sorted(BOUNDED))
def test_bounded_moments_are_nearly_integrals(name: str) -> None:
    """Within the bounds that their docstrings state, near zero and far from it."""
    bound = BOUNDED[name]
    places = torch.tensor([0.0, 0.3, 0.8, 1.5, 3.0, 5.0, 12.0, 56.0], dtype=torch.float64)
    widths = torch.logspace(-4, 4, 25, dtype=torch.float64)
    mu, var = torch.cartesian_prod(torch.cat([places, -places]), widths).T
    mu.requires_grad_()
    with activation_moments("exact"):
        z: Any = made(name)(Gaussian.wrap(mu, var))
    messages = [torch.ones_like(mu), torch.zeros_like(mu)]
    (slope,) = torch.autograd.grad([z.loc, z.variance], mu, messages)
    mu, loc, found = mu.detach(), z.loc.detach(), z.variance.detach()
    mean, variance, _ = integrals(made(name), mu, var)
    near = mu.abs() <= bound.near
    assert float((loc - mean).abs().max()) < bound.mean
    assert float((loc - mean)[near].abs().max()) < bound.mean_near
    assert float((found - variance).abs().max()) < bound.variance
    ratio = (found / variance)[near]
    assert bool(((ratio > 0.9) & (ratio < 1.3)).all()), ratio
    # The covariance with the input is at most the product of the standard deviations.
    assert bool((slope.square() * var <= found * (1 + 1e-9)).all())
