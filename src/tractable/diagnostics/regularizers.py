"""Comparison of the regularization methods of chapter 9 of the book and of the other learners.

Each remedy is trained on the same rows with the same number of row visits (epochs times rows times
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
from tractable.diagnostics.parallel_fits import Rows, checked_rows, one_hot, run_all, said
from tractable.diagnostics.result import Cell, Result
from tractable.learners import (
    TAGI,
    Backprop,
    BayesByBackprop,
    EarlyStopping,
    Ensemble,
    Laplace,
)
from tractable.likelihoods import Likelihood, Normal, Softmax
from tractable.plots.canvas import COLORS, INK, canvas, quiet
from tractable.sequential import layers
from tractable.training.holdout import usual_epochs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Augment = Callable[[Tensor, Tensor, torch.Generator], tuple[Tensor, Tensor]]
COPIES = 4
MEMBERS = 5
PLAIN = "nothing"
_ACTIVATIONS = (nn.ReLU, nn.LeakyReLU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.ELU)


@dataclass(frozen=True)
class Remedy:
    """Result of one remedy.

    Attributes:
        name: name of the remedy.
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
    gain_error: float | None
    seconds: float

    @property
    def helps(self) -> bool:
        """Whether the gain is larger than two standard errors."""
        known = self.gain_error is not None and self.name != PLAIN
        return known and self.gain > 2 * (self.gain_error or 0.0)


@dataclass(frozen=True)
class Remedies(Result):
    """Results of all remedies, the best first.

    Attributes:
        remedies: results, sorted by the NLL on test rows.
        kind: name of the measure in ``error``.
        splits: number of random splits of the rows.
        visits: number of times that each fit visits a row.
        left_out: remedies that do not apply to this network or target, and why.
    """

    remedies: tuple[Remedy, ...]
    kind: str
    splits: int
    visits: int
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def best(self) -> Remedy:
        """Remedy with the smallest NLL."""
        return self.remedies[0]

    def __getitem__(self, name: str) -> Remedy:
        """Return a remedy by its name."""
        for remedy in self.remedies:
            if remedy.name == name:
                return remedy
        raise KeyError(f"no remedy {name!r}; there are {', '.join(r.name for r in self.remedies)}")

    def header(self) -> list[str]:
        """Return the names of the table's columns."""
        return ["remedy", "strength", "test NLL", self.kind, "gain", "± error", "seconds"]

    def cells(self) -> list[list[Cell]]:
        """Return the rows of the table."""
        return [
            [r.name, r.strength, r.nll, r.error, r.gain, r.gain_error, r.seconds]
            for r in self.remedies
        ]

    def advice(self) -> str:
        """Return the best remedy, if any helps."""
        helping = [r for r in self.remedies if r.helps]
        if self.splits == 1:
            name = self.best.name
            return f"{name} is best on one split, which is not significant: use splits=3 or more."
        if not helping:
            return "No remedy is better than a plain network by more than two standard errors."
        best = helping[0]
        kind = f" ({best.strength})" if best.strength else ""
        return f"Try {best.name}{kind}: {best.gain:.2g} nats per row better than a plain network."

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw gains over a plain network, with two standard errors."""
        ax = canvas(ax, (6.4, 0.4 * len(self.remedies) + 1))
        shown = [r for r in reversed(self.remedies) if r.name != PLAIN]
        for i, remedy in enumerate(shown):
            color = COLORS[2] if remedy.helps else COLORS[6]
            ax.errorbar(remedy.gain, i, xerr=2 * (remedy.gain_error or 0.0), fmt="o", color=color,
                        capsize=3, markersize=5)  # fmt: skip
        ax.axvline(0, color=INK, linewidth=0.8)
        ax.set_yticks(range(len(shown)), [f"{r.name} {r.strength}".strip() for r in shown])
        return quiet(ax, xlabel="gain over a plain network (nats per row)", ylabel="")


@dataclass(frozen=True)
class _Trial:
    """One remedy with one value of its hyper-parameter."""

    name: str
    strength: str
    make: Callable[[int], Any]
    share: float = 1.0
    """Fraction of the epochs, so that all remedies have the same number of row visits."""
    rows: Callable[[Rows, torch.Generator], Rows] | None = None
    stopping: int | None = None


def remedies(
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
    splits: int = 3,
    seed: int = 0,
    workers: int | None = None,
    progress: bool | None = None,
) -> Remedies:
    """Compare all remedies on the same rows, with the same training budget.

    Args:
        net: the network.
        X: standardized inputs, ``[rows, ...]``.
        y: targets: numbers, or classes as integers from 0.
        likelihood: likelihood of the targets; default: ``Normal()`` for numbers, ``Softmax`` for
            classes.
        augment: function from inputs, targets and a generator to augmented inputs and targets, for
            example shifted images.
        only: names of the remedies to compare; default: all.
        epochs: number of passes of a plain network over the rows; default: that of ``fit``.
        batch_size: rows per update.
        lr: learning rate of the gradient-based learners.
        splits: number of random splits into 60 % training, 20 % validation and 20 % test rows.
        seed: random seed.
        workers: number of parallel fits; default: the number of cores.
        progress: whether to show a progress bar; default: only in a terminal.

    Returns:
        The results, the best first.
    """
    rows = checked_rows(X, y, 20, "remedies")
    if splits < 1:
        raise ValueError(f"splits must be at least 1, got {splits}")
    classes = not rows[1].is_floating_point()
    if likelihood is None:
        likelihood = Softmax(int(rows[1].max()) + 1) if classes else Normal()
    trials, left_out = _trials(net, likelihood, augment, lr)
    trials = _chosen(trials, only, left_out)
    epochs = usual_epochs(round(0.6 * len(rows[0]))) if epochs is None else epochs
    if epochs < 1:
        raise ValueError(f"epochs must be at least 1, got {epochs}")
    budget, size = epochs, batch_size

    def work(number: int) -> dict[str, float]:
        trial, split = trials[number // splits], number % splits
        parts = _split(rows, seed + split)
        return _tried(trial, parts, seed + split, budget, size, classes)

    found = run_all(work, len(trials) * splits, threads=False, workers=workers, progress=progress)
    groups = [found[i * splits : (i + 1) * splits] for i in range(len(trials))]
    return Remedies(
        tuple(_ranked(trials, groups)),
        "error rate" if classes else "RMSE",
        splits,
        epochs,
        left_out,
    )


def _chosen(
    trials: list[_Trial], only: Sequence[str] | None, left_out: dict[str, str]
) -> list[_Trial]:
    if only is None:
        return trials
    names = {trial.name for trial in trials}
    for name in only:
        if name not in names:
            why = f": {left_out[name]}" if name in left_out else f"; there are {sorted(names)}"
            raise ValueError(f"no remedy {name!r} here{why}")
    return [trial for trial in trials if trial.name in {PLAIN, *only}]


def _split(rows: Rows, seed: int) -> list[Rows]:
    n = len(rows[0])
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    cuts = [round(0.6 * n), round(0.8 * n)]
    return [(rows[0][part], rows[1][part]) for part in order.tensor_split(cuts)]


def _tried(
    trial: _Trial, parts: list[Rows], seed: int, epochs: int, batch: int | None, classes: bool
) -> dict[str, float]:
    train, validation, test = parts
    if trial.rows is not None:
        train = trial.rows(train, torch.Generator().manual_seed(seed))
    options: dict[str, Any] = {}
    if trial.stopping is not None:
        options = {"validation": validation, "callbacks": [EarlyStopping(trial.stopping)]}
    learner, started = trial.make(seed), time.thread_time()
    rounds = max(1, round(epochs * trial.share))
    learner.fit(*train, epochs=rounds, batch_size=batch, progress=False, **options)
    seconds = time.thread_time() - started
    chosen, found = said(learner, *validation), said(learner, *test)
    if chosen.log_prob is None or found.log_prob is None:
        raise TypeError(
            f"remedies compares log densities, but {type(learner).__name__} predicts only "
            f"numbers: use a learner of tractable"
        )
    if classes:
        error = float((found.mean.argmax(-1) != test[1]).double().mean())
    else:
        missed = found.mean - one_hot(test[1], found.mean.shape[1])
        error = math.sqrt(float(missed.square().mean()))
    return {
        "validation": -float(chosen.log_prob.double().mean()),
        "nll": -float(found.log_prob.double().mean()),
        "error": error,
        "seconds": seconds,
    }


def _ranked(trials: list[_Trial], groups: list[list[dict[str, float]]]) -> list[Remedy]:
    """Return each remedy with its best value on validation rows, sorted by NLL on test rows."""
    best: dict[str, tuple[float, _Trial, list[dict[str, float]]]] = {}
    for trial, group in zip(trials, groups, strict=True):
        score = _mean([run["validation"] for run in group])
        score = math.inf if math.isnan(score) else score
        if trial.name not in best or score < best[trial.name][0]:
            best[trial.name] = (score, trial, group)
    plain = [run["nll"] for run in best[PLAIN][2]]
    made = []
    for name, (_, trial, group) in best.items():
        gains = [p - run["nll"] for p, run in zip(plain, group, strict=True)]
        spread = None
        if len(gains) > 1:
            spread = float(torch.tensor(gains, dtype=torch.float64).std()) / math.sqrt(len(gains))
        keys = ("nll", "error", "seconds")
        nll, error, seconds = (_mean([run[key] for run in group]) for key in keys)
        made.append(Remedy(name, trial.strength, nll, error, _mean(gains), spread, seconds))
    return sorted(made, key=lambda r: math.inf if math.isnan(r.nll) else r.nll)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


# --- the remedies ------------------------------------------------------------------------------


def _trials(
    net: nn.Module, likelihood: Likelihood, augment: Augment | None, lr: float
) -> tuple[list[_Trial], dict[str, str]]:
    """Return all trials that apply to this network and target, and why the others do not."""
    plain = partial(_made, Backprop, net, likelihood, lr=lr)
    trials = [_Trial(PLAIN, "", plain)]
    for s in _PRIORS:
        trials.append(_Trial("L2 prior", f"σ = {s:g}", partial(plain, prior=priors.Normal(s))))
        trials.append(_Trial("L1 prior", f"b = {s:g}", partial(plain, prior=priors.Laplace(s))))
    for n in (3, 10):
        trials.append(_Trial("early stopping", f"patience {n}", plain, stopping=n))
    for s in (0.03, 0.1, 0.3):
        trials.append(_Trial("input noise", f"σ = {s:g}", plain, 1 / COPIES, _noisy(s)))
    left_out = {}
    if augment is not None:
        trials.append(_Trial("augmentation", "", plain, 1 / COPIES, _augmented(augment)))
    else:
        left_out["augmentation"] = "pass augment=, a function that returns augmented rows"
    for p in (0.05, 0.2):
        dropped = with_dropout(net, p)
        if dropped is None:
            left_out["dropout"] = "the network is not a chain of layers with hidden activations"
            break
        make = partial(_made, Backprop, dropped, likelihood, lr=lr)
        trials.append(_Trial("dropout", f"p = {p:g}", make))
    if isinstance(likelihood, Softmax):
        for p in (0.02, 0.1):
            soft = Softmax(likelihood.classes, smoothing=p)
            make = partial(_made, Backprop, net, soft, lr=lr)
            trials.append(_Trial("smoothing", f"{p:g}", make))
    else:
        left_out["smoothing"] = "labels are smoothed, but these targets are not class labels"
    together = partial(_made, Ensemble, net, likelihood, n=MEMBERS, lr=lr)
    trials.append(_Trial(f"ensemble of {MEMBERS}", "", together, 1 / MEMBERS))
    trials.append(_Trial("Laplace", "", partial(_made, Laplace, net, likelihood, lr=lr)))
    for gain in (0.25, 1.0):
        make = partial(_made, TAGI, net, likelihood, gain=gain)
        trials.append(_Trial("TAGI", f"gain {gain:g}", make))
    for s in (0.3, 1.0):
        make = partial(_made, BayesByBackprop, net, likelihood, prior=priors.Normal(s), lr=lr)
        trials.append(_Trial("Bayes by Backprop", f"σ = {s:g}", make))
    return trials, left_out


def _made(
    kind: Callable[..., Any], net: nn.Module, likelihood: Likelihood, seed: int, **options: Any
) -> Any:
    return kind(net, likelihood, seed=seed, **options)


_PRIORS = (0.1, 0.3, 1.0)


def with_dropout(net: nn.Module, share: float) -> nn.Sequential | None:
    """Return a chain with dropout after every hidden activation; None if there is none."""
    chain = [layer.module for layer in layers(net)]
    found: list[nn.Module] = []
    for i, module in enumerate(chain):
        found.append(module)
        if isinstance(module, _ACTIVATIONS) and i < len(chain) - 1:
            found.append(nn.Dropout(share))
    if len(found) == len(chain):
        return None
    return nn.Sequential(*found)


def _noisy(sigma: float) -> Callable[[Rows, torch.Generator], Rows]:
    """Return a function that repeats the rows with noise, in units of each column's deviation."""

    def made(rows: Rows, generator: torch.Generator) -> Rows:
        x = rows[0] if rows[0].is_floating_point() else rows[0].float()
        scale = x.std(0, keepdim=True)
        copies = [
            x + sigma * scale * torch.randn(x.shape, generator=generator, dtype=x.dtype)
            for _ in range(COPIES)
        ]
        return torch.cat(copies), rows[1].repeat(COPIES, *[1] * (rows[1].ndim - 1))

    return made


def _augmented(augment: Augment) -> Callable[[Rows, torch.Generator], Rows]:
    def made(rows: Rows, generator: torch.Generator) -> Rows:
        copies = [augment(*rows, generator) for _ in range(COPIES)]
        return torch.cat([x for x, _ in copies]), torch.cat([y for _, y in copies])

    return made
