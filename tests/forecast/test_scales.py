"""Series in other units: forecasts and scores are the same, in those units."""

import numpy as np
import pytest

import tractable as tr
from tests.forecast.conftest import wave
from tractable.errors import InvalidInput
from tractable.forecast import Forecaster
from tractable.forecast.scaling import CovariateScaler, SeriesScaler

ROWS = 260
UNITS = [(0.0, 1e-8), (0.0, 1e8), (1e4, 1e-2), (-1e8, 1e3)]
SETTINGS = {
    "direct": {},
    "error_window": {"error_window": 20},
    "mean": {"normalize_by": "mean"},
    "hidden_layer_sizes": {"net": (4,)},
    "recursive": {"strategy": "recursive"},
    "paths": {"strategy": "recursive", "uncertainty": "paths"},
    "chosen": {"lags": None, "normalize_by": None, "n_validation": None, "learner_kwargs": None},
    "laplace": {"likelihood": tr.likelihoods.Laplace()},
}


def forecaster(**more):
    options = {
        "net": "linear",
        "horizon": 3,
        "lags": 12,
        "season_length": 12,
        "normalize_by": "last",
        "epochs": 1,
        "batch_size": 16,
        "n_validation": 60,
        "learner_kwargs": {"gain": 0.01},
        **more,
    }
    return Forecaster(**options)


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize(("shift", "scale"), UNITS)
def test_forecasts_are_the_same_in_other_units(shift, scale, name):
    y = wave(ROWS)
    plain = forecaster(**SETTINGS[name]).fit(y[:200])
    other = forecaster(**SETTINGS[name]).fit(shift + scale * y[:200])
    # A shift of 10^4 deviations costs as many digits of double precision, then single is used.
    close = {"rel": 2e-3, "abs": 2e-3}
    one, two = plain.predict(), other.predict()
    assert (two.mean - shift) / scale == pytest.approx(one.mean, **close)
    assert two.std / scale == pytest.approx(one.std, **close)
    for m in (plain, other):
        m.update([5.0, np.nan, 6.0] if m is plain else shift + scale * np.array([5, np.nan, 6]))
    assert (other.predict().mean - shift) / scale == pytest.approx(plain.predict().mean, **close)
    if name == "laplace":
        return
    stride = {"start": 210, "stride": 9}
    one, two = plain.backtest(y, **stride), other.backtest(shift + scale * y, **stride)
    assert two.model.mse / scale**2 == pytest.approx(one.model.mse, rel=5e-3)
    assert two.baseline.mse / scale**2 == pytest.approx(one.baseline.mse, rel=1e-6)
    assert two.mae / scale == pytest.approx(one.mae, rel=5e-3)
    for a, b in ((one.model, two.model), (one.baseline, two.baseline)):
        logs = b.log_likelihood + np.log(scale)
        assert logs == pytest.approx(a.log_likelihood, abs=5e-3)
        assert b.coverage[0.9] == pytest.approx(a.coverage[0.9], abs=0.2)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_the_naive_spread_of_a_series_that_repeats_itself_is_small_in_its_units(scale, quick):
    y = scale * np.tile(np.arange(12.0), 20)
    model = Forecaster(horizon=3, **quick).fit(y[:200])
    density = model.backtest(y).baseline.log_likelihood + np.log(scale)
    variance = 1e-12 * y[:200].var() / scale**2
    assert density == pytest.approx(-0.5 * np.log(2 * np.pi * variance), rel=1e-3)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e-9, 1e9, -1 / 3])
@pytest.mark.parametrize("way", ["future_covariates", "past_covariates"])
def test_a_constant_covariate_has_no_effect(value, way, quick):
    options = {**quick, "lags": 6, "horizon": 2, "epochs": 1}
    y, constant = wave(200), np.full((200, 1), value)
    plain = Forecaster(**options).fit(y)
    model = Forecaster(**options).fit(y, **{way: constant})
    scaled = CovariateScaler.fit(np.repeat(constant[:, None], 2, axis=1)).scaled(constant[:, None])
    assert np.abs(scaled).max() < 1e-6
    ahead = {"future_covariates": constant[:2]} if way == "future_covariates" else {}
    assert model.predict(**ahead).mean == pytest.approx(plain.predict().mean, abs=0.3)
    moved = {"future_covariates": constant[:2] + 0.5} if way == "future_covariates" else {}
    assert np.abs(model.predict(**moved).mean).max() < 20


def test_constant_series_and_empty_covariates_are_named():
    y = np.stack([wave(50), np.full(50, 0.1)], axis=1)
    with pytest.raises(InvalidInput, match="series 'b' is constant"):
        SeriesScaler.fit(y, "none", ("a", "b"))
    with pytest.raises(InvalidInput, match="covariate 1 has no values"):
        CovariateScaler.fit(np.stack([y, np.full((50, 2), np.nan)], axis=2))
