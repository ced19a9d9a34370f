"""Samples of a posterior: shapes, moments, and the order of the random numbers."""

import torch

from tractable.posterior import Posterior

SHAPES = {"weight": torch.Size([2, 3]), "bias": torch.Size([2])}


def posterior() -> Posterior:
    loc = torch.arange(8.0)
    return Posterior(SHAPES, loc, 0.25 + 0.1 * loc, dict.fromkeys(SHAPES, 1.0))


def test_samples_have_the_shapes_of_the_parameters_and_the_moments() -> None:
    n = 20_000
    found = posterior().sample(n, torch.Generator().manual_seed(0))
    for name, shape in SHAPES.items():
        assert found[name].shape == (n, *shape)
        g = posterior()[name]
        assert float(((found[name].mean(0) - g.loc) / (g.variance / n).sqrt()).abs().max()) < 4
        assert float((found[name].var(0) / g.variance - 1).abs().max()) < 4 * (2 / n) ** 0.5


def test_one_sample_is_that_of_one_vector() -> None:
    p = posterior()
    found = p.sample(1, torch.Generator().manual_seed(3))
    noise = torch.randn(8, generator=torch.Generator().manual_seed(3))
    expected = p.loc + p.variance.sqrt() * noise
    assert torch.equal(torch.cat([part[0].flatten() for part in found.values()]), expected)


def test_iterating_gives_one_sample_after_the_other() -> None:
    p, generator = posterior(), torch.Generator().manual_seed(3)
    samples = list(p.iter_samples(5, generator))
    assert len(samples) == 5
    assert samples[0]["weight"].shape == SHAPES["weight"]
    assert not torch.equal(samples[0]["bias"], samples[1]["bias"])
