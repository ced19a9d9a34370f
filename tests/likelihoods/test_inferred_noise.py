"""Noise inferred by a normal likelihood, against moments by quadrature."""

import numpy as np
import pytest
import torch

from tractable.likelihoods import Normal

POINTS, WEIGHTS = np.polynomial.hermite_e.hermegauss(20)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


@pytest.mark.parametrize("rows", [1, 5, 40])
@pytest.mark.parametrize("spread", [0.01, 0.5, 4.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_an_update_has_the_moments_of_the_squared_noise(rows, spread, seed):
    g = torch.Generator().manual_seed(seed)
    likelihood = Normal(outputs=1)
    m, s = 0.7, 0.3
    likelihood.set_buffers({
        "noise_mean": torch.tensor([m], dtype=torch.float64),
        "noise_variance": torch.tensor([s], dtype=torch.float64),
    })  # fmt: skip
    y, mean = (torch.randn(rows, 1, generator=g, dtype=torch.float64) for _ in "ab")
    variance = spread * torch.rand(rows, 1, generator=g, dtype=torch.float64)
    found = likelihood.update_noise(y, mean, variance)
    first, left = [], []
    for residual, v in zip((y - mean).flatten().tolist(), variance.flatten().tolist(), strict=True):
        share = m / (m + v)  # of the residual, that is noise
        noise = share * residual + np.sqrt(share * v) * POINTS
        square = noise**2
        first.append(WEIGHTS @ square)
        left.append(WEIGHTS @ square**2 - first[-1] ** 2)
    total = s + 2 * (s + m * m) / rows
    gain = s / total
    mean_square, doubt = np.mean(first), np.mean(left) / rows
    assert float(found["noise_mean"]) == pytest.approx(m + gain * (mean_square - m), rel=1e-9)
    expected = s - gain**2 * max(total - doubt, 0)
    assert float(found["noise_variance"]) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("scale", [0.2, 1.0, 9.0])
def test_a_rescaled_noise_is_known_as_well_as_before(scale):
    likelihood = Normal(outputs=2)
    likelihood.set_buffers({
        "noise_mean": torch.tensor([0.5, 2.0], dtype=torch.float64),
        "noise_variance": torch.tensor([0.1, 0.3], dtype=torch.float64),
    })  # fmt: skip
    likelihood.rescale(scale)
    assert likelihood.noise_mean.tolist() == pytest.approx([0.5 * scale, 2 * scale])
    relative = likelihood.noise_variance.sqrt() / likelihood.noise_mean
    assert relative.tolist() == pytest.approx([0.1**0.5 / 0.5, 0.3**0.5 / 2])
