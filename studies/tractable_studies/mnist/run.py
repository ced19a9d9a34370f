"""MNIST with two hidden layers: Bayes by Backprop, point estimates and TAGI; Table 3.

Error rate, learning curves, weight distributions, calibration, pruning and robustness, as in
section 4.2 of "Weight uncertainty in neural networks" (a replication of Bayes by Backprop).
Pixels are in [0, 1].  Every model check-points after each epoch; the same command goes on from
there; metrics of other models that are already in the folder stay.

    python -m tractable_studies.mnist.run --units 400 --epochs 100
    python -m tractable_studies.mnist.run --quick
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from torch import Tensor, nn

from tractable import attacks, metrics, priors
from tractable.cli.output import print_line, print_table
from tractable.data import mnist
from tractable.learners import TAGI, Backprop, BayesByBackprop, Callback, Checkpoint, Learner
from tractable.likelihoods import Categorical, Softmax
from tractable.report.calibration import from_reliability
from tractable.report.results import Chart, Comparison, Results, result_path
from tractable_studies.framework.options import (
    StudyOptions,
    option,
    parse,
    require,
    resume_option,
    seed_option,
    settings,
)
from tractable_studies.framework.record import RunRecord
from tractable_studies.mnist import STUDY, plots

#: Test error in percent by units: (Blundell et al., replication).
PUBLISHED: dict[str, dict[int, tuple[float, float]]] = {
    "bnn-gaussian": {400: (1.82, 1.31), 800: (1.99, 1.19), 1200: (2.02, 1.35)},
    "bnn-mixture": {400: (1.36, 1.42), 800: (1.34, 1.42), 1200: (1.32, 1.45)},
    "dnn": {400: (1.83, 1.95), 800: (1.84, 1.68), 1200: (1.88, 1.83)},
    "dnn-dropout": {400: (1.51, 1.27), 800: (1.33, 1.41), 1200: (1.36, 1.37)},
}
BATCH = 128
FRACTIONS = (0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99)
EPSILONS = (0.0, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3)


HEADER = [
    "model", "paper err % (Blundell / repl.)", "ours err %", "lppd", "ECE %",
    "err % pruned 90 %", "FGSM .05 drop", ".10 drop", "epochs",
]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    """Options: sizes, models and training."""

    seed: int = seed_option(0)
    resume: bool = resume_option()
    units: int = option(400, "per hidden layer", quick=100, min_value=1)
    epochs: int = option(20, "over the images", quick=2, min_value=1)
    tagi_epochs: int | None = option(None, "by default as the others", min_value=1)
    models: list[str] | None = option(None, "only these, by name")
    lr: float = option(1e-3, "learning rate")
    samples: int = option(1, "draws per step", min_value=1)
    estimator: Literal["weights", "local"] = option("local", choices=("weights", "local"))
    kl_weight: str = option("uniform", choices=("uniform", "blundell"))
    kl_scale: float = option(1.0, "factor on the divergence; below 1 the posterior is tempered")
    prior_sigma: float = option(1.0, "standard deviation of the Gaussian prior")
    init: Literal["published", "he"] = option("published", choices=("published", "he"))
    rho: tuple[float, float] = option((-5.0, -4.0), "first range")
    draws: int = option(50, "sets of weights to predict with", quick=5, min_value=1)
    rows: int | None = option(None, "train on the first rows only", quick=6_000, min_value=1)
    test_rows: int | None = option(None, "test on the first rows only", quick=2_000, min_value=1)
    validate: bool = option(
        False,
        "for choosing settings: train on the first 50,000 images, test on the other 10,000",
    )

    def check(self) -> None:
        """Raise an error for unknown models."""
        require("models", self.models or (), families(self))


@dataclass(frozen=True)
class Digits:
    """Flattened images and their classes."""

    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor

    @classmethod
    def of(cls, options: Options) -> Digits:
        """Return the images that the options select."""
        images = mnist()
        rows, test_rows = slice(options.rows), slice(options.test_rows)
        x, y = images.train_images[rows].flatten(1), images.train_labels[rows]
        if options.validate:
            return cls(x[:50_000], y[:50_000], x[50_000:], y[50_000:])
        return cls(x, y, images.test_images[test_rows].flatten(1), images.test_labels[test_rows])


def network(units: int, outputs: int = 10, dropout: float = 0.0) -> nn.Sequential:
    """Return two hidden layers of ReLU units, with optional dropout after each."""
    drop = [nn.Dropout(dropout)] if dropout else []
    return nn.Sequential(
        nn.Linear(784, units), nn.ReLU(), *drop,
        nn.Linear(units, units), nn.ReLU(), *drop,
        nn.Linear(units, outputs),
    )  # fmt: skip


def families(options: Options) -> dict[str, Callable[[], Learner]]:
    """Return the models by name."""
    shared: dict[str, Any] = {"lr": options.lr, "seed": options.seed, "schedule": "cosine"}
    softmax = Softmax(10)

    def bnn(prior: priors.Prior) -> Learner:
        return BayesByBackprop(
            network(options.units), softmax, prior=prior, estimator=options.estimator,
            n_train_samples=options.samples, init=options.init, rho=options.rho,
            kl_weight=_kl_weight(options), **shared,
        )  # fmt: skip

    return {
        "bnn-gaussian": lambda: bnn(priors.Normal(options.prior_sigma)),
        "bnn-mixture": lambda: bnn(priors.ScaleMixture(0.5, 1.0, math.exp(-7))),
        "bnn-laplace": lambda: bnn(priors.Laplace(0.15)),
        "dnn": lambda: Backprop(network(options.units), softmax, **shared),
        "dnn-dropout": lambda: Backprop(network(options.units, dropout=0.5), softmax, **shared),
        "tagi": lambda: TAGI(network(options.units, 9), Categorical(10), seed=options.seed),
    }


def train(name: str, model: Learner, data: Digits, epochs: int, folder: Path) -> Learner:
    """Fit with a checkpoint; test and print a line after every epoch."""
    few = {"n_weight_samples": 3} if isinstance(model, BayesByBackprop) else {}

    def score(learner: Learner, record: dict[str, float]) -> None:
        predictive = learner.predict(data.x_test, **few)
        record["test_error"] = 100 * metrics.error_rate(predictive, data.y_test)
        done = f"epoch {record['epoch']:.0f} of {epochs}"
        print_line(f"{name}, {done}: test error {record['test_error']:.2f} %")

    path = folder / f"{name}.tr"
    callbacks: list[Callback] = [score, Checkpoint(path)]
    return model.fit(
        data.x, data.y, epochs=epochs, batch_size=BATCH, callbacks=callbacks, resume=path
    )


def evaluate(model: Learner, data: Digits, attacked: Tensor, draws: int) -> dict[str, Any]:
    """Return all metrics of a trained model."""
    many = {"n_weight_samples": draws} if isinstance(model, BayesByBackprop) else {}
    few = {"n_weight_samples": min(draws, 10)} if isinstance(model, BayesByBackprop) else {}
    x, y = data.x_test, data.y_test
    predictive = model.predict(x, **many)
    curve = metrics.reliability(predictive, y)
    rows = slice(2000)
    foreign = []
    for epsilon in EPSILONS:
        moved = (x[rows] + epsilon * attacked[rows]).clamp(0, 1)
        foreign.append(metrics.accuracy(model.predict(moved, **few), y[rows]))
    own = attacks.robustness(model, x[rows], y[rows], EPSILONS, bounds=(0.0, 1.0), **few)
    found: dict[str, Any] = {
        "epochs": len(model.history),
        "test_error_percent": 100 * metrics.error_rate(predictive, y),
        "lppd": metrics.lppd(predictive, y),
        "brier": metrics.brier(predictive, y),
        "ece_percent": 100 * curve.ece,
        "reliability": {
            "confidence": _list(curve.confidence),
            "accuracy": _list(curve.accuracy),
            "count": curve.count.tolist(),
        },
        "error_by_epoch": [epoch["test_error"] for epoch in model.history],
        "seconds_per_epoch": sum(e["seconds"] for e in model.history) / len(model.history),
        "accuracy_under_fgsm_of_a_cnn": dict(zip(map(str, EPSILONS), foreign, strict=True)),
        "accuracy_under_own_fgsm": dict(zip(map(str, EPSILONS), own, strict=True)),
        "weight_deviation_by_layer": {
            name: float(g.loc.std()) for name, g in model.posterior.items() if g.loc.ndim > 1
        },
    }
    found["pruned"] = prune(model, data, per_layer=False, **few)
    found["pruned_per_layer"] = prune(model, data, per_layer=True, **few)
    return found


def prune(model: Learner, data: Digits, *, per_layer: bool, **few: int) -> dict[str, Any]:
    """Return test error and size after pruning, by the share of removed weights."""
    errors, sizes = [], []
    for fraction in FRACTIONS:
        pruned = model.clone().prune(fraction, per_layer=per_layer)
        errors.append(100 * metrics.error_rate(pruned.predict(data.x_test, **few), data.y_test))
        sizes.append(pruned.posterior.stored_bytes(sparse=True))
    return {
        "fraction": list(FRACTIONS),
        "error_percent": errors,
        "sparse_bytes": sizes,
        "dense_bytes": model.posterior.stored_bytes(),
    }


def surrogate(data: Digits, folder: Path, seed: int) -> Tensor:
    """Return the signs of the gradient of a small CNN at the test images, used as the attack."""
    net = nn.Sequential(
        nn.Unflatten(1, (1, 28, 28)), nn.Conv2d(1, 8, 5, stride=2), nn.ReLU(),
        nn.Conv2d(8, 16, 5, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10),
    )  # fmt: skip
    cnn = Backprop(net, Softmax(10), seed=seed, lr=2e-3)
    path = folder / "cnn.tr"
    cnn.fit(data.x, data.y, epochs=2, batch_size=BATCH, callbacks=[Checkpoint(path)], resume=path)
    error = metrics.error_rate(cnn.predict(data.x_test), data.y_test)
    print_line(f"the attacking CNN has a test error of {error:.2%}")
    return attacks.loss_gradient(cnn, data.x_test, data.y_test).sign()


def compare(found: Mapping[str, Any], units: int) -> list[Comparison]:
    """Compare test errors with those of the replication and of Blundell et al."""
    rows = []
    for name, result in found.items():
        published = PUBLISHED.get(name, {}).get(units)
        ours = result["test_error_percent"]
        for source, paper in zip(
            ("replication", "Blundell et al."), (published or (None,))[::-1], strict=False
        ):
            label = f"test error, {name}" + (f" ({source})" if published else "")
            rows.append(
                Comparison(
                    label,
                    paper,
                    ours,
                    "%",
                    better="smaller",
                    learner=name,
                    measure="test error",
                    note=f"{result['epochs']} epochs, ECE {result['ece_percent']:.2f} %",
                )
            )
    return rows


def charts(found: Mapping[str, Any]) -> list[Chart]:
    """Return interactive charts of learning, pruning and robustness."""
    errors = {
        k: (list(range(1, len(r["error_by_epoch"]) + 1)), r["error_by_epoch"])
        for k, r in found.items()
    }
    pruned = {k: (r["pruned"]["fraction"], r["pruned"]["error_percent"]) for k, r in found.items()}
    key = "accuracy_under_fgsm_of_a_cnn"
    attacked = {k: ([float(e) for e in r[key]], list(r[key].values())) for k, r in found.items()}
    return [
        Chart("Test error by epoch", "epoch", "error [%]", errors, log=True),
        Chart("Test error after pruning", "share pruned", "error [%]", pruned, log=True),
        Chart("Accuracy under FGSM of a CNN", "perturbation", "accuracy", attacked),
    ]


def rows(found: dict[str, Any], units: int) -> list[list[str]]:
    """Return the rows of the table: published errors and ours."""
    made = []
    for name, result in found.items():
        published = PUBLISHED.get(name, {}).get(units)
        pruned = result["pruned"]
        at_90 = pruned["error_percent"][pruned["fraction"].index(0.9)]
        fgsm = result["accuracy_under_fgsm_of_a_cnn"]
        made.append(
            [
                name,
                "-" if published is None else f"{published[0]:.2f} / {published[1]:.2f}",
                f"{result['test_error_percent']:.2f}",
                f"{result['lppd']:.4f}",
                f"{result['ece_percent']:.2f}",
                f"{at_90:.2f}",
                f"{100 * (fgsm['0.0'] - fgsm['0.05']):.1f}",
                f"{100 * (fgsm['0.0'] - fgsm['0.1']):.1f}",
                str(result["epochs"]),
            ]
        )
    return made


def main(argv: Sequence[str] | None = None) -> Path:
    """Train all models, evaluate them, write the metrics, the plots and the table."""
    options = parse(Options, STUDY, argv, __doc__)
    makers = families(options)
    folder = options.out / "models"
    folder.mkdir(parents=True, exist_ok=True)
    data = Digits.of(options)
    record = RunRecord(STUDY, seeds=[options.seed], settings=settings(options), argv=argv)
    if not options.resume:
        for old in folder.glob("*.tr"):
            old.unlink()
    earlier = _earlier(options.out) if options.resume else {}
    record.metrics = {name: earlier[name] for name in makers if name in earlier}
    models = {name: Learner.load(folder / f"{name}.tr") for name in record.metrics}
    attacked = surrogate(data, folder, options.seed)
    for name in options.models or makers:
        epochs = options.tagi_epochs if name == "tagi" and options.tagi_epochs else options.epochs
        models[name] = train(name, makers[name](), data, epochs, folder)
        print_line(f"{name}: evaluating")
        record.metrics[name] = {
            "published_error_percent": PUBLISHED.get(name, {}).get(options.units),
            "command": record.command,
            **evaluate(models[name], data, attacked, options.draws),
        }
        record.comparison = compare(record.metrics, options.units)
        record.charts = charts(record.metrics)
        record.calibration = from_reliability(plots.reliability_of(record.metrics))
        plots.draw(models, record.metrics, record, options.out)
        path = record.write(options.out)
        print_table(HEADER, rows(record.metrics, options.units))
    print_line(f"written to {path}")
    return path


def _kl_weight(options: Options) -> Any:
    """Return the weight of the divergence in each batch, as ``BayesByBackprop`` expects it."""
    if options.kl_scale == 1:
        return options.kl_weight
    rows = min(options.rows or 60_000, 50_000 if options.validate else 60_000)
    return float(options.kl_scale) / math.ceil(rows / BATCH)


def _earlier(folder: Path) -> dict[str, Any]:
    """Return the results of earlier runs in this folder: models may be trained one by one."""
    for path in (result_path(folder, "mnist"), folder / "mnist.json"):
        if path.is_file():
            found = Results.read(path).metrics
            return {k: v for k, v in found.items() if (folder / "models" / f"{k}.tr").is_file()}
    return {}


def _list(values: Tensor) -> list[float | None]:
    return [None if math.isnan(v) else round(v, 5) for v in values.tolist()]


if __name__ == "__main__":
    main()
