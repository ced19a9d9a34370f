"""Validation rows of an estimator determine the number of epochs and the noise."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.model_selection import cross_val_score

from tractable.sklearn import TAGIRegressor


def test_small_noisy_data_are_not_learnt_by_heart():
    X, y = load_diabetes(return_X_y=True)
    chosen = cross_val_score(TAGIRegressor(random_state=0, n_estimators=1), X, y, cv=3).mean()
    given = TAGIRegressor((64, 64), random_state=0, epochs=40, n_estimators=1, relevance=False)
    many = cross_val_score(given, X, y, cv=3).mean()
    assert chosen > 0.46  # a linear model has 0.49
    assert chosen > many + 0.05


@pytest.mark.parametrize("n", [100, 2_500])
@pytest.mark.parametrize("calibrate", [True, "cv"])
def test_intervals_cover_on_small_and_large_data(n, calibrate):
    draw = np.random.default_rng(0)
    X = draw.uniform(-2, 2, (n + 1000, 1))
    y = np.sin(2 * X[:, 0]) + 0.3 * draw.standard_normal(len(X))
    model = TAGIRegressor((32,), calibrate=calibrate, random_state=0).fit(X[:n], y[:n])
    low, high = model.predict_interval(X[n:], 0.9).T
    covered = ((low < y[n:]) & (y[n:] < high)).mean()
    assert 0.8 < covered < 0.97
