"""Streams: gaps of any length, and error bars that follow only what was forecast honestly."""

import numpy as np
import pytest

from tests.forecast.conftest import wave
from tractable.errors import InvalidInput
from tractable.forecast import Forecaster


def test_a_stamp_in_the_wrong_year_is_refused(quick):
    days = np.datetime64("2024-01-01") + np.arange(300)
    model = Forecaster(horizon=3, **quick).fit(wave(300), times=days)
    assert model.state_.max_gap == 1000
    for stamp in ("9024-10-27", "2027-07-25"):  # a typo, and one day more than may be missing
        words = f"{stamp}.* skips .* the next is 2024-10-27.*at most 1,000 may be missing"
        with pytest.raises(InvalidInput, match=words):
            model.update([5.0], times=[stamp])
    with pytest.raises(InvalidInput, match="skips 1,001 times: the next is 2024-10-28"):
        model.update([5.0, 6.0], times=["2024-10-27", "2027-07-26"])
    assert model.state_.now == 299  # nothing was changed
    model.update([5.0, 5.5], times=["2024-10-27", "2024-11-06"])
    assert model.state_.now == 310
    assert (model.state_.history.variance[-11:, 0] > 0).tolist() == [False, *[True] * 9, False]


@pytest.fixture(scope="module")
def prices():
    """Values that follow a covariate which nothing else tells of, and the covariate."""
    rng = np.random.default_rng(0)
    known = rng.standard_normal((1500, 1))
    return 3 * known[:, 0] + 0.3 * rng.standard_normal(1500), known


def followed(prices, at_once):
    """Recent errors before and after 400 values, a few at once."""
    y, known = prices
    lags = {"lags": 4, "normalize_by": "none", "season_length": 1, "n_validation": 200, "epochs": 4}
    model = Forecaster("linear", 4, error_window=50, refit=False, **lags)
    model.fit(y[:1100], future_covariates=known[:1100])
    before = model.state_.error_ewma[0].copy()
    for first in range(1100, 1500, at_once):
        rows = slice(first, first + at_once)
        model.update(y[rows], future_covariates=known[rows])
    return before, model


def test_errors_of_steps_whose_covariates_were_unknown_do_not_count(prices, tmp_path):
    before, model = followed(prices, 1)
    after = model.state_.error_ewma[0]
    assert after[0] == pytest.approx(1, abs=0.5)
    assert after[0] != before[0]
    assert (after[1:] == before[1:]).all()
    model.save(tmp_path / "f.tr")
    again = Forecaster.load(tmp_path / "f.tr")
    y, known = prices
    for one in (model, again):
        one.update(y[:10], future_covariates=known[:10])
    assert (again.state_.error_ewma == model.state_.error_ewma).all()


def test_errors_of_later_steps_count_where_their_covariates_came_too(prices):
    before, model = followed(prices, 400)
    after = model.state_.error_ewma[0]
    assert (after != before).all()
    assert after == pytest.approx(np.ones(4), abs=0.5)  # the noise is as it was
