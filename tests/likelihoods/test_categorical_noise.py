"""The noise of a decision in predictions: that of ``sigma``, or the published one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tractable.likelihoods import Categorical

D = torch.float64


def decisions(mean: Tensor, variance: Tensor, noise: float, classes: int) -> Tensor:
    """Class probabilities of a balanced tree, decision by decision, for two or three classes."""
    yes = torch.special.ndtr(mean / (variance + noise).sqrt())
    if classes == 2:
        return torch.cat([yes, 1 - yes], 1)
    first, second = yes[:, :1], yes[:, 1:]
    return torch.cat([first * second, first * (1 - second), 1 - first], 1)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("sigma", [None, 0.01, 0.2, 2.0])
def test_predictions_of_the_normal_link_have_the_published_noise(
    sigma: float | None, classes: int
) -> None:
    """1/9, whatever the noise that the numbers are observed with."""
    for seed, scale in enumerate((0.1, 1.0, 4.0)):
        g = torch.Generator().manual_seed(seed)
        mean = scale * torch.randn(20, classes - 1, generator=g, dtype=D)
        variance = torch.rand(20, classes - 1, generator=g, dtype=D)
        likelihood = Categorical(classes, link="normal", sigma=sigma)
        for factor in (1.0, 3.0):
            likelihood.rescale(factor / float(likelihood.noise_scale))
            want = decisions(mean, variance, factor / 9, classes)
            torch.testing.assert_close(likelihood.predictive(mean, variance).probs, want)


@pytest.mark.parametrize("sigma", [0.01, 0.2, 2.0])
def test_predictions_of_the_probit_link_have_the_noise_of_sigma(sigma: float) -> None:
    g = torch.Generator().manual_seed(0)
    mean = torch.randn(20, 2, generator=g, dtype=D)
    variance = torch.rand(20, 2, generator=g, dtype=D)
    got = Categorical(3, link="probit", sigma=sigma).predictive(mean, variance).probs
    torch.testing.assert_close(got, decisions(mean, variance, sigma**2, 3))


def test_sigma_of_the_normal_link_is_that_of_learning() -> None:
    mean, variance = torch.zeros(1, 1), torch.ones(1, 1)
    for sigma in (0.1, 1.0):
        d_mu, d_var = Categorical(2, sigma=sigma).messages(torch.tensor([0]), mean, variance)
        assert float(d_mu) == pytest.approx(1 / (1 + sigma**2))
        assert float(d_var) == pytest.approx(-1 / (1 + sigma**2))
