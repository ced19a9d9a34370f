"""Data with known truth, and small estimators of every kind."""

import numpy as np
import pytest

from tractable.sklearn import (
    BackpropClassifier,
    BackpropRegressor,
    BBBClassifier,
    BBBRegressor,
    LaplaceClassifier,
    LaplaceRegressor,
    TAGIClassifier,
    TAGIRegressor,
)

NOISE = 0.3


def curve(rows, seed):
    """``y = 50 + 10 (sin 2a + b/2 + noise)`` with a, b uniform, in odd units."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (rows, 2))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + NOISE * rng.standard_normal(rows)
    return X * [1000, 0.001] + [5, 7], 50 + 10 * y


@pytest.fixture(scope="session")
def data():
    return curve(300, 0)


@pytest.fixture(scope="session")
def test_data():
    return curve(1000, 1)


def regressors():
    """One quick estimator of each kind; enough training for this curve."""
    return [
        TAGIRegressor(hidden_layer_sizes=(32, 32), random_state=0),
        BBBRegressor(
            hidden_layer_sizes=(32,), epochs=40, lr=0.02, n_weight_samples=20, random_state=0
        ),
        BackpropRegressor(hidden_layer_sizes=(32,), epochs=40, lr=0.02, random_state=0),
        LaplaceRegressor(hidden_layer_sizes=(32,), epochs=40, lr=0.02, random_state=0),
    ]


def classifiers():
    """One quick estimator of each kind."""
    return [
        TAGIClassifier(hidden_layer_sizes=(16,), epochs=20, random_state=0),
        BBBClassifier(
            hidden_layer_sizes=(16,), epochs=30, lr=0.05, n_weight_samples=10, random_state=0
        ),
        BackpropClassifier(hidden_layer_sizes=(16,), epochs=30, lr=0.05, random_state=0),
        LaplaceClassifier(hidden_layer_sizes=(16,), epochs=30, lr=0.05, random_state=0),
    ]


def name(estimator):
    return type(estimator).__name__
