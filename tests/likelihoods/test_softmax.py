"""The softmax likelihood: exact without variance, near Monte Carlo with it."""

import pytest
import torch

from tractable.likelihoods import InvalidTarget, Softmax


def test_log_prob_is_the_log_softmax():
    z = torch.randn(5, 4, dtype=torch.float64)
    y = torch.tensor([0, 1, 2, 3, 0])
    expected = z.log_softmax(-1)[range(5), y]
    likelihood = Softmax(4)
    assert torch.allclose(likelihood.log_prob(y, z), expected)
    assert torch.allclose(likelihood.log_evidence(y, z, torch.zeros_like(z)), expected)


def test_messages_are_the_derivatives_of_the_evidence():
    generator = torch.Generator().manual_seed(0)
    mean = torch.randn(6, 3, generator=generator, dtype=torch.float64)
    variance = torch.rand(6, 3, generator=generator, dtype=torch.float64)
    y = torch.tensor([0, 1, 2, 0, 1, 2])
    likelihood = Softmax(3)
    by_hand = likelihood.messages(y, mean, variance)
    by_autograd = super(Softmax, likelihood).messages(y, mean, variance)
    for a, b in zip(by_hand, by_autograd, strict=True):
        assert torch.allclose(a, b, atol=1e-12)


def test_the_approximation_is_near_sampling():
    generator = torch.Generator().manual_seed(1)
    mean = 2 * torch.randn(50, 5, generator=generator)
    variance = torch.full((50, 5), 1.5)
    draws = mean + variance.sqrt() * torch.randn(20_000, 50, 5, generator=generator)
    truth = draws.softmax(-1).mean(0)
    found = Softmax(5).predictive(mean, variance).probs
    assert (found - truth).abs().max() < 0.04
    assert (mean.softmax(-1) - truth).abs().max() > 0.08  # the error of ignoring the variance


def test_wrong_sizes_are_refused():
    with pytest.raises(ValueError, match="10 outputs"):
        Softmax(10).check_targets(torch.zeros(3).long(), torch.Size([3, 9]))
    with pytest.raises(InvalidTarget, match=r"0\.\.2"):
        Softmax(3).check_targets(torch.tensor([3]), torch.Size([1, 3]))
    with pytest.raises(ValueError, match="at least 2"):
        Softmax(1)
