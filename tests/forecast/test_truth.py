"""Forecasts of series whose future is known in distribution."""

import numpy as np
import pytest
import torch

import tractable as tr
from tests.forecast.conftest import autoregressive, walk, wave
from tractable.forecast import Forecaster, seasonal_naive
from tractable.forecast.calibration import (
    ForecastErrors,
    error_ewma,
    noise_factors,
    step_correlation,
)
from tractable.forecast.scaling import backward, forward, moments


@pytest.fixture(scope="module")
def walked():
    return Forecaster("linear", 8, lags=4, normalize_by="last", learner_kwargs={"gain": 0.01}).fit(
        walk()
    )


def test_variances_of_a_random_walk_add_up(walked):
    found = walked.predict()
    assert found.std == pytest.approx(np.sqrt(np.arange(1, 9)), rel=0.15)
    assert np.abs(found.mean - walk()[-1]).max() < 0.6


def test_paths_have_the_joint_spread_of_the_truth(walked):
    """The mean of eight steps: by truth 25.5/8, and 4.5/8 if steps were independent."""
    found = walked.predict()
    truth = np.minimum.outer(np.arange(1, 9), np.arange(1, 9))
    assert found.covariance == pytest.approx(truth, rel=0.3)
    paths = found.sample(4000, generator=torch.Generator().manual_seed(1))
    assert paths.shape == (4000, 8)
    assert paths.std(0) == pytest.approx(found.std, rel=0.05)
    assert np.cov(paths.T) == pytest.approx(found.covariance, abs=0.5)
    assert paths.mean(1).var() == pytest.approx(truth.mean(), rel=0.25)
    assert paths.mean(1).var() > 3 * 4.5 / 8


def test_intervals_have_the_nominal_coverage(walked):
    y = np.concatenate([walk(), walk()[-1] + walk(4000, seed=7)])
    found = walked.backtest(y)
    assert found.coverage(0.9) == pytest.approx(0.9, abs=0.03)
    assert found.coverage(0.5) == pytest.approx(0.5, abs=0.05)
    naive = found.summary()["seasonal naive"]  # the last value is the best forecast of a walk
    assert found.mse == pytest.approx(naive["mse"], rel=0.05)
    density = -0.5 * (1 + np.log(2 * np.pi * np.arange(1, 9))).mean()
    assert found.log_likelihood == pytest.approx(density, abs=0.05)


def recursion(way="covariance", **more):
    made = Forecaster(
        "linear",
        6,
        lags=2,
        normalize_by="none",
        strategy="recursive",
        uncertainty=way,
        n_validation=500,
        learner_kwargs={"gain": 0.01},
        **more,
    )
    return made.fit(autoregressive())


def test_the_covariance_of_a_window_is_exact_for_a_linear_network():
    """Known weights: variances are sums of squared responses, as every textbook has them."""
    model = recursion().state_.model
    model.learner.state.posterior.variance.zero_()
    weights = model.learner.posterior["0.weight"].loc[0].double().numpy()[::-1]
    response = np.zeros(6)
    response[0] = 1
    for k in range(1, 6):
        response[k] = weights[: min(k, 2)] @ response[max(k - 2, 0) : k][::-1]
    noise = float(model.learner.likelihood.noise_mean)
    triangle = np.array([[response[i - j] if i >= j else 0 for j in range(6)] for i in range(6)])
    history = recursion().state_.history
    _, found = model.joint(history, np.array([len(history) - 1]))
    assert found[0].numpy() == pytest.approx(noise * triangle @ triangle.T, rel=1e-5)


def test_a_recursion_finds_the_spread_of_the_truth():
    response = np.zeros(6)
    response[:2] = 1, 0.6
    for k in range(2, 6):
        response[k] = 0.6 * response[k - 1] + 0.3 * response[k - 2]
    truth = np.sqrt(np.cumsum(response**2))
    found = recursion().predict()
    assert found.std == pytest.approx(truth, rel=0.12)
    drawn = recursion("paths").predict()
    assert drawn.std == pytest.approx(truth, rel=0.25)  # of 200 paths
    assert drawn.sample(50).shape == (50, 6)
    assert recursion().predict(12).mean.shape == (12,)  # farther than it was fitted for


def test_noise_is_scaled_step_by_step_on_held_out_windows():
    g = np.random.default_rng(0)
    truth = np.array([0.5, 1.0, 2.0])
    e = (g.standard_normal((400, 1, 3)) * np.sqrt(truth)).astype(np.float32)
    ones = np.ones_like(e)
    factors = noise_factors(ForecastErrors(e, 0 * ones, ones))
    assert factors[0] == pytest.approx(truth, rel=0.15)
    few = noise_factors(
        ForecastErrors(e[:1], 0 * ones[:1], ones[:1])
    )  # one window: drawn to the mean
    assert few[0].std() < 0.3 * truth.std()
    assert noise_factors(ForecastErrors(e, 0.2 * ones, ones))[0, 2] == pytest.approx(1.8, rel=0.15)


def test_correlations_are_those_of_the_errors():
    g = np.random.default_rng(0)
    e = np.cumsum(g.standard_normal((2000, 1, 4)), axis=2).astype(np.float32)
    e[:200, 0, 2] = np.nan
    size = np.broadcast_to(np.arange(1, 5, dtype=np.float32), e.shape)
    found = step_correlation(ForecastErrors(e, 0 * size, size), np.ones((1, 4)))
    k = np.arange(1, 5)
    assert found == pytest.approx(
        np.sqrt(np.minimum.outer(k, k) / np.maximum.outer(k, k)), abs=0.05
    )
    assert np.linalg.eigvalsh(found)[0] > 0


def test_recent_errors_are_followed_without_looking_ahead():
    z2 = np.ones((50, 1, 3), np.float32)
    z2[20:] = 4
    made, last = error_ewma(z2, window=5)
    assert made[20, 0].tolist() == [1, 1, 1]  # nothing of origin 20 is known at origin 20
    assert made[21, 0, 0] > 1
    assert made[21, 0, 1] == 1
    assert made[22, 0, 1] > 1
    assert last[0, 0] == pytest.approx(4, rel=0.01)


def test_error_bars_follow_calmer_times(quick):
    y = wave(3000, noise=1.0)
    calm = wave(1500, noise=0.25, seed=5)
    whole = np.concatenate([y, calm])
    wide = Forecaster(horizon=4, error_window=None, **quick).fit(y).backtest(whole, start=3700)
    ours = Forecaster(horizon=4, error_window=200, **quick).fit(y).backtest(whole, start=3700)
    assert wide.coverage(0.9) > 0.99
    assert ours.coverage(0.9) == pytest.approx(0.9, abs=0.05)
    assert ours.log_likelihood > wide.log_likelihood + 0.3


def test_known_and_past_covariates_are_used(quick):
    g = np.random.default_rng(0)
    price, hint = g.standard_normal(1200), g.standard_normal(1200)
    y = 3 * price + 2 * np.roll(hint, 1) + 0.1 * g.standard_normal(1200)
    small = {**quick, "lags": 3, "season_length": None, "horizon": 1, "normalize_by": "none"}
    spread = {}
    for name, given in {
        "none": {},
        "future_covariates": {"future_covariates": price},
        "both": {"future_covariates": price, "past_covariates": hint},
    }.items():
        cut = {key: value[:1000] for key, value in given.items()}
        model = Forecaster(**small).fit(y[:1000], **cut)
        spread[name] = np.sqrt(model.backtest(y, **given).mse)
    assert spread["none"] > 3
    assert spread["future_covariates"] == pytest.approx(2.0, rel=0.2)
    assert spread["both"] < 0.3
    model = Forecaster(**small).fit(
        y[:1000], future_covariates=price[:1000], past_covariates=hint[:1000]
    )
    assert model.predict(future_covariates=price[1000:1001]).mean[0] == pytest.approx(
        y[1000], abs=0.6
    )


@pytest.mark.parametrize("transform", ["log", "log1p", "sqrt"])
def test_transforms_keep_probability(transform):
    g = np.random.default_rng(0)
    x = 2 + 0.2 * g.standard_normal(200_000)
    mean, variance = moments(transform, np.array(2.0), np.array(0.04))
    y = backward(transform, x)
    assert y.mean() == pytest.approx(float(mean), rel=0.005)
    assert y.var() == pytest.approx(float(variance), rel=0.02)
    assert forward(transform, y[:5]) == pytest.approx(x[:5])


def test_a_log_density_in_the_units_of_the_data_integrates_to_one(quick):
    y = np.exp(0.2 * wave(400))
    found = Forecaster(horizon=3, transform="log", **quick).fit(y).predict()
    assert (found.interval(0.9)[0] > 0).all()
    at = np.linspace(1e-3, 20, 20_000)
    density = [np.exp(found.log_prob(np.full(3, value))) for value in at[::20]]
    total = np.sum(density, axis=0) * (at[20] - at[0])
    assert total == pytest.approx(np.ones(3), rel=0.02)
    paths = found.sample(4000)
    assert paths.mean(0) == pytest.approx(found.mean, rel=0.03)


def test_the_seasonal_naive_forecast_repeats_the_season():
    y = np.arange(10.0)[:, None]
    found = seasonal_naive(y, 3, np.array([5, 8]), 4)[:, 0]
    assert found.tolist() == [[3, 4, 5, 3], [6, 7, 8, 6]]


@pytest.mark.parametrize(
    ("learner", "options"),
    [("Backprop", {"lr": 0.01}), (tr.BayesByBackprop, {"lr": 0.02}), (tr.TAGI, {"gain": 0.01})],
)
def test_any_learner_forecasts(learner, options):
    y = wave(400)
    model = Forecaster(
        "linear",
        6,
        lags=12,
        season_length=12,
        normalize_by="mean",
        learner=learner,
        learner_kwargs=options,
        epochs=8,
        batch_size=16,
        n_validation=60,
        refit=False,
    ).fit(y[:380])
    found = model.backtest(y)
    assert np.sqrt(found.mse) < 0.6
    assert found.mse < 0.6 * found.summary()["seasonal naive"]["mse"] + 0.1
    assert 0.75 < found.coverage(0.9) <= 1


def test_any_likelihood_forecasts():
    counts = np.random.default_rng(0).poisson(np.exp(1 + np.sin(2 * np.pi * np.arange(500) / 12)))
    model = Forecaster(
        "linear",
        4,
        lags=12,
        season_length=12,
        likelihood=tr.likelihoods.Poisson(),
        epochs=4,
        batch_size=16,
        n_validation=60,
    ).fit(counts[:460])
    found = model.predict()
    assert np.allclose(found.quantile(0.9) % 1, 0)
    truth = np.exp(1 + np.sin(2 * np.pi * np.arange(460, 464) / 12))
    assert found.mean == pytest.approx(truth, rel=0.6)
    paths = found.sample(20_000)
    assert np.array_equal(paths, np.rint(paths))  # counts
    assert paths.mean(0) == pytest.approx(found.mean, rel=0.03)
    assert paths.var(0) == pytest.approx(found.variance, rel=0.06)
    # Each value by itself: its probability is a difference of the distribution function.
    seen = torch.tensor([[3.0, 4.0, 2.0, 0.0]], dtype=torch.float64)
    share = found.predictive.cdf(seen) - found.predictive.cdf(seen - 1)
    assert np.exp(found.log_prob(seen[0])) == pytest.approx(share[0].numpy(), rel=1e-5)
    known = found.log_prob([3.0, np.nan, 2.0, 0.0])
    assert np.isnan(known).tolist() == [False, True, False, False]
    assert known[[0, 2, 3]] == pytest.approx(found.log_prob(seen[0])[[0, 2, 3]])
    tails = Forecaster(
        "linear", 4, lags=12, season_length=12, likelihood=tr.likelihoods.StudentT(), epochs=1,
        n_validation=40, normalize_by="last", batch_size=16, refit=False,
    ).fit(wave(300))  # fmt: skip
    assert np.isfinite(tails.predict().log_prob(wave(304)[300:])).all()


def test_a_recurrent_network_forecasts():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.cells, self.head = torch.nn.GRU(1, 8, batch_first=True), torch.nn.Linear(8, 4)

        def forward(self, x):
            return self.head(self.cells(x)[0][:, -1])

    model = Forecaster(
        Net(),
        4,
        lags=12,
        season_length=12,
        sequence=True,
        epochs=1,
        window_stride=8,
        normalize_by="last",
        n_validation=30,
        refit=False,
    )
    found = model.fit(wave(300)).predict()
    assert np.isfinite(found.mean).all()
    assert (found.std > 0).all()
