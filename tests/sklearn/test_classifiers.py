"""Classifiers: labels of any kind, probabilities against known truth, streams."""

import numpy as np
import pytest
from scipy import special
from sklearn.base import clone
from sklearn.datasets import load_iris

from tests.sklearn.conftest import classifiers, name
from tractable.sklearn import NetClassifier

each = pytest.mark.parametrize("estimator", classifiers(), ids=name)


def overlapping(rows, seed):
    """Two unit normals at -1 and 1: the probability of the second is a sigmoid of 2 x."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, rows)
    return (2 * y - 1 + rng.standard_normal(rows)).reshape(-1, 1), y


@each
def test_iris(estimator):
    X, y = load_iris(return_X_y=True)
    rows = np.random.default_rng(0).permutation(150)
    train, test = rows[:100], rows[100:]
    model = clone(estimator).fit(X[train], y[train])
    assert model.score(X[test], y[test]) > 0.9
    assert model.score_log_likelihood(X[test], y[test]) > -0.35
    probs = model.predict_proba(X[test])
    np.testing.assert_allclose(probs.sum(1), 1, rtol=1e-12)
    chosen = probs[np.arange(50), y[test]]
    np.testing.assert_allclose(model.log_prob(X[test], y[test]), np.log(chosen), rtol=1e-10)


@each
def test_probabilities_are_near_the_true_ones(estimator):
    X, y = overlapping(1000, 0)
    model = clone(estimator).set_params(epochs=15).fit(X, y)
    at = np.linspace(-2, 2, 41).reshape(-1, 1)
    miss = model.predict_proba(at)[:, 1] - special.expit(2 * at[:, 0])
    assert abs(miss).max() < 0.12


@each
@pytest.mark.parametrize(
    "labels",
    [["cat", "dog"], [-3, 7], [False, True], np.array(["x", "y"], dtype=object)],
    ids=["strings", "numbers", "booleans", "objects"],
)
def test_labels_of_any_kind_come_back(estimator, labels):
    X, y = overlapping(100, 0)
    named = np.asarray(labels)[y]
    model = clone(estimator).set_params(epochs=3).fit(X, named)
    plain = clone(model).fit(X, y)
    assert model.classes_.tolist() == sorted(labels)
    assert model.predict(X).dtype == named.dtype
    np.testing.assert_array_equal(model.predict(X), np.asarray(labels)[plain.predict(X)])
    assert set(model.sample(X[:3], 50, random_state=0).ravel().tolist()) <= set(labels)


@each
def test_samples_have_the_predicted_frequencies(estimator):
    X, y = overlapping(100, 0)
    model = clone(estimator).set_params(epochs=3).fit(X, y)
    drawn = model.sample(X[:5], 20_000, random_state=0)
    p = model.predict_proba(X[:5])[:, 1]
    np.testing.assert_array_less(abs(drawn.mean(0) - p), 5 * np.sqrt(p * (1 - p) / 20_000) + 1e-6)


@each
def test_a_stream_may_start_without_some_classes(estimator):
    X, y = load_iris(return_X_y=True)
    order = np.argsort(y == 2, kind="stable")  # the third class comes last
    X, y = X[order], y[order]
    model = clone(estimator)
    model.partial_fit(X[:100], y[:100], classes=[0, 1, 2])
    assert model.predict_proba(X).shape == (150, 3)
    rng = np.random.default_rng(0)
    for _ in range(8):
        rows = rng.permutation(150)
        model.partial_fit(X[rows], y[rows], classes=[2, 1, 0])
    assert model.score(X, y) > 0.85


@each
def test_wrong_labels_are_refused(estimator):
    X, y = overlapping(40, 0)
    model = clone(estimator).set_params(epochs=1)
    with pytest.raises(ValueError, match=r"only one class: 1$"):
        model.fit(X, np.ones_like(y))
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        model.partial_fit(X, y)
    model.fit(X, y)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match=r"labels \[2\] that are not among the classes \[0, 1\]"):
        model.partial_fit(X, y + 1)
    with pytest.raises(ValueError, match="is not the same as on the first call"):
        model.partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match=r"labels \[5\]"):
        model.log_prob(X, np.full_like(y, 5))
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        model.fit(X, y + 0.5 * X[:, 0])
    np.testing.assert_array_equal(model.predict_proba(X), before)


@each
def test_what_more_data_would_remove_is_kept_apart(estimator):
    X, y = overlapping(200, 0)
    model = clone(estimator).set_params(epochs=3).fit(X, y)
    p = model.predict_distribution(X)
    entropy = special.entr(model.predict_proba(X)).sum(-1)
    np.testing.assert_allclose((p.epistemic + p.aleatoric).numpy(), entropy, rtol=1e-12)
    assert (p.epistemic >= 0).all()
    if isinstance(model, NetClassifier):  # one set of weights, among the data
        assert p.epistemic.median() < 1e-6
    else:
        assert p.epistemic.mean() > 1e-5
