"""Regressors of counts, angles and odd noises, and classifiers of levels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tractable.errors import InvalidTarget
from tractable.sklearn import (
    BackpropClassifier,
    BackpropRegressor,
    BBBClassifier,
    BBBRegressor,
    TAGIClassifier,
    TAGIRegressor,
)
from tractable.sklearn.targets import KINDS

RNG = np.random.default_rng(0)
X = RNG.normal(size=(160, 2))
F = np.sin(X[:, 0]) + 0.5 * X[:, 1]
NOISE = RNG.normal(size=160)
TARGETS = {
    "normal": F + 0.2 * NOISE,
    "heteroscedastic": F + 0.2 * np.exp(X[:, 1] / 2) * NOISE,
    "laplace": 50 + 10 * (F + 0.2 * RNG.laplace(size=160)),
    "student_t": 50 + 10 * (F + 0.2 * RNG.standard_t(3, size=160)),
    "mixture": 50 + 10 * (F * RNG.choice([-1, 1], 160) + 0.1 * NOISE),
    "poisson": RNG.poisson(np.exp(1 + F)),
    "negative_binomial": RNG.poisson(np.exp(1 + F) * RNG.gamma(2, 0.5, size=160)),
    "von_mises": np.mod(2 * F + RNG.vonmises(0, 6, 160), 2 * np.pi),
}
QUICK: dict[str, Any] = {"hidden_layer_sizes": (8,), "random_state": 0, "epochs": 4}
SMALL = {
    TAGIRegressor: {**QUICK, "n_estimators": 2, "calibrate": True},
    BBBRegressor: {**QUICK, "n_weight_samples": 8},
    BackpropRegressor: QUICK,
}


def test_every_likelihood_has_test_targets() -> None:
    assert TARGETS.keys() == KINDS.keys()


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("kind", SMALL)
def test_fit_predict_save_load(kind: type[Any], name: str, tmp_path: Path) -> None:
    y = TARGETS[name]
    options = dict(SMALL[kind])
    if name not in ("normal", "poisson", "negative_binomial"):  # to save time
        options["calibrate"] = False
    model = kind(likelihood=name, **options).fit(X[:120], y[:120])
    new, seen = X[120:140], y[120:140]
    mean, std = model.predict(new, return_std=True)
    assert mean.shape == std.shape == (20,)
    assert (std > 0).all()
    ends = model.predict_interval(new, 0.9)
    assert (ends[:, 0] <= ends[:, 1]).all()
    inside = model.predictive(new).unwrapped(_tensor(seen)).numpy()
    assert np.mean((ends[:, 0] <= inside) & (inside <= ends[:, 1])) > 0.6
    assert np.isfinite(model.log_prob(new, seen)).all()
    assert model.sample(new, 3, random_state=0).shape == (3, 20)
    model.save(tmp_path / "model")
    again = kind.load(tmp_path / "model")
    assert again.likelihood == name
    if kind is not BBBRegressor:  # which draws anew
        assert (again.predict(new) == mean).all()
    model.partial_fit(new, seen)


def _tensor(y: np.ndarray) -> Any:
    import torch

    return torch.as_tensor(y)


def test_counts_are_better_predicted_as_counts() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(600, 2))
    y = rng.poisson(np.exp(0.5 + 0.8 * x[:, 0]))
    options: dict[str, Any] = {
        "random_state": 0,
        "n_estimators": 2,
        "epochs": 10,
        "hidden_layer_sizes": (16,),
    }
    scores = {
        name: TAGIRegressor(likelihood=name, **options)
        .fit(x[:400], y[:400])
        .score_log_likelihood(x[400:], y[400:])
        for name in ("normal", "poisson")
    }
    # The true rates, which nobody can beat by more than chance.
    rate = np.exp(0.5 + 0.8 * x[400:, 0])
    seen = y[400:]
    log_factorial = np.array([np.log(np.arange(1, k + 1)).sum() for k in seen])
    best = float(np.mean(seen * np.log(rate) - rate - log_factorial))
    assert scores["normal"] + 0.05 < scores["poisson"] < best + 0.05
    assert scores["poisson"] > best - 0.1


@pytest.mark.parametrize(
    ("name", "bad", "message"),
    [
        ("poisson", -1.0, "in row 7"),
        ("negative_binomial", 0.5, "in row 7"),
        ("von_mises", 350.0, "radians.* in row 7"),
    ],
)
def test_bad_targets_are_named_before_training(name: str, bad: float, message: str) -> None:
    y = TARGETS[name].astype(float)
    y[7] = bad
    with pytest.raises(InvalidTarget, match=message):
        TAGIRegressor(likelihood=name).fit(X, y)


def test_an_unknown_likelihood_is_refused() -> None:
    with pytest.raises(ValueError, match="poisson"):
        TAGIRegressor(likelihood="counts").fit(X, TARGETS["poisson"])


def test_several_counts_in_a_row() -> None:
    y = np.stack([TARGETS["poisson"], TARGETS["negative_binomial"]], 1)
    options: dict[str, Any] = {
        "n_estimators": 1,
        "epochs": 3,
        "hidden_layer_sizes": (8,),
        "calibrate": False,
    }
    model = TAGIRegressor(likelihood="negative_binomial", **options)
    model.fit(X, y)
    assert model.predict(X).shape == (160, 2)
    assert model.predict_interval(X).shape == (160, 2, 2)


# --- levels ----------------------------------------------------------------------------------

GRADES = np.digitize(F + 0.3 * NOISE, [-1, 0, 1])
NAMES = np.array(["low", "fair", "good", "best"])
CLASSIFIERS = {
    TAGIClassifier: {**QUICK, "n_estimators": 2, "calibrate": False},
    BBBClassifier: {**QUICK, "n_weight_samples": 8},
    BackpropClassifier: QUICK,
}


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_classes_have_the_given_order(kind: type[Any], tmp_path: Path) -> None:
    labels = NAMES[GRADES]
    model = kind(ordered=NAMES.tolist(), **CLASSIFIERS[kind]).fit(X, labels)
    assert model.classes_.tolist() == NAMES.tolist()
    assert model.score(X, labels) > 0.5
    predictive = model.predictive(X)
    assert predictive.ordered  # so that levels have quantiles
    model.save(tmp_path / "model")
    again = kind.load(tmp_path / "model")
    assert again.classes_.tolist() == NAMES.tolist()
    if kind is not BBBClassifier:
        assert (again.predict_proba(X) == model.predict_proba(X)).all()
    model.partial_fit(X[:5], labels[:5])


def test_ordered_numbers_are_sorted() -> None:
    named = TAGIClassifier(ordered=NAMES.tolist(), **CLASSIFIERS[TAGIClassifier])
    plain = TAGIClassifier(ordered=True, **CLASSIFIERS[TAGIClassifier])
    named.fit(X, NAMES[GRADES])
    plain.fit(X, GRADES)
    np.testing.assert_array_equal(named.predict_proba(X), plain.predict_proba(X))
    assert plain.learner_.likelihood.levels == 4


def test_an_ordered_class_may_have_no_rows() -> None:
    labels = NAMES[GRADES]
    model = TAGIClassifier(ordered=[*NAMES, "perfect"], **CLASSIFIERS[TAGIClassifier])
    model.fit(X, labels)
    assert model.predict_proba(X).shape == (160, 5)


@pytest.mark.parametrize(
    ("ordered", "message"),
    [
        (["low", "good"], "best.*fair"),
        ([*NAMES, "low"], "more than once"),
        ("low fair good best", "list"),
    ],
)
def test_an_order_that_does_not_fit_is_refused(ordered: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TAGIClassifier(ordered=ordered).fit(X, NAMES[GRADES])
