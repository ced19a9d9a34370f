"""Shape, unit and precision of normal predictions: every part is kept and in its place."""

import pytest
import torch

from tractable.predictive import NormalMixturePredictive, NormalPredictive


def parts(shape, seed):
    g = torch.Generator().manual_seed(seed)
    location = torch.randn(shape, generator=g)
    within, noise = (torch.rand(shape, generator=g) + 0.1 for _ in "ab")
    novelty = torch.rand(shape[0], generator=g)
    return location, within, noise, novelty


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_column_becomes_one_number_per_row(seed):
    location, within, noise, novelty = parts((5, 1), seed)
    flat = NormalPredictive(location, within, noise, novelty).squeezed()
    for found, wanted in zip(
        (flat.mean, flat.epistemic, flat.aleatoric, flat.variance),
        (location, within, noise, within + noise),
        strict=True,
    ):
        assert torch.equal(found, wanted[:, 0])
    assert torch.equal(flat.novelty, novelty)


@pytest.mark.parametrize("scale", [-3.0, 0.5, 20.0])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_other_units_change_variances_by_the_square(scale, seed):
    location, within, noise, novelty = parts((5, 2), seed)
    plain = NormalPredictive(location, within, noise, novelty)
    for one in (plain, plain.mixture_over_draws(1)):
        other = one.rescaled(7.0, scale)
        torch.testing.assert_close(other.mean, 7 + scale * location)
        torch.testing.assert_close(other.epistemic, scale**2 * within)
        torch.testing.assert_close(other.aleatoric, scale**2 * noise)


@pytest.mark.parametrize("tails", [None, [0.5, 1.0, 4.0]])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_double_precision_keeps_every_part(tails, seed):
    draws, within, noise, _ = parts((3, 5, 2), seed)
    novelty = torch.rand(5, generator=torch.Generator().manual_seed(seed))
    factors = None if tails is None else torch.tensor(tails)
    one = NormalMixturePredictive(draws, within, noise, novelty, factors)
    double = one.double()
    for name in ("mean", "epistemic", "aleatoric", "variance", "novelty"):
        assert getattr(double, name).dtype == torch.float64
        torch.testing.assert_close(getattr(double, name).float(), getattr(one, name))
    y = draws.mean(0)
    torch.testing.assert_close(double.log_prob(y.double()).float(), one.log_prob(y))
    torch.testing.assert_close(double.cdf(y.double()).float(), one.cdf(y))
    assert (double.tails is None) == (tails is None)
