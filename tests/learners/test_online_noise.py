"""Online updates of gradient learners: learnable noise converges to that of the rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.distributions as dist
from torch import Tensor, nn

import tractable as tr
from tractable import likelihoods
from tractable.errors import NonFiniteGradient
from tractable.likelihoods import Likelihood

ROWS = 4000
CORRELATION = torch.tensor([[1.0, 0.6], [0.6, 1.0]])


@dataclass(frozen=True)
class Case:
    """A likelihood that learns its noise, and rows simulated from it.

    Args:
        make: the likelihood.
        simulate: targets given the function's values ``[rows, 1]`` and the size of the noise.
        found: the size of the noise that the likelihood has learnt.
        outputs: number of outputs of the network.
        noises: the sizes to simulate.
    """

    make: Callable[[], Likelihood]
    simulate: Callable[[Tensor, float], Tensor]
    found: Callable[[Any], Tensor]
    outputs: int = 1
    noises: tuple[float, ...] = (0.05, 0.5)


def normal(f: Tensor, noise: float) -> Tensor:
    return f + noise * torch.randn_like(f)


def laplace(f: Tensor, noise: float) -> Tensor:
    return f + dist.Laplace(0.0, noise).sample(f.shape)


def both(f: Tensor) -> Tensor:
    return torch.cat([f, -f], 1)


def with_gaps(y: Tensor) -> Tensor:
    return torch.where(torch.rand_like(y) < 0.3, math.nan, y)


def correlated(f: Tensor, noise: float) -> Tensor:
    cause = dist.MultivariateNormal(torch.zeros(2), noise**2 * CORRELATION)
    return both(f) + cause.sample((len(f),))


def of_two(f: Tensor, noise: float) -> Tensor:
    return torch.where(torch.rand_like(f) < 0.4, normal(f + 2, noise), normal(f - 2, noise))


def correlated_size(likelihood: likelihoods.MultivariateNormal) -> Tensor:
    """Return standard deviations, and the covariance with the simulated correlation."""
    c = likelihood.covariance
    return torch.stack([c[0, 0], c[1, 1], c[0, 1] / 0.6]).clamp_min(0).sqrt()


def counts(f: Tensor, dispersion: float) -> Tensor:
    return torch.poisson((f + 2).exp() * dist.Gamma(dispersion, dispersion).sample(f.shape))


CASES = {
    "Normal": Case(likelihoods.Normal, normal, lambda at: at.noise_mean.sqrt()),
    "Normal with missing targets": Case(
        lambda: likelihoods.Normal(None, 2, missing=True),
        lambda f, noise: with_gaps(normal(both(f), noise)),
        lambda at: at.noise_mean.sqrt(),
        outputs=2,
    ),
    "Laplace": Case(likelihoods.Laplace, laplace, lambda at: at.parameter),
    "StudentT": Case(
        likelihoods.StudentT,
        lambda f, noise: f + noise * dist.StudentT(4.0).sample(f.shape),
        lambda at: at.parameter,
    ),
    "MultivariateNormal": Case(
        lambda: likelihoods.MultivariateNormal(2), correlated, correlated_size, outputs=2
    ),
    "NegativeBinomial": Case(
        likelihoods.NegativeBinomial, counts, lambda at: at.parameter, noises=(1.0, 1.5)
    ),
    "VonMises": Case(
        likelihoods.VonMises,
        lambda f, noise: dist.VonMises(f, torch.tensor(1 / noise**2)).sample(),
        lambda at: at.parameter.rsqrt(),
        noises=(0.1, 0.5),
    ),
    "Joint": Case(
        lambda: likelihoods.Joint(likelihoods.Normal(), likelihoods.Laplace()),
        lambda f, noise: with_gaps(torch.cat([normal(f, noise), laplace(f, noise)], 1)),
        lambda at: torch.cat([at.part_list[0].noise_mean.sqrt(), at.part_list[1].parameter]),
        outputs=2,
    ),
    "Mixture": Case(
        lambda: likelihoods.Mixture(likelihoods.Normal(), 2),
        of_two,
        lambda at: torch.cat([part.parameter for part in at.part_list]).sqrt(),
        outputs=4,
    ),
    "PerStep": Case(
        lambda: likelihoods.PerStep(likelihoods.Laplace()),
        lambda f, noise: laplace(both(f), noise).unsqueeze(2),
        lambda at: at.part.parameter,
        outputs=2,
    ),
}
LEARNERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "Backprop": (tr.Backprop, {}),
    "BayesByBackprop": (tr.BayesByBackprop, {"rho": (-8.0, -7.0)}),
    "Laplace of the last layer": (tr.Laplace, {"structure": "last_layer"}),
}


def rows(case: Case, noise: float, seed: int) -> tuple[Tensor, Tensor]:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        x = torch.randn(ROWS, 1)
        return x, case.simulate(0.7 * x, noise)


def fitted(name: str, case: Case, noise: float, seed: int) -> Any:
    """Return a learner fitted to rows with this noise."""
    kind, options = LEARNERS[name]
    net: nn.Module = nn.Linear(1, case.outputs)
    if isinstance(case.make(), likelihoods.PerStep):
        net = nn.Sequential(nn.Unflatten(1, (1, 1)), nn.Linear(1, 2), nn.Flatten(1), Steps())
    elif case.outputs == 4:
        net = nn.Sequential(nn.Linear(1, 4), Apart())
    model = kind(net, case.make(), seed=seed, lr=0.05, **options)
    x, y = rows(case, noise, seed)
    return model.fit(
        x[:600], y[:600], epochs=7, batch_size=30, progress=False, distance_aware=False
    )


class Steps(nn.Module):
    def forward(self, z: Tensor) -> Tensor:
        return z.unsqueeze(2)


class Apart(nn.Module):
    """Return components that start at 2 and -2, so that each keeps its rows."""

    def forward(self, z: Tensor) -> Tensor:
        return z + torch.tensor([0.0, 0.0, 2.0, -2.0])


def follow(model: Any, case: Case, noise: float, seed: int) -> None:
    x, y = rows(case, noise, seed)
    for some, targets in zip(x.split(100), y.split(100), strict=True):
        model.update(some, targets)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("name", CASES)
def test_the_noise_of_a_stream_is_learnt(name: str, learner: str) -> None:
    """The fit used rows with twice or half the noise of the stream."""
    case = CASES[name]
    for seed, noise in enumerate(case.noises):
        model = fitted(learner, case, (2.0, 0.5)[seed] * noise, seed)
        start = case.found(model.likelihood).log() - math.log(noise)
        assert start.abs().min() > 0.2
        follow(model, case, noise, 10 + seed)
        error = case.found(model.likelihood).log() - math.log(noise)
        assert error.abs().max() < 0.25, error


def test_thresholds_are_learnt_online() -> None:
    """The thresholds of three levels differ between the fit and the stream."""
    x = torch.randn(ROWS, 1, generator=torch.Generator().manual_seed(0))
    noisy = x + torch.randn(x.shape, generator=torch.Generator().manual_seed(1))
    for kind, _ in LEARNERS.values():
        model = kind(nn.Linear(1, 1, bias=False), likelihoods.Ordinal(3), lr=0.05)
        before = torch.bucketize(noisy[:600], torch.tensor([-1.0, 1.0]))
        model.fit(x[:600], before, epochs=4, batch_size=30, progress=False, distance_aware=False)
        truth = torch.tensor([-0.2, 0.4])
        y = torch.bucketize(noisy, truth)
        for some, targets in zip(x.split(100), y.split(100), strict=True):
            model.update(some, targets)
        assert (model.likelihood.thresholds - truth).abs().max() < 0.15


@pytest.mark.parametrize("name", CASES)
def test_one_row_after_a_fit_changes_the_noise_little(name: str) -> None:
    """It counts as one row in addition to those of the fit."""
    case = CASES[name]
    for seed, noise in enumerate(case.noises):
        model = fitted("Backprop", case, noise, seed)
        before = case.found(model.likelihood)
        x, y = rows(case, noise, 20)
        model.update(x[:1], y[:1])
        assert (case.found(model.likelihood) / before).log().abs().max() < 0.05


@pytest.mark.parametrize("learner", LEARNERS)
def test_missing_targets_leave_the_noise_and_the_predictions_finite(learner: str) -> None:
    kind, options = LEARNERS[learner]
    for seed in range(3):
        g = torch.Generator().manual_seed(seed)
        model = kind(
            nn.Linear(1, 2), likelihoods.Normal(None, 2, missing=True), seed=seed, **options
        )
        plain = kind(nn.Linear(1, 2), likelihoods.Normal(None, 2), seed=seed, **options)
        x, y = torch.randn(6, 1, generator=g), torch.randn(6, 2, generator=g)
        for some, targets in zip(x.split(2), y.split(2), strict=True):
            model.update(some, targets)
            plain.update(some, targets)
        torch.testing.assert_close(model.likelihood.noise_mean, plain.likelihood.noise_mean)
        known = model.likelihood.noise_mean
        for targets in ([1.0, math.nan], [0.5, math.nan], [math.nan, math.nan]):
            model.update(x[:1], torch.tensor([targets]))
        after = model.likelihood.noise_mean
        assert torch.isfinite(after).all()
        assert after[0] != known[0]
        assert after[1] == known[1]
        assert torch.isfinite(model.predict(x).std).all()


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_refused_update_does_not_change_the_noise(learner: str) -> None:
    kind, options = LEARNERS[learner]
    for make in (likelihoods.Normal, likelihoods.StudentT, likelihoods.Laplace):
        model = kind(nn.Linear(1, 1), make(), **options)
        model.update([[0.5]], [[0.2]])
        before = {name: b.clone() for name, b in model.likelihood.named_buffers()}
        with pytest.raises(NonFiniteGradient):
            model.update([[3e38]], [[-3e38]])
        for name, buffer in model.likelihood.named_buffers():
            assert torch.equal(buffer, before[name])


@pytest.mark.parametrize("learner", LEARNERS)
def test_error_bars_of_targets_are_not_taken_for_noise(learner: str) -> None:
    """Targets with error bars of variance 0.16, and a noise of variance 0.09."""
    kind, options = LEARNERS[learner]
    g = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, 1, generator=g)
    y = 0.7 * x + 0.5 * torch.randn(x.shape, generator=g)
    model = kind(nn.Linear(1, 1), likelihoods.Normal(), lr=0.05, **options)
    for some, targets in zip(x.split(100), y.split(100), strict=True):
        model.update(some, tr.Gaussian(targets, torch.full_like(targets, 0.16)))
    assert 0.05 < float(model.likelihood.noise_mean) < 0.2  # 0.26 if error bars were ignored


def test_piecewise_linear_log_densities_use_the_expected_curvature() -> None:
    """The second derivative of the Laplace density is zero almost everywhere."""
    z = torch.randn(5, 2, generator=torch.Generator().manual_seed(0))
    y = torch.zeros_like(z)
    for scale in (0.1, 2.0):
        part = likelihoods.Laplace(scale)
        steps = likelihoods.PerStep(part).curvature(y.unsqueeze(2), z.unsqueeze(2))
        for first, second in (
            part.curvature(y, z),
            likelihoods.Joint(part, part).curvature(y, z),
            steps,
        ):
            torch.testing.assert_close(first, -z.sign() / scale)
            torch.testing.assert_close(second, torch.eye(2).expand(5, 2, 2) / scale**2)


@pytest.mark.parametrize("missing", [False, True])
def test_blockwise_curvature_equals_that_of_the_whole(missing: bool) -> None:
    """Compare with the derivatives of the sum of log densities."""
    g = torch.Generator().manual_seed(1)
    joint = likelihoods.Joint(
        likelihoods.Normal(0.5), likelihoods.Poisson(), likelihoods.Softmax(3)
    )
    y = torch.tensor([[0.4, 2.0, 0.0], [-1.0, 0.0, 2.0], [0.1, 3.0, 1.0]])
    steps = likelihoods.PerStep(likelihoods.Softmax(3))
    labels = torch.tensor([[0, 1], [2, 2], [1, 0]])
    if missing:
        y[0, 1] = y[1, 0] = y[2, 2] = math.nan
        labels[0, 1] = labels[2, 0] = labels[2, 1] = -100
    for likelihood, targets, z in (
        (joint, y, torch.randn(3, 5, generator=g)),
        (steps, labels, torch.randn(3, 2, 3, generator=g)),
    ):
        seen = likelihood.check_targets(targets, z.shape)
        got, want = likelihood.curvature(seen, z), Likelihood.curvature(likelihood, seen, z)
        for ours, whole in zip(got, want, strict=True):
            torch.testing.assert_close(ours, whole, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("component", [likelihoods.Normal(0.5), likelihoods.Poisson()])
def test_the_curvature_of_a_mixture_is_its_second_derivative(component: Likelihood) -> None:
    for seed in range(5):
        g = torch.Generator().manual_seed(seed)
        likelihood = likelihoods.Mixture(component, 3)
        z = torch.randn(20, 6, generator=g, dtype=torch.float64)
        y = torch.randint(0, 3, (20, 1), generator=g).double()
        got, want = likelihood.curvature(y, z), Likelihood.curvature(likelihood, y, z)
        for ours, whole in zip(got, want, strict=True):
            torch.testing.assert_close(ours, whole, rtol=1e-8, atol=1e-10)


def test_a_mixture_of_piecewise_linear_log_densities_has_curvature() -> None:
    likelihood = likelihoods.Mixture(likelihoods.Laplace(0.5), 2)
    z = torch.tensor([[0.0, 0.0, -1.0, 1.0]])
    _, second = likelihood.curvature(torch.tensor([[1.2]]), z)
    share = torch.tensor([-2.2, -0.2]).div(0.5).softmax(0)
    # r / b^2 of the complete data, less the variance of the score of the component
    torch.testing.assert_close(second[0].diagonal()[2:], share.square() / 0.25)


@pytest.mark.parametrize("structure", ["diagonal", "last_layer"])
def test_the_laplace_learner_learns_from_absolute_errors(structure: str) -> None:
    """The variance of a mean under Laplace noise of scale b is about b^2 over the rows."""
    x = torch.ones(400, 1)
    for seed, scale in enumerate((0.1, 0.5)):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            y = dist.Laplace(0.0, scale).sample((400, 1))
        net = nn.Linear(1, 1, bias=False)
        model = tr.Laplace(
            net, likelihoods.Laplace(scale), lr=0.01, structure=structure, prior_precision=1.0
        )
        model.fit(x, y, epochs=10, batch_size=50, progress=False, distance_aware=False)
        variance = model.outputs(x[:1]).moments()[1]
        assert float(variance) == pytest.approx(1 / (400 / scale**2 + 1), rel=1e-4)
