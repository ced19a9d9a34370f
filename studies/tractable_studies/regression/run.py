"""Regression on a short interval: Bayes by Backprop, ensembles and TAGI; Tables 1 and 2.

Section 4.1 of "Weight uncertainty in neural networks" (a replication of Bayes by Backprop): 8 x 128
points of eq. (22) on [0, 0.5], 1,000 evaluation points on [-0.5, 1.5], two hidden layers of 400
ReLU units.  The random term of eq. (22) has the standard deviation 0.02.  A finished model is kept
in the folder, and a killed run goes on from its checkpoint.

    python -m tractable_studies.regression.run
    python -m tractable_studies.regression.run --quick
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tractable import metrics, priors
from tractable.cli.output import print_line, print_table
from tractable.learners import TAGI, Backprop, BayesByBackprop, Checkpoint, Ensemble, Learner
from tractable.likelihoods import Normal
from tractable.predictive import NormalMixturePredictive
from tractable.report.calibration import from_coverage, interval_coverage
from tractable.report.results import Chart, Comparison
from tractable_studies.framework.options import (
    StudyOptions,
    option,
    parse,
    require,
    resume_option,
    seed_option,
    settings,
)
from tractable_studies.framework.progress import PartsProgress
from tractable_studies.framework.record import RunRecord
from tractable_studies.regression import STUDY

TABLE_1 = {0: -120.34, 1: -16.21, 2: -9.69}  # lppd by -log sigma
TABLE_2 = {  # lppd by -log sigma1, -log sigma2
    (0, 6): -32.40, (0, 7): -412.87, (0, 8): -184.17,
    (1, 6): -3.21, (1, 7): -22.46, (1, 8): -21.29,
    (2, 6): -21.58, (2, 7): -16.77, (2, 8): -16.20,
}  # fmt: skip
LOCAL = -26.03
ELBO_VARIANCE = {"weights": 444.8, "local": 244.0}
MILLISECONDS = {"weights": 317.8, "local": 211.7}
HEADER = [
    "model", "paper lppd", "ours", "inside", "RMSE inside", "5-95 % inside", "outside",
    "ms/epoch", "epochs",
]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    """Options: sizes, models and training."""

    seed: int = seed_option(0)
    resume: bool = resume_option()
    units: int = option(400, "per hidden layer", quick=40, min_value=1)
    epochs: int = option(1500, "over the data", quick=20, min_value=1)
    tagi_epochs: int = option(40, "number of epochs of TAGI", quick=5, min_value=1)
    models: list[str] | None = option(None, "only these, by name")
    members: int = option(25, "number of networks of an ensemble", quick=3, min_value=1)
    samples: int = option(5, "draws per step", min_value=1)
    draws: int = option(5000, "sets of weights to evaluate with", quick=100, min_value=1)
    lr: float = option(1e-3, "learning rate")

    def check(self) -> None:
        """Raise an error for unknown models."""
        require("models", self.models or (), configurations(self))


@dataclass(frozen=True)
class Curve:
    """Training and evaluation points."""

    x: Tensor
    y: Tensor
    at: Tensor
    seen: Tensor


def draw(seed: int) -> Curve:
    """Return the data of eq. (22)."""
    generator = torch.Generator().manual_seed(seed)
    x = 0.5 * torch.rand(8 * 128, 1, generator=generator)
    at = torch.linspace(-0.5, 1.5, 1000).unsqueeze(1)

    def curve(x: Tensor) -> Tensor:
        e = 0.02 * torch.randn(x.shape, generator=generator)
        turn = 2 * math.pi * (x + e)
        return x + 0.3 * turn.sin() + 0.3 * (2 * turn).sin() + e  # eq. (22)

    return Curve(x, curve(x), at, curve(at))


def network(units: int, dropout: float = 0.0) -> nn.Sequential:
    """Return two hidden layers."""
    drop = [nn.Dropout(dropout)] if dropout else []
    return nn.Sequential(
        nn.Linear(1, units), nn.ReLU(), *drop,
        nn.Linear(units, units), nn.ReLU(), *drop,
        nn.Linear(units, 1),
    )  # fmt: skip


def configurations(options: Options) -> dict[str, Callable[[], Learner]]:
    """Return all models by name."""
    shared: dict[str, Any] = {"lr": options.lr, "seed": options.seed}

    def bnn(prior: priors.Prior, noise: float = 0.1, estimator: str = "weights") -> Learner:
        return BayesByBackprop(
            network(options.units), Normal(noise), prior=prior, n_train_samples=options.samples,
            estimator=estimator, **shared,
        )  # fmt: skip

    def gaussian(minus_log: float) -> priors.Normal:
        return priors.Normal(math.exp(-minus_log))

    makers: dict[str, Callable[[], Learner]] = {}
    for s in TABLE_1:
        makers[f"gaussian-{s}"] = lambda s=s: bnn(gaussian(s))  # type: ignore[misc]
    makers["local-1"] = lambda: bnn(gaussian(1), estimator="local")
    for noise in (0.01, 1.0):
        makers[f"noise-{noise}"] = lambda noise=noise: bnn(gaussian(1), noise)  # type: ignore[misc]
    for a, b in TABLE_2:
        makers[f"mixture-{a}-{b}"] = lambda a=a, b=b: bnn(  # type: ignore[misc]
            priors.ScaleMixture(0.5, math.exp(-a), math.exp(-b))
        )
    makers["tagi"] = lambda: TAGI(
        network(options.units), Normal(0.1), seed=options.seed, robust=False
    )
    for name, dropout in (("dnns", 0.0), ("dnns-dropout", 0.5)):
        makers[name] = lambda dropout=dropout: Ensemble(  # type: ignore[misc]
            network(options.units, dropout),
            Normal(0.1),
            n_estimators=options.members,
            learner=Backprop,
            **shared,
        )
    return makers


def evaluate(model: Learner, data: Curve, draws: int) -> dict[str, Any]:
    """Return metrics of a trained model, inside and outside the training interval."""
    many = {"n_weight_samples": draws} if isinstance(model, BayesByBackprop) else {}
    predictive = model.predict(data.at, **many)
    if isinstance(predictive, NormalMixturePredictive):
        low, high = (predictive.means.quantile(q, 0) for q in (0.05, 0.95))
        width = high - low
    else:
        width = 2 * 1.6448536 * predictive.epistemic.sqrt()
    width = width.flatten()
    place = data.at.flatten()
    inside = (place >= 0) & (place <= 0.5)
    residual = (predictive.mean.flatten() - data.seen.flatten()).square()
    found: dict[str, Any] = {
        "lppd": metrics.lppd(predictive, data.seen),
        "lppd_inside": float(predictive.log_prob(data.seen)[inside].mean()),
        "rmse": metrics.rmse(predictive, data.seen),
        "rmse_inside": float(residual[inside].mean().sqrt()),
        "coverage_90": metrics.coverage(predictive, data.seen),
        "coverage_by_level": interval_coverage(predictive, data.seen),
        "band_5_95_inside": float(width[inside].mean()),
        "band_5_95_outside": float(width[~inside].mean()),
        "epochs": len(model.history),
        "milliseconds_per_epoch": 1000 * _median([e["seconds"] for e in model.history]),
    }
    if isinstance(model, BayesByBackprop):
        elbo = torch.tensor([e["elbo"] for e in model.history], dtype=torch.float64)
        found["elbo"] = float(elbo[-max(len(elbo) // 20, 1) :].mean())
        half = elbo[len(elbo) // 2 :]
        found["variance_of_elbo_differences"] = float(half.diff().var()) if len(half) > 2 else None
    return found


def show(name: str, model: Learner, data: Curve, record: RunRecord, folder: Path) -> None:
    """Plot predictive bands, and for a sampled posterior ten draws."""
    import matplotlib.pyplot as plt

    from tractable import plots

    many = {"n_weight_samples": 200} if isinstance(model, BayesByBackprop) else {}
    predictive = model.predict(data.at, **many)
    mixed = isinstance(predictive, NormalMixturePredictive)
    ax = plots.prediction_bands(
        data.at, predictive, data=(data.x, data.y), samples=10 if mixed else None, label=name
    )
    ax.set_ylim(-1.5, 2.5)
    ax.axvspan(0, 0.5, color="#eeeeee", zorder=0)
    figure: Any = ax.figure
    record.picture(folder, figure, name, f"{name}: predictive bands, data from the shaded interval")
    plt.close(figure)


def published_lppd() -> dict[str, float]:
    """Return the results of tables 1 and 2, by the names of our models."""
    published: dict[str, float] = {f"gaussian-{s}": v for s, v in TABLE_1.items()}
    published |= {f"mixture-{a}-{b}": v for (a, b), v in TABLE_2.items()}
    return {**published, "local-1": LOCAL}


def compare(found: Mapping[str, Any]) -> list[Comparison]:
    """Compare the log predictive densities, and the gain of local reparameterization."""
    published = published_lppd()
    rows = [
        Comparison(
            f"lppd, {name}", published.get(name), result["lppd"], better="larger", learner=name,
            measure="lppd",
            note=f"RMSE inside {result['rmse_inside']:.3f}, {result['epochs']} epochs",
        )
        for name, result in found.items()
    ]  # fmt: skip
    for kind, pair in found.get("local-1", {}).get("against_weights", {}).items():
        key = "variance_of_elbo_differences"
        rows.append(
            Comparison(
                f"variance of ELBO differences, {kind}",
                pair[f"published_{key}"],
                pair[key],
                better="smaller",
                learner=f"{kind} sampled",
                measure="variance of ELBO differences",
            )
        )
        rows.append(
            Comparison(
                f"time per epoch, {kind}",
                pair["published_ms_per_epoch"],
                pair["ms_per_epoch"],
                "ms",
                learner=f"{kind} sampled",
                measure="time per epoch",
                note="other machine, other sizes",
            )
        )
    return rows


def charts(record: RunRecord, models: Mapping[str, Learner]) -> list[Chart]:
    """Return charts of the ELBO of sampled posteriors and the log-likelihood of ensembles."""
    # The ELBO has another scale with another noise: such models would hide the others.
    histories = {n: model.history for n, model in models.items() if not n.startswith("noise")}
    ensembles = {n: history for n, history in histories.items() if n.startswith("dnns")}
    drawn = [
        record.learning_curves(histories, "elbo", title="ELBO by epoch", y_label="ELBO"),
        record.learning_curves(ensembles, "log_likelihood", title="Log-likelihood by epoch"),
    ]
    return [chart for chart in drawn if chart is not None]


def rows(found: dict[str, Any]) -> list[list[str]]:
    """Return the rows of the table: published lppd and ours."""
    published, made = published_lppd(), []
    for name, result in found.items():
        made.append(
            [
                name,
                f"{published[name]:.2f}" if name in published else "-",
                f"{result['lppd']:.2f}",
                f"{result['lppd_inside']:.2f}",
                f"{result['rmse_inside']:.3f}",
                f"{result['band_5_95_inside']:.2f}",
                f"{result['band_5_95_outside']:.2f}",
                f"{result['milliseconds_per_epoch']:.0f}",
                str(result["epochs"]),
            ]
        )
    return made


def main(argv: Sequence[str] | None = None) -> Path:
    """Train and evaluate all models, write and plot the results."""
    options = parse(Options, STUDY, argv, __doc__)
    makers = configurations(options)
    folder = options.out / "models"
    folder.mkdir(parents=True, exist_ok=True)
    data = draw(options.seed)
    record = RunRecord(STUDY, seeds=[options.seed], settings=settings(options), argv=argv)
    names, models = list(options.models or makers), {}
    with PartsProgress(len(names), "models", bar=False) as parts:
        for name in names:
            models[name] = train(name, makers[name](), data, options, folder / f"{name}.tr")
            record.metrics[name] = evaluate(models[name], data, options.draws)
            show(name, models[name], data, record, options.out)
            _finish(record, models)
            path = record.write(options.out)
            parts.step(f"{name}: lppd {record.metrics[name]['lppd']:.2f}")
    print_table(HEADER, rows(record.metrics))
    print_line(f"written to {path}")
    return path


def train(name: str, model: Learner, data: Curve, options: Options, path: Path) -> Learner:
    """Fit with a checkpoint at intervals."""
    if not options.resume:
        path.unlink(missing_ok=True)
    epochs = options.tagi_epochs if name == "tagi" else options.epochs
    every = max(epochs // 20, 1)
    return model.fit(
        data.x, data.y, epochs=epochs, batch_size=16 if name == "tagi" else 128,
        callbacks=[Checkpoint(path, every)], resume=path,
    )  # fmt: skip


def _finish(record: RunRecord, models: Mapping[str, Learner]) -> None:
    """Write the metrics, charts and calibration of the finished models."""
    _compare(record.metrics)
    record.comparison = compare(record.metrics)
    record.charts = charts(record, models)
    shares = {name: found["coverage_by_level"] for name, found in record.metrics.items()}
    record.calibration = from_coverage(shares)
    record.notes = ["Larger lppd is better; points outside [0, 0.5] count as much as those inside."]


def _compare(found: dict[str, Any]) -> None:
    """Compare local reparameterization with weight sampling, as in the text below Table 2."""
    if {"gaussian-1", "local-1"} <= found.keys():
        pairs = {"weights": found["gaussian-1"], "local": found["local-1"]}
        found["local-1"]["against_weights"] = {
            kind: {
                "published_variance_of_elbo_differences": ELBO_VARIANCE[kind],
                "variance_of_elbo_differences": result["variance_of_elbo_differences"],
                "published_ms_per_epoch": MILLISECONDS[kind],
                "ms_per_epoch": result["milliseconds_per_epoch"],
            }
            for kind, result in pairs.items()
        }


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


if __name__ == "__main__":
    main()
