"""Learning curve: the error by number of rows, extrapolated with an interval.

The expected loss of fits of n rows is modeled as ``a + b n^-c`` with ``a, b >= 0`` and ``c`` from
0.1 to 2, where ``a`` is the irreducible part.  The interval is that of curves fitted to resampled
repeats, with the variance of the repeats about the curve.

Approximate: the power law itself, most of all far beyond the available number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tractable.diagnostics.parallel_fits import (
    Factory,
    Prediction,
    check_factory,
    checked_rows,
    draw_seeds,
    fit_and_predict,
    kfold,
    one_hot,
    run_all,
)
from tractable.diagnostics.result import Cell, DiagnosticResult
from tractable.plots.style import COLORS, get_axes, legend, style_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_POWERS = torch.linspace(0.1, 2.0, 39, dtype=torch.float64)
_BOOTSTRAP_SAMPLES = 400  # bootstrap samples of the folds
MIN_REDUCTION = 0.05
"""Minimum relative reduction of the error by twice the rows that is recommended."""
LEVEL = 0.9
"""Coverage of the interval of an extrapolation."""


@dataclass(frozen=True)
class LossForecast:
    """Expected loss for a number of training rows.

    Attributes:
        n_rows: number of training rows.
        loss: expected squared error (Brier score, for classes).
        low: lower end of the 90 % interval.
        high: upper end of the 90 % interval.
        reduction_low: lower end of the 90 % interval of the relative reduction of the current loss.
        reduction_high: upper end of the same interval.
    """

    n_rows: int
    loss: float
    low: float
    high: float
    reduction_low: float
    reduction_high: float


@dataclass(frozen=True)
class LearningCurve(DiagnosticResult):
    """Error by number of rows, and its extrapolation.

    Attributes:
        n_rows: numbers of training rows.
        losses: loss of each repeat, for each number of rows.
        irreducible_loss: ``a``: irreducible part of the loss.
        exponent: ``c``: exponent of the decrease of the rest.
        current: expected loss for all available rows, by the curve.
        forecasts: expected loss for more rows.
    """

    n_rows: tuple[int, ...]
    losses: tuple[tuple[float, ...], ...]
    irreducible_loss: float
    exponent: float
    current: LossForecast
    forecasts: tuple[LossForecast, ...]

    def table_header(self) -> list[str]:
        """Return the names of the table's columns."""
        return ["rows", "loss", "low", "high", ""]

    def table_rows(self) -> list[list[Cell]]:
        """Return the rows of the table."""
        found: list[list[Cell]] = [
            [n, sum(group) / len(group), min(group), max(group), "measured"]
            for n, group in zip(self.n_rows, self.losses, strict=True)
        ]
        return found + [[e.n_rows, e.loss, e.low, e.high, "expected"] for e in self.forecasts]

    def recommendation(self) -> str:
        """Return the effect of the first extrapolation; the advice follows the fitted curve."""
        more = self.forecasts[0]
        saved = 1 - more.loss / self.current.loss if self.current.loss > 0 else 0.0
        before, after = f"{self.current.loss:.3g}", f"{more.loss:.3g}"
        low, high = (f"{100 * share:.0f}" for share in (more.reduction_low, more.reduction_high))
        rows = f"{more.n_rows} rows instead of {self.current.n_rows}"
        if saved < MIN_REDUCTION:
            change = f"leave it at {after}" if before == after else f"reduce it to {after}"
            most = f"at most {high} % less" if high != "0" else "a negligible reduction"
            return (
                f"More rows would hardly help: the squared error is {before}, and {rows} should "
                f"{change} ({most})."
            )
        words = (
            f"{rows} should reduce the squared error by {low} to {high} %, from {before} to {after}"
        )
        if more.reduction_low >= MIN_REDUCTION:
            return f"More rows would help: {words}."
        return f"More rows may help: {words}."

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the measured losses and the fitted curve with its extrapolation."""
        ax = get_axes(ax)
        for n, group in zip(self.n_rows, self.losses, strict=True):
            ax.plot([n] * len(group), group, "o", color=COLORS[0], alpha=0.4, markersize=4)
        places = [*self.n_rows, *(e.n_rows for e in self.forecasts)]
        grid = torch.logspace(math.log10(places[0]), math.log10(places[-1]), 100)
        means = torch.tensor(self.losses, dtype=torch.float64).mean(1)
        curve = fit_power_laws(self.n_rows, means[None]).at(grid.double())[0]
        ax.plot(grid, curve, color=COLORS[0], linewidth=1.8, label="fitted")
        ax.errorbar(
            [e.n_rows for e in self.forecasts], [e.loss for e in self.forecasts],
            yerr=[
                [e.loss - e.low for e in self.forecasts], [e.high - e.loss for e in self.forecasts],
            ],
            fmt="s", color=COLORS[1], markersize=5, capsize=3, label="expected, 90 % interval",
        )  # fmt: skip
        ax.set_xscale("log")
        ax.set_xticks(places, [f"{n}" for n in places], rotation=45)
        ax.minorticks_off()
        ax.set_ylim(bottom=0)
        style_axes(ax, xlabel="training rows", ylabel="squared error")
        legend(ax)
        return ax


def learning_curve(
    factory: Factory,
    X: Any,
    y: Any,
    *,
    train_fractions: Sequence[float] = (0.1, 0.2, 0.4, 0.7, 1.0),
    n_folds: int = 5,
    extrapolation_factors: Sequence[float] = (2.0, 4.0),
    seed: int = 0,
    n_jobs: int | None = None,
    progress: bool | None = None,
    **fit_kwargs: Any,
) -> LearningCurve:
    """Estimate the loss on held-out folds by number of rows, and extrapolate it.

    Args:
        factory: function from a seed to an untrained learner.
        X: inputs, ``[rows, ...]``.
        y: targets: numbers, or classes as integers.
        train_fractions: fractions of the rows outside a fold that are used for training.
        n_folds: number of cross-validation folds, each a repeat.
        extrapolation_factors: extrapolated numbers of rows, as multiples of the available number.
        seed: random seed.
        n_jobs: number of parallel fits; default: the number of cores.
        progress: whether to show a progress bar; default: only in a terminal.
        fit_kwargs: arguments of ``fit``.

    Returns:
        The learning curve and its extrapolation.
    """
    if len(train_fractions) < 3 or not all(0 < share <= 1 for share in train_fractions):
        raise ValueError(
            f"train_fractions must be three or more, each up to 1, got {tuple(train_fractions)}"
        )
    if not extrapolation_factors or min(extrapolation_factors) <= 1:
        raise ValueError(
            f"extrapolation_factors must be above 1, got {tuple(extrapolation_factors)}"
        )
    rows = checked_rows(X, y, 2, "learning_curve")
    parts = kfold(len(rows[0]), n_folds, seed)
    threads, seeds = check_factory(factory), draw_seeds(seed, n_folds * len(train_fractions))
    n_train = len(rows[0]) - len(parts[0])
    sizes = sorted({max(2, round(share * n_train)) for share in train_fractions})
    if len(sizes) < 3:
        raise ValueError(
            f"{len(rows[0])} rows are too few for a learning curve: got the sizes {sizes}, "
            f"expected at least 3 different ones"
        )

    def work(number: int) -> float:
        size, fold = sizes[number // n_folds], number % n_folds
        generator = torch.Generator().manual_seed(seed + 1 + fold)
        others = torch.cat([part for i, part in enumerate(parts) if i != fold])
        places = others[torch.randperm(len(others), generator=generator)[:size]]
        held = parts[fold]
        train = rows[0][places], rows[1][places]
        found = fit_and_predict(factory(seeds[number]), train, rows[0][held], None, fit_kwargs)
        return loss_of(found, rows[1][held])

    found = run_all(work, n_folds * len(sizes), threads=threads, n_jobs=n_jobs, progress=progress)
    losses = tuple(
        tuple(found[i * n_folds : (i + 1) * n_folds]) for i in range(len(sizes))
    )  # of each size
    return _extrapolate(tuple(sizes), losses, len(rows[0]), extrapolation_factors, seed)


def loss_of(found: Prediction, y: Tensor) -> float:
    """Return the squared error of the mean, summed over outputs; the Brier score, for classes."""
    return float((found.mean - one_hot(y, found.mean.shape[1])).square().sum(-1).mean())


@dataclass(frozen=True)
class PowerLaws:
    """Curves ``a + b n^-c``, one for each row of means."""

    irreducible_loss: Tensor
    scale: Tensor
    exponent: Tensor

    def at(self, rows: Tensor) -> Tensor:
        """Return the losses at these numbers of rows, ``[curves, numbers]``."""
        return (
            self.irreducible_loss[:, None] + self.scale[:, None] * rows ** -self.exponent[:, None]
        )


def fit_power_laws(rows: Sequence[int], means: Tensor) -> PowerLaws:
    """Fit curves by weighted least squares with ``a, b >= 0``; weights make the errors relative.

    Args:
        rows: numbers of rows, ``[sizes]``.
        means: mean losses, ``[curves, sizes]``.
    """
    n = torch.tensor(rows, dtype=torch.float64)
    u = n ** -_POWERS[:, None]  # [powers, sizes]
    y = means[:, None, :]
    w = y.clamp_min(1e-300) ** -2
    s, su, suu = w.sum(-1), (w * u).sum(-1), (w * u * u).sum(-1)
    sy, suy = (w * y).sum(-1), (w * u * y).sum(-1)
    b = (s * suy - su * sy) / (s * suu - su * su).clamp_min(1e-300)
    a = (sy - b * su) / s
    inside = (a >= 0) & (b >= 0)
    zero = torch.zeros_like(a)
    pairs = [
        (a, b),
        (zero, suy / suu),
        ((sy / s).expand_as(a), zero),
    ]  # unconstrained, and with either coefficient at its bound 0
    misfits = torch.stack(
        [
            (w * (y - p[..., None] - q[..., None] * u).square()).sum(-1)
            + (torch.where(inside, 0.0, math.inf) if i == 0 else 0.0)
            for i, (p, q) in enumerate(pairs)
        ]
    )  # [designs, curves, powers]
    curves, powers = a.shape
    chosen = misfits.permute(1, 0, 2).reshape(curves, -1).argmin(1)
    floors = torch.stack([p for p, _ in pairs], 1).reshape(curves, -1)
    scales = torch.stack([q for _, q in pairs], 1).reshape(curves, -1)
    pick = chosen[:, None]
    floor, scale = floors.gather(1, pick)[:, 0], scales.gather(1, pick)[:, 0]
    return PowerLaws(floor, scale, _POWERS[chosen % powers])


def _extrapolate(
    rows: tuple[int, ...],
    losses: tuple[tuple[float, ...], ...],
    n_available: int,
    factors: Sequence[float],
    seed: int,
) -> LearningCurve:
    table = torch.tensor(losses, dtype=torch.float64)  # [sizes, folds]
    curve = fit_power_laws(rows, table.mean(1)[None])
    places = torch.tensor(
        [n_available, *(round(n_available * f) for f in factors)], dtype=torch.float64
    )
    generator = torch.Generator().manual_seed(seed)
    folds = table.shape[1]
    # Folds are resampled for all sizes together: all sizes share the test rows of a fold.
    picks = torch.randint(0, folds, (_BOOTSTRAP_SAMPLES, folds), generator=generator)
    resampled = fit_power_laws(rows, table[:, picks].mean(2).T).at(places)
    saved = 1 - resampled / resampled[:, :1]
    tail = (1 - LEVEL) / 2
    middle = curve.at(places)[0]
    expected = []
    for i, n in enumerate(places):
        ends = [float(resampled[:, i].quantile(q)) for q in (tail, 1 - tail)]
        shares = [float(saved[:, i].quantile(q)) for q in (tail, 1 - tail)]
        m = float(middle[i])
        expected.append(LossForecast(int(n), m, min(ends[0], m), max(ends[1], m), *shares))
    return LearningCurve(
        rows,
        losses,
        float(curve.irreducible_loss),
        float(curve.exponent),
        expected[0],
        tuple(expected[1:]),
    )
