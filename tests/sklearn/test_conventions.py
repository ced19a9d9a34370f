"""scikit-learn's own battery of checks, and life among its tools."""

import pickle
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.estimator_checks import parametrize_with_checks

from tests.sklearn.conftest import classifiers, name, regressors
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

SMALL = {"hidden_layer_sizes": (16,), "random_state": 0}
GRADIENT = {**SMALL, "epochs": 8, "lr": 0.1}


ORDER = "the check changes the order of the rows, on which the training of a network depends"
EXPECTED_FAILURES = {
    kind: {"check_sample_weight_equivalence_on_dense_data": ORDER}
    for kind in (
        TAGIRegressor,
        TAGIClassifier,
        BBBRegressor,
        BBBClassifier,
        BackpropClassifier,
        LaplaceClassifier,
    )
}
"""All exceptions to the checks of scikit-learn; docs/guide/estimators.md lists them too."""


def test_the_guide_lists_the_exceptions():
    guide = (Path(__file__).parents[2] / "docs/guide/estimators.md").read_text()
    for check in {check for failures in EXPECTED_FAILURES.values() for check in failures}:
        (row,) = [line for line in guide.splitlines() if line.startswith(f"| `{check}`")]
        kinds = [kind for kind, failures in EXPECTED_FAILURES.items() if check in failures]
        assert sorted(re.findall(r"`(\w+(?:Regressor|Classifier))`", row)) == sorted(
            kind.__name__ for kind in kinds
        )


def _expected_failures(estimator):
    return EXPECTED_FAILURES.get(type(estimator), {})


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
@parametrize_with_checks(
    [
        TAGIRegressor(**SMALL, epochs=12, n_estimators=2, relevance=False),
        TAGIClassifier(**SMALL, epochs=12, n_estimators=2, relevance=False),
        BBBRegressor(**GRADIENT, n_weight_samples=2),
        BBBClassifier(**GRADIENT, n_weight_samples=2),
        BackpropRegressor(**GRADIENT),
        BackpropClassifier(**GRADIENT),
        LaplaceRegressor(**GRADIENT),
        LaplaceClassifier(**GRADIENT),
    ],
    expected_failed_checks=_expected_failures,
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


ALL = [*regressors(), *classifiers()]
each = pytest.mark.parametrize("estimator", ALL, ids=name)


def targets(estimator, y):
    return np.where(y > np.median(y), "high", "low") if hasattr(estimator, "predict_proba") else y


@each
def test_a_pickle_and_a_clone_go_on_as_the_original(estimator, data):
    X, y = data[0], targets(estimator, data[1])
    estimator = clone(estimator).set_params(epochs=2).fit(X[:60], y[:60])
    copy = pickle.loads(pickle.dumps(estimator))
    again = clone(estimator).fit(X[:60], y[:60])
    for model in (estimator, copy, again):
        model.partial_fit(X[60:70], y[60:70])
    expected = estimator.log_prob(X, y)
    np.testing.assert_array_equal(copy.log_prob(X, y), expected)
    np.testing.assert_array_equal(again.log_prob(X, y), expected)


@each
def test_data_frames_keep_their_names(estimator, data):
    X, y = data[0], targets(estimator, data[1])
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = clone(estimator).set_params(epochs=2).fit(frame, pd.Series(y))
    assert model.feature_names_in_.tolist() == ["a", "b"]
    plain = clone(model).fit(X, y)
    np.testing.assert_array_equal(model.predict(frame), plain.predict(X))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[["b", "a"]])


@each
@pytest.mark.parametrize(
    "columns",
    [
        [0, 1],
        [("a", 1), ("b", 2)],
        ["", "b"],
        ["größe", "温度"],
        [0.5, 1.5],
        ["../x", "inputs/mean"],
    ],
    ids=str,
)
def test_unusual_column_names_are_taken_also_from_a_file(estimator, columns, data, tmp_path):
    X, y = data[0][:30], targets(estimator, data[1][:30])
    frame = pd.DataFrame(X)
    frame.columns = columns
    model = clone(estimator).set_params(epochs=1, hidden_layer_sizes=(2,))
    if "calibrate" in model.get_params():
        model.set_params(calibrate=False)
    model.fit(frame, y).save(tmp_path / "model")
    loaded = type(model).load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(frame), clone(model).fit(X, y).predict(X))


@each
@pytest.mark.parametrize("text", [False, True])
def test_a_column_name_that_occurs_twice_is_named(estimator, text, data):
    frame, y = pd.DataFrame(data[0][:30]), targets(estimator, data[1][:30])
    model = clone(estimator).set_params(epochs=1, hidden_layer_sizes=(2,)).fit(frame, y)
    frame[1] = ["p", "q"] * 15 if text else frame[1]
    frame.columns = ["größe", "größe"]
    words = "column names must be unique, and 'größe' occurs more than once"
    for call in (model.predict, lambda X: clone(model).fit(X, y), lambda X: model.log_prob(X, y)):
        with pytest.raises(ValueError, match=words):
            call(frame)


def test_a_frame_of_targets_is_several_outputs(data):
    X, y = data
    model = TAGIRegressor(**SMALL, epochs=5).fit(X, pd.DataFrame({"up": y, "down": -y}))
    assert model.predict(X[:4]).shape == (4, 2)


def test_a_pipeline_in_a_grid_search_picks_the_better_network(data):
    X, y = data
    pipeline = make_pipeline(PolynomialFeatures(2), TAGIRegressor(random_state=0, calibrate=False))
    grid = {"tagiregressor__hidden_layer_sizes": [(), (32, 32)], "tagiregressor__gain": [0.25]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(X, y)
    assert search.best_params_["tagiregressor__hidden_layer_sizes"] == (32, 32)
    assert search.score(X, y) > 0.8


def test_the_log_likelihood_can_be_a_scorer(data):
    X, y = data
    scores = cross_val_score(
        TAGIRegressor(**SMALL, epochs=5), X, y, cv=3, scoring=TAGIRegressor.score_log_likelihood
    )
    assert scores.shape == (3,)
    assert np.isfinite(scores).all()


@each
def test_nothing_is_predicted_before_a_fit(estimator, data):
    for ask in ("predict", "sample", "predictive"):
        with pytest.raises(NotFittedError, match="is not fitted yet"):
            getattr(clone(estimator), ask)(data[0])
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        clone(estimator).save("nowhere")


@each
@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"hidden_layer_sizes": (8, 0)}, "hidden_layer_sizes must be positive integers"),
        ({"hidden_layer_sizes": "wide"}, "hidden_layer_sizes must be positive integers"),
        ({"activation": "step"}, "activation must be one of relu"),
        ({"epochs": 0}, "epochs must be a positive integer or None; got 0"),
        ({"batch_size": 2.5}, "batch_size must be a positive integer"),
        ({"random_state": -1}, "between 0 and"),
    ],
    ids=str,
)
def test_bad_settings_are_named_and_leave_the_old_fit_alone(estimator, data, bad, words):
    X, y = data[0][:30], targets(estimator, data[1])[:30]
    model = clone(estimator).set_params(epochs=1).fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match=words):
        model.set_params(**bad).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), before)


@pytest.mark.parametrize("kind", [TAGIRegressor, BackpropRegressor])
def test_whole_weights_are_copies_and_others_shares(kind, data):
    X, y = data[0][:60], data[1][:60]
    weights = np.arange(60) % 3
    options = {"hidden_layer_sizes": (8,), "epochs": 3, "calibrate": False, "random_state": 0}
    weighed = kind(**options).fit(X, y, sample_weight=weights).predict(X)
    copied = kind(**options).fit(np.repeat(X, weights, 0), np.repeat(y, weights)).predict(X)
    np.testing.assert_array_equal(weighed, copied)
    plain = kind(**options).fit(X, y).predict(X)
    np.testing.assert_array_equal(plain, kind(**options).fit(X, y, np.full(60, 0.3)).predict(X))
    for wrong in ([1.0], np.full(60, -1.0), np.full(60, np.nan), np.zeros(60)):
        with pytest.raises(ValueError, match="sample_weight"):
            kind(**options).fit(X, y, sample_weight=wrong)


def test_copies_of_a_row_are_held_out_together():
    """Else what is held out is known, and error bars are too narrow."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    model = TAGIRegressor(
        hidden_layer_sizes=(32,), epochs=40, n_estimators=1, relevance=False, random_state=0
    )
    model.fit(X, y, sample_weight=np.full(60, 4))
    new, truth = rng.normal(size=(300, 2)), rng.normal(size=300)
    low, high = model.predict_interval(new).T
    assert np.mean((low <= truth) & (truth <= high)) > 0.8
