"""Ways back from noise to rows: DDPM and DDIM, with guidance.

Every step is ``z_s = on_z z_t + on_x x̂ + deviation * noise``, where ``x̂`` is the row that the
network sees in ``z_t``.  So for a linear predictor the moments of samples follow a linear
recursion, and what the network is unsure of can be carried along.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from tractable.generative.schedule import Schedule
from tractable.training.progress import Progress

Sampler = Literal["ddpm", "ddim"]
Variance = Literal["learnt", "posterior", "beta"]
Seen = Callable[[Tensor, int], tuple[Tensor, Tensor]]
"""From ``z_t`` and t, the row that the network sees in it, and the variance of that."""
Guide = Callable[[Tensor, int], Tensor]
"""From rows and the time, a value of each row to raise: ``log p(label | row)``."""


@dataclass(frozen=True)
class Walk:
    """How to walk back.

    Args:
        sampler: ``"ddpm"``, the chain of E 18.16; ``"ddim"``, of the same marginals with less
            noise (Song, Meng & Ermon, 2021).
        steps: how many; by default all of the schedule.
        variance: variance of a step of DDPM: ``"posterior"``, ``"beta"``, or ``"learnt"``, which
            adds to the posterior's what the error of the network leaves open (Bao and others,
            2022).
        eta: noise of DDIM, as a factor on the posterior's deviation.
        last_noise: whether the last step has noise as well.
    """

    sampler: Sampler = "ddpm"
    steps: int | None = None
    variance: Variance = "learnt"
    eta: float = 0.0
    last_noise: bool = False

    def __post_init__(self) -> None:
        if self.sampler not in ("ddpm", "ddim"):
            raise ValueError(f"sampler must be 'ddpm' or 'ddim', got {self.sampler!r}")
        if self.variance not in ("learnt", "posterior", "beta"):
            raise ValueError(
                f"variance must be 'learnt', 'posterior' or 'beta', got {self.variance!r}"
            )
        if not 0 <= self.eta <= 1:
            raise ValueError(f"eta must lie between 0 and 1, got {self.eta}")


def step(
    schedule: Schedule, walk: Walk, t: int, before: int, error: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Factors of ``z_t`` and ``x̂``, and the variance of the noise, in a step from t to ``before``.

    Args:
        schedule: schedule of the noise.
        walk: how to walk.
        t: the time.
        before: the next one, 0 for the row itself.
        error: variance of the error of ``x̂`` at t, for each column.
    """
    on_z, on_x, variance = schedule.posterior_weights(t, before)
    if walk.sampler == "ddim":
        deviation = walk.eta * variance.sqrt()
        kept = (schedule.noise_share(before) - deviation**2).clamp(min=0).sqrt()
        on_z = kept / schedule.noise_share(t).sqrt()
        on_x = schedule.alpha_bar(before).sqrt() - on_z * schedule.alpha_bar(t).sqrt()
        return on_z, on_x, deviation**2
    if walk.variance == "beta":
        kept = (schedule.log_alpha_bar[t] - schedule.log_alpha_bar[before]).exp()
        variance = 1 - kept
    elif walk.variance == "learnt":
        variance = variance + on_x**2 * error
    return on_z, on_x, variance


def guided(mean: Tensor, variance: Tensor, gradient: Tensor) -> Tensor:
    """A mean moved by a classifier's gradient: ``mean + variance * gradient`` (E 18.41)."""
    return mean + variance * gradient


def gradient_of(guide: Guide, rows: Callable[[Tensor], Tensor], x: Tensor, t: int) -> Tensor:
    """Derivative in ``x``, in the model's units, of what a guide says of rows of data."""
    with torch.enable_grad():
        leaf = x.detach().clone().requires_grad_()
        value = guide(rows(leaf), t)
        (found,) = torch.autograd.grad(value.sum(), leaf)
    return found


@dataclass(frozen=True)
class Hold:
    """Columns that are known, so that only the others are drawn.

    Args:
        row: rows with the known values (anything elsewhere).
        known: which they are.
    """

    row: Tensor
    known: Tensor


def walk_back(
    schedule: Schedule,
    walk: Walk,
    seen: Seen,
    errors: Tensor,
    shape: tuple[int, int],
    generator: torch.Generator,
    *,
    dtype: torch.dtype,
    shift: Callable[[Tensor, int], Tensor] | None = None,
    hold: Hold | None = None,
    progress: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """Rows drawn from noise, and the variance that comes from not knowing the weights.

    Approximate: the second adds up what the network is unsure of at every time as if these were
    independent, and leaves out how an error at one time changes what is seen later.

    Args:
        schedule: schedule of the noise.
        walk: how to walk.
        seen: the network.
        errors: variance of its error in the row, for every time and column.
        shape: rows and columns.
        generator: where noise is drawn from.
        dtype: precision.
        shift: gradient of what a guide says at the row that is seen; that row moves by it times
            its variance, as the mean of ``p(row | z_t)`` does when that is Gaussian and weighed by
            the guide, so that DDPM and DDIM are guided alike.
        hold: known columns; they are replaced by a noised version at every time (inpainting).
        progress: show a progress bar.
    """

    def noise() -> Tensor:
        return torch.randn(shape, generator=generator, dtype=dtype)

    z, times = noise(), schedule.times(walk.steps)
    doubt = torch.zeros(shape, dtype=dtype)
    with Progress(len(times), "Sampling", progress) as bar:
        for t, before in zip(times, [*times[1:], 0], strict=True):
            if hold is not None:
                z = torch.where(hold.known, schedule.noised(hold.row, noise(), t), z)
            x, unsure = seen(z, t)
            if shift is not None:
                x = guided(x, errors[t - 1].to(dtype), shift(x, t))
            on_z, on_x, spread = (
                v.to(dtype) for v in step(schedule, walk, t, before, errors[t - 1])
            )
            mean = on_z * z + on_x * x
            doubt = on_z**2 * doubt + on_x**2 * unsure
            noisy = before > 0 or walk.last_noise
            z = mean + spread.sqrt() * noise() if noisy else mean
            bar.advance()
    if hold is not None:
        z = torch.where(hold.known, hold.row, z)
        doubt = doubt.masked_fill(hold.known, 0.0)
    return z, doubt
