"""Rows held out from copies of a learner: the scale of the noise and the number of epochs.

Several passes over the same data make a posterior too narrow, so the errors are measured on rows
outside the training data: five folds of ten in turn for few rows, one fold for many rows.
``Learner.fit(calibrate=True)`` and the scikit-learn estimators share these functions.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tractable.likelihoods.base import HeldOut, Likelihood
from tractable.training.data import ArrayData, LoaderData
from tractable.training.inputs import Inputs
from tractable.training.parallel import fit_many

if TYPE_CHECKING:
    from tractable.learners.learner import Learner
    from tractable.learners.outputs import Outputs

MANY_ROWS = 2_000
"""Number of rows from which on one fold of ten is enough and may stay out of the training."""
MIN_ROWS = 20
"""Minimum number of rows for which any row is held out."""


def default_epochs(rows: int) -> int:
    """Return the default number of epochs: 25,000 rows in total, between 40 and 100 epochs."""
    return min(max(25_000 // rows, 40), 100)


def folds(learner: Learner, rows: int) -> tuple[Tensor, ...]:
    """Return random folds of a tenth of the rows each: five, or one for many rows."""
    order = torch.randperm(rows, generator=learner.state.generator).to(learner.device)
    return order.chunk(10)[: 5 if rows < MANY_ROWS else 1]


def split(learner: Learner, rows: int, held_out: int) -> tuple[Tensor, Tensor]:
    """Return training rows and held-out rows, sampled by the learner's generator."""
    order = torch.randperm(rows, generator=learner.state.generator)
    return order[held_out:], order[:held_out]


def held_out(
    learner: Learner, x: Inputs, y: Tensor, parts: Sequence[Tensor], **options: Any
) -> list[HeldOut]:
    """Return the moments of held-out rows by copies of the learner, fitted to the other rows.

    Args:
        learner: the learner before training; it is not changed.
        x: checked inputs.
        y: checked targets.
        parts: the rows to hold out in turn.
        options: options of ``fit_many``.
    """
    jobs = []
    for fold, out in enumerate(parts):
        keep = torch.ones(len(x), dtype=torch.bool, device=x.device)
        keep[out] = False
        jobs.append((learner.clone(seed_offset=1 + fold), x[keep], y[keep]))
    fitted = fit_many(jobs, distance_aware=False, **options)  # only inside the data are they asked
    return [
        held_out_moments(copied, x[out], y[out]) for copied, out in zip(fitted, parts, strict=True)
    ]


def held_out_moments(fitted: Learner, x: Inputs, y: Tensor) -> HeldOut:
    """Return likelihood, targets, and output moments of a fitted learner at held-out rows."""
    likelihood, outputs = held_out_outputs(fitted, x)
    return HeldOut(likelihood, y, *outputs.moments())


def held_out_outputs(fitted: Learner, x: Inputs) -> tuple[Likelihood, Outputs]:
    """Return the noise of a fitted learner and its outputs at some rows.

    The first member represents an ensemble whose outputs cannot be averaged.
    """
    likelihood = fitted.likelihood
    if not likelihood.traits.supports_output_averaging:
        fitted = getattr(fitted, "members", [fitted])[0]
        likelihood = fitted.likelihood
    return likelihood, fitted.outputs(x)


def noise_scale(learner: Learner, predictions: list[HeldOut]) -> float:
    """Return the factor on the noise variance with the best held-out fit; 1 without noise."""
    if not learner.likelihood.traits.supports_calibration:
        return 1.0
    scale: float = learner.method.held_out_scale(learner.state, predictions)
    return scale


def check_can_calibrate(likelihood: Likelihood, source: ArrayData | LoaderData) -> None:
    """Raise an error if the noise cannot be calibrated on these rows."""
    if isinstance(source, LoaderData):
        raise ValueError("calibrate needs arrays, not a DataLoader")
    if len(source) < MIN_ROWS:
        raise ValueError(f"calibrate needs at least {MIN_ROWS} rows, got {len(source)}")
    if not likelihood.traits.supports_calibration:
        raise TypeError(f"{type(likelihood).__name__} has no noise to calibrate on held-out rows")


def cross_validated_noise_scale(learner: Learner, source: ArrayData, **options: Any) -> float:
    """Return the noise scale that copies of the learner find on held-out folds."""
    parts = folds(learner, len(source))
    options["batch_size"] = source.batch_size
    return noise_scale(learner, held_out(learner, source.x, source.y, parts, **options))


def fit_and_calibrate(
    learner: Learner,
    x: Tensor,
    y: Tensor,
    rows: tuple[Tensor, Tensor],
    fit: Callable[[Learner, Tensor, Tensor], Any],
) -> None:
    """Fit a learner to some rows and scale its noise to the other rows.

    The same fit is calibrated and kept.  ``Learner.fit(calibrate=True)`` takes the noise scale from
    other fits instead: on Naval, whose noise is almost zero, its 90 % intervals covered 57 to 91 %
    on six splits, and those of this function 86 to 93 %.

    Args:
        learner: fitted and calibrated.
        x: inputs.
        y: targets.
        rows: training rows and held-out rows; see ``split``.
        fit: function that fits a learner to inputs and targets.
    """
    kept, out = rows
    fit(learner, x[kept], y[kept])
    if not learner.likelihood.traits.supports_calibration:
        return
    learner.rescale_noise(
        noise_scale(learner, [held_out_moments(learner, *learner.checks.data(x[out], y[out]))])
    )


def noise_scale_by_refit(
    learner: Learner,
    x: Tensor,
    y: Tensor,
    rows: tuple[Tensor, Tensor],
    fit: Callable[[Learner, Tensor, Tensor], Any],
) -> float:
    """Return the noise scale of a copy that is fitted to some rows and evaluated on the others."""
    kept, out = rows
    copied = copy.deepcopy(learner)
    fit(copied, x[kept], y[kept])
    return noise_scale(learner, [held_out_moments(copied, *copied.checks.data(x[out], y[out]))])


def score(learner: Learner, predictions: list[HeldOut]) -> tuple[Tensor, float]:
    """Return the log-likelihood of each held-out row with scaled noise, and the scale."""
    scale = noise_scale(learner, predictions)
    parts = []
    for likelihood, targets, mean, variance in predictions:
        scaled = copy.deepcopy(likelihood)
        if scaled.traits.supports_calibration:
            scaled.rescale(scale)
        parts.append(learner.method.held_out_log_prob(scaled, targets, mean, variance))
    return torch.cat(parts), scale
