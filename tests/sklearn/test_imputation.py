"""Missing values: what is known of them, and the doubt they leave in a prediction."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from tractable.sklearn import BackpropRegressor, TAGIClassifier, TAGIRegressor
from tractable.sklearn.imputation import N_DRAWS, GaussianCopula, ImputedRows, sobol_normals
from tractable.sklearn.preprocessing import category_columns, standardizer_of

QUICK = {
    "hidden_layer_sizes": (16,),
    "epochs": 10,
    "n_estimators": 2,
    "relevance": False,
    "random_state": 0,
}
NAN = math.nan


def houses(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A price of which most is said by the size."""
    rng = np.random.default_rng(seed)
    size, rooms = rng.normal(100, 20, n), rng.integers(1, 7, n).astype(float)
    return np.column_stack([size, rooms]), 2 * size + 10 * rooms + rng.normal(0, 10, n)


def test_conditional_moments_are_those_of_a_normal():
    """Against the formula with the covariance, S_mo S_oo^-1, and one pattern of gaps at a time."""
    rng = np.random.default_rng(0)
    mix = rng.normal(size=(4, 4))
    S, mu = mix @ mix.T + np.eye(4), rng.normal(size=4)
    columns = GaussianCopula(
        torch.tensor(mu), torch.tensor(S), torch.zeros(4, 129), torch.zeros(4, dtype=torch.int64)
    )
    z = torch.tensor(rng.normal(size=(3, 4)))
    z[0, [1, 3]], z[1, 0], z[2, :] = NAN, NAN, NAN
    ((at, expected, inside),) = columns.conditional(z)
    assert at.tolist() == [0, 1, 2]
    for row, gaps in enumerate([[1, 3], [0], [0, 1, 2, 3]]):
        known = [k for k in range(4) if k not in gaps]
        gain = S[np.ix_(gaps, known)] @ np.linalg.inv(S[np.ix_(known, known)]) if known else 0
        rest = z[row, known].numpy() - mu[known]
        wanted = mu[gaps] + (gain @ rest if known else 0)
        left = S[np.ix_(gaps, gaps)] - (gain @ S[np.ix_(known, gaps)] if known else 0)
        np.testing.assert_allclose(expected[row, gaps], wanted, rtol=1e-4)
        np.testing.assert_allclose(inside[row][gaps][:, gaps], left, rtol=1e-4, atol=1e-5)
        assert torch.equal(inside[row][known], torch.zeros(len(known), 4, dtype=torch.float64))


def test_em_finds_the_correlation_that_gaps_hide():
    """0.8 among rows of which a third of the cells is missing; complete rows are a ninth fewer."""
    rng = np.random.default_rng(1)
    x = rng.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]], 1500)
    x[rng.random(x.shape) < 0.33] = NAN
    x = x[~np.isnan(x).all(1)]
    found = GaussianCopula.fit(torch.tensor(x)).covariance
    assert abs(float(found[0, 1] / (found[0, 0] * found[1, 1]).sqrt()) - 0.8) < 0.03


@pytest.mark.parametrize("skew", [False, True])
def test_draws_have_the_distribution_of_the_column(skew):
    """Mean, deviation and quantiles of a column that nothing else says anything about."""
    rng = np.random.default_rng(2)
    x = np.column_stack(
        [rng.exponential(size=4000) if skew else rng.integers(1, 7, 4000), rng.normal(size=4000)]
    )
    drawn = GaussianCopula.fit(torch.tensor(x)).draws(torch.tensor([[NAN, 0.0]]))[:, 0, 0].numpy()
    own = x[:, 0]
    assert abs(drawn.mean() - own.mean()) < 0.12 * own.std()
    assert abs(drawn.std() / own.std() - 1) < 0.12
    assert own.min() <= drawn.min() <= drawn.max() <= own.max()
    if not skew:
        assert set(drawn) == {1, 2, 3, 4, 5, 6}


def test_draws_follow_what_is_known():
    rng = np.random.default_rng(3)
    x = rng.multivariate_normal([0, 0], [[1, 0.9], [0.9, 1]], 3000)
    drawn = GaussianCopula.fit(torch.tensor(x)).draws(torch.tensor([[NAN, 1.5], [NAN, -0.5]]))[
        ..., 0
    ]
    np.testing.assert_allclose(drawn.mean(0), [0.9 * 1.5, -0.45], atol=0.08)
    np.testing.assert_allclose(drawn.std(0), [0.19**0.5] * 2, rtol=0.15)


def test_levels_are_drawn_whole_and_as_often_as_they_are():
    rng = np.random.default_rng(4)
    level = rng.choice(3, 2000, p=[0.6, 0.3, 0.1])
    x = torch.tensor(np.column_stack([rng.normal(size=2000), np.eye(3)[level]]))
    assert category_columns(x) == [[1, 2, 3]]
    drawn = GaussianCopula.fit(x, category_columns(x)).draws(torch.tensor([[0.0, NAN, NAN, NAN]]))[
        :, 0, 1:
    ]
    assert torch.equal(drawn.sum(1), torch.ones(N_DRAWS, dtype=drawn.dtype))
    np.testing.assert_allclose(drawn.mean(0), [0.6, 0.3, 0.1], atol=0.05)


def test_columns_that_only_look_like_levels():
    x = torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [1.0, 1.0, 0.0]])
    assert category_columns(x) == []  # two of them are 1 in every row
    assert category_columns(torch.ones(4, 1)) == []
    gaps = torch.tensor([[1.0, 0.0], [0.0, 1.0], [NAN, 1.0]])
    assert category_columns(gaps) == []  # a level cannot be missing alone


def test_sobol_normals_are_standardized():
    points = sobol_normals(5)
    assert points.shape == (N_DRAWS, 5)
    assert float(points.mean(0).abs().max()) < 1e-12
    assert torch.allclose(points.square().mean(0), torch.ones(5, dtype=points.dtype))
    assert float(torch.corrcoef(points.T).fill_diagonal_(0).abs().max()) < 0.3


def test_rows_to_learn_from_are_gaussian_where_cells_are_missing():
    x = torch.tensor(np.random.default_rng(5).normal(size=(50, 2)))
    x[3, 1] = NAN
    rows = ImputedRows.from_gaps(x, GaussianCopula.fit(x))
    taken = rows.as_gaussian(torch.tensor([1.0, 2.0]))
    assert torch.equal(taken.loc[:, 0], x[:, 0])
    spread = taken.variance
    assert float(spread[3, 1]) > 1  # twice a column of variance 1
    spread[3, 1] = 0
    assert not bool(spread.any())
    whole = rows.at(torch.tensor([0, 1, 2]))
    assert whole.completions() is None
    assert not hasattr(whole.as_gaussian(torch.ones(2)), "variance")


def test_missing_values_are_left_out_of_the_scale():
    x = torch.tensor([[1.0, 5.0], [3.0, NAN], [NAN, 7.0]], dtype=torch.float64)
    scaler = standardizer_of(x)
    assert scaler.mean.tolist() == [2.0, 6.0]
    with pytest.raises(ValueError, match="column 'b' has no values: drop the column"):
        standardizer_of(torch.tensor([[1.0, NAN], [2.0, NAN]]), ["a", "b"])


@pytest.fixture(scope="module")
def fitted():
    X, y = houses(400, 0)
    return TAGIRegressor(**QUICK).fit(X, y)


def test_intervals_widen_if_the_most_important_column_is_missing(fitted):
    """RMSE 8 becomes 41, and the error bars know it."""
    X, y = houses(1000, 1)
    known = fitted.predict(X, return_std=True)[1].mean()
    X[:, 0] = NAN
    mean, std = fitted.predict(X, return_std=True)
    low, high = fitted.predict_interval(X).T
    assert known < 14
    assert std.mean() > 3 * known
    assert 0.85 <= np.mean((low <= y) & (y <= high)) <= 0.95
    assert abs(np.sqrt(np.mean((mean - y) ** 2)) / std.mean() - 1) < 0.12


def test_a_prediction_does_not_depend_on_other_rows(fitted):
    X, _ = houses(5, 2)
    X[1, 0], X[3, :] = NAN, NAN
    together = fitted.predict(X, return_std=True)
    alone = [fitted.predict(row[None], return_std=True) for row in X]
    np.testing.assert_allclose(together[0], [mean[0] for mean, _ in alone], rtol=1e-5)
    np.testing.assert_allclose(together[1], [std[0] for _, std in alone], rtol=1e-5)
    assert together[1][3] > together[1][1] > together[1][0]


def test_infinite_values_are_still_refused(fitted):
    with pytest.raises(ValueError, match="infinity"):
        fitted.predict([[np.inf, 1.0]])


def test_gaps_among_the_training_rows(tmp_path):
    X, y = houses(300, 3)
    X[np.random.default_rng(0).random(X.shape) < 0.2] = NAN
    model = TAGIRegressor(**QUICK).fit(X, y)
    new, truth = houses(500, 4)
    assert np.sqrt(np.mean((model.predict(new) - truth) ** 2)) < 14
    low, high = model.predict_interval(new).T
    assert 0.8 <= np.mean((low <= truth) & (truth <= high)) <= 0.97
    model.save(tmp_path / "m.tr")
    again = TAGIRegressor.load(tmp_path / "m.tr")
    np.testing.assert_array_equal(model.predict(X[:20]), again.predict(X[:20]))


def test_probabilities_with_missing_values_are_less_extreme():
    rng = np.random.default_rng(6)
    label = rng.integers(0, 2, 300)
    X = np.column_stack([3 * label + rng.normal(size=300), rng.normal(size=300)])
    model = TAGIClassifier(**QUICK).fit(X, label)
    p = model.predict_proba([[5.0, 0.0], [NAN, 0.0]])[:, 1]
    assert p[0] > 0.9
    assert 0.3 < p[1] < 0.7


def test_gradient_learners_and_streams_take_gaps():
    X, y = houses(120, 7)
    X[::7, 0] = NAN
    net = BackpropRegressor(hidden_layer_sizes=(8,), epochs=5, random_state=0).fit(X, y)
    assert np.isfinite(net.predict(X)).all()
    online = TAGIRegressor(hidden_layer_sizes=(8,), random_state=0).partial_fit(X[:60], y[:60])
    online.partial_fit(X[60:], y[60:])
    std = online.predict([[NAN, 3.0], [100.0, 3.0]], return_std=True)[1]
    assert std[0] > std[1]


def frame(n: int) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(8)
    town = rng.choice(["Aix", "Brno", "Cork"], n)
    size = rng.normal(100, 20, n)
    made = pd.DataFrame({
        "town": pd.Series(town, dtype="category"), "size": size, "new": rng.random(n) < 0.5,
        "sold": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n), "D"),
    })  # fmt: skip
    return made, size + 60 * (town == "Brno") + rng.normal(0, 5, n)


def test_a_data_frame_with_text_and_dates(tmp_path):
    X, y = frame(300)
    X.loc[4, "town"] = None
    model = TAGIRegressor(**QUICK).fit(X, y)
    assert model.n_features_in_ == 4
    assert list(model.feature_names_in_) == ["town", "size", "new", "sold"]
    assert model.score(X, y) > 0.9
    model.save(tmp_path / "m.tr")
    again = TAGIRegressor.load(tmp_path / "m.tr")
    np.testing.assert_array_equal(model.predict(X), again.predict(X))
    new = X[:2].copy()
    new["town"] = ["Delft", "Aix"]
    with pytest.warns(
        UserWarning, match="not among the training data, and are treated as missing: 'Del"
    ):
        std = model.predict(new, return_std=True)[1]
    assert std[0] > 2 * std[1]
    with pytest.raises(ValueError, match="pass a data frame with the same columns"):
        model.predict(np.zeros((2, 4)))


@pytest.mark.parametrize("kind", [TAGIRegressor, TAGIClassifier])
def test_a_log_density_warns_once_of_unseen_levels(kind):
    X, y = frame(120)
    y = y > np.median(y) if kind is TAGIClassifier else y
    model = kind(**QUICK).fit(X, y)
    new = X[:6].copy()
    new["town"] = ["Delft", *X["town"][1:6].astype(str)]
    with pytest.warns(UserWarning, match="not among the training data") as said:
        found = model.log_prob(new, y[:6])
    assert len(said) == 1
    with pytest.warns(UserWarning, match="not among the training data"):
        p = model.predictive(new)
    np.testing.assert_array_equal(found, p.log_prob(torch.as_tensor(y[:6])).numpy())


def test_text_with_a_value_per_row_is_refused():
    X, y = frame(60)
    X["name"] = [f"n{i}" for i in range(60)]
    with pytest.raises(ValueError, match="'name' is text with 60 different values in 60 rows"):
        TAGIRegressor(**QUICK).fit(X, y)


def test_frames_of_numbers_need_no_encoder():
    X, y = frame(60)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = TAGIRegressor(**QUICK).fit(X[["size", "new"]], y)
    assert model.encoder_ is None


def test_columns_in_another_order_or_missing_are_named():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"size": np.arange(30.0), "town": ["a", "b", "c"] * 10})
    model = TAGIRegressor(hidden_layer_sizes=(), epochs=1, n_estimators=1, calibrate=False)
    model.fit(frame, np.arange(30.0))
    with pytest.raises(ValueError, match="names must be in the same order"):
        model.predict(frame[["town", "size"]])
    with pytest.raises(ValueError, match="seen at fit time, yet now missing"):
        model.predict(frame[["town"]])
    with pytest.raises(ValueError, match="pass a data frame with the same columns"):
        model.predict(frame.to_numpy())


def many_columns(columns, rows=60, seed=5):
    """Numbers, steps, flags and the levels of one category, some of all missing."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns))
    x[:, 1] = rng.integers(0, 5, rows)
    x[:, 2] = rng.integers(0, 2, rows)
    x[:, 3:6] = np.eye(3)[rng.integers(0, 3, rows)]
    gaps = rng.random(x.shape) < 0.05
    gaps[:, 3:6] = gaps[:, 3:4]
    x[gaps] = NAN
    return torch.tensor(x)


@pytest.mark.parametrize("seed", [5, 6])
def test_independent_columns_are_drawn_as_from_a_diagonal_covariance(seed, monkeypatch):
    """Against the general formula, which inverts a matrix of all columns for every row."""
    x = many_columns(70, seed=seed)
    columns = GaussianCopula.fit(x, [[3, 4, 5]])
    assert columns.independent
    found = columns.draws(x)
    monkeypatch.setattr("tractable.sklearn.imputation.MAX_COLUMNS", 100)
    matrix = replace(columns, covariance=torch.diag(columns.covariance))
    assert not matrix.independent
    torch.testing.assert_close(found, matrix.draws(x), rtol=1e-5, atol=1e-7)


def test_a_thousand_columns_are_imputed_in_time_linear_in_their_number():
    """300 columns took 6.7 s, and time grew with the cube of their number."""
    x = many_columns(1_000, rows=100)
    started = time.process_time()
    columns = GaussianCopula.fit(x, [[3, 4, 5]])
    filled, variance = columns.expected(x)
    assert time.process_time() - started < 5
    assert not bool(filled.isnan().any())
    gaps = x.isnan()
    assert bool((variance[~gaps] == 0).all())
    own = torch.tensor([float(c[~c.isnan()].var()) for c in x.T[6:]])
    drawn = torch.stack([v[g].mean() if g.any() else torch.tensor(0.0) for v, g in
                         zip(variance.T[6:], gaps.T[6:], strict=True)])  # fmt: skip
    has = gaps[:, 6:].any(0)
    assert abs(float((drawn[has] / own[has]).mean()) - 1) < 0.1  # tails end at the values seen


def test_files_hold_variances_of_many_columns_and_take_the_old_matrix():
    x = many_columns(70)
    columns = GaussianCopula.fit(x)
    tensors = columns.tensors()
    assert tensors["covariance"].shape == (70,)
    again = GaussianCopula.from_tensors(tensors, 70, [])
    assert torch.equal(again.draws(x), columns.draws(x))
    old = {**tensors, "covariance": torch.diag(tensors["covariance"])}
    assert torch.equal(GaussianCopula.from_tensors(old, 70, []).draws(x), columns.draws(x))
    with pytest.raises(ValueError, match="negative or not symmetric"):
        GaussianCopula.from_tensors({**tensors, "covariance": -tensors["covariance"]}, 70, [])
