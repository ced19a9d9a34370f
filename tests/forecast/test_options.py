"""Every pair of options of a forecaster: fit, forecast, update, save, load and fit again."""

import itertools
import random

import numpy as np
import pandas as pd
import pytest
import torch

import tractable as tr
from tests.forecast.conftest import wave
from tractable.errors import InvalidInput
from tractable.forecast import Forecaster

TRAIN, ROWS, STEPS = 150, 190, 3
CHOICES = {
    "strategy": ["direct", "recursive"],
    "uncertainty": ["covariance", "paths"],
    "n_validation": [None, 40],
    "error_window": ["auto", None, 20],
    "normalize_by": ["last", "mean", "none"],
    "season_length": [None, 12],
    "covariates": [
        (),
        ("future_covariates",),
        ("past_covariates",),
        ("future_covariates", "past_covariates"),
    ],
    "n_estimators": [1, 2],
    "refit": [True, False],
    "learner": ["TAGI", "Backprop", tr.BayesByBackprop],
    "net": ["linear", (4,)],
    "window_stride": [1, 3],
    "likelihood": [None, tr.likelihoods.Normal(0.3), tr.likelihoods.Normal()],
    "transform": [None, "log1p"],
    "memory_rows": [None, 50.0],
    "series": [1, 2],
    "stamps": [False, True],
    "holes": [False, True],
}


def possible(case):
    recursive = case["strategy"] == "recursive"
    covariance = recursive and case["uncertainty"] == "covariance"
    return not (
        (recursive and "past_covariates" in case["covariates"])
        or (case["error_window"] == 20 and (recursive or case["n_validation"] is None))
        or (covariance and (case["learner"] != "TAGI" or case["n_estimators"] > 1))
        or (case["memory_rows"] is not None and case["learner"] != "TAGI")
    )


def covering(choices, seed=0):
    """Cases such that every possible pair of values of two options is in one of them (greedy)."""
    draw, names = random.Random(seed), list(choices)

    def pairs(case):
        return {(a, i[a], b, i[b]) for i in [case] for a, b in itertools.combinations(names, 2)}

    places = {name: range(len(values)) for name, values in choices.items()}
    left = {
        (a, i, b, j)
        for a, b in itertools.combinations(names, 2)
        for i in places[a]
        for j in places[b]
    }
    found = []
    for _ in range(60):
        tried = [{n: draw.choice(places[n]) for n in names} for _ in range(300)]
        tried = [c for c in tried if possible({n: choices[n][i] for n, i in c.items()})]
        best = max(tried, key=lambda case: len(pairs(case) & left))
        if not pairs(best) & left:
            break
        left -= pairs(best)
        found.append({n: choices[n][i] for n, i in best.items()})
    return found


CASES = covering(CHOICES)


def data_of(case):
    y = np.stack([wave(ROWS, seed=seed) for seed in range(case["series"])], axis=1)
    if case["holes"]:
        y[np.random.default_rng(1).random(y.shape) < 0.05] = np.nan
    x = np.random.default_rng(2).standard_normal((ROWS, 1))
    days = np.datetime64("2024-01-01") + np.arange(ROWS)
    given = dict.fromkeys(case["covariates"], x)
    return y, given | ({"times": days} if case["stamps"] else {})


def make_forecaster(case):
    own = {"TAGI": {"gain": 0.01}, "Backprop": {"lr": 0.01}}
    options = {name: case[name] for name in Forecaster().get_params() if name in case}
    learner = own.get(case["learner"], {"lr": 0.01, "n_weight_samples": 5})
    return Forecaster(
        horizon=STEPS, lags=8, epochs=1, batch_size=16, learner_kwargs=learner, **options
    )


def rows(given, some):
    return {key: part[some] for key, part in given.items()}


def forecasts(model, given, at):
    ahead = (
        {"future_covariates": given["future_covariates"][at : at + STEPS]}
        if "future_covariates" in given
        else {}
    )
    return model.predict(**ahead)


def same(one, two):
    return (
        np.array_equal(one.mean, two.mean)
        and np.array_equal(one.std, two.std)
        and np.array_equal(one.sample(3), two.sample(3))
        and np.array_equal(one.times, two.times)
        and one.series_names == two.series_names
    )


@pytest.mark.parametrize("number", range(len(CASES)))
def test_every_pair_of_options(number, tmp_path):
    torch.manual_seed(0)
    case = CASES[number]
    y, given = data_of(case)
    model = make_forecaster(case).fit(y[:TRAIN], **rows(given, slice(TRAIN)))
    found = forecasts(model, given, TRAIN)
    assert found.mean.shape == (STEPS, case["series"])
    assert np.isfinite(found.mean).all()
    assert (found.std > 0).all()
    assert (found.interval(0.9)[0] < found.interval(0.9)[1]).all()
    assert np.linalg.eigvalsh(found.correlation).min() > -1e-6
    truth = 5 + 2 * np.sin(2 * np.pi * np.arange(TRAIN, TRAIN + STEPS) / 12)
    assert np.abs(found.mean - truth[:, None]).max() < 6
    model.save(tmp_path / "a.tr")
    again = Forecaster.load(tmp_path / "a.tr")
    assert parameters(again) == parameters(model)
    assert same(forecasts(again, given, TRAIN), found)
    # The file forgets where an optimizer's rounding was, no more: both go on alike from here.
    for rest in (slice(TRAIN, TRAIN + 1), slice(TRAIN + 1, TRAIN + 9)):
        for one in (model, again):
            one.update(y[rest], **rows(given, rest))
        assert same(forecasts(again, given, rest.stop), forecasts(model, given, rest.stop))
        again.save(tmp_path / "b.tr")
        again = Forecaster.load(tmp_path / "b.tr")
    one, two = (m.backtest(y, stride=7, keep_forecasts=True, **given) for m in (model, again))
    assert np.array_equal(one.mean, two.mean)
    assert np.isfinite(one.mse)
    assert np.array_equal(*(m.anomalies(y, **given).nll for m in (model, again)), equal_nan=True)
    for m in (model, again):
        m.fit(y[:TRAIN], **rows(given, slice(TRAIN)))
    assert same(forecasts(again, given, TRAIN), found)
    assert same(forecasts(model, given, TRAIN), found)


def parameters(model):
    found = model.get_params()
    kind, likelihood = found.pop("learner"), found.pop("likelihood")
    found["learner"] = kind if isinstance(kind, str) else kind.__name__
    found["likelihood"] = likelihood and (type(likelihood), likelihood.config())
    return found


@pytest.mark.parametrize(
    "likelihood",
    [
        None,
        tr.likelihoods.Normal(),
        tr.likelihoods.Normal(0.3),
        tr.likelihoods.StudentT(4.0),
        tr.likelihoods.Laplace(0.5),
        tr.likelihoods.Poisson(),
    ],
    ids=repr,
)
@pytest.mark.parametrize("holes", [False, True])
def test_a_file_keeps_the_likelihood_that_was_given(likelihood, holes, tmp_path):
    y = np.rint(wave(120))
    if holes and (likelihood is None or isinstance(likelihood, tr.likelihoods.Normal)):
        y[50:53] = np.nan
    options = {"lags": 6, "normalize_by": "last", "epochs": 1, "batch_size": 16, "n_validation": 30}
    model = Forecaster("linear", 2, likelihood=likelihood, **options).fit(y)
    model.save(tmp_path / "f.tr")
    again = Forecaster.load(tmp_path / "f.tr")
    assert parameters(again)["likelihood"] == parameters(model)["likelihood"]
    again.fit(y)
    assert np.array_equal(again.predict().mean, model.predict().mean)
    assert np.array_equal(again.predict().std, model.predict().std)


@pytest.mark.parametrize(
    ("fitted", "changed"),
    [
        ({}, {"horizon": 9}),
        ({}, {"horizon": 2}),
        ({}, {"strategy": "recursive"}),
        ({"strategy": "recursive"}, {"strategy": "direct"}),
        ({"strategy": "recursive"}, {"horizon": 9, "seed": 5}),
        (
            {"strategy": "recursive", "uncertainty": "paths"},
            {"uncertainty": "covariance", "seed": 5},
        ),
        ({"transform": "log1p"}, {"transform": None}),
        (
            {},
            {
                "transform": "sqrt",
                "lags": 5,
                "normalize_by": "mean",
                "season_length": 3,
                "sequence": True,
            },
        ),
    ],
    ids=str,
)
def test_parameters_set_after_a_fit_are_those_of_the_next(fitted, changed, tmp_path):
    y = wave(150)
    options = {"lags": 6, "normalize_by": "last", "epochs": 1, "batch_size": 16, "n_validation": 30}
    model = Forecaster("linear", 3, **{**options, **fitted}).fit(y)
    before = model.predict()
    model.set_params(**changed)
    assert same(model.predict(), before)
    model.save(tmp_path / "f.tr")
    again = Forecaster.load(tmp_path / "f.tr")
    assert again.get_params()["horizon"] == model.horizon
    assert same(again.predict(), before)
    if "strategy" in fitted:
        assert len(again.predict(5)) == len(model.predict(5)) == 5
    else:
        for one in (model, again):
            with pytest.raises(InvalidInput, match="outputs for 3 steps, and 4 are asked for"):
                one.predict(4)
    if "sequence" not in changed:
        assert len(again.fit(y).predict()) == changed.get("horizon", 3)


@pytest.mark.parametrize("forget", [0, 1, -5.0, np.nan, np.inf, True, "auto"])
def test_rows_to_remember_are_checked(forget):
    options = {"lags": 6, "normalize_by": "last", "epochs": 1, "batch_size": 16, "n_validation": 30}
    with pytest.raises(ValueError, match="memory_rows must be None or a number of rows above 1"):
        Forecaster("linear", 2, memory_rows=forget, **options).fit(wave(150))
    with pytest.raises(
        InvalidInput, match="memory_rows=20: Backprop does not support forgetting, only TAGI does"
    ):
        Forecaster("linear", 2, memory_rows=20, learner="Backprop", **options).fit(wave(150))
    model = Forecaster("linear", 2, **options).fit(wave(150)).set_params(memory_rows=forget)
    with pytest.raises(ValueError, match="memory_rows must be None"):
        model.update(1.0)
    assert model.state_.now == 149
    members = Forecaster("linear", 2, memory_rows=20, n_estimators=2, **options).fit(wave(150))
    assert np.isfinite(members.update(6.0).predict().mean).all()


def test_numbers_of_numpy_are_saved(tmp_path):
    options = {"lags": np.int64(6), "season_length": np.int32(12), "n_validation": np.int64(30)}
    model = Forecaster(
        "linear",
        np.int64(3),
        learner_kwargs={"gain": np.float64(0.01)},
        error_window=np.float64(20),
        **options,
    )
    model.fit(wave(150)).save(tmp_path / "f.tr")
    again = Forecaster.load(tmp_path / "f.tr")
    assert np.array_equal(again.predict().mean, model.predict().mean)
    assert again.get_params()["season_length"] == 12


@pytest.mark.parametrize("validation", [127, 147, 150, 151, 1000])
@pytest.mark.parametrize("strategy", ["direct", "recursive"])
def test_a_validation_that_leaves_nothing_to_learn_from_is_refused(validation, strategy):
    with pytest.raises(
        InvalidInput, match=f"n_validation={validation} leaves|smaller n_validation"
    ):
        Forecaster("linear", 24, lags=6, n_validation=validation, strategy=strategy).fit(wave(150))


@pytest.mark.parametrize("validation", [1, 5, 60, 110])
def test_a_validation_that_leaves_enough_sets_the_error_bars(validation):
    y = wave(150)
    model = Forecaster(
        "linear", 3, lags=6, n_validation=validation, normalize_by="last", epochs=1, batch_size=16
    ).fit(y)
    assert (model.state_.calibration.noise_factors != 1).all()
    assert np.isfinite(model.predict().std).all()


def test_averages_over_recent_errors_are_for_direct_forecasts_only():
    """A recursion refuses a number, and "auto" does without."""
    with pytest.raises(InvalidInput, match=r"error_window=20: .*strategy='direct'"):
        Forecaster("linear", 2, lags=6, strategy="recursive", error_window=20).fit(wave(700))
    for memory in ("auto", None):
        model = Forecaster(
            "linear",
            2,
            lags=6,
            strategy="recursive",
            error_window=memory,
            epochs=1,
            normalize_by="last",
        ).fit(wave(700))
        assert model.state_.calibration.error_window is None


def test_frames_and_arrays_give_the_same_forecasts():
    y, days = wave(150), pd.date_range("2024-01-01", periods=150)
    options = {"lags": 6, "normalize_by": "last", "epochs": 1, "batch_size": 16, "n_validation": 30}
    forms = [
        (y, {"times": days}),
        (torch.from_numpy(y), {"times": days}),
        (pd.Series(y, index=days), {}),
        (pd.DataFrame({"v": y}, index=days), {"target_cols": "v"}),
        (pd.DataFrame({"v": y, "t": days}), {"target_cols": "v", "time_col": "t"}),
        (pd.DataFrame({"v": y, "t": days.astype(str)}), {"target_cols": "v", "time_col": "t"}),
    ]
    found = [Forecaster("linear", 2, **options).fit(form, **g).predict() for form, g in forms]
    for other in found[1:]:
        assert np.array_equal(other.mean, found[0].mean)
        assert np.array_equal(other.times, found[0].times)
