"""MNIST with two hidden layers: Bayes by Backprop, point estimates and TAGI, beside Table 3.

Error rate, learning curves, weight distributions, calibration, pruning and robustness, as in
section 4.2 of "Weight uncertainty in neural networks" (a replication of Bayes by Backprop).
Pixels are in [0, 1].  Every model check-points after each epoch; the same command goes on from
there; figures of other models that are already in the folder stay.

    python -m tractable.experiments.mnist --units 400 --epochs 100
    python -m tractable.experiments.mnist --quick
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tractable import attacks, metrics, priors
from tractable.data import mnist
from tractable.experiments import options
from tractable.experiments.calibration import of_classes
from tractable.experiments.progress import Countdown, say
from tractable.experiments.record import Record, command, table
from tractable.learners import TAGI, Backprop, BayesByBackprop, Callback, Checkpoint, Learner
from tractable.likelihoods import Categorical, Softmax
from tractable.report.results import Chart, Comparison, Results, result_path
from tractable.training.callbacks import EpochRecord as Epoch

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


@dataclass(frozen=True)
class Digits:
    """Flattened images and their classes."""

    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor


def network(units: int, outputs: int = 10, dropout: float = 0.0) -> nn.Sequential:
    """Two hidden layers of ReLU units; dropout, if any, after each."""
    drop = [nn.Dropout(dropout)] if dropout else []
    return nn.Sequential(
        nn.Linear(784, units), nn.ReLU(), *drop,
        nn.Linear(units, units), nn.ReLU(), *drop,
        nn.Linear(units, outputs),
    )  # fmt: skip


def families(args: argparse.Namespace) -> dict[str, Callable[[], Learner]]:
    """The models, by name."""
    shared: dict[str, Any] = {"lr": args.lr, "seed": args.seed, "schedule": "cosine"}
    softmax = Softmax(10)

    def bnn(prior: priors.Prior) -> Learner:
        return BayesByBackprop(
            network(args.units), softmax, prior=prior, estimator=args.estimator,
            samples=args.samples, init=args.init, rho=tuple(args.rho),
            kl_weight=_kl_weight(args), **shared,
        )  # fmt: skip

    return {
        "bnn-gaussian": lambda: bnn(priors.Normal(args.prior_sigma)),
        "bnn-mixture": lambda: bnn(priors.ScaleMixture(0.5, 1.0, math.exp(-7))),
        "bnn-laplace": lambda: bnn(priors.Laplace(0.15)),
        "dnn": lambda: Backprop(network(args.units), softmax, **shared),
        "dnn-dropout": lambda: Backprop(network(args.units, dropout=0.5), softmax, **shared),
        "tagi": lambda: TAGI(network(args.units, 9), Categorical(10), seed=args.seed),
    }


def train(name: str, model: Learner, data: Digits, epochs: int, folder: Path) -> Learner:
    """Fit with a checkpoint, a test after every epoch and the time that is left."""
    few = {"draws": 3} if isinstance(model, BayesByBackprop) else {}
    countdown: Countdown | None = None

    def score(learner: Learner, record: Epoch) -> None:
        nonlocal countdown
        done = int(record["epoch"]) - 1
        countdown = countdown or Countdown(epochs, "epochs", done, spent=record["seconds"])
        predictive = learner.predict(data.x_test, **few)
        record["test_error"] = 100 * metrics.error_rate(predictive, data.y_test)
        countdown.step(f"{name}: test error {record['test_error']:.2f} %")

    path = folder / f"{name}.tr"
    callbacks: list[Callback] = [score, Checkpoint(path)]
    return model.fit(
        data.x, data.y, epochs=epochs, batch_size=BATCH, callbacks=callbacks, resume=path
    )


def evaluate(model: Learner, data: Digits, attacked: Tensor, draws: int) -> dict[str, Any]:
    """All figures of a trained model."""
    many = {"draws": draws} if isinstance(model, BayesByBackprop) else {}
    few = {"draws": min(draws, 10)} if isinstance(model, BayesByBackprop) else {}
    x, y = data.x_test, data.y_test
    predictive = model.predict(x, **many)
    curve = metrics.reliability(predictive, y)
    rows = slice(2000)
    foreign = []
    for epsilon in EPSILONS:
        moved = (x[rows] + epsilon * attacked[rows]).clamp(0, 1)
        foreign.append(metrics.accuracy(model.predict(moved, **few), y[rows]))
    own = attacks.robustness(model, x[rows], y[rows], EPSILONS, **few)
    figures: dict[str, Any] = {
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
    for per_layer in (False, True):
        errors, sizes = [], []
        for fraction in FRACTIONS:
            pruned = model.clone().prune(fraction, per_layer=per_layer)
            errors.append(100 * metrics.error_rate(pruned.predict(x, **few), y))
            sizes.append(pruned.posterior.stored_bytes(sparse=True))
        key = "pruned_per_layer" if per_layer else "pruned"
        figures[key] = {
            "fraction": list(FRACTIONS),
            "error_percent": errors,
            "sparse_bytes": sizes,
            "dense_bytes": model.posterior.stored_bytes(),
        }
    return figures


def surrogate(data: Digits, folder: Path, seed: int) -> Tensor:
    """Signs of the gradient of a small CNN, at the test images: the attack of the source."""
    net = nn.Sequential(
        nn.Unflatten(1, (1, 28, 28)), nn.Conv2d(1, 8, 5, stride=2), nn.ReLU(),
        nn.Conv2d(8, 16, 5, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10),
    )  # fmt: skip
    cnn = Backprop(net, Softmax(10), seed=seed, lr=2e-3)
    path = folder / "cnn.tr"
    cnn.fit(data.x, data.y, epochs=2, batch_size=BATCH, callbacks=[Checkpoint(path)], resume=path)
    error = metrics.error_rate(cnn.predict(data.x_test), data.y_test)
    say(f"the attacking CNN has a test error of {error:.2%}")
    return attacks.loss_gradient(cnn, data.x_test, data.y_test).sign()


def figures_of(
    models: Mapping[str, Learner], found: Mapping[str, Any], record: Record, folder: Path
) -> None:
    """Draw what was found."""
    import matplotlib.pyplot as plt

    from tractable import plots

    def keep(ax: Any, name: str) -> None:
        record.picture(folder, ax.figure, name)
        plt.close(ax.figure)

    histories = {name: model.history for name, model in models.items()}
    keep(
        plots.learning_curves(histories, "test_error", ylabel="test error [%]", scale="log"),
        "learning-curves",
    )
    posteriors = {name: model.posterior for name, model in models.items()}
    keep(plots.weights(posteriors), "weights")
    uncertain = {k: p for k, p in posteriors.items() if bool((p.variance > 0).any())}
    if uncertain:
        keep(plots.snr(uncertain), "snr")
    ax = None
    for name, curve in reliability_of(found).items():
        ax = plots.reliability(curve, label=name, least=20, counts=False, ax=ax)
    if ax is not None:
        keep(ax, "calibration")
    for key, name in (("pruned", "pruning"), ("pruned_per_layer", "pruning-per-layer")):
        curves = {k: (r[key]["fraction"], r[key]["error_percent"]) for k, r in found.items()}
        ax = plots.pruning(curves, ylabel="test error [%]")
        best = min(min(up) for _, up in curves.values())
        ax.set_ylim(0, best + 10)  # beyond, a model is of no use
        keep(ax, name)
    for key, name in (
        ("accuracy_under_fgsm_of_a_cnn", "fgsm-of-a-cnn"),
        ("accuracy_under_own_fgsm", "own-fgsm"),
    ):
        curves = {k: ([float(e) for e in r[key]], list(r[key].values())) for k, r in found.items()}
        keep(plots.robustness(curves), name)


def reliability_of(found: Mapping[str, Any]) -> dict[str, metrics.Reliability]:
    """The reliability curves, as they were before they were written."""
    curves = {}
    for name, result in found.items():
        held = {
            k: torch.tensor([math.nan if e is None else e for e in v])
            for k, v in result["reliability"].items()
        }
        bins = len(held["count"])
        curves[name] = metrics.Reliability(torch.linspace(0, 1, bins + 1), **held)
    return curves


def compare(found: Mapping[str, Any], units: int) -> list[Comparison]:
    """Test errors beside those of the replication and of Blundell et al."""
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
    """Learning, pruning and robustness, to be read off by pointing."""
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


def report(found: dict[str, Any], units: int) -> str:
    """Published figures beside ours."""
    rows = []
    for name, result in found.items():
        published = PUBLISHED.get(name, {}).get(units)
        pruned = result["pruned"]
        at_90 = pruned["error_percent"][pruned["fraction"].index(0.9)]
        fgsm = result["accuracy_under_fgsm_of_a_cnn"]
        rows.append(
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
    header = [
        "model", "paper err % (Blundell / repl.)", "ours err %", "lppd", "ECE %",
        "err % pruned 90 %", "FGSM .05 drop", ".10 drop", "epochs",
    ]  # fmt: skip
    return table(rows, header)


def main(argv: Sequence[str] | None = None) -> None:
    """Train all models, evaluate them, write the figures and the table."""
    parser = options.parser("mnist", __doc__, resume=True)
    parser.add_argument("--units", type=int, default=400, help="per hidden layer")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--tagi-epochs", type=int, help="by default as the others")
    parser.add_argument("--models", nargs="+", help="only these, by name")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--samples", type=int, default=1, help="draws per step")
    parser.add_argument("--estimator", choices=("weights", "local"), default="local")
    parser.add_argument("--kl-weight", choices=("uniform", "blundell"), default="uniform")
    parser.add_argument(
        "--kl-scale", type=float, default=1.0,
        help="factor on the divergence; below 1 the posterior is tempered",
    )  # fmt: skip
    parser.add_argument("--prior-sigma", type=float, default=1.0, help="of the Gaussian prior")
    parser.add_argument("--init", choices=("published", "he"), default="published")
    parser.add_argument("--rho", type=float, nargs=2, default=(-5.0, -4.0), help="first range")
    parser.add_argument("--draws", type=int, default=50, help="sets of weights to predict with")
    parser.add_argument("--rows", type=int, help="train on the first rows only")
    parser.add_argument("--test-rows", type=int, help="test on the first rows only")
    parser.add_argument(
        "--validate", action="store_true",
        help="for choosing settings: train on the first 50,000 images, test on the other 10,000",
    )  # fmt: skip
    quick = {"units": 100, "epochs": 2, "rows": 6_000, "test_rows": 2_000, "draws": 5}
    args = options.parse(parser, argv, quick)
    makers = families(args)
    unknown = set(args.models or ()) - makers.keys()
    if unknown:
        parser.error(f"unknown models {', '.join(sorted(unknown))}: {', '.join(makers)}")
    folder = args.out / "models"
    folder.mkdir(parents=True, exist_ok=True)
    images = mnist()
    rows, test_rows = slice(args.rows), slice(args.test_rows)
    data = Digits(
        images.train_images[rows].flatten(1), images.train_labels[rows],
        images.test_images[test_rows].flatten(1), images.test_labels[test_rows],
    )  # fmt: skip
    if args.validate:
        data = Digits(data.x[:50_000], data.y[:50_000], data.x[50_000:], data.y[50_000:])
    record = Record("mnist", seeds=[args.seed], settings=options.settings(args), argv=argv)
    if not args.resume:
        for old in folder.glob("*.tr"):
            old.unlink()
    earlier = _earlier(args.out) if args.resume else {}
    record.figures = {name: earlier[name] for name in makers if name in earlier}
    models = {name: Learner.load(folder / f"{name}.tr") for name in record.figures}
    attacked = surrogate(data, folder, args.seed)
    for name in args.models or makers:
        model = makers[name]()
        epochs = args.tagi_epochs if name == "tagi" and args.tagi_epochs else args.epochs
        models[name] = train(name, model, data, epochs, folder)
        say(f"{name}: evaluating")
        record.figures[name] = {
            "published_error_percent": PUBLISHED.get(name, {}).get(args.units),
            "command": command("mnist", argv),
            **evaluate(model, data, attacked, args.draws),
        }
        record.comparison = compare(record.figures, args.units)
        record.charts = charts(record.figures)
        record.calibration = of_classes(reliability_of(record.figures))
        figures_of(models, record.figures, record, args.out)
        record.write(args.out)
        say(report(record.figures, args.units))
    say(f"written to {args.out}")


def _kl_weight(args: argparse.Namespace) -> Any:
    """Of each batch, as ``BayesByBackprop`` takes it."""
    if args.kl_scale == 1:
        return args.kl_weight
    rows = min(args.rows or 60_000, 50_000 if args.validate else 60_000)
    return float(args.kl_scale) / math.ceil(rows / BATCH)


def _earlier(folder: Path) -> dict[str, Any]:
    """What earlier runs found in this folder: models may be trained one by one."""
    for path in (result_path(folder, "mnist"), folder / "mnist.json"):
        if path.is_file():
            found = Results.read(path).figures
            return {k: v for k, v in found.items() if (folder / "models" / f"{k}.tr").is_file()}
    return {}


def _list(values: Tensor) -> list[float | None]:
    return [None if math.isnan(v) else round(v, 5) for v in values.tolist()]


if __name__ == "__main__":
    main()
