"""Error bars where columns have long tails, and the function is much steeper near their medians."""

from __future__ import annotations

import numpy as np
import pytest

from tractable.sklearn import TAGIRegressor


@pytest.mark.parametrize("seed", [0, 1])
def test_a_percentage_of_long_tailed_counts(seed):
    """The target is 100 a / b: steep where both are small, as most are, and flat far out."""
    draw = np.random.default_rng(seed)
    employees = np.exp(draw.normal(5.5, 1.6, 1500))
    eligible = np.round(employees * draw.uniform(0.5, 1, 1500)) + 5
    taking_part = np.round(eligible * np.clip(draw.beta(4, 0.8, 1500), 0.05, 1)) + 1
    X = np.c_[taking_part, eligible, employees]
    y = 100 * np.minimum(taking_part / eligible, 1)
    model = TAGIRegressor(random_state=seed).fit(X[:1000], y[:1000])
    mean, std = model.predict(X[1000:], return_std=True)
    assert std.max() < 200  # 18,000 with the mean slope of all rows
    assert np.quantile(std, 0.9) < 10 * np.median(std)
    assert (np.abs(mean - y[1000:]) < 1.645 * std).mean() > 0.8
