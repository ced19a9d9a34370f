"""The logarithm of a target: taken where held-out rows gain, and undone in every answer."""

import numpy as np
import pytest
import torch

from tractable.sklearn import TAGIRegressor
from tractable.sklearn.targets import is_log_candidate

FAST = {
    "epochs": 20,
    "n_estimators": 2,
    "relevance": False,
    "random_state": 0,
    "hidden_layer_sizes": (16,),
}


def rows(n=200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, X[:, 0] + 0.5 * np.sin(2 * X[:, 1]) + 0.3 * rng.normal(size=n)


def test_the_logarithm_is_learned_for_multiplicative_noise():
    X, y = rows()
    model = TAGIRegressor(**FAST).fit(X, np.exp(y))
    assert model.target_log_transform_.shift == pytest.approx(0.02 * np.median(np.exp(y)), rel=0.05)
    assert model.target_log_transform_.top == pytest.approx(np.exp(y).max())
    new, truth = rows(2_000, seed=1)
    plain = TAGIRegressor(**FAST, log_target=False).fit(X, np.exp(y))
    assert plain.target_log_transform_ is None
    gained = model.log_prob(new, np.exp(truth)) - plain.log_prob(new, np.exp(truth))
    assert gained.mean() > 0.3
    low, high = model.predict_interval(new).T
    assert 0.85 < np.mean((low < np.exp(truth)) & (np.exp(truth) < high)) < 0.95
    assert bool((low > -model.target_log_transform_.shift).all())


def test_the_logarithm_is_not_learned_for_additive_noise():
    X, y = rows()
    assert TAGIRegressor(**FAST).fit(X, y + 20).target_log_transform_ is None
    assert TAGIRegressor(**FAST).fit(X, y).target_log_transform_ is None  # not positive


def test_the_density_is_that_of_the_logarithm_over_the_target():
    X, y = rows()
    model = TAGIRegressor(**FAST, log_target=True).fit(X, np.exp(y))
    c = model.target_log_transform_.shift
    log = np.log(np.exp(y) + c)
    by_hand = TAGIRegressor(**FAST, log_target=False).fit(X, log)
    assert model.log_prob(X, np.exp(y)) == pytest.approx(by_hand.log_prob(X, log) - log, rel=1e-6)
    ends = np.exp(by_hand.predict_interval(X)) - c
    seen = ends < np.exp(y).max()
    assert model.predict_interval(X)[seen] == pytest.approx(ends[seen], rel=1e-6)
    assert bool(
        (model.predict_interval(X)[~seen] < ends[~seen]).all()
    )  # along a line, not by powers
    assert bool(np.isfinite(model.log_prob(X[:1], [0.0])).all())  # rare, not impossible


def test_the_logarithm_is_kept_by_files_and_partial_fit(tmp_path):
    X, y = rows()
    model = TAGIRegressor(**FAST, log_target=True).fit(X, np.exp(y))
    model.save(tmp_path / "model")
    again = TAGIRegressor.load(tmp_path / "model")
    assert again.target_log_transform_ == model.target_log_transform_
    assert np.array_equal(again.predict(X), model.predict(X))
    again.partial_fit(X[:20], np.exp(y[:20]))
    assert 0 < np.abs(again.predict(X) - model.predict(X)).max() < np.exp(y).max()
    with pytest.raises(ValueError, match=r"must be positive: row 1 has -2"):
        again.partial_fit(X[:2], [1.0, -2.0])


def test_extrapolated_predictions_do_not_grow_exponentially():
    X, y = rows()
    model = TAGIRegressor(**FAST, log_target=True).fit(X, np.exp(y))
    far = np.array([[50.0, 0.0], [100.0, 0.0]])
    near, twice = model.predict(far)
    assert twice < 2.5 * near
    assert near < 100 * np.exp(y).max()
    assert np.all(np.isfinite(model.predict(far, return_std=True)[1]))


def test_targets_without_a_logarithm_are_refused():
    X, y = rows(30)
    with pytest.raises(ValueError, match="row 0 has 0"):
        TAGIRegressor(**FAST, log_target=True).fit(X, np.zeros(30))
    with pytest.raises(ValueError, match="log_target must be"):
        TAGIRegressor(log_target="yes").fit(X, y)


def test_the_logarithm_is_tried_for_one_skewed_positive_target():
    draw = torch.randn(500, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert is_log_candidate(draw.exp())
    assert not is_log_candidate(draw + 10)
    assert not is_log_candidate(draw)
    assert not is_log_candidate(draw.exp().expand(-1, 2))
    assert not is_log_candidate(torch.ones(5, 1))
