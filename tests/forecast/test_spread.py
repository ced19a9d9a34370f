"""Error bars of held-out windows and of recursions against sums that are written out."""

import numpy as np
import pytest

from tests.forecast.conftest import autoregressive
from tractable.forecast import Forecaster
from tractable.forecast.calibration import ForecastErrors, noise_factors, step_correlation


def errors(origins, series, steps, seed, missing=0.0):
    g = np.random.default_rng(seed)
    shape = (origins, series, steps)
    within, noise = (g.uniform(0.5, 2.0, shape).astype(np.float32) for _ in "ab")
    error = (g.standard_normal(shape) * 1.7).astype(np.float32)
    error[g.random(shape) < missing] = np.nan
    return ForecastErrors(error, within, noise)


@pytest.mark.parametrize("share", [0.0, 0.3, 3.0])
@pytest.mark.parametrize("factor", [0.5, 1.0, 4.0])
def test_factors_are_those_the_errors_were_drawn_with(share, factor):
    """With n errors of variance ``within + f noise`` the standard error of f is known."""
    n, noise = 200_000, 0.7
    within = share * noise
    total = within + factor * noise
    g = np.random.default_rng(3)
    e = (g.standard_normal((n, 1, 1)) * np.sqrt(total)).astype(np.float32)
    ones = np.ones_like(e)
    found = float(noise_factors(ForecastErrors(e, within * ones, noise * ones))[0, 0])
    assert abs(found - factor) < 5 * total / noise * np.sqrt(2 / n)


@pytest.mark.parametrize("missing", [0.0, 0.4])
@pytest.mark.parametrize("seed", [0, 1])
def test_factors_of_few_windows_are_drawn_to_those_of_all_steps(seed, missing):
    given = errors(12, 2, 3, seed, missing)
    found = noise_factors(given)
    for s in range(2):
        wanted, noise, count = np.zeros(3), np.zeros(3), np.zeros(3)
        for k in range(3):
            square = within = 0.0
            for i in range(12):
                if not np.isnan(given.error[i, s, k]):
                    square += float(given.error[i, s, k]) ** 2
                    within += float(given.epistemic[i, s, k])
                    noise[k] += float(given.aleatoric[i, s, k])
                    count[k] += 1
            wanted[k] = max(square - within, 1e-3 * square)
        pooled = wanted.sum() / noise.sum()
        for k in range(3):
            size = noise[k] / count[k]
            own = (wanted[k] + 10 * pooled * size) / ((count[k] + 10) * size)
            assert found[s, k] == pytest.approx(own, rel=1e-5)


@pytest.mark.parametrize("origins", [4, 16, 400])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_correlations_of_few_windows_are_drawn_to_a_geometric_decay(origins, seed):
    steps = 4
    given = errors(origins, 3, steps, seed)
    given.error[:, :, 1:] += 2 * given.error[:, :, :-1]  # neighbors depend on each other
    z = (given.error / np.sqrt(given.epistemic + given.aleatoric)).reshape(-1, steps).astype(float)
    own = np.eye(steps)
    for i in range(steps):
        for k in range(steps):
            size = np.sqrt((z[:, i] ** 2).sum() * (z[:, k] ** 2).sum())
            own[i, k] = (z[:, i] * z[:, k]).sum() / size
    near = np.mean([own[i, i + 1] for i in range(steps - 1)])
    share = 1 / (1 + origins / steps)
    expected = [
        [(1 - share) * own[i, k] + share * near ** abs(i - k) for k in range(steps)]
        for i in range(steps)
    ]
    assert near > 0.3
    found = step_correlation(given, np.ones((3, steps)))
    assert found == pytest.approx(np.array(expected), abs=1e-5)


@pytest.mark.parametrize("level", ["none", "last", "mean"])
def test_the_covariance_of_a_recursion_passes_through_the_level_of_the_window(level):
    """Impulses are followed one by one through ``level + w (window - level)``."""
    steps, lags = 5, 3
    made = Forecaster(
        "linear", steps, lags=lags, normalize_by=level, strategy="recursive", n_validation=300,
        learner_kwargs={"gain": 0.01}, epochs=2,
    )  # fmt: skip
    state = made.fit(autoregressive()).state_
    state.model.learner.state.posterior.variance.zero_()
    w = state.model.learner.posterior["0.weight"].loc[0].double().numpy()  # the oldest value first
    responses = []
    for start in range(steps):
        values = np.zeros(lags + steps)
        for k in range(lags, lags + steps):
            window = values[k - lags : k]
            base = {"none": 0.0, "last": window[-1], "mean": window.mean()}[level]
            values[k] = base + w @ (window - base) + (k - lags == start)
        responses.append(values[lags:])
    r = np.array(responses)
    noise = float(state.model.learner.likelihood.noise_mean)
    _, found = state.model.joint(state.history, np.array([len(state.history) - 1]))
    assert found[0].numpy() == pytest.approx(noise * r.T @ r, rel=1e-5)
