"""The factor on a noise that held-out rows ask for, where the truth is known."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import Tensor, nn

import tractable as tr
from tractable import likelihoods
from tractable.likelihoods import Likelihood

ROWS = 4000


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def known(
    y: Tensor, z: Tensor, likelihood: Likelihood
) -> tuple[Likelihood, Tensor, Tensor, Tensor]:
    """Rows whose outputs are known."""
    return likelihood, likelihood.check_targets(y, z.shape), z, torch.zeros_like(z)


def overdispersed() -> tuple[Likelihood, Tensor, Tensor, Tensor]:
    """Dispersion 2, thought to be 8."""
    z = torch.full((ROWS, 1), 2.0, dtype=torch.float64)
    torch.manual_seed(0)
    rate = z.exp() * torch.distributions.Gamma(2.0, 2.0).sample((ROWS, 1)).double()
    y = torch.poisson(rate, generator=seeded())
    return known(y, z, likelihoods.NegativeBinomial(total_count=8.0))


def turned() -> tuple[Likelihood, Tensor, Tensor, Tensor]:
    """Concentration 5, thought to be 20."""
    torch.manual_seed(0)
    y = torch.distributions.VonMises(torch.tensor(0.0), torch.tensor(5.0)).sample((ROWS, 1))
    z = torch.zeros(ROWS, 1, dtype=torch.float64)
    return known(y.double(), z, likelihoods.VonMises(concentration=20.0))


def spread(
    kind: Likelihood, noise: Tensor, outputs: int
) -> tuple[Likelihood, Tensor, Tensor, Tensor]:
    z = torch.zeros(ROWS, outputs, dtype=torch.float64)
    return known(noise, z, kind)


def normal() -> Tensor:
    return torch.randn(ROWS, 1, generator=seeded(), dtype=torch.float64)


def laplace() -> Tensor:
    torch.manual_seed(0)
    return torch.distributions.Laplace(0.0, 1.0).sample((ROWS, 1)).double()


def student() -> Tensor:
    torch.manual_seed(0)
    return torch.distributions.StudentT(4.0).sample((ROWS, 1)).double()


def sure(kind: Likelihood, factor: float) -> tuple[Likelihood, Tensor, Tensor, Tensor]:
    """Decisions of outputs N(0, 1), thought to be some times as far from zero."""
    z = torch.randn(ROWS, 1, generator=seeded(1), dtype=torch.float64)
    noisy = z + torch.randn(z.shape, generator=seeded(2), dtype=torch.float64)
    if isinstance(kind, likelihoods.Ordinal):
        y = torch.bucketize(noisy, torch.tensor([-0.5, 0.7], dtype=torch.float64))
    else:
        y = (noisy > 0).long()
    return known(y, factor * z, kind)


THREE = likelihoods.Ordinal(3, thresholds=[-1.5, 2.1])  # three times as far, as the outputs are
CASES = {
    "NegativeBinomial": (overdispersed, 4.0),
    "VonMises": (turned, 4.4),  # about: 1 / kappa is the variance of narrow noises only
    "Laplace": (lambda: spread(likelihoods.Laplace(2.0), laplace(), 1), 0.25),
    "StudentT": (lambda: spread(likelihoods.StudentT(4.0, 0.5), student(), 1), 4.0),
    "HeteroscedasticNormal": (
        lambda: spread(likelihoods.HeteroscedasticNormal(), 2 * normal(), 2),
        4.0,
    ),
    "Mixture": (
        lambda: spread(
            likelihoods.Mixture(likelihoods.HeteroscedasticNormal(), 2), 2 * normal(), 6
        ),
        4.0,
    ),
    "Ordinal": (lambda: sure(copy.deepcopy(THREE), 3.0), 9.0),
    "Bernoulli": (lambda: sure(likelihoods.Bernoulli(), 3.0), 9.0),
}


@pytest.mark.parametrize("name", CASES)
def test_the_factor_is_found(name: str) -> None:
    make, truth = CASES[name]
    held = make()
    likelihood, y, mean, variance = held
    found = likelihood.held_out_scale([held])
    assert abs(math.log(found / truth)) < 0.25  # some standard errors of 4,000 rows
    before = likelihood.predictive(mean, variance).log_prob(y).mean()
    likelihood.rescale(found)
    after = likelihood.predictive(mean, variance).log_prob(y).mean()
    assert after > before + 0.01
    assert abs(math.log(likelihood.held_out_scale([held]))) < 0.07  # no noise remains to be scaled


def test_a_rescaled_bernoulli_is_one_of_smaller_outputs() -> None:
    mean, variance = torch.tensor([[1.5], [-0.3]]), torch.tensor([[0.4], [2.0]])
    for link in ("probit", "logit"):
        scaled = likelihoods.Bernoulli(link)
        scaled.rescale(4.0)
        plain = likelihoods.Bernoulli(link).predictive(mean / 2, variance / 4)
        torch.testing.assert_close(scaled.predictive(mean, variance).probs, plain.probs)


def test_learning_does_not_depend_on_the_factor_of_a_predicted_noise() -> None:
    x, y = torch.randn(40, 2, generator=seeded()), torch.randn(40, 1, generator=seeded(1))
    models = [
        tr.TAGI(nn.Linear(2, 2), likelihoods.HeteroscedasticNormal(), engine=engine)
        for engine in ("torch", "torch", "native")
    ]
    for model in models[1:]:
        model.rescale_noise(5.0)
    for model in models:
        model.update(x, y)
    assert torch.equal(models[0].posterior.loc, models[1].posterior.loc)
    torch.testing.assert_close(models[0].posterior.loc, models[2].posterior.loc)


def test_fit_calibrates_counts() -> None:
    x = torch.randn(60, 1, generator=seeded())
    y = torch.poisson(torch.exp(1 + x), generator=seeded())
    model = tr.TAGI(nn.Linear(1, 1), likelihoods.NegativeBinomial())
    model.fit(x, y, epochs=2, batch_size=20, calibrate=True, progress=False)
    assert model.run.scale is not None
    with pytest.raises(TypeError, match="no noise to calibrate"):
        tr.TAGI(nn.Linear(1, 1), likelihoods.Poisson()).fit(x, y, epochs=1, calibrate=True)


@pytest.mark.parametrize(
    ("likelihood", "outputs", "y"),
    [
        (likelihoods.Ordinal(3), 1, torch.tensor([0, 1, 2, 1])),
        (likelihoods.MultivariateNormal(2), 2, torch.ones(4, 2)),
        (likelihoods.Laplace(), 1, torch.ones(4, 1)),
        (likelihoods.Mixture(likelihoods.Laplace(), 2), 4, torch.ones(4, 1)),
    ],
)
def test_a_memory_is_handed_on(likelihood: Likelihood, outputs: int, y: Tensor) -> None:
    """What was learned of the noise then counts for no more rows than are to be remembered."""
    likelihood = copy.deepcopy(likelihood)
    z = torch.zeros(4, outputs)
    targets = likelihood.check_targets(y, z.shape)
    for _ in range(20):
        likelihood.set_buffers(likelihood.observe(targets, z, z + 1, memory_rows=6.0).noise)
    rows = [b for name, b in likelihood.named_buffers() if name.endswith("rows")]
    assert all(float(b) <= 10 for b in rows)
    likelihood.set_buffers(likelihood.observe(targets, z, z + 1).noise)
    for _ in range(20):
        likelihood.set_buffers(likelihood.observe(targets, z, z + 1).noise)
    assert max(float(b) for name, b in likelihood.named_buffers() if name.endswith("rows")) > 30
