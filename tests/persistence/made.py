"""Small valid files of every kind of saved object, created on first use.

``test_every_kind_of_saved_object_has_a_file`` checks that there is one for every class with a
``save`` method.
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
from typer.testing import CliRunner

import tractable as tr
from tractable import agents
from tractable import generative as g
from tractable import sklearn as estimators
from tractable.cli.app import app
from tractable.cli.errors import UsageError
from tractable.cli.tables import row_table as row_tables
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
    options = {"lags": 6, "normalize_by": "last", "epochs": 1, "batch_size": 16, "n_validation": 40}
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
        mlp(3, 6, 4), mlp(2, 6, 6), tr.likelihoods.HeteroscedasticNormal(3), latent_dim=2, **more
    )


def gan(**more: Any) -> g.GAN:
    return g.GAN(mlp(2, 6, 3), mlp(3, 6, 1), latent_dim=2, **more)


def fitted(model: g.GenerativeModel, **options: Any) -> g.GenerativeModel:
    return model.fit(ROWS, progress=False, **options)


def densities(model: g.GenerativeModel) -> Any:
    found = model.predict(np.zeros((2, 1)) if model.context_scaler_ is not None else None)
    rows = found.sample(3).double().numpy()
    if isinstance(model, g.GAN):
        return rows
    scores = found.log_prob(ROWS[:2]).double().numpy()
    return np.append(rows.ravel(), scores)


@dataclass
class RowModel:
    """The model that ``tractable density`` writes, with its table."""

    model: g.GenerativeModel
    table: row_tables.RowTable

    def save(self, path: Path) -> None:
        row_tables.save(path, self.model, self.table)

    @classmethod
    def load(cls, path: Path) -> RowModel:
        """Raise the error that the command line reports in its own words."""
        try:
            return cls(*row_tables.load(path))
        except UsageError as error:
            raise error.__cause__ or error from error


def row_model() -> RowModel:
    columns = tuple(row_tables.RowColumn(name) for name in "abc")
    return RowModel(GENERATIVE["mixture"](), row_tables.RowTable(columns))


def cross(context: Any, x: Any, model: g.GenerativeModel, **options: Any) -> g.GenerativeModel:
    return model.fit(x, context, progress=False, **options)


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
    options = {
        "hidden_layer_sizes": (6,),
        "train_freq": 16,
        "buffer_size": 40,
        "gradient_steps": 1,
        **more,
    }
    return agents.QAgent("CartPole-v1", **options).learn(40)


# --- estimators --------------------------------------------------------------------------------


def table(kind: str) -> tuple[Any, Any]:
    y = ROWS[:, 0] + 0.1 * np.random.default_rng(1).standard_normal(len(ROWS))
    return ROWS[:, 1:], y if kind == "Regressor" else np.array(["no", "yes"])[(y > 0).astype(int)]


def estimator(method: str, kind: str, **more: Any) -> Any:
    made = getattr(estimators, method + kind)
    options = {"hidden_layer_sizes": (4,), "epochs": 2, "random_state": 0, **more}
    if method == "TAGI":
        options = {"n_estimators": 2, **options}
    if method == "BBB":
        options = {"n_weight_samples": 3, **options}
    return made(**options).fit(*table(kind))


def first_table(labels: bool) -> tuple[Any, Any]:
    x, y, classes = data()
    return x.numpy(), np.array(["a", "bb", "ccc"])[classes.numpy()] if labels else y.numpy()


def with_gaps() -> Any:
    x, y = table("Regressor")
    x = np.where(np.random.default_rng(2).random(x.shape) < 0.1, np.nan, x)
    return estimators.TAGIRegressor((4,), epochs=2, n_estimators=1, random_state=0).fit(x, y)


def estimates(found: Any) -> Any:
    x = table("Regressor")[0][:5]
    if hasattr(found, "predict_proba"):
        return found.predict_proba(x)
    return np.stack(found.predict(x, return_std=True))


# --- learners ----------------------------------------------------------------------------------


def data(rows: int = 60) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Inputs, numeric targets and labels."""
    generator = torch.Generator().manual_seed(0)
    x = 2 * torch.rand(rows, 2, generator=generator) - 1
    y = x[:, 0] - 0.5 * x[:, 1] + 0.1 * torch.randn(rows, generator=generator)
    return x, y, (y > 0).long() + (y > 0.5).long()


def net(outputs: int = 1, *extra: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 8), *extra, nn.ReLU(), nn.Linear(8, outputs))


def learner(model: tr.Learner, *, labels: bool = False) -> tr.Learner:
    return model.fit(data()[0], data()[1 + labels], epochs=2, batch_size=16, progress=False)


def bandit(model: tr.Learner, steps: int = 20, **options: Any) -> agents.Bandit:
    agent = agents.Bandit(model, n_features=2, n_actions=2, **options)
    x, y, _ = data()
    for context, reward in zip(x[:steps].tolist(), y[:steps].tolist(), strict=True):
        agent.update(context, agent.act(context), reward)
    return agent


def control() -> agents.TAGIControl:
    widths: Any = {"policy_hidden_layer_sizes": (8,), "value_hidden_layer_sizes": (8, 8)}
    agent = agents.TAGIControl("Pendulum-v1", seed=1, n_steps=32, batch_size=16, **widths)
    return agent.learn(64)


class CSVTable:
    """Writes a model file by the command ``tractable fit``."""

    def save(self, path: Path) -> None:
        source = path.with_name("houses.csv")
        rows = [f"{a},{'old' if b > 0 else 'new'},{c}" for a, b, c in ROWS.round(3).tolist()]
        source.write_text("\n".join(["size,age,price", *rows]) + "\n")
        folder = path.with_name("houses")
        words = ["fit", str(source), "--target", "price", "--out", str(folder), "--epochs", "2"]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
        next(folder.glob("*.tr")).rename(path)


def laplace(structure: Any) -> tr.Learner:
    model = tr.Laplace(mlp(2, 4, 1), tr.likelihoods.Normal(), structure=structure)
    return model.fit(ROWS[:, 1:], ROWS[:, 0], epochs=2, progress=False)


Maker = Callable[[], Any]
_like: Any = tr.likelihoods
FORECASTERS: dict[str, Maker] = {
    "forecaster": forecaster,
    "forecaster_recursive": lambda: forecaster(strategy="recursive", uncertainty="paths"),
    "forecaster_members": lambda: forecaster(n_estimators=2, net=(4,)),
}
GENERATIVE: dict[str, Maker] = {
    "autoregressive": lambda: fitted(g.Autoregressive((6,), validation_fraction=0.2), epochs=1),
    "autoregressive_members": lambda: fitted(g.Autoregressive((6,), n_estimators=2), epochs=1),
    "diffusion": lambda: fitted(g.Diffusion((6,), steps=5), epochs=1, noise_copies=1),
    "diffusion_context": lambda: cross(
        ROWS[:, :1], ROWS, g.Diffusion((6,), steps=5), epochs=1, noise_copies=1
    ),
    "flow": lambda: fitted(g.Flow(hidden_layer_sizes=(6,), n_transforms=1), epochs=1),
    "gan": lambda: fitted(gan(), epochs=1),
    "mixture": lambda: fitted(g.GaussianMixture(2, n_init=1, max_iter=5)),
    "mixture_members": lambda: fitted(g.GaussianMixture(n_estimators=2, n_init=1, max_iter=5)),
    "latent": lambda: fitted(g.LatentDecoder(mlp(1, 6, 3), latent_dim=1), epochs=1),
    "vae": lambda: fitted(vae(), epochs=1),
    "vae_members": lambda: fitted(vae(n_estimators=2), epochs=1),
}
BANDITS: dict[str, Maker] = {
    "bandit_tagi": lambda: bandit(tr.TAGI(nn.Linear(4, 1), _like.Normal(0.3))),
    "bandit_bbb": lambda: bandit(
        tr.BayesByBackprop(nn.Linear(4, 1), _like.Normal(), n_weight_samples=3)
    ),
    "bandit_statistics": lambda: bandit(
        tr.BayesByBackprop(nn.Linear(4, 1), _like.Normal()),
        21,
        replay=agents.BanditReplay(batch_size=4),
    ),
    "bandit_ensemble": lambda: bandit(
        tr.Ensemble(nn.Linear(4, 1), _like.Normal(), n_estimators=2),
        21,
        replay=agents.BanditReplay(batch_size=4),
    ),
}
AGENTS: dict[str, Maker] = {
    "control": control,
    "q_agent": q_agent,
    "q_agent_heads": lambda: q_agent(
        n_critics=2, double_q=True, priority_buffer_size=10, target_update_interval=1
    ),
    "policy_gradient": lambda: agents.PolicyGradient(
        "CartPole-v1", hidden_layer_sizes=(6,), episodes_per_update=2
    ).learn(40),
    "actor_critic": lambda: agents.ActorCritic(
        "CartPole-v1", hidden_layer_sizes=(6,), n_steps=20, batch_size=10, epochs=1
    ).learn(40),
}
ESTIMATORS: dict[str, Maker] = {
    **{
        f"{method}{kind}": lambda method=method, kind=kind: estimator(method, kind)
        for method in ("TAGI", "BBB", "Backprop", "Laplace")
        for kind in ("Regressor", "Classifier")
    },
    "regressor": lambda: estimators.TAGIRegressor((8,), random_state=0).fit(*first_table(False)),
    "classifier": lambda: estimators.BBBClassifier(
        (8,), epochs=2, n_weight_samples=5, random_state=0
    ).fit(*first_table(True)),
    "TAGIRegressor_gaps": with_gaps,
    "TAGIClassifier_ordered": lambda: estimator("TAGI", "Classifier", ordered=["yes", "no"]),
}
LEARNERS: dict[str, Maker] = {
    "tagi": lambda: learner(tr.TAGI(net(), _like.Normal())),
    "tagi_norm": lambda: learner(tr.TAGI(net(1, nn.BatchNorm1d(8)), _like.Normal(0.1))),
    "tagi_classes": lambda: learner(tr.TAGI(net(2), _like.Categorical(3)), labels=True),
    "tagi_float64": lambda: learner(tr.TAGI(net(), _like.Normal(0.1), dtype=torch.float64)),
    "bbb": lambda: learner(tr.BayesByBackprop(net(), _like.Normal(), n_weight_samples=5, lr=1e-2)),
    "bbb_mixture": lambda: learner(
        tr.BayesByBackprop(
            net(3),
            _like.Softmax(3),
            prior=tr.priors.ScaleMixture(0.5, 1.0, 0.05),
            n_weight_samples=5,
        ),
        labels=True,
    ),
    "backprop": lambda: learner(tr.Backprop(net(), _like.Normal(), prior=tr.priors.Laplace(1.0))),
    "dropout": lambda: learner(
        tr.Backprop(net(1, nn.Dropout(0.2)), _like.Normal(0.1), mc_dropout=True, n_weight_samples=5)
    ),
    "ensemble": lambda: learner(tr.Ensemble(net(), _like.Normal(), n_estimators=2)),
    "ensemble_tagi": lambda: learner(
        tr.Ensemble(net(), _like.Normal(), n_estimators=2, learner=tr.TAGI)
    ),
    "laplace": lambda: laplace("diagonal"),
    "laplace_last_layer": lambda: laplace("last_layer"),
}
ROW_TABLES: dict[str, Maker] = {"row_table": row_model, "table": CSVTable}
MAKERS = {**ROW_TABLES, **BANDITS, **FORECASTERS, **GENERATIVE, **AGENTS, **ESTIMATORS, **LEARNERS}
