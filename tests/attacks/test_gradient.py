"""Attacks against a linear model, whose gradient is known, and against every learner."""

from functools import partial

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
    inside = attacks.fgsm(model, x, y, 0.1, bounds=(0.0, 1.0))
    assert inside.min() >= 0
    assert inside.max() <= 1
    assert torch.equal(attacks.fgsm(model, x, y, 0.0), x)


def test_the_gradient_of_a_mixture_is_that_of_all_its_draws(data):
    x, y = (t[:3] for t in data)
    net = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))
    for model in (
        tr.BayesByBackprop(net, tr.likelihoods.Softmax(2), n_weight_samples=7, dtype=torch.float64),
        tr.Ensemble(net, tr.likelihoods.Softmax(2), n_estimators=3, dtype=torch.float64),
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
    clean, near, far = attacks.robustness(model, x, y, [0.0, 0.05, 0.2], bounds=(0.0, 1.0))
    assert clean == pytest.approx(tr.metrics.accuracy(model.predict(x), y))
    assert clean > near > far
    start = torch.Generator().manual_seed(0)
    moved = attacks.pgd(model, x, y, 0.1, steps=5, generator=start, bounds=(0.0, 1.0))
    assert (moved - x).abs().max() <= 0.1 + 1e-6
    fast = attacks.fgsm(model, x, y, 0.1, bounds=(0.0, 1.0))
    loss = [-model.predict(v).log_prob(y).mean() for v in (x, fast, moved)]
    assert loss[0] < loss[1] < loss[2] + 0.05  # many small steps do at least as well as one


def linear(data):
    """A model whose loss rises along one direction everywhere, and that direction."""
    net = nn.Linear(4, 2)
    weight = torch.tensor([[0.5, -0.2, 0.1, 0.3], [-0.1, 0.4, 0.2, -0.6]])
    net.load_state_dict({"weight": weight, "bias": torch.zeros(2)})
    model = tr.Backprop(net, tr.likelihoods.Softmax(2), init="net")
    sign = torch.where(data[1] == 1, -1.0, 1.0).unsqueeze(1)
    return model, sign * (weight[1] - weight[0])


def test_euclidean_pgd_moves_along_the_weights(data):
    x, y = data
    model, away = linear(data)
    moved = attacks.pgd(model, x, y, 0.3, norm="2", bounds=None)
    assert torch.allclose(moved, x + 0.3 * away / away.norm(dim=1, keepdim=True), atol=1e-5)
    start = torch.Generator().manual_seed(0)
    drawn = attacks.pgd(
        model, x, y, 0.3, norm="2", bounds=None, generator=start, steps=1, step_size=0.0
    )
    lengths = (drawn - x).norm(dim=1)
    assert lengths.max() <= 0.3 + 1e-6
    # Evenly in a ball of four dimensions: the fourth power of the length is uniform.
    share = ((lengths / 0.3) ** 4).double()
    assert share.mean().item() == pytest.approx(0.5, abs=4 * (1 / 12 / len(x)) ** 0.5)
    inside = attacks.pgd(model, x, y, 0.3, norm="2", bounds=(0.0, 1.0))
    assert inside.min() >= 0
    assert inside.max() <= 1


def test_a_targeted_attack_moves_in_the_opposite_direction(data):
    x, y = data
    model, _ = linear(data)
    for attack in (attacks.fgsm, attacks.pgd, partial(attacks.pgd, norm="2")):
        away = attack(model, x, y, 0.1, bounds=None)
        # With two classes, towards the other one is away from this one.
        assert torch.allclose(attack(model, x, 1 - y, 0.1, targeted=True, bounds=None), away)
        towards = attack(model, x, y, 0.1, targeted=True, bounds=None)
        assert torch.allclose(towards - x, x - away, atol=1e-6)


@pytest.mark.parametrize("norm", ["inf", "2"])
def test_epsilon_may_differ_by_row(data, norm):
    x, y = data
    model, _ = linear(data)
    sizes = torch.linspace(0, 0.4, len(x))
    together = attacks.pgd(model, x, y, sizes, norm=norm, bounds=None)
    for i in (0, 17, 150):
        alone = attacks.pgd(
            model, x[i : i + 1], y[i : i + 1], float(sizes[i]), norm=norm, bounds=None
        )
        assert torch.allclose(together[i : i + 1], alone, atol=1e-6)
    fast = attacks.fgsm(model, x, y, sizes, bounds=None)
    assert torch.allclose((fast - x).abs().amax(1), sizes, atol=1e-6)


def test_bad_sizes_are_refused(data):
    model = tr.Backprop(nn.Linear(4, 2), tr.likelihoods.Softmax(2))
    with pytest.raises(ValueError, match="epsilon"):
        attacks.fgsm(model, *data, -0.1)
    with pytest.raises(ValueError, match="steps"):
        attacks.pgd(model, *data, 0.1, steps=0)
    with pytest.raises(ValueError, match="norm of a budget must be 'inf' or '2', got '1'"):
        attacks.pgd(model, *data, 0.1, norm="1")
    with pytest.raises(ValueError, match="one for each of 200 rows, got shape"):
        attacks.fgsm(model, *data, torch.ones(3))
    with pytest.raises(ValueError, match="epsilon must not be negative"):
        attacks.robustness(model, *data, [0.1, -0.1])
