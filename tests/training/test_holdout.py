"""How often the rows are learnt is chosen on rows held out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_diabetes
from sklearn.model_selection import cross_val_score
from torch import nn

import tractable as tr
from tractable.sklearn import TAGIRegressor
from tractable.training.holdout import choose_epochs, folds, usual_epochs


def learner() -> tr.TAGI:
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
    return tr.TAGI(net, tr.likelihoods.Normal(), gain=0.25, seed=0)


def rows(noise: float, n: int = 300) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(n, 8, generator=draw)
    y = torch.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + noise * torch.randn(n, generator=draw)
    return x, y / y.std()


def choose(model, x, y):
    return choose_epochs(model, x, y, folds(model, len(x)), batch_size=None)


def test_noise_asks_for_fewer_epochs():
    exact, _ = choose(learner(), *rows(0.0))
    noisy, _ = choose(learner(), *rows(3.0))
    assert noisy <= usual_epochs(300) // 4 < usual_epochs(300) // 2 <= exact


@pytest.mark.parametrize("noise", [0.3, 1.0, 3.0])
def test_the_choice_is_the_usual_number_or_clearly_better(noise):
    """By hand, for one tenth held out: fit with each number, scale the noise, score."""
    x, y = rows(noise)
    x, y = learner().checked(x, y)
    out = torch.arange(30)
    epochs, scale = choose_epochs(learner(), x, y, [out], batch_size=4)
    scores = {}
    for k in (1, 2, 4, 8):
        other = learner().clone(seed_offset=1)
        other.fit(x[30:], y[30:], epochs=usual_epochs(300) // k, batch_size=4, progress=False)
        moments = other.outputs(x[:30]).moments()
        factor = other.likelihood.held_out_scale([(other.likelihood, y[:30], *moments)])
        other.likelihood.rescale(factor)
        score = other.likelihood.predictive(*moments).log_prob(y[:30]).double()
        scores[usual_epochs(300) // k] = score, factor
    usual = scores[usual_epochs(300)][0]
    gains = {k: score - usual for k, (score, _) in scores.items()}
    clear = {k: g.mean() for k, g in gains.items() if g.mean() > 2 * g.std() / 30**0.5}
    assert epochs == (max(clear, key=clear.__getitem__) if clear else usual_epochs(300))
    assert scale == pytest.approx(scores[epochs][1])


def test_choosing_leaves_the_learner_as_it_is():
    model = learner()
    before = {name: value.clone() for name, value in model.method.learnt(model.state).items()}
    choose(model, *rows(1.0))
    assert not model.fitted
    after = model.method.learnt(model.state)
    assert all(torch.equal(value, before[name]) for name, value in after.items())


def test_small_noisy_data_are_not_learnt_by_heart():
    X, y = load_diabetes(return_X_y=True)
    chosen = cross_val_score(TAGIRegressor(random_state=0), X, y, cv=3).mean()
    many = cross_val_score(TAGIRegressor(random_state=0, epochs=40), X, y, cv=3).mean()
    assert chosen > 0.42  # a linear model has 0.49
    assert chosen > many + 0.05


@pytest.mark.parametrize("n", [100, 2_500])
@pytest.mark.parametrize("calibrate", [True, "refit"])
def test_intervals_cover_on_small_and_large_data(n, calibrate):
    draw = np.random.default_rng(0)
    X = draw.uniform(-2, 2, (n + 1000, 1))
    y = np.sin(2 * X[:, 0]) + 0.3 * draw.standard_normal(len(X))
    model = TAGIRegressor((32,), calibrate=calibrate, random_state=0).fit(X[:n], y[:n])
    low, high = model.predict_interval(X[n:], 0.9).T
    covered = ((low < y[n:]) & (y[n:] < high)).mean()
    assert 0.8 < covered < 0.97
