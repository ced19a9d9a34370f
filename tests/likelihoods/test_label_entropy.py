"""The parts of the uncertainty of a softmax against samples of its logits."""

import pytest
import torch

from tractable.errors import Unsupported
from tractable.likelihoods import LogDensity, Softmax

D = torch.float64


@pytest.mark.parametrize("std", [0.1, 1.0, 3.0])
def test_the_expected_entropy_is_that_of_samples(std: float) -> None:
    draw = torch.Generator().manual_seed(0)
    mean = torch.randn(4, 3, generator=draw, dtype=D)
    variance = std**2 * (0.5 + torch.rand(4, 3, generator=draw, dtype=D))
    logits = mean + variance.sqrt() * torch.randn(200_000, 4, 3, generator=draw, dtype=D)
    p = logits.log_softmax(-1)
    expected = -(p.exp() * p).sum(-1).mean(0)
    found = Softmax(3).predictive(mean, variance)
    torch.testing.assert_close(found.aleatoric, expected, rtol=0.02, atol=2e-3)
    torch.testing.assert_close(found.epistemic, found.entropy - found.aleatoric)


def test_the_evidence_of_a_returned_density_needs_a_certain_output() -> None:
    z, y = torch.tensor([[0.3], [-2.0]], dtype=D), torch.zeros(2, 1, dtype=D)
    likelihood = LogDensity()
    assert likelihood.log_evidence(y, z, torch.zeros_like(z)).tolist() == [0.3, -2.0]
    with pytest.raises(Unsupported, match="closed form"):
        likelihood.log_evidence(y, z, torch.full_like(z, 0.1))
