"""Classifiers: labels of any kind, probabilities against known truth, streams."""

import numpy as np
import pytest
from scipy import special
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.utils import compute_sample_weight

from tests.sklearn.conftest import classifiers, name
from tractable.sklearn import NetClassifier, TAGIClassifier

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


# --- weights of classes ------------------------------------------------------------------------


def rare(rows=400):
    """One row in ten is of the second class; they overlap."""
    rng = np.random.default_rng(3)
    y = (np.arange(rows) % 10 == 0).astype(int)
    return (1.2 * y + rng.standard_normal(rows)).reshape(-1, 1), y


@each
def test_balanced_classes_find_more_of_the_rare_one(estimator):
    X, y = rare()
    plain = clone(estimator).fit(X, y)
    balanced = clone(estimator).set_params(class_weight="balanced").fit(X, y)
    weights = compute_sample_weight("balanced", y)
    rows = clone(estimator).fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(balanced.predict_proba(X), rows.predict_proba(X))
    assert plain.predict_proba(X)[:, 1].mean() < 0.2 < balanced.predict_proba(X)[:, 1].mean()
    found = [model.predict(X)[y == 1].mean() for model in (plain, balanced)]
    assert found[1] > found[0] + 0.3


@each
def test_weights_of_classes_are_copies_of_their_rows(estimator, tmp_path):
    X, y = rare(100)
    labels = np.array(["no", "yes"])[y]
    model = clone(estimator).set_params(class_weight={"yes": 3}).fit(X, labels)
    copied = clone(estimator).fit(X, labels, sample_weight=1 + 2 * y)
    np.testing.assert_array_equal(model.predict_proba(X), copied.predict_proba(X))
    model.save(tmp_path / "weighed.tr")
    again = type(model).load(tmp_path / "weighed.tr")
    assert again.class_weight == {"yes": 3}
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    with pytest.raises(ValueError, match="class_weight"):
        clone(estimator).set_params(class_weight="equal").fit(X, labels)


def test_weights_of_classes_in_a_stream():
    X, y = rare(64)
    weighed = TAGIClassifier(hidden=(8,), class_weight={1: 2}, random_state=0)
    weighed.partial_fit(X, y, classes=[0, 1])
    copies = np.repeat(np.arange(64), 1 + y)
    plain = TAGIClassifier(hidden=(8,), random_state=0)
    plain.partial_fit(X[copies], y[copies], classes=[0, 1])
    np.testing.assert_array_equal(weighed.predict_proba(X), plain.predict_proba(X))
    for wrong, words in (("balanced", "needs all rows at once"), ({1: 1.5}, "whole numbers")):
        with pytest.raises(ValueError, match=words):
            TAGIClassifier(class_weight=wrong).partial_fit(X, y, classes=[0, 1])
