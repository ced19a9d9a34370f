"""Series whose future is known in distribution."""

import numpy as np
import pytest


def walk(n=3000, seed=0):
    """A random walk with unit steps: variances add up, ``cov(i, j) = min(i, j)``."""
    return np.cumsum(np.random.default_rng(seed).standard_normal(n))


def wave(n=700, noise=0.3, seed=0):
    """A season of 12, and noise."""
    t = np.arange(n)
    return (
        5 + 2 * np.sin(2 * np.pi * t / 12) + noise * np.random.default_rng(seed).standard_normal(n)
    )


def autoregressive(n=3000, weights=(0.6, 0.3), seed=0):
    """AR(2) with unit noise."""
    e = np.random.default_rng(seed).standard_normal(n)
    y = np.zeros(n)
    for t in range(2, n):
        y[t] = weights[0] * y[t - 1] + weights[1] * y[t - 2] + e[t]
    return y


@pytest.fixture(scope="session")
def quick():
    """Arguments of a forecaster that chooses nothing."""
    return {
        "net": "linear",
        "lags": 24,
        "normalize_by": "last",
        "season_length": 12,
        "learner_kwargs": {"gain": 0.01},
        "n_validation": 60,
    }
