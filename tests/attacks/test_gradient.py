"""Attacks against a linear model, whose gradient is known, and against every learner."""

import pytest
import torch
from torch import nn

import tractable as tr
from tractable import attacks


@pytest.fixture(scope="module")
def data():
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(200, 4, generator=generator)
    return x, (x.sum(1) > 2).long()


def test_fgsm_moves_against_the_weights_of_a_linear_model(data):
    x, y = data
    model = tr.Backprop(nn.Linear(4, 2), tr.likelihoods.Softmax(2), init="net")
    weight = model.posterior["weight"].loc
    away = torch.where(y == 1, -1.0, 1.0).unsqueeze(1) * (weight[1] - weight[0]).sign()
    moved = attacks.fgsm(model, x, y, 0.1, bounds=None)
    assert torch.allclose(moved, x + 0.1 * away, atol=1e-6)
    inside = attacks.fgsm(model, x, y, 0.1)
    assert inside.min() >= 0
    assert inside.max() <= 1
    assert torch.equal(attacks.fgsm(model, x, y, 0.0), x)


def test_the_gradient_of_a_mixture_is_that_of_all_its_draws(data):
    x, y = (t[:3] for t in data)
    net = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))
    for model in (
        tr.BayesByBackprop(net, tr.likelihoods.Softmax(2), draws=7, dtype=torch.float64),
        tr.Ensemble(net, tr.likelihoods.Softmax(2), n=3, dtype=torch.float64),
    ):
        found = attacks.loss_gradient(model, x.double(), y)
        step = 1e-6
        for i in range(4):
            shift = torch.zeros(4, dtype=torch.float64)
            shift[i] = step
            up, down = (model.predict(x.double() + s * shift).log_prob(y) for s in (1, -1))
            assert torch.allclose(found[:, i], (down - up) / (2 * step), atol=1e-6)


@pytest.mark.parametrize("kind", [tr.TAGI, tr.BayesByBackprop, tr.Backprop, tr.Ensemble])
def test_attacks_hurt_every_learner(data, kind):
    x, y = data
    net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
    options = {} if kind is tr.TAGI else {"lr": 2e-2}
    model = kind(net, tr.likelihoods.Softmax(2), **options)
    model.fit(x, y, epochs=20, batch_size=16)
    clean, near, far = attacks.robustness(model, x, y, [0.0, 0.05, 0.2])
    assert clean == pytest.approx(tr.metrics.accuracy(model.predict(x), y))
    assert clean > near > far
    moved = attacks.pgd(model, x, y, 0.1, steps=5, generator=torch.Generator().manual_seed(0))
    assert (moved - x).abs().max() <= 0.1 + 1e-6
    fast = attacks.fgsm(model, x, y, 0.1)
    loss = [-model.predict(v).log_prob(y).mean() for v in (x, fast, moved)]
    assert loss[0] < loss[1] < loss[2] + 0.05  # many small steps do at least as well as one


def test_bad_sizes_are_refused(data):
    model = tr.Backprop(nn.Linear(4, 2), tr.likelihoods.Softmax(2))
    with pytest.raises(ValueError, match="epsilon"):
        attacks.fgsm(model, *data, -0.1)
    with pytest.raises(ValueError, match="steps"):
        attacks.pgd(model, *data, 0.1, steps=0)
