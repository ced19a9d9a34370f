"""A wild value among the inputs does not set the scale of its column."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tractable.sklearn import TAGIClassifier, TAGIRegressor
from tractable.sklearn.preprocessing import clip_outliers


def test_heavy_tails_and_rare_levels_are_not_clipped():
    rng = np.random.default_rng(0)
    columns = [rng.normal(size=500), rng.lognormal(0, 1.5, 500), rng.integers(0, 2, 500)]
    rare = np.zeros(500)
    rare[:20] = 1  # one-hot of a rare level
    x = torch.tensor(np.column_stack([*columns, rare, np.arange(500)]))
    found = clip_outliers(x)
    assert torch.equal(found.rows, x)
    assert found.counts.tolist() == [0] * 5


@pytest.mark.parametrize("wild", [1e2, 1e6, -1e30])
def test_outliers_are_clipped_and_counted(wild):
    x = torch.linspace(-1, 1, 301, dtype=torch.float64).unsqueeze(1).repeat(1, 2)
    y = x.clone()
    y[7, 1] = wild
    found = clip_outliers(y)
    assert found.counts.tolist() == [0, 1]
    assert 5 < abs(float(found.rows[7, 1])) < 7
    others = torch.arange(301) != 7
    assert torch.equal(found.rows[others], x[others])


def test_an_outlier_hardly_harms_a_fit_and_new_rows_are_not_clipped():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(800, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    settings = {
        "hidden_layer_sizes": (32, 32),
        "epochs": 30,
        "n_estimators": 1,
        "relevance": False,
        "random_state": 0,
    }
    clean = TAGIRegressor(**settings).fit(X[:300], y[:300])
    X[5, 0] = 1e6
    dirty = TAGIRegressor(**settings).fit(X[:300], y[:300])
    error = [np.sqrt(((m.predict(X[300:]) - y[300:]) ** 2).mean()) for m in (clean, dirty)]
    assert error[1] < 1.5 * error[0]
    assert dirty.n_clipped_.tolist() == [1, 0]
    _, std = dirty.predict([[0.0, 0.0], [100.0, 0.0]], return_std=True)
    assert std[1] > 20 * std[0]
    labels = TAGIClassifier(**settings).fit(X[:300], y[:300] > 0)
    assert labels.score(X[300:], y[300:] > 0) > 0.9


@pytest.mark.parametrize("shift", [-1e3, 0.0, 50.0])
@pytest.mark.parametrize("scale", [-2.0, 0.1, 1.0])
def test_clipping_does_not_depend_on_the_unit_of_a_column(shift, scale):
    x = torch.randn(401, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x[5, 0], x[9, 2] = 1e4, -300.0
    found, moved = clip_outliers(x), clip_outliers(shift + scale * x)
    assert found.counts.tolist() == moved.counts.tolist() == [1, 0, 1]
    torch.testing.assert_close(moved.rows, shift + scale * found.rows)
