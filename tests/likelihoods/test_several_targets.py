"""A distribution of torch with several targets in a row, which are independent."""

import torch
from torch.distributions import Gamma, Normal

from tractable import likelihoods

D = torch.float64


def test_targets_of_a_row_are_independent() -> None:
    draw = torch.Generator().manual_seed(0)
    mean, y = (torch.randn(5, 2, generator=draw, dtype=D) for _ in range(2))
    variance = torch.rand(5, 2, generator=draw, dtype=D)
    found = likelihoods.FromDistribution(lambda z: Normal(z, 0.3))
    closed = likelihoods.Normal(0.3, 2)
    torch.testing.assert_close(
        found.log_evidence(y, mean, variance), closed.log_evidence(y, mean, variance)
    )
    for ours, exact in zip(
        found.messages(y, mean, variance), closed.messages(y, mean, variance), strict=True
    ):
        torch.testing.assert_close(ours, exact, rtol=1e-6, atol=1e-9)


def test_targets_of_a_row_with_a_rate_each() -> None:
    draw = torch.Generator().manual_seed(1)
    mean = torch.randn(5, 2, generator=draw, dtype=D)
    variance = torch.rand(5, 2, generator=draw, dtype=D)
    y = torch.rand(5, 2, generator=draw, dtype=D) + 0.1
    found = likelihoods.FromDistribution(lambda z: Gamma(torch.full_like(z, 2.0), z.exp()))
    whole = found.messages(y, mean, variance)
    for k in range(2):
        alone = found.messages(*(part[:, k : k + 1] for part in (y, mean, variance)))
        for ours, single in zip(whole, alone, strict=True):
            torch.testing.assert_close(ours[:, k : k + 1], single)
