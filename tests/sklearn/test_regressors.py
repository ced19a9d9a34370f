"""Regressors against closed forms, against the learners by hand, and against known truth."""

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.base import clone

import tractable as tr
from tests.sklearn.conftest import NOISE, curve, name, regressors
from tractable.data import Standardizer
from tractable.nn import mlp
from tractable.sklearn import BackpropRegressor, BBBRegressor, TAGIRegressor
from tractable.sklearn.cross_validation import choose_folds

each = pytest.mark.parametrize("estimator", regressors(), ids=name)


@pytest.fixture(scope="module")
def fitted(data):
    """Each kind, fitted once."""
    return {name(model): model.fit(*data) for model in regressors()}


@each
def test_a_curve_is_learnt_with_its_noise(estimator, fitted, test_data):
    model, (X, y) = fitted[name(estimator)], test_data
    assert model.score(X, y) > 0.8
    low, high = model.predict_interval(X, 0.9).T
    assert 0.84 < ((low < y) & (y < high)).mean() < 0.96
    _, std = model.predict(X, return_std=True)
    assert np.median(std) == pytest.approx(10 * NOISE, rel=0.3)
    bound = stats.norm(0, 10 * NOISE).entropy()  # what the truth itself scores, but for the sign
    assert model.score_log_likelihood(X, y) > -bound - 0.25


def test_the_estimator_equals_the_steps_by_hand(data, test_data):
    """With everything given; how settings are chosen is in test_choosing."""
    X, y = (torch.tensor(part) for part in data)
    inputs, targets = Standardizer.fit(X), Standardizer.fit(y.unsqueeze(1))
    learner = tr.TAGI(mlp(2, (32, 32), 1, "relu"), tr.likelihoods.Normal(), seed=0)
    rows = inputs.transform(X), targets.transform(y.unsqueeze(1))
    learner.fit(*rows, epochs=20, progress=False)
    new = inputs.transform(torch.tensor(test_data[0]))
    by_hand = learner.predict(new)
    mean, std = (
        TAGIRegressor(
            hidden_layer_sizes=(32, 32), epochs=20, n_estimators=1, calibrate=False, random_state=0
        )
        .fit(*data)
        .predict(test_data[0], return_std=True)
    )
    np.testing.assert_allclose(mean, targets.inverse(by_hand.mean.double()).flatten(), rtol=1e-12)
    np.testing.assert_allclose(std, targets.scale * by_hand.std.double().flatten(), rtol=1e-6)


def test_with_many_rows_a_tenth_is_held_out_of_the_fit():
    X, y = curve(2000, 4)
    settings = {
        "hidden_layer_sizes": (16,),
        "epochs": 5,
        "n_estimators": 1,
        "relevance": False,
        "random_state": 0,
    }
    model = TAGIRegressor(**settings).fit(X, y)
    x, t = torch.tensor(X), torch.tensor(y).unsqueeze(1)
    x, t = Standardizer.fit(x).transform(x), Standardizer.fit(t).transform(t)
    learner = tr.TAGI(mlp(2, (16,), 1, "relu"), tr.likelihoods.Normal(), seed=0)
    (out,) = choose_folds(2000, 0)
    kept = torch.tensor(sorted(set(range(2000)) - set(out.tolist())))
    assert len(out) == 200
    learner.fit(x[kept], t[kept], epochs=5, progress=False)
    assert torch.equal(model.learner_.posterior.loc, learner.posterior.loc)
    seen = model.learner_.predict(x[out])
    best = seen.log_prob(t[out]).mean()
    for factor in (0.9, 1.1):  # no other noise suits the held-out rows better
        other = tr.NormalPredictive(seen.loc, seen.epistemic, factor * seen.aleatoric)
        assert other.log_prob(t[out]).mean() < best
    refit = TAGIRegressor(calibrate="cv", **settings).fit(X, y)
    assert not torch.equal(refit.learner_.posterior.loc, learner.posterior.loc)
    with pytest.raises(ValueError, match="calibrate must be True, False or 'cv', got 'no'"):
        TAGIRegressor(calibrate="no", **settings).fit(X, y)


def test_streaming_is_one_update_per_call_without_replay(data):
    X, y = data
    calls = [slice(0, 30), slice(30, 31), slice(31, 60)]
    model = TAGIRegressor(hidden_layer_sizes=(16,), n_estimators=1, random_state=3)
    x, t = torch.tensor(X), torch.tensor(y).unsqueeze(1)
    inputs, targets = Standardizer.fit(x[calls[0]]), Standardizer.fit(t[calls[0]])
    learner = tr.TAGI(mlp(2, (16,), 1, "relu"), tr.likelihoods.Normal(), seed=3)
    for rows in calls:
        model.partial_fit(X[rows], y[rows])
        learner.update(inputs.transform(x[rows]), targets.transform(t[rows]))
    for mine, theirs in zip(
        model.learner_.posterior.values(), learner.posterior.values(), strict=True
    ):
        assert torch.equal(mine.loc, theirs.loc)
        assert torch.equal(mine.variance, theirs.variance)
    assert torch.equal(model.learner_.likelihood.noise_mean, learner.likelihood.noise_mean)
    assert torch.equal(model.input_scaler_.mean, inputs.mean)  # later rows do not move it


def test_a_long_call_is_cut_into_batches(data):
    X, y = data
    models = [
        TAGIRegressor(hidden_layer_sizes=(16,), random_state=3, batch_size=b)
        for b in (None, 32, 300)
    ]
    for model in models:
        model.partial_fit(X, y)
    np.testing.assert_array_equal(models[0].predict(X), models[1].predict(X))
    assert models[0].score(X, y) > models[2].score(X, y)  # many small steps learn more than one


@each
def test_one_pass_over_a_stream_learns(estimator, test_data):
    model = clone(estimator)
    if not isinstance(model, TAGIRegressor):  # one pass of small steps would be too short
        model.set_params(lr=0.03, batch_size=10)
    X, y = curve(3000, 5)
    for start in range(0, 3000, 100):
        model.partial_fit(X[start : start + 100], y[start : start + 100])
    assert model.score(*test_data) > 0.7
    _, std = model.predict(test_data[0], return_std=True)
    error = model.predict(test_data[0]) - test_data[1]
    # Closed-form noise remembers the large errors of the beginning.
    assert 0.7 * error.std() < np.sqrt((std**2).mean()) < 1.7 * error.std()


def test_one_row_at_first_has_no_scale(data):
    with pytest.warns(UserWarning, match="cannot be computed from one row"):
        TAGIRegressor(hidden_layer_sizes=(4,)).partial_fit(data[0][:1], data[1][:1])


@each
def test_units_do_not_matter(estimator, data):
    X, y = data[0][:50], data[1][:50]
    model = clone(estimator).set_params(epochs=3).fit(X, y)
    other = clone(model).fit(X * 1024 + 2**20, 4 * y + 256)  # powers of two: exact in binary
    mean, std = model.predict(X, return_std=True)
    mean_there, std_there = other.predict(X * 1024 + 2**20, return_std=True)
    np.testing.assert_allclose(mean_there, 4 * mean + 256, rtol=1e-4)
    np.testing.assert_allclose(std_there, 4 * std, rtol=1e-3)


def test_densities_and_intervals_of_one_network_are_those_of_a_normal(data, test_data):
    X, y = test_data
    model = TAGIRegressor(hidden_layer_sizes=(16,), epochs=5, n_estimators=1, random_state=0).fit(
        *data
    )
    mean, std = model.predict(X, return_std=True)
    truth = stats.norm(mean, std)
    np.testing.assert_allclose(model.log_prob(X, y), truth.logpdf(y), rtol=1e-6)
    np.testing.assert_allclose(model.predict_interval(X, 0.5).T, truth.interval(0.5), rtol=1e-6)
    assert model.score_log_likelihood(X, y) == pytest.approx(truth.logpdf(y).mean())


@each
def test_samples_have_the_predicted_moments(estimator, fitted):
    model = fitted[name(estimator)]
    X = curve(5, 9)[0]
    drawn = model.sample(X, 20_000, random_state=0)
    mean, std = model.predict(X, return_std=True)
    assert drawn.shape == (20_000, 5)
    np.testing.assert_array_less(abs(drawn.mean(0) - mean), 5 * std / np.sqrt(20_000))
    np.testing.assert_allclose(drawn.std(0), std, rtol=0.03)
    np.testing.assert_array_equal(drawn, model.sample(X, 20_000, random_state=0))


def widening(fitted):
    inside, outside = curve(100, 2)[0], curve(100, 2)[0] * [10, 1]
    return {
        kind: np.median(model.predict(outside, return_std=True)[1])
        / np.median(model.predict(inside, return_std=True)[1])
        for kind, model in fitted.items()
    }


def test_intervals_widen_away_from_the_data(fitted):
    assert all(ratio > 5 for ratio in widening(fitted).values())


def test_epistemic_variance_away_from_the_data_needs_a_posterior(fitted, monkeypatch):
    for model in fitted.values():
        monkeypatch.setattr(model.learner_.off_data, "support", None)
    ratio = widening(fitted)
    assert ratio["TAGIRegressor"] > 1.5
    assert ratio["BBBRegressor"] > 1.5
    assert ratio["BackpropRegressor"] == pytest.approx(1)


@each
def test_every_output_has_its_own_noise(estimator):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (300, 1))
    y = X + rng.standard_normal((300, 3)) * [0.1, 0.5, 0.5] * [1, 1, 0] + [0, 100, 0]
    model = clone(estimator).set_params(epochs=30).fit(X, y)
    mean, std = model.predict(X[:50], return_std=True)
    assert mean.shape == std.shape == (50, 3)
    assert model.predict_interval(X[:50]).shape == (50, 3, 2)
    assert model.sample(X[:50], 7).shape == (7, 50, 3)
    assert model.log_prob(X[:50], y[:50]).shape == (50,)
    low, mid, none = np.median(std, 0)
    assert mid > 2.5 * low > 2.5 * none


def test_a_column_of_targets_stays_a_column(data):
    X, y = data
    flat = TAGIRegressor(hidden_layer_sizes=(8,), epochs=2, random_state=0).fit(X, y)
    column = clone(flat).fit(X, y[:, None])
    np.testing.assert_array_equal(column.predict(X), flat.predict(X)[:, None])
    assert column.predict_interval(X).shape == (300, 1, 2)


@each
def test_constant_targets_are_predicted(estimator):
    X = np.random.default_rng(0).standard_normal((50, 2))
    mean, std = clone(estimator).fit(X, np.full(50, 1e6)).predict(X, return_std=True)
    np.testing.assert_allclose(mean, 1e6, atol=0.5)
    assert np.isfinite(std).all()
    assert (std > 0).all()


@each
def test_wrong_targets_are_refused(estimator, data):
    X, y = data
    model = clone(estimator).set_params(epochs=1).fit(X[:30], y[:30])
    before = model.predict(X)
    with pytest.raises(ValueError, match=r"y has 2 outputs per row, but .* was fitted with 1"):
        model.partial_fit(X, np.stack([y, y], 1))
    with pytest.raises(ValueError, match="y has 2 outputs per row"):
        model.log_prob(X, np.stack([y, y], 1))
    with pytest.raises(ValueError, match="contains NaN"):
        model.partial_fit(X, np.where(y > 50, np.nan, y))
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        model.predict_interval(X, 90)
    np.testing.assert_array_equal(model.predict(X), before)


def test_held_out_rows_correct_the_noise_of_training_residuals(data, test_data):
    settings = {"prior": None, "lr": 0.03, "batch_size": 8, "epochs": 40, "random_state": 0}
    X, y = data[0][:60], data[1][:60]
    plain, scaled = (BackpropRegressor(calibrate=c, **settings).fit(X, y) for c in (False, True))
    error = np.sqrt(np.mean((scaled.predict(test_data[0]) - test_data[1]) ** 2))
    too_small, right = (m.predict(X[:1], return_std=True)[1].item() for m in (plain, scaled))
    assert too_small < 0.75 * error
    assert 0.75 * error < right < 1.7 * error


def test_priors_come_as_numbers_or_objects(data):
    X, y = data[0][:60], data[1][:60]
    settings = {"hidden_layer_sizes": (8,), "epochs": 3, "random_state": 0}
    for kind in (BBBRegressor, BackpropRegressor):
        number = kind(prior=0.5, **settings).fit(X, y)
        normal = kind(prior=tr.priors.Normal(0.5), **settings).fit(X, y)
        laplace = kind(prior=tr.priors.Laplace(0.5), **settings).fit(X, y)
        np.testing.assert_array_equal(number.predict(X), normal.predict(X))
        assert (number.predict(X) != laplace.predict(X)).any()
    with pytest.raises(TypeError, match="prior must be one of"):
        BBBRegressor(prior="wide", **settings).fit(X, y)


def test_memory_rows_follow_a_change_and_are_in_the_file(tmp_path):
    X = np.random.default_rng(0).uniform(-1, 1, (3000, 1))
    y = np.where(np.arange(3000) < 2000, 1, -1) * X[:, 0]
    errors = {}
    for memory in (None, 100):
        model = TAGIRegressor((20,), memory_rows=memory, random_state=0)
        for start in range(0, 2100, 20):
            model.partial_fit(X[start : start + 20], y[start : start + 20])
        errors[memory] = np.sqrt(np.mean((model.predict(X[2100:]) - y[2100:]) ** 2))
    assert errors[100] < 0.7 * errors[None]
    model.save(tmp_path / "model")
    assert TAGIRegressor.load(tmp_path / "model").memory_rows == 100
    for bad in (0, 1, "many", float("nan")):
        with pytest.raises(ValueError, match="memory_rows must be a number above 1"):
            TAGIRegressor((2,), memory_rows=bad).partial_fit(X[:20], y[:20])


def test_outlying_targets_are_reported_and_do_little_harm():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    truth = np.sin(X[:, 0]) + X[:, 1]
    y = truth + 0.1 * rng.normal(size=300)
    y[::50] = 40
    model = TAGIRegressor((40,), epochs=20, random_state=0).fit(X, y)
    assert np.sqrt(np.mean((model.predict(X) - truth) ** 2)) < 0.4
    assert model.learner_.outliers.count >= 6


@each
@pytest.mark.parametrize("rows", [2, 3, 4])
def test_few_rows_predict_at_least_the_deviation_of_the_targets(estimator, rows, tmp_path):
    """Not less than a new value of their mean and variance: s sqrt(1 + 1/n)."""
    X, y = np.arange(float(rows)).reshape(-1, 1), np.array([20.0, 183.0, 60.0, 90.0])[:rows]
    model = clone(estimator)
    with pytest.warns(UserWarning, match=f"was fitted to {rows} rows.*Pass 20 rows or more"):
        model.fit(X, y)
    least = y.std(ddof=1) * (1 + 1 / rows) ** 0.5
    assert (model.predict(X, return_std=True)[1] > 0.999 * least).all()
    model.save(tmp_path / "few.tr")
    again = type(model).load(tmp_path / "few.tr")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_five_rows_have_no_minimum_noise():
    X, y = np.arange(5.0).reshape(-1, 1), np.array([0.0, 2.5, 3.5, 6.0, 8.5])
    TAGIRegressor(hidden_layer_sizes=(8,), epochs=5, random_state=0).fit(X, y)


@pytest.mark.parametrize("ones", [1, 15])
def test_a_column_that_is_constant_without_some_rows(ones):
    """Without a stretch or a fold no row differs from another, and distances have no scale."""
    rng = np.random.default_rng(0)
    X = (np.arange(50) < ones).astype(float)[:, None]
    y = X[:, 0] + 0.1 * rng.normal(size=50)
    model = TAGIRegressor(hidden_layer_sizes=(4,), epochs=2, n_estimators=1, random_state=0).fit(
        X, y
    )
    mean, std = model.predict([[0.0], [1.0], [5.0]], return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
