"""The posterior of an ensemble as one Gaussian, and updates refused by one member."""

import pytest
import torch
from torch import nn

import tractable as tr

KINDS = {"TAGI": tr.TAGI, "BayesByBackprop": tr.BayesByBackprop, "Backprop": tr.Backprop}


def ensemble(kind, n, seed=0):
    net = nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 1))
    return tr.Ensemble(
        net, tr.likelihoods.Normal(0.1), n_estimators=n, learner=KINDS[kind], seed=seed
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "seed"), [(1, 0), (2, 3), (5, 7)])
def test_the_posterior_has_the_moments_of_the_mixture(kind, n, seed):
    model = ensemble(kind, n, seed)
    parts = model.posteriors
    locs = torch.stack([part.loc for part in parts]).double()
    variances = torch.stack([part.variance for part in parts]).double()
    second = (variances + locs.square()).mean(0)
    mean = locs.mean(0)
    torch.testing.assert_close(model.posterior.loc.double(), mean)
    torch.testing.assert_close(model.posterior.variance.double(), second - mean.square())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("refusing", [0, 1, 2])
def test_an_update_refused_by_one_member_changes_none(kind, refusing, monkeypatch):
    model = ensemble(kind, 3)
    x, y = torch.randn(8, 2, generator=torch.Generator().manual_seed(1)), torch.ones(8)
    model.update(x, y)
    before = [(p.loc.clone(), p.variance.clone()) for p in model.posteriors]
    member = type(model.method.member)
    learn, last = member.update, model.state.members[refusing]

    def update(self, state, *arguments):
        if state is last:
            raise FloatingPointError("refused")
        return learn(self, state, *arguments)

    monkeypatch.setattr(member, "update", update)
    with pytest.raises(FloatingPointError, match="refused"):
        model.update(x + 1, y)
    for posterior, (loc, variance) in zip(model.posteriors, before, strict=True):
        assert torch.equal(posterior.loc, loc)
        assert torch.equal(posterior.variance, variance)
