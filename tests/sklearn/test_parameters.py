"""Settings as NumPy values, and the one seed that a fit draws."""

import inspect

import numpy as np
import pytest
import torch

from tests.sklearn.conftest import name
from tractable.nn.mlp import layer_sizes
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
from tractable.sklearn.base import as_python
from tractable.sklearn.cross_validation import CrossValidator

KINDS = [
    TAGIRegressor,
    TAGIClassifier,
    BBBRegressor,
    BBBClassifier,
    BackpropRegressor,
    BackpropClassifier,
    LaplaceRegressor,
    LaplaceClassifier,
]
SETTINGS = {
    "hidden_layer_sizes": np.array([8]),
    "epochs": np.int64(2),
    "batch_size": np.int64(8),
    "random_state": np.int64(3),
    "n_estimators": np.int64(2),
    "gain": np.float32(0.25),
    "epoch_forgetting": np.float32(0.25),
    "memory_rows": np.float64(20),
    "calibrate": np.False_,
    "relevance": np.True_,
    "log_target": np.True_,
    "lr": np.float32(0.01),
    "prior": np.float32(0.5),
    "kl_weight": np.float32(0.1),
    "n_train_samples": np.int64(1),
    "n_weight_samples": np.int64(5),
    "prior_precision": np.float32(1),
    "activation": np.str_("tanh"),
    "likelihood": np.str_("normal"),
    "ordered": np.array([1, 0]),
    "link": np.str_("normal"),
    "structure": np.str_("diagonal"),
    "class_weight": {np.int64(0): np.float32(1), np.int64(1): np.int64(2)},
}


def table(kind, rows=60):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 3))
    y = np.exp(X[:, 0] + 0.3 * rng.normal(size=rows))
    return X, (y > 1).astype(int) if hasattr(kind, "predict_proba") else y


def python_value(value):
    """As ``as_python``, but written without it."""
    if isinstance(value, dict):
        return {key.item(): number.item() for key, number in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.item() if isinstance(value, np.generic) else value


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_numpy_settings_give_what_python_settings_give_also_from_a_file(kind, tmp_path):
    X, y = table(kind)
    taken = inspect.signature(kind).parameters
    given = {key: value for key, value in SETTINGS.items() if key in taken}
    model = kind(**given).fit(X, y)
    expected = kind(**{key: python_value(value) for key, value in given.items()}).fit(X, y)
    model.save(tmp_path / "model")
    loaded = kind.load(tmp_path / "model")
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    np.testing.assert_array_equal(loaded.predict(X), expected.predict(X))
    for one in (model, loaded, expected):
        one.partial_fit(X, y)
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    np.testing.assert_array_equal(loaded.predict(X), expected.predict(X))


@pytest.mark.parametrize("flag", [True, False])
def test_numpy_flags_mean_what_python_flags_mean(flag):
    X, y = table(TAGIRegressor)
    options = {"hidden_layer_sizes": (4,), "epochs": 2, "n_estimators": 1, "random_state": 0}
    mine, other = (
        TAGIRegressor(**options, calibrate=one, log_target=one).fit(X, y)
        for one in (np.bool_(flag), flag)
    )
    assert (
        (mine.target_log_transform_ is None) == (other.target_log_transform_ is None) == (not flag)
    )
    np.testing.assert_array_equal(mine.predict(X), other.predict(X))


def test_any_sequence_of_widths_is_taken():
    for given, expected in (
        (np.array([8]), [8]),
        (np.array(8), [8]),
        (np.array([], dtype=int), []),
        (np.int64(8), [8]),
        ([np.int32(8)], [8]),
        (range(4, 6), [4, 5]),
        (torch.tensor([3, 2]), [3, 2]),
        (5, [5]),
    ):
        assert layer_sizes(as_python(given)) == expected
    for wrong in (np.array([8.5]), [[4]], np.array([[4, 4]]), "8", None, [0], {"a"}):
        with pytest.raises(ValueError, match="hidden_layer_sizes must be positive integers"):
            layer_sizes(as_python(wrong))


def test_sequences_and_scalars_become_plain():
    for given, expected in (
        (np.array([8]), (8,)),
        (np.array(8), 8),
        (np.float32(0.25), 0.25),
        (range(2, 4), (2, 3)),
        ([3], (3,)),
        (None, None),
        ("relu", "relu"),
    ):
        assert as_python(given) == expected
        assert type(as_python(given)) is type(expected)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_fit_draws_one_seed(kind):
    """With ``None`` every further draw would be another seed."""
    X, y = table(kind)
    state, expected = np.random.RandomState(4), np.random.RandomState(4)
    expected.randint(2**31 - 1)
    options = {"n_estimators": 1} if name(kind()).startswith("TAGI") else {}
    kind(hidden_layer_sizes=(4,), **options, epochs=2, random_state=state).fit(X, y)
    assert state.randint(2**31 - 1) == expected.randint(2**31 - 1)


def test_without_a_seed_all_comparisons_use_the_same_folds(monkeypatch):
    """The target and its logarithm are compared row by row, and then the settings."""
    made = []
    first = CrossValidator.__init__

    def record(self, *args, **options):
        first(self, *args, **options)
        made.append(self)

    monkeypatch.setattr(CrossValidator, "__init__", record)
    X, y = table(TAGIRegressor)
    TAGIRegressor(hidden_layer_sizes=(4,), epochs=2, n_estimators=1, random_state=None).fit(X, y)
    assert len(made) == 3
    for trials in made[1:]:
        assert trials.seed == made[0].seed
        for mine, other in zip(trials.folds, made[0].folds, strict=True):
            assert mine.tolist() == other.tolist()
    other_fit = made[0].seed
    TAGIRegressor(hidden_layer_sizes=(4,), epochs=2, n_estimators=1, random_state=None).fit(X, y)
    assert made[3].seed != other_fit
