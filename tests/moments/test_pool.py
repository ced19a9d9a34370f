"""The windows of pooling."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tractable.moments.pool import adaptive_weights, select


@pytest.mark.parametrize(("size", "windows"), [(5, 3), (6, 3), (7, 2), (3, 5), (4, 1)])
def test_adaptive_weights_are_those_of_torch(size: int, windows: int) -> None:
    """A window of n entries gives each of them 1/n."""
    units = torch.eye(size, dtype=torch.float64).unsqueeze(1)
    largest = F.adaptive_avg_pool1d(units, windows).amax(0).squeeze(0)
    torch.testing.assert_close(adaptive_weights(size, windows, units), largest)


def test_select_follows_the_indices_of_a_maximum() -> None:
    source = torch.Generator().manual_seed(1)
    x = torch.randn(2, 3, 4, 5, generator=source)
    largest, indices = F.max_pool2d(x, 2, return_indices=True)
    assert torch.equal(select(x, indices, 2), largest)
