"""Noise that depends on the inputs, and growth off the data: fit_coefficients to held-out rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import optimize

from tractable.sklearn import TAGIRegressor
from tractable.sklearn.noise_model import (
    MIN_HELD_OUT_ROWS,
    Residuals,
    fit_coefficients,
    select_noise_model,
)


def residuals(n=400, slope=1.0, seed=0, columns=2):
    rng = np.random.default_rng(seed)
    x, mean = rng.normal(size=(n, columns)), rng.normal(size=n)
    true = 0.2 * np.exp(slope * x[:, 0])
    variance = np.full(n, 0.05)
    square = rng.normal(size=n) ** 2 * (true + variance)
    parts = (square, variance, np.full(n, 0.3), mean, x)
    return Residuals(*(torch.tensor(part) for part in parts))


def test_coefficients_are_those_of_greatest_posterior_density():
    found = residuals()
    b = fit_coefficients(found)

    def lost(b):
        b = torch.tensor(b)
        return -float(found.log_probs(b).sum()) + 0.5 * (1e-6 * b[0] ** 2 + 2 * (b[1:] ** 2).sum())

    best = optimize.minimize(lost, np.zeros(4), method="BFGS", options={"gtol": 1e-6})
    assert b.tolist() == pytest.approx(best.x.tolist(), abs=1e-4)
    assert float(b[2]) == pytest.approx(1.0, abs=0.25)  # as drawn
    assert b[[1, 3]].abs().max() < 0.3


def test_constant_noise_is_kept():
    assert select_noise_model([residuals(slope=0.0)], seed=0) is None
    assert select_noise_model([residuals(n=MIN_HELD_OUT_ROWS - 1, slope=2.0)], seed=0) is None
    both = select_noise_model(
        [residuals(slope=0.0), residuals()], seed=0
    )  # of two targets, one varies
    assert both.coefficients.shape == (2, 4)
    assert both.coefficients[0, 1:].tolist() == [0, 0, 0]
    assert float(both.coefficients[1, 2]) > 0.7


def test_outliers_hardly_change_the_noise_model():
    found = residuals()
    b = fit_coefficients(found)
    found.square[:4] = 1e6
    assert (fit_coefficients(found) - b).abs().max() < 0.3


def test_factors_stay_bounded_beyond_the_data():
    model = select_noise_model([residuals()], seed=0)
    far = model.factors(torch.zeros(2, 1), torch.tensor([[3.0, 0.0], [1e9, 0.0]]))
    assert far[0].item() == pytest.approx(far[1].item())


def scattered(n, seed=0):
    """Noise that grows with the first column."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    std = np.exp(1.2 * X[:, 0])
    return X, 10 * X[:, 0] + 5 * X[:, 1] + std * rng.normal(size=n), std


def test_error_bars_follow_a_noise_that_varies(tmp_path):
    X, y, _ = scattered(600)
    new, at_new, std = scattered(2_000, 1)
    model = TAGIRegressor(n_estimators=2, random_state=0).fit(X, y)
    assert model.noise_model_ is not None
    predicted = model.predictive(new).aleatoric.sqrt().numpy()
    assert np.corrcoef(np.log(predicted), np.log(std))[0, 1] > 0.95
    assert np.abs(np.log(predicted / std)).mean() < 0.25
    low, high = model.predict_interval(new).T
    for part in (new[:, 0] < -0.5, new[:, 0] > 0.5):
        assert 0.85 < ((low < at_new) & (at_new < high))[part].mean() < 0.99
    model.save(tmp_path / "model")
    loaded = TAGIRegressor.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_interval(new), model.predict_interval(new))


def shapes(seed):
    """Twelve kinds of rows on a grid of other columns, with a value of its own for each kind."""
    rng = np.random.default_rng(seed)
    kind = np.repeat(np.arange(12), 36)
    about = rng.normal(size=(12, 2)).round(1)
    grid = np.tile(np.stack(np.meshgrid(range(3), range(4), range(3)), -1).reshape(-1, 3), (12, 1))
    y = 5 * rng.normal(size=12)[kind] + 0.3 * grid[:, 0] + 0.1 * rng.normal(size=len(kind))
    return np.column_stack([about[kind], grid]).astype(float), y, kind


def test_growth_of_the_variance_is_larger_for_unknown_groups():
    settings = {
        "hidden_layer_sizes": (32, 32),
        "epochs": 40,
        "n_estimators": 1,
        "relevance": False,
        "random_state": 0,
    }
    misses = []
    for seed in range(3):
        X, y, kind = shapes(seed)
        out = kind < 3
        model = TAGIRegressor(**settings).fit(X[~out], y[~out])
        plain = TAGIRegressor(calibrate=False, **settings).fit(X[~out], y[~out])
        for m in (plain, model):
            mean, std = m.predict(X[out], return_std=True)
            misses.append(np.sqrt((((y[out] - mean) / std) ** 2).mean()))
    before, after = np.array(misses).reshape(3, 2).T
    assert (after < before).all()
    assert after.mean() < 0.8 * before.mean()


@pytest.mark.parametrize("seed", [0, 1])
def test_a_noise_model_is_compared_on_held_out_halves(seed, monkeypatch):
    halves, at = [], Residuals.at
    monkeypatch.setattr(Residuals, "at", lambda self, rows: halves.append(rows) or at(self, rows))
    select_noise_model([residuals(n=101)], seed)
    assert len(halves) == 4  # fit_coefficients to one half and judged by the other, both ways
    for mine, other in (halves[:2], halves[2:]):
        assert sorted([*mine.tolist(), *other.tolist()]) == list(range(101))
    assert halves[0].tolist() == halves[3].tolist()
