"""Factors on columns are proportional to the slopes along them."""

from types import SimpleNamespace

import pytest
import torch

from tractable.sklearn.model_selection import feature_relevance, rms_slopes


def linear(weights):
    """Return a learner with the mean ``x w`` of what it was fitted to."""

    def outputs(x, *, batch_size):
        return SimpleNamespace(moments=lambda: ((x.double() @ weights)[:, None], None))

    return SimpleNamespace(
        outputs=outputs, checks=SimpleNamespace(format=SimpleNamespace(inputs=lambda x: x))
    )


@pytest.mark.parametrize("before", [[1.0, 1.0, 1.0, 1.0], [0.5, 2.0, 1.0, 1.0]])
@pytest.mark.parametrize("weights", [[1.0, -2.0, 0.5, 3.0], [0.1, 0.1, -0.4, 5.0]])
def test_factors_of_a_linear_function(weights, before):
    x = torch.randn(300, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x[:, 3] = 1.5  # constant: keeps the factor 1
    w, factors = (torch.tensor(v, dtype=torch.float64) for v in (weights, before))
    slopes = rms_slopes(linear(w), x, factors)
    torch.testing.assert_close(slopes[:3].double(), (w * factors).abs()[:3], rtol=1e-4, atol=0)
    found = feature_relevance(linear(w), x, factors)
    varying = (w * factors)[:3].abs()
    expected = varying / varying.square().mean().sqrt()
    torch.testing.assert_close(found[:3].double(), expected, rtol=1e-4, atol=0)
    assert found[3] == 1
