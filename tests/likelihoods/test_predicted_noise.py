"""Messages of a predicted noise, compared with a dense sum at any residual and scale."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import tractable as tr
from tests.native import test_densities as kernel
from tractable.likelihoods import HeteroscedasticNormal

D = torch.float64
RANGE = 14.0
ENGINES = ["native", "torch"]


def dense(e: float, v1: float, mu: float, v2: float) -> tuple[np.ndarray, float]:
    """Mean and variance of both outputs once ``e`` is seen, and the log evidence."""
    low, high = min(mu, -RANGE) - 10 * math.sqrt(v2) - 1, max(mu, RANGE) + 10 * math.sqrt(v2) + 1

    def height(nu: np.ndarray) -> np.ndarray:
        total = v1 + np.exp(np.clip(nu, -RANGE, RANGE))
        log_density = -0.5 * (e * e / total + np.log(2 * np.pi * total))
        return log_density - 0.5 * (nu - mu) ** 2 / v2 - 0.5 * math.log(2 * math.pi * v2)

    for _ in range(6):  # where the integrand is
        nu = np.linspace(low, high, 4001)
        there = np.flatnonzero(height(nu) > height(nu).max() - 45)
        low, high = nu[max(there[0] - 1, 0)], nu[min(there[-1] + 1, 4000)]
    nu = np.linspace(low, high, 40001)
    log = height(nu)
    w = np.exp(log - log.max())
    evidence = log.max() + math.log(w.sum() * (nu[1] - nu[0]))
    w /= w.sum()
    gain = v1 / (v1 + np.exp(np.clip(nu, -RANGE, RANGE)))
    moved, middle = (w * gain * e).sum(), (w * nu).sum()
    within = (w * (v1 * (1 - gain) + (gain * e - moved) ** 2)).sum()
    return np.array([moved, middle, within, (w * (nu - middle) ** 2).sum()]), float(evidence)


def cases(seed: int, number: int = 40) -> list[tuple[float, float, float, float]]:
    rng = np.random.default_rng(seed)
    e = rng.standard_normal(number) * 10 ** rng.uniform(-1, 1.5, number)
    v1, v2 = 10 ** rng.uniform(-4, 1, number), 10 ** rng.uniform(-3, 1, number)
    return list(zip(e, v1, 2 * rng.standard_normal(number), v2, strict=True))


NARROW = [(10.0, 1e-4, 0.0, 4.0), (3.0, 1e-4, 0.0, 9.0), (3.0, 1e-4, 0.0, 4.0), (50.0, 1e-3, -3, 2)]


def left(e: float, v1: float, mu: float, v2: float) -> tuple[np.ndarray, float]:
    """The same by the likelihood."""
    likelihood = HeteroscedasticNormal()
    y, mean, variance = (torch.tensor([part], dtype=D) for part in ([e], [0.0, mu], [v1, v2]))
    d_mu, d_var = likelihood.messages(y, mean, variance)
    after = torch.cat([mean + variance * d_mu, variance + variance**2 * d_var], 1)[0]
    return after.numpy(), float(likelihood.log_evidence(y, mean, variance))


@pytest.mark.parametrize("case", [*NARROW, *cases(0), *cases(1)])
def test_messages_and_evidence_are_those_of_a_dense_sum(case) -> None:
    want, evidence = dense(*case)
    got, log_evidence = left(*case)
    assert log_evidence == pytest.approx(evidence, abs=1e-5)
    _, v1, _, v2 = case
    want[2:] = np.minimum(want[2:], [v1, v2])  # messages that would increase a variance are cut off
    size = np.array([math.sqrt(v1), math.sqrt(v2), v1, v2])
    np.testing.assert_allclose(got / size, want / size, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_the_kernel_finds_the_same(seed: int) -> None:
    for e, v1, mu, v2 in [*NARROW, *cases(seed, 20)]:
        both = [
            kernel.learnt(HeteroscedasticNormal(), e, [0.0, mu], [v1, v2], engine)
            for engine in ENGINES
        ]
        # Of outputs of a published update, so that the variance is compared in its own units.
        torch.testing.assert_close(
            *both, rtol=2e-5, atol=1e-6 * max(abs(e), 1), msg=f"{e, v1, mu, v2}"
        )


def learned(model: tr.TAGI, y: Tensor) -> None:
    for row in y:
        model.update(torch.ones(1, 1), row.reshape(1, 1))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("rule", ["damped", "published"])
def test_no_update_freezes_a_weight(engine: str, rule: str) -> None:
    """At any scale some variance is left, and later rows still move the weights."""
    net, rows = nn.Linear(1, 2, bias=False), torch.Generator().manual_seed(0)
    for seed in range(50):
        for scale in (1e-3, 1.0, 1e3):
            generator = torch.Generator().manual_seed(seed)
            model = tr.TAGI(net, HeteroscedasticNormal(), engine=engine, batch_rule=rule)
            variance = scale * torch.rand(2, generator=generator)
            model.posterior.loc.copy_(torch.randn(2, generator=generator))
            model.posterior.variance.copy_(variance)
            y = 10 * torch.randn(1, generator=generator)
            learned(model, y)
            after = model.posterior.variance.clone()
            assert bool((after > 0).all()), (seed, scale)
            assert bool((after <= variance * 1.00001).all())
            if seed < 5:
                before = model.posterior.loc.clone()
                learned(model, torch.randn(10, generator=rows))
                assert bool((model.posterior.loc != before).all()), (seed, scale)


def test_the_log_density_counts_log_noises_as_the_evidence_does() -> None:
    likelihood = HeteroscedasticNormal()
    for log_noise in (-1000.0, -200.0, -40.0, -14.0, 0.0, 14.0, 40.0, 1000.0):
        z = torch.tensor([[0.3, log_noise]], requires_grad=True)
        y = torch.tensor([[0.3]])
        found = likelihood.log_prob(y, z)
        exact = -0.5 * (min(max(log_noise, -RANGE), RANGE) + math.log(2 * math.pi))
        assert float(found.detach()) == pytest.approx(exact, rel=1e-6)
        evidence = likelihood.log_evidence(y, z.detach(), torch.zeros(1, 2))
        assert float(evidence) == pytest.approx(exact, rel=1e-6)
        (gradient,) = torch.autograd.grad(found.sum(), z)
        assert bool(torch.isfinite(gradient).all())


@pytest.mark.parametrize("variance", [0.0, 1e-30, 1e-27, 1e-24, 1e-20])
@pytest.mark.parametrize("seed", range(3))
def test_messages_without_variance_are_derivatives(seed: int, variance: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    z = 3 * torch.randn(50, 2, generator=generator, dtype=D)
    y = torch.randn(50, 1, generator=generator, dtype=D)
    likelihood = HeteroscedasticNormal()
    z.requires_grad_()
    (first,) = torch.autograd.grad(likelihood.log_prob(y, z).sum(), z, create_graph=True)
    second = [torch.autograd.grad(first[:, k].sum(), z, retain_graph=True)[0][:, k] for k in (0, 1)]
    z = z.detach()
    d_mu, d_var = likelihood.messages(y, z, torch.full_like(z, variance))
    assert torch.allclose(d_mu, first.detach(), rtol=1e-6)
    assert torch.allclose(d_var, torch.stack(second, 1).clamp(max=0), rtol=1e-6)
