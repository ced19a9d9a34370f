"""A valid file of every kind, its loading function, and numbers that identify its content."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.persistence import made
from tests.persistence.made import data
from tractable import agents, forecast, generative
from tractable import sklearn as estimators
from tractable.cli.tables import model_file as tables
from tractable.learners import Learner
from tractable.persistence import model_file
from tractable.persistence.model_file import Header, Tensors


@dataclass(frozen=True)
class Kind:
    """A kind of file.

    Attributes:
        load: function that loads the file.
        numbers: content as an array, which must be finite.
    """

    load: Callable[[Path], Any]
    numbers: Callable[[Any], Any]


def predictions(learner: Any) -> Any:
    width = next(iter(learner.method.network.shapes.values()))[1]
    rows = torch.cat([data()[0][:5]] * 2, dim=1)[:, :width]
    found = learner.predict(rows)
    return torch.cat([found.mean.flatten(), found.variance.flatten()]).double().numpy()


def estimates(estimator: Any) -> Any:
    x = np.tile(data()[0][:5].numpy(), 2)[:, : estimator.n_features_in_]
    if hasattr(estimator, "predict_proba"):
        return np.append(estimator.predict_proba(x), len(estimator.predict(x)))
    return np.stack(estimator.predict(x, return_std=True))


def choices(agent: Any) -> Any:
    acts = [agent.act(row) for row in data()[0][:3].tolist()]
    return np.append(predictions(agent.learner), acts)


def actions(agent: Any) -> Any:
    return agent.predict(np.array([1.0, 0.0, 0.0]), deterministic=True)[0]


LEARNER = Kind(Learner.load, predictions)
KINDS = {
    **dict.fromkeys(["tagi", "tagi_norm", "tagi_classes", "tagi_float64", "bbb"], LEARNER),
    **dict.fromkeys(["bbb_mixture", "backprop", "dropout", "ensemble", "ensemble_tagi"], LEARNER),
    "regressor": Kind(estimators.TAGIRegressor.load, estimates),
    "classifier": Kind(estimators.BBBClassifier.load, estimates),
    "table": Kind(tables.read, lambda held: estimates(held.estimator)),
    **dict.fromkeys(
        ["bandit_tagi", "bandit_bbb", "bandit_statistics", "bandit_ensemble"],
        Kind(agents.Bandit.load, choices),
    ),
    "control": Kind(agents.TAGIControl.load, actions),
}
KINDS |= {
    **dict.fromkeys((name for name in made.LEARNERS if name not in KINDS), LEARNER),
    **dict.fromkeys(made.FORECASTERS, Kind(forecast.Forecaster.load, made.forecasts)),
    **dict.fromkeys(made.GENERATIVE, Kind(generative.GenerativeModel.load, made.densities)),
    **{
        name: Kind(getattr(estimators, name.split("_")[0]).load, made.estimates)
        for name in made.ESTIMATORS
        if name not in KINDS
    },
    "row_table": Kind(made.RowModel.load, lambda held: made.densities(held.model)),
    "q_agent": Kind(agents.QAgent.load, made.values),
    "q_agent_heads": Kind(agents.QAgent.load, made.values),
    "policy_gradient": Kind(agents.PolicyGradient.load, made.preferences),
    "actor_critic": Kind(agents.ActorCritic.load, made.preferences),
}


def good_file(name: str) -> Path:
    """Path of a good file of this kind."""
    return made.good_file(name)


def contents(name: str) -> tuple[Tensors, Header]:
    """Tensors and header of a good file, to be changed and written again."""
    tensors, header = model_file.read(good_file(name))
    header.pop("format")
    return tensors, header


def write_good(name: str, path: Path) -> Path:
    """A good file of today's format."""
    model_file.write(path, *contents(name))
    return path
