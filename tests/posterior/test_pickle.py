"""A pickled posterior keeps its leaves tied to its vectors."""

import copy
import pickle

import pytest
import torch
from torch import nn

import tractable as tr


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copy_learns_like_its_original(copied):
    net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
    model = tr.TAGI(net, tr.likelihoods.Normal(0.1), engine="torch")
    x = torch.randn(16, 2, generator=torch.Generator().manual_seed(0))
    model.update(x, x.sum(1, keepdim=True))  # makes the leaves
    twin = copied(model)
    for learner in (model, twin):
        learner.update(x, x.sum(1, keepdim=True))
    assert torch.equal(model.posterior.loc, twin.posterior.loc)
    assert torch.equal(model.posterior.variance, twin.posterior.variance)
