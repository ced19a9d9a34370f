"""Weights of rows: a row of weight 0 is left out."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone

from tests.sklearn.conftest import classifiers, name, regressors
from tractable.sklearn import BackpropRegressor, TAGIRegressor
from tractable.sklearn.imputation import ImputedRows
from tractable.sklearn.preprocessing import repeat_by_weight, without_zero_weights

each = pytest.mark.parametrize("estimator", [*regressors(), *classifiers()], ids=name)


def table(estimator, rows=40):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(rows, 2))
    y = X[:, 0] + 0.3 * rng.normal(size=rows)
    return X, np.where(y > 0, "high", "low") if hasattr(estimator, "predict_proba") else y


@each
@pytest.mark.parametrize("weight", [1.0, 0.3], ids=["counts", "shares"])
def test_rows_of_zero_weight_do_not_count(estimator, weight):
    X, y = table(estimator)
    kept = np.arange(40) % 3 > 0
    weights = np.where(kept, weight, 0.0)
    wild = X.copy()
    wild[~kept] *= 1e6
    model = clone(estimator).set_params(epochs=2, hidden_layer_sizes=(4,))
    if "n_estimators" in model.get_params():
        model.set_params(n_estimators=1)
    new = np.random.default_rng(3).normal(size=(50, 2))
    mine = clone(model).fit(wild, y, sample_weight=weights)
    other = clone(model).fit(X[kept], y[kept], sample_weight=weights[kept])
    truth = np.resize(y, 50)
    np.testing.assert_array_equal(mine.log_prob(new, truth), other.log_prob(new, truth))
    np.testing.assert_array_equal(mine.n_clipped_, other.n_clipped_)


@pytest.mark.parametrize("weight", [1.0, 0.5], ids=["counts", "shares"])
def test_three_rows_of_positive_weight_are_three_rows(weight):
    """They are warned of, and the noise is that of three rows."""
    X, y = table(None)
    weights = np.where(np.arange(40) < 3, weight, 0.0)
    model = TAGIRegressor(hidden_layer_sizes=(4,), epochs=2, random_state=0)
    with pytest.warns(UserWarning, match="was fitted to 3 rows, too few"):
        mine = clone(model).fit(X, y, sample_weight=weights)
    with pytest.warns(UserWarning, match="was fitted to 3 rows, too few"):
        other = clone(model).fit(X[:3], y[:3])
    for found, expected in zip(
        mine.predict(X, return_std=True), other.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


def test_repeated_rows_count_once_when_rows_are_few():
    X, y = table(None)
    with pytest.warns(UserWarning, match="was fitted to 3 rows, too few"):
        model = TAGIRegressor(hidden_layer_sizes=(4,), epochs=2, random_state=0).fit(
            X[:3], y[:3], sample_weight=[20, 20, 20]
        )
    _, std = model.predict(X[:3], return_std=True)
    assert (std >= 0.999 * y[:3].std() * 2**0.5).all()


@pytest.mark.parametrize("kind", [TAGIRegressor, BackpropRegressor])
def test_folds_are_drawn_over_distinct_rows(kind, monkeypatch):
    """A tenth of the rows holds a tenth of the rare ones that are repeated, not most of them."""
    X, y = table(None, rows=200)
    weights = np.where(np.arange(200) < 20, 9, 1)
    held_out = []

    def record(self, chosen):
        held_out.append(len(chosen))
        return original(self, chosen)

    original = ImputedRows.with_copies
    monkeypatch.setattr(ImputedRows, "with_copies", record)
    options = {"n_estimators": 1} if kind is TAGIRegressor else {}
    kind(hidden_layer_sizes=(4,), epochs=2, random_state=0, **options).fit(
        X, y, sample_weight=weights
    )
    assert held_out == ([20] * 5 if kind is TAGIRegressor else [180, 20])


def test_all_copies_of_a_row_are_in_one_fold():
    origin = torch.tensor([0, 2, 2, 2, 3, 5, 5])
    rows = ImputedRows(torch.zeros(7, 1), copy_of=origin)
    assert rows.n_distinct == 4
    assert rows.with_copies(torch.tensor([1, 3])).tolist() == [1, 2, 3, 5, 6]
    assert rows.with_copies(torch.tensor([0, 2])).tolist() == [0, 4]
    assert ImputedRows(torch.zeros(7, 1)).with_copies(torch.tensor([5, 3])).tolist() == [5, 3]


def test_levels_of_rows_of_zero_weight_are_not_encoded():
    frame = pd.DataFrame({"a": np.linspace(0, 1, 30), "b": ["x", "y", "z"] * 10})
    y = frame["a"].to_numpy()
    weights = np.where(frame["b"] == "z", 0.0, 1.0)
    model = TAGIRegressor(hidden_layer_sizes=(4,), epochs=1, random_state=0)
    fitted = clone(model).fit(frame, pd.Series(y), sample_weight=weights)
    assert fitted.encoder_.levels == (None, ("x", "y"))


def test_zero_weights_keep_the_kind_of_container():
    weights = [0, 2.0, 0.5]
    X, y, left = without_zero_weights(np.arange(6).reshape(3, 2), [1, 2, 3], weights)
    assert X.tolist() == [[2, 3], [4, 5]]
    assert (y, left.tolist()) == ([2, 3], [2.0, 0.5])
    X, y, _ = without_zero_weights(pd.DataFrame({"a": [1, 2, 3]}), pd.Series([4, 5, 6]), weights)
    assert X["a"].tolist() == [2, 3]
    assert y.tolist() == [5, 6]
    same = ([[1], [2]], [1, 2])
    for odd in (None, 3.0, [0.0], [[0.0, 1.0]], "text", [0.0, 0.0]):
        assert without_zero_weights(*same, odd) == (*same, odd)
    assert repeat_by_weight([0, 0.5, 0.5, 0.5], 4).tolist() == [1, 2, 3]
