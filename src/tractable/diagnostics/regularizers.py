"""Comparison of the regularization methods of chapter 9 of the book and of the other learners.

Each method is trained on the same rows with the same number of row visits (epochs times rows times
members), with several values of its hyper-parameter.  The value is chosen on validation rows; the
reported results are measured once on test rows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from tractable import priors
from tractable.diagnostics.parallel_fits import Rows, checked_rows, one_hot, predict_at, run_all
from tractable.diagnostics.result import Cell, DiagnosticResult
from tractable.layer_iteration import layers
from tractable.learners import (
    TAGI,
    Backprop,
    BayesByBackprop,
    EarlyStopping,
    Ensemble,
    Laplace,
)
from tractable.likelihoods import Likelihood, Normal, Softmax
from tractable.plots.style import COLORS, INK, get_axes, style_axes
from tractable.training.holdout import default_epochs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Augment = Callable[[Tensor, Tensor, torch.Generator], tuple[Tensor, Tensor]]
N_COPIES = 4
"""Number of noisy or augmented copies of each row."""
ENSEMBLE_SIZE = 5
PLAIN = "none"
"""Name of the plain network, to which the others are compared."""
_PRIORS = (0.1, 0.3, 1.0)
_ACTIVATIONS = (nn.ReLU, nn.LeakyReLU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.ELU)


@dataclass(frozen=True)
class RegularizerResult:
    """Result of one result.

    Attributes:
        name: name of the result.
        strength: hyper-parameter chosen on the validation rows, as text.
        nll: mean negative log density of the test targets.
        error: root mean squared error, or error rate, on the test rows.
        gain: decrease of the NLL relative to a plain network, averaged over splits.
        gain_error: standard error of the gain over splits; None for one split.
        seconds: processor time of a fit.
    """

    name: str
    strength: str
    nll: float
    error: float
    gain: float
    gain_std_error: float | None
    seconds: float

    @property
    def is_significant(self) -> bool:
        """Whether the gain is larger than two standard errors."""
        known = self.gain_std_error is not None and self.name != PLAIN
        return known and self.gain > 2 * (self.gain_std_error or 0.0)


@dataclass(frozen=True)
class RegularizerComparison(DiagnosticResult):
    """Results of all methods, the best first.

    Attributes:
        results: one entry for each method, sorted by the NLL on test rows.
        error_metric: name of the measure in ``error``.
        n_splits: number of random splits of the rows.
        row_visits: number of times that each fit visits a row.
        not_applicable: methods that do not apply to this network or target, and why.
    """

    results: tuple[RegularizerResult, ...]
    error_metric: str
    n_splits: int
    row_visits: int
    not_applicable: dict[str, str] = field(default_factory=dict)

    @property
    def best(self) -> RegularizerResult:
        """Remedy with the smallest NLL."""
        return self.results[0]

    def __getitem__(self, name: str) -> RegularizerResult:
        """Return a result by its name."""
        for result in self.results:
            if result.name == name:
                return result
        raise KeyError(f"no method {name!r}; there are {', '.join(r.name for r in self.results)}")

    def table_header(self) -> list[str]:
        """Return the names of the table's columns."""
        return ["method", "strength", "test NLL", self.error_metric, "gain", "± error", "seconds"]

    def table_rows(self) -> list[list[Cell]]:
        """Return the rows of the table."""
        return [
            [r.name, r.strength, r.nll, r.error, r.gain, r.gain_std_error, r.seconds]
            for r in self.results
        ]

    def recommendation(self) -> str:
        """Return the best method, if any is significantly better."""
        significant = [r for r in self.results if r.is_significant]
        if self.n_splits == 1:
            name = self.best.name
            return f"{name} is best on one split, which is not significant: use n_splits=3 or more."
        if not significant:
            return "No method is better than a plain network by more than two standard errors."
        best = significant[0]
        kind = f" ({best.strength})" if best.strength else ""
        return f"Try {best.name}{kind}: {best.gain:.2g} nats per row better than a plain network."

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw gains over a plain network, with two standard errors."""
        ax = get_axes(ax, (6.4, 0.4 * len(self.results) + 1))
        shown = [r for r in reversed(self.results) if r.name != PLAIN]
        for i, result in enumerate(shown):
            color = COLORS[2] if result.is_significant else COLORS[6]
            ax.errorbar(result.gain, i, xerr=2 * (result.gain_std_error or 0.0), fmt="o",
                        color=color, capsize=3, markersize=5)  # fmt: skip
        ax.axvline(0, color=INK, linewidth=0.8)
        ax.set_yticks(range(len(shown)), [f"{r.name} {r.strength}".strip() for r in shown])
        return style_axes(ax, xlabel="gain over a plain network (nats per row)", ylabel="")


@dataclass(frozen=True)
class _Trial:
    """One method with one value of its hyper-parameter."""

    name: str
    strength: str
    make: Callable[[int], Any]
    epochs_fraction: float = 1.0
    """Fraction of the epochs, so that all methods have the same number of row visits."""
    rows: Callable[[Rows, torch.Generator], Rows] | None = None
    stopping: int | None = None


def compare_regularizers(
    net: nn.Module,
    X: Any,
    y: Any,
    likelihood: Likelihood | None = None,
    *,
    augment: Augment | None = None,
    only: Sequence[str] | None = None,
    epochs: int | None = None,
    batch_size: int | None = None,
    lr: float = 1e-3,
    n_splits: int = 3,
    seed: int = 0,
    n_jobs: int | None = None,
    progress: bool | None = None,
) -> RegularizerComparison:
    """Compare regularization methods on the same rows, with the same training budget.

    Args:
        net: the network.
        X: standardized inputs, ``[rows, ...]``.
        y: targets: numbers, or classes as integers from 0.
        likelihood: likelihood of the targets; default: ``Normal()`` for numbers, ``Softmax`` for
            classes.
        augment: function from inputs, targets and a generator to augmented inputs and targets, for
            example shifted images.
        only: names of the methods to compare; default: all.
        epochs: number of epochs of a plain network; default: that of ``fit``.
        batch_size: rows per update.
        lr: learning rate of the gradient-based learners.
        n_splits: number of random splits into 60 % training, 20 % validation and 20 % test rows.
        seed: random seed.
        n_jobs: number of parallel fits; default: the number of cores.
        progress: whether to show a progress bar; default: only in a terminal.

    Returns:
        The results, the best first.
    """
    rows = checked_rows(X, y, 20, "compare_regularizers")
    if n_splits < 1:
        raise ValueError(f"n_splits must be at least 1, got {n_splits}")
    classes = not rows[1].is_floating_point()
    if likelihood is None:
        likelihood = Softmax(int(rows[1].max()) + 1) if classes else Normal()
    trials, not_applicable = _trials(net, likelihood, augment, lr)
    trials = _select(trials, only, not_applicable)
    epochs = default_epochs(round(0.6 * len(rows[0]))) if epochs is None else epochs
    if epochs < 1:
        raise ValueError(f"epochs must be at least 1, got {epochs}")
    budget, size = epochs, batch_size

    def work(number: int) -> dict[str, float]:
        trial, split = trials[number // n_splits], number % n_splits
        parts = _split(rows, seed + split)
        return _evaluate(trial, parts, seed + split, budget, size, classes)

    found = run_all(work, len(trials) * n_splits, threads=False, n_jobs=n_jobs, progress=progress)
    groups = [found[i * n_splits : (i + 1) * n_splits] for i in range(len(trials))]
    return RegularizerComparison(
        tuple(_ranked(trials, groups)),
        "error rate" if classes else "RMSE",
        n_splits,
        epochs,
        not_applicable,
    )


def _select(
    trials: list[_Trial], only: Sequence[str] | None, not_applicable: dict[str, str]
) -> list[_Trial]:
    if only is None:
        return trials
    names = {trial.name for trial in trials}
    for name in only:
        if name not in names:
            why = (
                f": {not_applicable[name]}"
                if name in not_applicable
                else f"; there are {sorted(names)}"
            )
            raise ValueError(f"no method {name!r} here{why}")
    return [trial for trial in trials if trial.name in {PLAIN, *only}]


def _split(rows: Rows, seed: int) -> list[Rows]:
    n = len(rows[0])
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    cuts = [round(0.6 * n), round(0.8 * n)]
    return [(rows[0][part], rows[1][part]) for part in order.tensor_split(cuts)]


def _evaluate(
    trial: _Trial, parts: list[Rows], seed: int, epochs: int, batch: int | None, classes: bool
) -> dict[str, float]:
    train, validation, test = parts
    if trial.rows is not None:
        train = trial.rows(train, torch.Generator().manual_seed(seed))
    options: dict[str, Any] = {}
    if trial.stopping is not None:
        options = {"validation": validation, "callbacks": [EarlyStopping(trial.stopping)]}
    learner, started = trial.make(seed), time.thread_time()
    rounds = max(1, round(epochs * trial.epochs_fraction))
    learner.fit(*train, epochs=rounds, batch_size=batch, progress=False, **options)
    seconds = time.thread_time() - started
    selected, found = predict_at(learner, *validation), predict_at(learner, *test)
    if selected.log_prob is None or found.log_prob is None:
        raise TypeError(
            f"compare_regularizers compares log densities, but {type(learner).__name__} predicts "
            f"only numbers: use a learner of tractable"
        )
    if classes:
        error = float((found.mean.argmax(-1) != test[1]).double().mean())
    else:
        errors = found.mean - one_hot(test[1], found.mean.shape[1])
        error = math.sqrt(float(errors.square().mean()))
    return {
        "validation": -float(selected.log_prob.double().mean()),
        "nll": -float(found.log_prob.double().mean()),
        "error": error,
        "seconds": seconds,
    }


def _ranked(trials: list[_Trial], groups: list[list[dict[str, float]]]) -> list[RegularizerResult]:
    """Return each method with its best value on validation rows, sorted by NLL on test rows."""
    best: dict[str, tuple[float, _Trial, list[dict[str, float]]]] = {}
    for trial, group in zip(trials, groups, strict=True):
        score = _mean([run["validation"] for run in group])
        score = math.inf if math.isnan(score) else score
        if trial.name not in best or score < best[trial.name][0]:
            best[trial.name] = (score, trial, group)
    plain = [run["nll"] for run in best[PLAIN][2]]
    results = []
    for name, (_, trial, group) in best.items():
        gains = [p - run["nll"] for p, run in zip(plain, group, strict=True)]
        std_error = None
        if len(gains) > 1:
            std_error = float(torch.tensor(gains, dtype=torch.float64).std()) / math.sqrt(
                len(gains)
            )
        keys = ("nll", "error", "seconds")
        nll, error, seconds = (_mean([run[key] for run in group]) for key in keys)
        results.append(
            RegularizerResult(name, trial.strength, nll, error, _mean(gains), std_error, seconds)
        )
    return sorted(results, key=lambda r: math.inf if math.isnan(r.nll) else r.nll)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


# --- the methods -------------------------------------------------------------------------------


def _trials(
    net: nn.Module, likelihood: Likelihood, augment: Augment | None, lr: float
) -> tuple[list[_Trial], dict[str, str]]:
    """Return all trials that apply to this network and target, and why the others do not."""
    plain = partial(_make_learner, Backprop, net, likelihood, lr=lr)
    trials = [_Trial(PLAIN, "", plain)]
    for s in _PRIORS:
        trials.append(_Trial("L2 prior", f"σ = {s:g}", partial(plain, prior=priors.Normal(s))))
        trials.append(_Trial("L1 prior", f"b = {s:g}", partial(plain, prior=priors.Laplace(s))))
    for n in (3, 10):
        trials.append(_Trial("early stopping", f"patience {n}", plain, stopping=n))
    for s in (0.03, 0.1, 0.3):
        trials.append(_Trial("input noise", f"σ = {s:g}", plain, 1 / N_COPIES, _noisy(s)))
    not_applicable = {}
    if augment is not None:
        trials.append(_Trial("augmentation", "", plain, 1 / N_COPIES, _augmented(augment)))
    else:
        not_applicable["augmentation"] = "pass augment=, a function that returns augmented rows"
    for p in (0.05, 0.2):
        dropped = with_dropout(net, p)
        if dropped is None:
            not_applicable["dropout"] = (
                "the network is not a chain of layers with hidden activations"
            )
            break
        make = partial(_make_learner, Backprop, dropped, likelihood, lr=lr)
        trials.append(_Trial("dropout", f"p = {p:g}", make))
    if isinstance(likelihood, Softmax):
        for p in (0.02, 0.1):
            soft = Softmax(likelihood.classes, smoothing=p)
            make = partial(_make_learner, Backprop, net, soft, lr=lr)
            trials.append(_Trial("smoothing", f"{p:g}", make))
    else:
        not_applicable["smoothing"] = "labels are smoothed, but these targets are not class labels"
    ensemble = partial(_make_learner, Ensemble, net, likelihood, n_estimators=ENSEMBLE_SIZE, lr=lr)
    trials.append(_Trial(f"ensemble of {ENSEMBLE_SIZE}", "", ensemble, 1 / ENSEMBLE_SIZE))
    trials.append(_Trial("Laplace", "", partial(_make_learner, Laplace, net, likelihood, lr=lr)))
    for gain in (0.25, 1.0):
        make = partial(_make_learner, TAGI, net, likelihood, gain=gain)
        trials.append(_Trial("TAGI", f"gain {gain:g}", make))
    for s in (0.3, 1.0):
        make = partial(
            _make_learner, BayesByBackprop, net, likelihood, prior=priors.Normal(s), lr=lr
        )
        trials.append(_Trial("Bayes by Backprop", f"σ = {s:g}", make))
    return trials, not_applicable


def _make_learner(
    kind: Callable[..., Any], net: nn.Module, likelihood: Likelihood, seed: int, **options: Any
) -> Any:
    return kind(net, likelihood, seed=seed, **options)


def with_dropout(net: nn.Module, probability: float) -> nn.Sequential | None:
    """Return a chain with dropout after every hidden activation; None if there is none."""
    chain = [layer.module for layer in layers(net)]
    found: list[nn.Module] = []
    for i, module in enumerate(chain):
        found.append(module)
        if isinstance(module, _ACTIVATIONS) and i < len(chain) - 1:
            found.append(nn.Dropout(probability))
    if len(found) == len(chain):
        return None
    return nn.Sequential(*found)


def _noisy(sigma: float) -> Callable[[Rows, torch.Generator], Rows]:
    """Return a function that repeats the rows with noise, in units of each column's deviation."""

    def transform(rows: Rows, generator: torch.Generator) -> Rows:
        x = rows[0] if rows[0].is_floating_point() else rows[0].float()
        scale = x.std(0, keepdim=True)
        copies = [
            x + sigma * scale * torch.randn(x.shape, generator=generator, dtype=x.dtype)
            for _ in range(N_COPIES)
        ]
        return torch.cat(copies), rows[1].repeat(N_COPIES, *[1] * (rows[1].ndim - 1))

    return transform


def _augmented(augment: Augment) -> Callable[[Rows, torch.Generator], Rows]:
    def transform(rows: Rows, generator: torch.Generator) -> Rows:
        copies = [augment(*rows, generator) for _ in range(N_COPIES)]
        return torch.cat([x for x, _ in copies]), torch.cat([y for _, y in copies])

    return transform
