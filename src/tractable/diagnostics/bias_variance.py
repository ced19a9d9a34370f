"""Bias-variance decomposition of the error, and calibration of the epistemic variance.

For a learning procedure and a squared loss (of numbers, or of class probabilities: the Brier
score), "Understanding Deep Learning" eq. 8.7,

    expected loss = noise + bias^2 + variance

over data sets: the variance of targets about their mean, the squared distance between that mean and
the average model, and the variance between models of different data sets.  The epistemic variance
of a Bayesian model is an estimate of the last term, so the two are compared: their ratio is 1 if
the model is calibrated.

Exact: the sum, always; every term, for a list of all possible data sets.  Unbiased: each term,
for data sets drawn by a sampler.  Approximate, for a table of rows: data sets are drawn from it
without replacement, whose variance is that of new data sets times ``1 - share`` (exactly so for
averages), and the noise is estimated by the model, so that an error in it changes the bias.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tractable.diagnostics.parallel_fits import (
    Maker,
    Rows,
    Said,
    check_maker,
    checked_rows,
    fit_one,
    one_hot,
    run_all,
    seeds_of,
)
from tractable.diagnostics.result import Cell, Result
from tractable.plots.canvas import COLORS, canvas, quiet
from tractable.training.batches import as_tensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Sampler = Callable[[torch.Generator], tuple[Any, Any]]
HONEST = (0.8, 1.25)
"""Range of the ratio of epistemic to true variance that counts as calibrated."""


@dataclass(frozen=True)
class BiasVariance(Result):
    """Terms of an expected loss, averaged over the evaluated rows.

    Attributes:
        loss: expected squared error of a model trained on one data set, for a new target.
        noise: variance of targets about their mean.
        bias_sq: squared distance of the average model from that mean (the book's "bias" in
            eq. 8.7).
        variance: variance of models of different data sets about their mean.
        epistemic: mean epistemic variance predicted by the models; None if they predict none.
        errors: standard errors of these over data sets, by name.
        datasets: number of data sets.
        rows: number of rows of each data set.
        noise_from: ``"known"`` or ``"the model"``.
        log_prob: mean log density of targets; None without targets.
    """

    loss: float
    noise: float
    bias_sq: float
    variance: float
    epistemic: float | None
    errors: dict[str, float]
    datasets: int
    rows: int
    noise_from: str
    log_prob: float | None = None

    @property
    def honesty(self) -> float | None:
        """Ratio of epistemic to true variance: 1 if calibrated, below 1 if overconfident."""
        if self.epistemic is None or not self.variance > 0:
            return None
        return self.epistemic / self.variance

    @property
    def doubt_of_error(self) -> float | None:
        """Ratio of the epistemic variance to the sum of variance and squared bias."""
        error = self.variance + self.bias_sq
        return None if self.epistemic is None or not error > 0 else self.epistemic / error

    @property
    def main(self) -> str:
        """Name of the largest term: ``"noise"``, ``"bias"`` or ``"variance"``."""
        parts = {"noise": self.noise, "bias": self.bias_sq, "variance": self.variance}
        return max(parts, key=lambda name: parts[name])

    def header(self) -> list[str]:
        """Return the names of the table's columns."""
        return ["part", "value", "share", "standard error"]

    def cells(self) -> list[list[Cell]]:
        """Return the rows of the table."""
        names = ("noise", "bias_sq", "variance", "loss", "epistemic")
        found: list[list[Cell]] = []
        for name in names:
            value = getattr(self, name)
            share = None if value is None or not self.loss else f"{100 * value / self.loss:.0f} %"
            found.append([name, value, share, self.errors.get(name)])
        return found

    def advice(self) -> str:
        """Return the largest term, what reduces it, and how well the model is calibrated."""
        words = {
            "noise": "noise: the model is nearly as good as these columns allow; look for columns "
            "that explain the rest",
            "bias": "bias: the model is not flexible enough; more units, more epochs or a weaker "
            "prior would help, more rows would not",
            "variance": "variance: more rows, an ensemble or a stronger prior would help",
        }[self.main]
        return f"{words[0].upper()}{words[1:]}; {doubt_in_words(self.honesty)}."

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw bars of the terms and of the predicted epistemic variance."""
        ax = canvas(ax)
        names = ["noise", "bias²", "variance", "epistemic"]
        values = [self.noise, self.bias_sq, self.variance, self.epistemic or 0.0]
        errors = [self.errors.get(n, 0.0) for n in ("noise", "bias_sq", "variance", "epistemic")]
        shown = names if self.epistemic is not None else names[:3]
        places = range(len(shown))
        ax.bar(
            places, values[: len(shown)], 0.6, yerr=errors[: len(shown)],
            color=[COLORS[6], COLORS[1], COLORS[0], COLORS[4]][: len(shown)],
            error_kw={"elinewidth": 1, "capsize": 3},
        )  # fmt: skip
        ax.set_xticks(list(places), shown)
        ax.axhline(0, color="#999999", linewidth=0.8)
        return quiet(ax, xlabel="", ylabel="part of the expected squared error")


def doubt_in_words(honesty: float | None) -> str:
    """Return a sentence that compares the epistemic variance with the true variance.

    >>> doubt_in_words(1.17)
    "the model's epistemic variance is right within 17 %"
    >>> doubt_in_words(0.4)
    'the model is overconfident: its epistemic variance is 0.4 times the true one'
    """
    if honesty is None:
        return "the model predicts no epistemic variance"
    low, high = HONEST
    if low <= honesty <= high:
        off = max(honesty, 1 / honesty) - 1
        return f"the model's epistemic variance is right within {math.ceil(100 * off - 1e-9):.0f} %"
    kind = "overconfident" if honesty < 1 else "underconfident"
    return f"the model is {kind}: its epistemic variance is {honesty:.2g} times the true one"


def bias_variance(
    make: Maker,
    X: Any = None,
    y: Any = None,
    *,
    sampler: Sampler | Sequence[tuple[Any, Any]] | None = None,
    at: Any = None,
    truth: Any = None,
    noise: float | Any = None,
    datasets: int = 20,
    share: float = 0.5,
    test: float = 0.25,
    seed: int = 0,
    workers: int | None = None,
    progress: bool | None = None,
    **options: Any,
) -> BiasVariance:
    """Estimate the terms of the expected squared error by training on many data sets.

    With ``X`` and ``y``, a fraction of the rows is kept for testing, and data sets are drawn from
    the others.  With ``sampler``, new data sets are drawn, and models are evaluated at ``at``
    against the ``truth`` there.

    Args:
        make: function from a seed to an untrained learner; each data set has its own seed, so that
            the variance includes that of the initial weights.
        X: inputs, ``[rows, ...]``.
        y: targets: numbers, or classes as integers.
        sampler: function from a generator to inputs and targets of a new data set, used instead of
            ``X`` and ``y``; or a list of all possible data sets, equally probable: the terms are
            then exact.
        at: inputs to evaluate at, with ``sampler``.
        truth: mean of the target at each of them.
        noise: variance of the noise, one number or one for each row; default: the models' estimate.
        datasets: number of data sets to draw.
        share: size of each data set, as a fraction of the rows to draw from.
        test: fraction of the rows used for testing.
        seed: random seed.
        workers: number of parallel fits; default: the number of cores.
        progress: whether to show a progress bar; default: only in a terminal.
        options: arguments of ``fit``.

    Returns:
        The terms with their standard errors.
    """
    if sampler is None:
        return _of_rows(
            make, X, y, noise, datasets, share, test, seed, workers, progress, options
        )  # fmt: skip
    if X is not None or y is not None:
        raise ValueError("pass either X and y or sampler=, not both")
    if at is None or truth is None:
        raise ValueError("a sampler needs `at`, inputs to evaluate at, and the `truth` there")
    every = not callable(sampler)
    sets = list(sampler) if every else None  # type: ignore[arg-type]
    count = len(sets) if sets is not None else datasets
    if count < 2:
        raise ValueError(f"a variance needs at least 2 data sets, got {count}")
    threads, seeds, places = check_maker(make), seeds_of(seed, count), as_tensor(at, "inputs")

    def work(number: int) -> tuple[Said, int]:
        if sets is None:
            assert callable(sampler)
            drawn = sampler(torch.Generator().manual_seed(seeds[number]))
        else:
            drawn = sets[number]
        train = checked_rows(*drawn, 1, "a data set")
        return fit_one(make(seeds[number]), train, places, None, options), len(train[0])

    found = run_all(work, count, threads=threads, workers=workers, progress=progress)
    said = [part for part, _ in found]
    means = torch.stack([s.mean for s in said])
    right = one_hot(as_tensor(truth, "truth"), means.shape[2])
    if right.shape != means.shape[1:]:
        raise ValueError(
            f"truth has shape {tuple(right.shape)}, predictions have {tuple(means.shape[1:])}"
        )
    scatter = _noise(noise, said, right)
    return _put_together(
        said, lambda kept: _terms(means[kept], right, scatter, exact=every), found[0][1], noise
    )


def _of_rows(
    make: Maker,
    X: Any,
    y: Any,
    noise: float | Any,
    datasets: int,
    share: float,
    test: float,
    seed: int,
    workers: int | None,
    progress: bool | None,
    options: dict[str, Any],
) -> BiasVariance:
    for name, value in (("share", share), ("test", test)):
        if not 0 < value < 1:
            raise ValueError(f"{name} must lie between 0 and 1, got {value}")
    if datasets < 2:
        raise ValueError(f"a variance needs at least 2 data sets, got {datasets}")
    rows = checked_rows(X, y, 10, "bias_variance")
    threads, seeds = check_maker(make), seeds_of(seed, datasets)
    pool, held = split(len(rows[0]), test, seed)
    size = max(2, round(share * len(pool)))

    def work(number: int) -> Said:
        generator = torch.Generator().manual_seed(seeds[number])
        places = pool[torch.randperm(len(pool), generator=generator)[:size]]
        train: Rows = (rows[0][places], rows[1][places])
        return fit_one(make(seeds[number]), train, rows[0][held], rows[1][held], options)

    said = run_all(work, datasets, threads=threads, workers=workers, progress=progress)
    means = torch.stack([s.mean for s in said])
    seen = one_hot(rows[1][held], means.shape[2])
    scatter = _noise(noise, said, seen)
    drawn = 1 - size / len(pool)  # variance of these data sets over that of new ones

    def terms(kept: Tensor) -> dict[str, float]:
        of = means[kept]
        loss = _mean((of - seen).square())
        variance = _mean(of.var(0, correction=1)) / drawn
        rest = loss - variance - _mean(scatter)  # the true function is unknown
        return {"loss": loss, "noise": _mean(scatter), "variance": variance, "bias_sq": rest}

    return _put_together(said, terms, size, noise)


def split(rows: int, test: float, seed: int) -> tuple[Tensor, Tensor]:
    """Return random indices of training rows and of test rows."""
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))
    held = min(max(1, round(test * rows)), rows - 2)
    return order[held:], order[:held]


def _terms(means: Tensor, truth: Tensor, scatter: Tensor, *, exact: bool) -> dict[str, float]:
    """Return loss, noise, bias and variance of models; unbiased, or exact for all data sets.

    The squared distance of a mean of n models is biased upwards by 1/n of their variance, which is
    subtracted: with ``s^2`` over n - 1, the sum of the terms is unchanged.
    """
    n = len(means)
    middle = means.mean(0)
    spread = means.var(0, correction=0 if exact else 1)
    bias_sq = (middle - truth).square() - (0 if exact else spread / n)
    loss = (means - truth).square().mean(0) + scatter
    parts = {"loss": loss, "noise": scatter, "variance": spread, "bias_sq": bias_sq}
    return {name: _mean(part) for name, part in parts.items()}


def _noise(given: Any, said: list[Said], like: Tensor) -> Tensor:
    """Return the variance of the noise at each row and output."""
    if given is not None:
        known = torch.as_tensor(given, dtype=torch.float64)
        if bool((known < 0).any()) or not bool(torch.isfinite(known).all()):
            raise ValueError("noise is a variance and must be finite and not negative")
        return (known.unsqueeze(-1) if known.ndim == 1 else known).expand(like.shape)
    own = [part.noise for part in said]
    if any(part is None for part in own):
        raise ValueError("the models predict no noise variance: give noise=, the variance")
    return torch.stack([part for part in own if part is not None]).mean(0)


def _put_together(
    said: list[Said], terms: Callable[[Tensor], dict[str, float]], rows: int, noise: Any
) -> BiasVariance:
    """Return all terms, with their jackknife standard errors over data sets."""
    n = len(said)
    places = torch.arange(n)
    whole = terms(places)
    own = [part.epistemic for part in said]
    doubts = None
    if all(part is not None for part in own):
        doubts = torch.tensor([_mean(part) for part in own if part is not None])
    errors: dict[str, float] = {}
    if n > 2:
        without = [terms(places[places != i]) for i in range(n)]
        for name in whole:
            values = torch.tensor([part[name] for part in without], dtype=torch.float64)
            errors[name] = float(((n - 1) * values.var(correction=0)).sqrt())
    if doubts is not None and n > 1:
        errors["epistemic"] = float(doubts.std() / math.sqrt(n))
    logs = [part.log_prob for part in said]
    known = [float(part.mean()) for part in logs if part is not None]
    return BiasVariance(
        **whole,
        epistemic=None if doubts is None else float(doubts.mean()),
        errors=errors,
        datasets=n,
        rows=rows,
        noise_from="the model" if noise is None else "known",
        log_prob=sum(known) / len(known) if known else None,
    )


def _mean(values: Tensor) -> float:
    """Return the mean over rows of the sum over outputs."""
    return float(values.double().reshape(-1, values.shape[-1]).sum(-1).mean())
