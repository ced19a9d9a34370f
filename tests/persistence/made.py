"""Small good files of every kind of saved object, made when they are first needed.

The files of ``tests/golden`` were written by earlier versions and do not cover everything that
has a ``save`` method.  These do; ``test_every_kind_of_saved_object_has_a_file`` checks it.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import tractable as tr
from tractable import agents
from tractable import generative as g
from tractable import sklearn as estimators
from tractable.cli.errors import BadUse
from tractable.cli.table import rows as row_tables
from tractable.forecast import Forecaster

ROWS = np.random.default_rng(0).standard_normal((60, 3)) @ np.array(
    [[1.0, 0.5, 0.0], [0.0, 1.0, 0.3], [0.0, 0.0, 0.5]]
)


@cache
def folder() -> tempfile.TemporaryDirectory[str]:
    """Where the files of this process are; removed when it ends."""
    return tempfile.TemporaryDirectory(prefix="tractable-good-")


@cache
def good_file(name: str) -> Path:
    """Path of the good file of this kind."""
    path = Path(folder().name) / f"{name}.tr"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few rows, so few epochs
        MAKERS[name]().save(path)
    return path


# --- forecasters -------------------------------------------------------------------------------


def series(rows: int = 120, seed: int = 0) -> Any:
    t = np.arange(rows)
    noise = np.random.default_rng(seed).standard_normal(rows)
    return 10 + np.sin(t / 3) + 0.1 * noise


def forecaster(**more: Any) -> Forecaster:
    options = {"lags": 6, "level": "last", "epochs": 1, "batch_size": 16, "validation": 40}
    return Forecaster(**{"net": "linear", "horizon": 2, **options, **more}).fit(series())


def forecasts(model: Forecaster) -> Any:
    found = model.predict()
    return np.stack([found.mean, found.std])


# --- models of rows ----------------------------------------------------------------------------


def mlp(*widths: int) -> nn.Sequential:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for i, (into, out) in enumerate(pairwise(widths)):
        layers += [nn.Tanh()] * (i > 0) + [nn.Linear(into, out)]
    return nn.Sequential(*layers)


def vae(**more: Any) -> g.VAE:
    return g.VAE(
        mlp(3, 6, 4), mlp(2, 6, 6), tr.likelihoods.HeteroscedasticNormal(3), latent=2, **more
    )


def gan(**more: Any) -> g.GAN:
    return g.GAN(mlp(2, 6, 3), mlp(3, 6, 1), latent=2, **more)


def fitted(model: g.Generative, **options: Any) -> g.Generative:
    return model.fit(ROWS, progress=False, **options)


def densities(model: g.Generative) -> Any:
    found = model.predict(np.zeros((2, 1)) if model.context_columns_ is not None else None)
    rows = found.sample(3).double().numpy()
    if isinstance(model, g.GAN):
        return rows
    scores = found.log_prob(ROWS[:2]).double().numpy()
    return np.append(rows.ravel(), scores)


@dataclass
class RowModel:
    """The model that ``tractable density`` writes, with its table."""

    model: g.Generative
    table: row_tables.RowTable

    def save(self, path: Path) -> None:
        row_tables.save(path, self.model, self.table)

    @classmethod
    def load(cls, path: Path) -> RowModel:
        """Raise the error that the command line reports in its own words."""
        try:
            return cls(*row_tables.load(path))
        except BadUse as error:
            raise error.__cause__ or error from error


def row_model() -> RowModel:
    columns = tuple(row_tables.RowColumn(name) for name in "abc")
    return RowModel(GENERATIVE["mixture"](), row_tables.RowTable(columns))


def cross(context: Any, x: Any, model: g.Generative, **options: Any) -> g.Generative:
    return model.fit(context, x, progress=False, **options)


# --- agents ------------------------------------------------------------------------------------


def values(agent: agents.QAgent) -> Any:
    rows = np.eye(4)[:3]
    found = [critic.learner.predict(torch.eye(4)[:3]).mean.flatten() for critic in agent.critics]
    return np.append(torch.cat(found).double().numpy(), agent.predict(rows, deterministic=True)[0])


def preferences(agent: Any) -> Any:
    found = agent.actor.probabilities(agent.inputs(np.eye(4)[:3])).double().numpy()
    if agent.critic is not None:
        known = agent.critic.learner.predict(torch.eye(4)[:3]).mean.double().numpy()
        found = np.append(found, known)
    return found


def q_agent(**more: Any) -> agents.QAgent:
    options = {"hidden": (6,), "horizon": 16, "replay": 40, "replays": 1, **more}
    return agents.QAgent("CartPole-v1", **options).learn(40)


# --- estimators --------------------------------------------------------------------------------


def table(kind: str) -> tuple[Any, Any]:
    y = ROWS[:, 0] + 0.1 * np.random.default_rng(1).standard_normal(len(ROWS))
    return ROWS[:, 1:], y if kind == "Regressor" else np.array(["no", "yes"])[(y > 0).astype(int)]


def estimator(method: str, kind: str, **more: Any) -> Any:
    made = getattr(estimators, method + kind)
    options = {"hidden": (4,), "epochs": 2, "random_state": 0, **more}
    if method == "TAGI":
        options = {"members": 2, **options}
    if method == "BBB":
        options = {"draws": 3, **options}
    return made(**options).fit(*table(kind))


def with_gaps() -> Any:
    x, y = table("Regressor")
    x = np.where(np.random.default_rng(2).random(x.shape) < 0.1, np.nan, x)
    return estimators.TAGIRegressor((4,), epochs=2, members=1, random_state=0).fit(x, y)


def estimates(found: Any) -> Any:
    x = table("Regressor")[0][:5]
    if hasattr(found, "predict_proba"):
        return found.predict_proba(x)
    return np.stack(found.predict(x, return_std=True))


# --- learners that the golden files do not have ------------------------------------------------


def laplace(structure: Any) -> tr.Learner:
    model = tr.Laplace(mlp(2, 4, 1), tr.likelihoods.Normal(), structure=structure)
    return model.fit(ROWS[:, 1:], ROWS[:, 0], epochs=2, progress=False)


Maker = Callable[[], Any]
FORECASTERS: dict[str, Maker] = {
    "forecaster": forecaster,
    "forecaster_recursive": lambda: forecaster(strategy="recursive", spread="paths"),
    "forecaster_members": lambda: forecaster(members=2, net=(4,)),
}
GENERATIVE: dict[str, Maker] = {
    "autoregressive": lambda: fitted(g.Autoregressive((6,), held_out=0.2), epochs=1),
    "autoregressive_members": lambda: fitted(g.Autoregressive((6,), members=2), epochs=1),
    "diffusion": lambda: fitted(g.Diffusion((6,), steps=5), epochs=1, copies=1),
    "diffusion_context": lambda: cross(
        ROWS[:, :1], ROWS, g.Diffusion((6,), steps=5), epochs=1, copies=1
    ),
    "flow": lambda: fitted(g.Flow(hidden=(6,), transforms=1), epochs=1),
    "gan": lambda: fitted(gan(), epochs=1),
    "mixture": lambda: fitted(g.GaussianMixture(2, starts=1, iterations=5)),
    "mixture_members": lambda: fitted(g.GaussianMixture(members=2, starts=1, iterations=5)),
    "latent": lambda: fitted(g.Latent(mlp(1, 6, 3), latent=1), epochs=1),
    "vae": lambda: fitted(vae(), epochs=1),
    "vae_members": lambda: fitted(vae(members=2), epochs=1),
}
AGENTS: dict[str, Maker] = {
    "q_agent": q_agent,
    "q_agent_heads": lambda: q_agent(heads=2, double=True, surprising=10, target_every=1),
    "policy_gradient": lambda: agents.PolicyGradient("CartPole-v1", hidden=(6,), episodes=2).learn(
        40
    ),
    "actor_critic": lambda: agents.ActorCritic(
        "CartPole-v1", hidden=(6,), horizon=20, batch_size=10, epochs=1
    ).learn(40),
}
ESTIMATORS: dict[str, Maker] = {
    **{
        f"{method}{kind}": lambda method=method, kind=kind: estimator(method, kind)
        for method in ("TAGI", "BBB", "Net", "Laplace")
        for kind in ("Regressor", "Classifier")
    },
    "TAGIRegressor_gaps": with_gaps,
    "TAGIClassifier_ordered": lambda: estimator("TAGI", "Classifier", ordered=["yes", "no"]),
}
LEARNERS: dict[str, Maker] = {
    "laplace": lambda: laplace("diagonal"),
    "laplace_last_layer": lambda: laplace("last_layer"),
}
ROW_TABLES: dict[str, Maker] = {"row_table": row_model}
MAKERS = {**ROW_TABLES, **FORECASTERS, **GENERATIVE, **AGENTS, **ESTIMATORS, **LEARNERS}
