"""Pruned weights are exactly zero and have the lowest signal-to-noise ratios."""

import pytest
import torch

from tractable.posterior import Posterior


@pytest.fixture
def posterior():
    generator = torch.Generator().manual_seed(0)
    loc = torch.randn(300, generator=generator)
    loc[200:] *= 10  # the second layer is much more certain
    variance = torch.rand(300, generator=generator) + 0.1
    shapes = {"a": torch.Size([20, 10]), "b": torch.Size([100])}
    return Posterior(shapes, loc, variance, {"a": 1.0, "b": 1.0})


@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("per_layer", [False, True])
def test_exactly_the_given_share_is_pruned(posterior, fraction, per_layer):
    pruned = posterior.pruned(fraction, per_layer=per_layer)
    gone = (pruned.loc == 0) & (pruned.variance == 0)
    assert int(gone.sum()) == round(300 * fraction)
    ratio = posterior.loc.abs() / posterior.variance.sqrt()
    if per_layer:
        assert int(gone[:200].sum()) == round(200 * fraction)
    elif 0 < fraction < 1:
        assert ratio[gone].max() <= ratio[~gone].min()
    assert torch.equal(pruned.loc[~gone], posterior.loc[~gone])
    assert torch.equal(pruned.variance[~gone], posterior.variance[~gone])


def test_pruning_again_takes_the_zeros_first(posterior):
    half = posterior.pruned(0.5)
    assert torch.equal(half.pruned(0.5).loc, half.loc)
    again = half.pruned(0.75)
    assert int((again.loc != 0).sum()) == 75
    assert torch.equal(again.loc, posterior.pruned(0.75).loc)


def test_a_point_estimate_is_pruned_by_size(posterior):
    point = Posterior(posterior.shapes, posterior.loc, torch.zeros(300), posterior.prior_variance)
    gone = point.pruned(0.3).loc == 0
    assert posterior.loc[gone].abs().max() <= posterior.loc[~gone].abs().min()


def test_sparse_storage_is_smaller_only_when_sparse(posterior):
    assert posterior.stored_bytes() == 300 * 8
    assert posterior.stored_bytes(sparse=True) == 300 * 8 + 38
    assert posterior.pruned(0.9).stored_bytes(sparse=True) == 30 * 8 + 38


def test_fraction_is_checked(posterior):
    with pytest.raises(ValueError, match="between 0 and 1"):
        posterior.pruned(90)
