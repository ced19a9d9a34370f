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
without replacement, whose variance is that of new data sets times ``1 - subset_fraction`` (exactly
so for averages), and the noise is estimated by the model, so that an error in it changes the bias.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tractable.diagnostics.parallel_fits import (
    Factory,
    Prediction,
    Rows,
    check_factory,
    checked_rows,
    draw_seeds,
    fit_and_predict,
    one_hot,
    run_all,
)
from tractable.diagnostics.result import Cell, DiagnosticResult
from tractable.plots.style import COLORS, get_axes, style_axes
from tractable.training.data import as_tensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DatasetSampler = Callable[[torch.Generator], tuple[Any, Any]]
CALIBRATED_RANGE = (0.8, 1.25)
"""Range of the ratio of epistemic to true variance that counts as calibrated."""


@dataclass(frozen=True)
class BiasVariance(DiagnosticResult):
    """Terms of an expected loss, averaged over the evaluated rows.

    Attributes:
        loss: expected squared error of a model trained on one data set, for a new target.
        noise: variance of targets about their mean.
        bias_sq: squared distance of the average model from that mean (the book's "bias" in
            eq. 8.7).
        variance: variance of models of different data sets about their mean.
        epistemic: mean epistemic variance predicted by the models; None if they predict none.
        std_errors: standard errors of these over data sets, by name.
        n_datasets: number of data sets.
        n_rows: number of rows of each data set.
        noise_from: ``"known"`` or ``"the model"``.
        log_prob: mean log density of targets; None without targets.
    """

    loss: float
    noise: float
    bias_sq: float
    variance: float
    epistemic: float | None
    std_errors: dict[str, float]
    n_datasets: int
    n_rows: int
    noise_source: str
    log_prob: float | None = None

    @property
    def epistemic_ratio(self) -> float | None:
        """Ratio of epistemic to true variance: 1 if calibrated, below 1 if overconfident."""
        if self.epistemic is None or not self.variance > 0:
            return None
        return self.epistemic / self.variance

    @property
    def epistemic_to_error_ratio(self) -> float | None:
        """Ratio of the epistemic variance to the sum of variance and squared bias."""
        error = self.variance + self.bias_sq
        return None if self.epistemic is None or not error > 0 else self.epistemic / error

    @property
    def largest_term(self) -> str:
        """Name of the largest term: ``"noise"``, ``"bias"`` or ``"variance"``."""
        parts = {"noise": self.noise, "bias": self.bias_sq, "variance": self.variance}
        return max(parts, key=lambda name: parts[name])

    def table_header(self) -> list[str]:
        """Return the names of the table's columns."""
        return ["part", "value", "share", "standard error"]

    def table_rows(self) -> list[list[Cell]]:
        """Return the rows of the table."""
        names = ("noise", "bias_sq", "variance", "loss", "epistemic")
        found: list[list[Cell]] = []
        for name in names:
            value = getattr(self, name)
            share = None if value is None or not self.loss else f"{100 * value / self.loss:.0f} %"
            found.append([name, value, share, self.std_errors.get(name)])
        return found

    def recommendation(self) -> str:
        """Return the largest term, what reduces it, and how well the model is calibrated."""
        words = {
            "noise": "noise: the model is nearly as good as these columns allow; look for columns "
            "that explain the rest",
            "bias": "bias: the model is not flexible enough; more units, more epochs or a weaker "
            "prior would help, more rows would not",
            "variance": "variance: more rows, an ensemble or a stronger prior would help",
        }[self.largest_term]
        return f"{words[0].upper()}{words[1:]}; {describe_epistemic_ratio(self.epistemic_ratio)}."

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw bars of the terms and of the predicted epistemic variance."""
        ax = get_axes(ax)
        names = ["noise", "bias²", "variance", "epistemic"]
        values = [self.noise, self.bias_sq, self.variance, self.epistemic or 0.0]
        errors = [
            self.std_errors.get(n, 0.0) for n in ("noise", "bias_sq", "variance", "epistemic")
        ]
        shown = names if self.epistemic is not None else names[:3]
        places = range(len(shown))
        ax.bar(
            places, values[: len(shown)], 0.6, yerr=errors[: len(shown)],
            color=[COLORS[6], COLORS[1], COLORS[0], COLORS[4]][: len(shown)],
            error_kw={"elinewidth": 1, "capsize": 3},
        )  # fmt: skip
        ax.set_xticks(list(places), shown)
        ax.axhline(0, color="#999999", linewidth=0.8)
        return style_axes(ax, xlabel="", ylabel="part of the expected squared error")


def describe_epistemic_ratio(ratio: float | None) -> str:
    """Return a sentence that compares the epistemic variance with the true variance.

    >>> describe_epistemic_ratio(1.17)
    "the model's epistemic variance is right within 17 %"
    >>> describe_epistemic_ratio(0.4)
    'the model is overconfident: its epistemic variance is 0.4 times the true one'
    """
    if ratio is None:
        return "the model predicts no epistemic variance"
    low, high = CALIBRATED_RANGE
    if low <= ratio <= high:
        off = max(ratio, 1 / ratio) - 1
        return f"the model's epistemic variance is right within {math.ceil(100 * off - 1e-9):.0f} %"
    kind = "overconfident" if ratio < 1 else "underconfident"
    return f"the model is {kind}: its epistemic variance is {ratio:.2g} times the true one"


def bias_variance(
    factory: Factory,
    X: Any = None,
    y: Any = None,
    *,
    sample_dataset: DatasetSampler | Sequence[tuple[Any, Any]] | None = None,
    X_test: Any = None,
    y_mean: Any = None,
    noise_variance: float | Any = None,
    n_datasets: int = 20,
    subset_fraction: float = 0.5,
    test_size: float = 0.25,
    seed: int = 0,
    n_jobs: int | None = None,
    progress: bool | None = None,
    **fit_kwargs: Any,
) -> BiasVariance:
    """Estimate the terms of the expected squared error by training on many data sets.

    With ``X`` and ``y``, a fraction of the rows is kept for testing, and data sets are drawn from
    the others.  With ``sample_dataset``, new data sets are drawn, and models are evaluated at
    ``X_test`` against the true means ``y_mean``.

    Args:
        factory: function from a seed to an untrained learner; each data set has its own seed, so
            that the variance includes that of the initial weights.
        X: inputs, ``[rows, ...]``.
        y: targets: numbers, or classes as integers.
        sample_dataset: function from a generator to inputs and targets of a new data set, used
            instead of ``X`` and ``y``; or a list of all possible data sets, equally probable: the
            terms are then exact.
        X_test: inputs to evaluate at, with ``sample_dataset``.
        y_mean: expected target at each of them.
        noise_variance: variance of the noise, one number or one for each row; default: the
            models' estimate.
        n_datasets: number of data sets to draw.
        subset_fraction: size of each data set, as a fraction of the rows to draw from.
        test_size: fraction of the rows used for testing.
        seed: random seed.
        n_jobs: number of parallel fits; default: the number of cores.
        progress: whether to show a progress bar; default: only in a terminal.
        fit_kwargs: arguments of ``fit``.

    Returns:
        The terms with their standard errors.
    """
    if sample_dataset is None:
        return _from_rows(
            factory, X, y, noise_variance, n_datasets, subset_fraction, test_size, seed, n_jobs,
            progress, fit_kwargs,
        )  # fmt: skip
    if X is not None or y is not None:
        raise ValueError("pass either X and y or sample_dataset=, not both")
    if X_test is None or y_mean is None:
        raise ValueError(
            "sample_dataset needs X_test, inputs to evaluate at, and y_mean, the true means there"
        )
    is_complete = not callable(sample_dataset)
    sets = list(sample_dataset) if is_complete else None  # type: ignore[arg-type]
    count = len(sets) if sets is not None else n_datasets
    if count < 2:
        raise ValueError(f"a variance needs at least 2 data sets, got {count}")
    threads, seeds = check_factory(factory), draw_seeds(seed, count)
    places = as_tensor(X_test, "inputs")

    def work(number: int) -> tuple[Prediction, int]:
        if sets is None:
            assert callable(sample_dataset)
            drawn = sample_dataset(torch.Generator().manual_seed(seeds[number]))
        else:
            drawn = sets[number]
        train = checked_rows(*drawn, 1, "a data set")
        prediction = fit_and_predict(factory(seeds[number]), train, places, None, fit_kwargs)
        return prediction, len(train[0])

    found = run_all(work, count, threads=threads, n_jobs=n_jobs, progress=progress)
    predictions = [part for part, _ in found]
    means = torch.stack([p.mean for p in predictions])
    expected = _expected(y_mean, means)
    noise = _noise(noise_variance, predictions, expected)
    return _jackknife(
        predictions,
        lambda kept: _terms(means[kept], expected, noise, exact=is_complete),
        found[0][1],
        noise_variance,
    )


def _expected(y_mean: Any, means: Tensor) -> Tensor:
    """Return the expected targets in the shape of the predictions."""
    expected = one_hot(as_tensor(y_mean, "y_mean"), means.shape[2])
    if expected.shape != means.shape[1:]:
        raise ValueError(
            f"y_mean has shape {tuple(expected.shape)}, predictions have {tuple(means.shape[1:])}"
        )
    return expected


def _from_rows(
    factory: Factory,
    X: Any,
    y: Any,
    noise_variance: float | Any,
    n_datasets: int,
    subset_fraction: float,
    test_size: float,
    seed: int,
    n_jobs: int | None,
    progress: bool | None,
    fit_kwargs: dict[str, Any],
) -> BiasVariance:
    for name, value in (("subset_fraction", subset_fraction), ("test_size", test_size)):
        if not 0 < value < 1:
            raise ValueError(f"{name} must lie between 0 and 1, got {value}")
    if n_datasets < 2:
        raise ValueError(f"a variance needs at least 2 data sets, got {n_datasets}")
    rows = checked_rows(X, y, 10, "bias_variance")
    threads, seeds = check_factory(factory), draw_seeds(seed, n_datasets)
    pool, held = split(len(rows[0]), test_size, seed)
    size = max(2, round(subset_fraction * len(pool)))

    def work(number: int) -> Prediction:
        generator = torch.Generator().manual_seed(seeds[number])
        places = pool[torch.randperm(len(pool), generator=generator)[:size]]
        train: Rows = (rows[0][places], rows[1][places])
        return fit_and_predict(
            factory(seeds[number]), train, rows[0][held], rows[1][held], fit_kwargs
        )

    predictions = run_all(work, n_datasets, threads=threads, n_jobs=n_jobs, progress=progress)
    means = torch.stack([p.mean for p in predictions])
    targets = one_hot(rows[1][held], means.shape[2])
    noise = _noise(noise_variance, predictions, targets)
    unsampled = 1 - size / len(pool)  # variance of these data sets over that of new ones

    def terms(kept: Tensor) -> dict[str, float]:
        own = means[kept]
        loss = _mean((own - targets).square())
        variance = _mean(own.var(0, correction=1)) / unsampled
        rest = loss - variance - _mean(noise)  # the true function is unknown
        return {"loss": loss, "noise": _mean(noise), "variance": variance, "bias_sq": rest}

    return _jackknife(predictions, terms, size, noise_variance)


def split(n_rows: int, test_size: float, seed: int) -> tuple[Tensor, Tensor]:
    """Return random indices of training rows and of test rows."""
    order = torch.randperm(n_rows, generator=torch.Generator().manual_seed(seed))
    held = min(max(1, round(test_size * n_rows)), n_rows - 2)
    return order[held:], order[:held]


def _terms(means: Tensor, y_mean: Tensor, noise: Tensor, *, exact: bool) -> dict[str, float]:
    """Return loss, noise, bias and variance of models; unbiased, or exact for all data sets.

    The squared distance of a mean of n models is biased upwards by 1/n of their variance, which is
    subtracted: with ``s^2`` over n - 1, the sum of the terms is unchanged.
    """
    n = len(means)
    middle = means.mean(0)
    variance = means.var(0, correction=0 if exact else 1)
    bias_sq = (middle - y_mean).square() - (0 if exact else variance / n)
    loss = (means - y_mean).square().mean(0) + noise
    parts = {"loss": loss, "noise": noise, "variance": variance, "bias_sq": bias_sq}
    return {name: _mean(part) for name, part in parts.items()}


def _noise(given: Any, predictions: list[Prediction], like: Tensor) -> Tensor:
    """Return the variance of the noise at each row and output."""
    if given is not None:
        known = torch.as_tensor(given, dtype=torch.float64)
        if bool((known < 0).any()) or not bool(torch.isfinite(known).all()):
            raise ValueError("noise_variance must be finite and not negative")
        return (known.unsqueeze(-1) if known.ndim == 1 else known).expand(like.shape)
    own = [part.noise for part in predictions]
    if any(part is None for part in own):
        raise ValueError("the models predict no noise variance: pass noise_variance=")
    return torch.stack([part for part in own if part is not None]).mean(0)


def _jackknife(
    predictions: list[Prediction],
    terms: Callable[[Tensor], dict[str, float]],
    n_rows: int,
    noise_variance: Any,
) -> BiasVariance:
    """Return all terms, with their jackknife standard errors over data sets."""
    n = len(predictions)
    places = torch.arange(n)
    whole = terms(places)
    own = [part.epistemic for part in predictions]
    epistemic = None
    if all(part is not None for part in own):
        epistemic = torch.tensor([_mean(part) for part in own if part is not None])
    errors: dict[str, float] = {}
    if n > 2:
        without = [terms(places[places != i]) for i in range(n)]
        for name in whole:
            values = torch.tensor([part[name] for part in without], dtype=torch.float64)
            errors[name] = float(((n - 1) * values.var(correction=0)).sqrt())
    if epistemic is not None and n > 1:
        errors["epistemic"] = float(epistemic.std() / math.sqrt(n))
    logs = [part.log_prob for part in predictions]
    known = [float(part.mean()) for part in logs if part is not None]
    return BiasVariance(
        **whole,
        epistemic=None if epistemic is None else float(epistemic.mean()),
        std_errors=errors,
        n_datasets=n,
        n_rows=n_rows,
        noise_source="model" if noise_variance is None else "given",
        log_prob=sum(known) / len(known) if known else None,
    )


def _mean(values: Tensor) -> float:
    """Return the mean over rows of the sum over outputs."""
    return float(values.double().reshape(-1, values.shape[-1]).sum(-1).mean())
