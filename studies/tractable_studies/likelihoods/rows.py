"""Training and test rows: bike rentals, wind, an inverse problem, UCI tables."""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tractable.data import RegressionData
from tractable.data.download import FOLDER
from tractable.errors import DataNotFound

NUMBERS = ("holiday", "workingday", "temp", "atemp", "hum", "windspeed")
NAMES = ("mnth", "hr", "weathersit", "weekday")
TEST_SHARE = 0.2


@dataclass(frozen=True)
class Task:
    """Standardized inputs and targets of training and test rows."""

    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor


def local(name: str, source: str) -> Path:
    """Return the path of a file in the local folder of data sets.

    Raises:
        DataNotFound: it is not there.
    """
    folder = os.environ.get(FOLDER, "")
    path = Path(folder).expanduser() / name
    if not folder or not path.is_file():
        raise DataNotFound(f"{name} is not in the folder that {FOLDER} names: it is {source}")
    return path


def bike_file() -> Path:
    """Return the path of the counts."""
    return local("counts/Bikeshare.csv", "data/Bikeshare.csv of the package ISLP")


def wind_file() -> Path:
    """Return the path of the wind directions."""
    return local("circular/wind.csv", "the set wind of the package pycircstat2")


def winds(path: Path) -> Task:
    """Return wind directions, five a day, with the two before and the time of day as inputs.

    The last fifth is the test set.
    """
    with path.open(newline="") as file:
        y = np.array([float(line["x"]) for line in csv.DictReader(file)])
    hours = np.eye(5)[np.arange(len(y)) % 5]
    before = [turn(y[2 - k : len(y) - k]) for k in (1, 2) for turn in (np.sin, np.cos)]
    x = np.concatenate([np.stack(before, 1), hours[2:]], 1)
    y = y[2:, None]
    start = len(y) - int(TEST_SHARE * len(y))
    x = (x - x[:start].mean(0)) / x[:start].std(0)
    parts = (x[:start], y[:start], x[start:], y[start:])
    return Task(*(torch.tensor(part, dtype=torch.float32) for part in parts))


def bikes(path: Path, seed: int) -> Task:
    """Return hourly counts of rented bikes; a fifth of the hours is the test set.

    Names of months, hours, weather and weekdays are one column each for every value.
    """
    with path.open(newline="") as file:
        lines = list(csv.DictReader(file))
    columns = [np.array([[float(line[name]) for name in NUMBERS] for line in lines])]
    for name in NAMES:
        seen = sorted({line[name] for line in lines})
        columns.append(np.array([[float(line[name] == value) for value in seen] for line in lines]))
    x = np.concatenate(columns, 1)
    y = np.array([[float(line["bikers"])] for line in lines])
    order = np.random.default_rng(seed).permutation(len(y))
    test, train = np.split(order, [int(TEST_SHARE * len(y))])
    x = (x - x[train].mean(0)) / (x[train].std(0) + 1e-9)
    parts = (x[train], y[train], x[test], y[test])
    return Task(*(torch.tensor(part, dtype=torch.float32) for part in parts))


def inverse(rows: int, seed: int) -> Task:
    """Return rows of ``x = t + 0.3 sin(2 pi t) + noise``, with target t (Bishop 1994)."""
    generator = torch.Generator().manual_seed(seed)
    t, u = torch.rand(2, 2 * rows, 1, generator=generator)
    x = t + 0.3 * torch.sin(2 * torch.pi * t) + 0.1 * (2 * u - 1)
    x, y = (x - x[:rows].mean()) / x[:rows].std(), (t - t[:rows].mean()) / t[:rows].std()
    return Task(x[:rows], y[:rows], x[rows:], y[rows:])


def published(data: RegressionData, split: int, *, levels: bool = False) -> Task:
    """Return a published split of a UCI table; ``levels`` numbers whole targets from 0."""
    x, y, x_test, y_test = data.split(split)
    centre, scale = x.mean(0), x.std(0)
    x, x_test = (x - centre) / scale, (x_test - centre) / scale
    if levels:
        least = data.targets.min()
        return Task(x, (y - least).long().flatten(), x_test, (y_test - least).long().flatten())
    return Task(x, (y - y.mean()) / y.std(), x_test, (y_test - y.mean()) / y.std())
