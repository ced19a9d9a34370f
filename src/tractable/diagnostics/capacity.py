"""Choice of the network size: training and test error by size, and the learner's evidence.

Near the size at which a network can just fit every training row, the test error of a point estimate
may peak before it falls again: double descent ("Understanding Deep Learning", section 8.4).  That
size is the *interpolation threshold*: the first at which the training error is close to zero.  A
prior over the weights can damp the peak.  The evidence of such a learner, which needs no test rows,
can be compared with the test error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from tractable.diagnostics.bias_variance import split
from tractable.diagnostics.parallel_fits import (
    Prediction,
    Rows,
    check_factory,
    checked_rows,
    draw_seeds,
    one_hot,
    predict_at,
    run_all,
)
from tractable.diagnostics.result import Cell, DiagnosticResult
from tractable.plots.style import COLORS, INK, get_axes, legend, style_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SizedFactory = Callable[[int, int], Any]
_EVIDENCE = ("log_evidence", "elbo")
INTERPOLATION_TOLERANCE = 0.01
"""Fraction of the error of a constant below which the training rows count as fitted."""


@dataclass(frozen=True)
class SizeResult:
    """Results of one network size, averaged over seeds.

    Attributes:
        size: size passed to ``factory``.
        n_parameters: number of parameters.
        train_error: error rate, or mean squared error, on the training rows.
        test_error: the same on the test rows.
        test_error_std: its standard deviation over seeds; None for one seed.
        test_nll: mean negative log density of the test targets.
        evidence: log evidence, or a lower bound of it, per training row; None if the learner has
            none.
    """

    size: int
    n_parameters: int
    train_error: float
    test_error: float
    test_error_std: float | None
    test_nll: float
    evidence: float | None


@dataclass(frozen=True)
class Capacity(DiagnosticResult):
    """Errors by network size.

    Attributes:
        sizes: one entry for each size, in increasing order.
        error_metric: ``"error rate"`` or ``"mean squared error"``.
        baseline: test error of predicting the mean, or the most frequent class.
        n_train_rows: number of training rows.
        n_outputs: number of outputs or classes.
    """

    sizes: tuple[SizeResult, ...]
    error_metric: str
    baseline: float
    n_train_rows: int
    n_outputs: int

    @property
    def interpolation_threshold(self) -> int | None:
        """Smallest size at which the training rows are fitted; None if there is none."""
        fitted = [
            s.size for s in self.sizes if s.train_error <= INTERPOLATION_TOLERANCE * self.baseline
        ]
        return min(fitted, default=None)

    @property
    def best(self) -> SizeResult:
        """Size with the smallest test error."""
        return min(self.sizes, key=lambda s: s.test_error)

    @property
    def best_by_evidence(self) -> SizeResult | None:
        """Size with the largest evidence, which uses no test rows; None without evidence."""
        known = [s for s in self.sizes if s.evidence is not None]
        return max(known, key=lambda s: s.evidence or -math.inf, default=None)

    @property
    def peak_ratio(self) -> float:
        """Largest ratio of a test error to the smallest one before it; 1 without a peak.

        Only errors that are followed by a smaller error count.
        """
        errors = [s.test_error for s in self.sizes]
        ratios = [1.0]
        for i in range(1, len(errors) - 1):
            if min(errors[i + 1 :]) < errors[i]:
                ratios.append(errors[i] / max(min(errors[:i]), 1e-300))
        return max(ratios)

    @property
    def has_peak(self) -> bool:
        """Whether there is a peak larger than two standard deviations over seeds."""
        for i in range(1, len(self.sizes) - 1):
            here, before = self.sizes[i], min(s.test_error for s in self.sizes[:i])
            scatter = 2 * (here.test_error_std or 0.0)
            after = min(s.test_error for s in self.sizes[i + 1 :])
            if here.test_error - scatter > 1.1 * max(before, after):
                return True
        return False

    def table_header(self) -> list[str]:
        """Return the names of the table's columns."""
        return ["size", "parameters", "train error", "test error", "std", "test NLL", "evidence"]

    def table_rows(self) -> list[list[Cell]]:
        """Return the rows of the table."""
        return [
            [s.size, s.n_parameters, s.train_error, s.test_error, s.test_error_std, s.test_nll,
             s.evidence]
            for s in self.sizes
        ]  # fmt: skip

    def recommendation(self) -> str:
        """Return the best size, and whether the test error has a peak."""
        words = f"Size {self.best.size} has the lowest test error, {self.best.test_error:.3g}"
        if self.has_peak:
            words += (
                f"; with size, the error rises to {self.peak_ratio:.2g} times its previous minimum"
            )
            if self.interpolation_threshold is not None:
                words += f", near the interpolation threshold (size {self.interpolation_threshold})"
        chosen = self.best_by_evidence
        if chosen is not None:
            words += f"; the evidence prefers {chosen.size}"
        return f"{words}."

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw training and test error by size, with the interpolation threshold."""
        ax = get_axes(ax)
        sizes = [s.size for s in self.sizes]
        test = [s.test_error for s in self.sizes]
        ax.plot(sizes, [s.train_error for s in self.sizes], "o--", color=COLORS[6], label="train",
                markersize=4, linewidth=1.5)  # fmt: skip
        ax.plot(sizes, test, "o-", color=COLORS[0], label="test", markersize=4, linewidth=1.8)
        if all(s.test_error_std is not None for s in self.sizes):
            spread = [s.test_error_std or 0.0 for s in self.sizes]
            low, high = ([t + k * d for t, d in zip(test, spread, strict=True)] for k in (-1, 1))
            ax.fill_between(sizes, low, high, color=COLORS[0], alpha=0.15, linewidth=0)
        if self.interpolation_threshold is not None:
            ax.axvline(
                self.interpolation_threshold,
                color=INK,
                linewidth=1,
                linestyle=":",
                label="rows fitted",
            )
        ax.set_xscale("log")
        ax.set_xticks(sizes, [f"{size}" for size in sizes])
        ax.minorticks_off()
        ax.set_ylim(bottom=0)
        style_axes(ax, xlabel="size", ylabel=self.error_metric)
        legend(ax)
        return ax


def capacity(
    factory: SizedFactory,
    sizes: Sequence[int],
    X: Any,
    y: Any,
    *,
    validation: tuple[Any, Any] | None = None,
    test_size: float = 0.25,
    n_seeds: int = 1,
    seed: int = 0,
    n_jobs: int | None = None,
    progress: bool | None = None,
    **fit_kwargs: Any,
) -> Capacity:
    """Estimate training and test error of networks of several sizes.

    Args:
        factory: function from a size and a seed to an untrained learner.
        sizes: network sizes, for example widths or depths.
        X: inputs, ``[rows, ...]``.
        y: targets: numbers, or classes as integers.
        validation: test inputs and targets; default: a fraction of the rows.
        test_size: that fraction.
        n_seeds: number of fits of each size.
        seed: random seed.
        n_jobs: number of parallel fits; default: the number of cores.
        progress: whether to show a progress bar; default: only in a terminal.
        fit_kwargs: arguments of ``fit``.

    Returns:
        The errors of each size.
    """
    sizes = sorted(int(size) for size in sizes)
    if not sizes or sizes[0] < 1 or len(set(sizes)) < len(sizes):
        raise ValueError(f"sizes must be different whole numbers from 1, got {sizes}")
    if n_seeds < 1:
        raise ValueError(f"n_seeds must be at least 1, got {n_seeds}")
    train, held = _rows(X, y, validation, test_size, seed)
    threads = check_factory(lambda seed: factory(sizes[0], seed))
    seeds = draw_seeds(seed, n_seeds)

    def work(number: int) -> tuple[Prediction, Prediction, int, float | None]:
        learner = factory(sizes[number // n_seeds], seeds[number % n_seeds])
        learner.fit(*train, progress=False, **fit_kwargs)
        count = sum(shape.numel() for shape in learner.method.network.shapes.values())
        own = predict_at(learner, *train), predict_at(learner, *held)
        return *own, count, _evidence(learner, len(train[0]))

    found = run_all(work, len(sizes) * n_seeds, threads=threads, n_jobs=n_jobs, progress=progress)
    classes = not train[1].is_floating_point() and found[0][0].mean.shape[1] > 1
    entries = []
    for i, size in enumerate(sizes):
        group = found[i * n_seeds : (i + 1) * n_seeds]
        errors = [_error(part[1], held[1], classes) for part in group]
        nll = [-float(part[1].log_prob.mean()) for part in group if part[1].log_prob is not None]
        own = [part[3] for part in group if part[3] is not None]
        spread = torch.tensor(errors).std().item() if n_seeds > 1 else None
        entries.append(
            SizeResult(
                size,
                group[0][2],
                _average([_error(p[0], train[1], classes) for p in group]),
                _average(errors),
                spread,
                _average(nll),
                _average(own) if own else None,
            )
        )
    return Capacity(
        tuple(entries),
        "error rate" if classes else "mean squared error",
        _baseline(train[1], held[1], classes),
        len(train[0]),
        found[0][0].mean.shape[1],
    )


def _rows(
    X: Any, y: Any, validation: tuple[Any, Any] | None, test_size: float, seed: int
) -> tuple[Rows, Rows]:
    rows = checked_rows(X, y, 4, "capacity")
    if validation is not None:
        return rows, checked_rows(*validation, 1, "validation")
    if not 0 < test_size < 1:
        raise ValueError(f"test_size must lie between 0 and 1, got {test_size}")
    kept, out = split(len(rows[0]), test_size, seed)
    return (rows[0][kept], rows[1][kept]), (rows[0][out], rows[1][out])


def _error(found: Prediction, y: Any, classes: bool) -> float:
    if classes:
        return float((found.mean.argmax(-1) != y).double().mean())
    return float((found.mean - one_hot(y, found.mean.shape[1])).square().mean())


def _baseline(train: Any, held: Any, classes: bool) -> float:
    if classes:
        return float((held != train.mode().values).double().mean())
    return float((held.double() - train.double().mean(0)).square().mean())


def _evidence(learner: Any, rows: int) -> float | None:
    """Return the last evidence in the learner's history, per row; None without one."""
    last = learner.history[-1] if learner.history else {}
    for key in _EVIDENCE:
        if key in last:
            return float(last[key]) / rows
    return None


def _average(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan
