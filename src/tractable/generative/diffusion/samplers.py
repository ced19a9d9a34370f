"""Sampling by iterative denoising: DDPM and DDIM, with guidance.

Every step is ``z_s = on_z z_t + on_x x0 + std * noise``, where ``x0`` is the row that the network
predicts from ``z_t``. So for a linear predictor the moments of samples follow a linear recursion,
along which the variance by uncertain weights is propagated as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from tractable.generative.diffusion.schedule import NoiseSchedule
from tractable.training.progress import Progress

Sampler = Literal["ddpm", "ddim"]
Variance = Literal["learned", "posterior", "beta"]
PredictX0 = Callable[[Tensor, int], tuple[Tensor, Tensor]]
"""From ``z_t`` and t, the predicted row, and its variance by uncertain weights."""
GuidanceFunction = Callable[[Tensor, int], Tensor]
"""From rows of data and the time, values to increase, such as ``log p(label | row)``."""


@dataclass(frozen=True)
class SamplerConfig:
    """Options of the sampler.

    Args:
        sampler: ``"ddpm"``, the chain of E 18.16; ``"ddim"``, with the same marginals and less
            noise (Song, Meng & Ermon, 2021).
        steps: number of steps. Default: all of the schedule.
        variance: variance of a step of DDPM: ``"posterior"``, ``"beta"``, or ``"learned"``, which
            adds to the posterior's that of the prediction error of the network (Bao and others,
            2022).
        eta: noise of DDIM, as a factor on the posterior's standard deviation.
        final_noise: whether the last step adds noise as well.
    """

    sampler: Sampler = "ddpm"
    steps: int | None = None
    variance: Variance = "learned"
    eta: float = 0.0
    final_noise: bool = False

    def __post_init__(self) -> None:
        if self.sampler not in ("ddpm", "ddim"):
            raise ValueError(f"sampler must be 'ddpm' or 'ddim', got {self.sampler!r}")
        if self.variance not in ("learned", "posterior", "beta"):
            raise ValueError(
                f"variance must be 'learned', 'posterior' or 'beta', got {self.variance!r}"
            )
        if not 0 <= self.eta <= 1:
            raise ValueError(f"eta must lie between 0 and 1, got {self.eta}")


def step_weights(
    schedule: NoiseSchedule, config: SamplerConfig, t: int, before: int, error: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the factors of ``z_t`` and ``x0``, and the noise variance, of a step to ``before``.

    Args:
        schedule: noise schedule.
        config: options of the sampler.
        t: time.
        before: next time, 0 for the row itself.
        error: variance of the prediction error of ``x0`` at t, for each column.
    """
    on_z, on_x, variance = schedule.posterior_weights(t, before)
    if config.sampler == "ddim":
        std = config.eta * variance.sqrt()
        rest = (schedule.one_minus_alpha_bar(before) - std**2).clamp(min=0).sqrt()
        on_z = rest / schedule.one_minus_alpha_bar(t).sqrt()
        on_x = schedule.alpha_bar(before).sqrt() - on_z * schedule.alpha_bar(t).sqrt()
        return on_z, on_x, std**2
    if config.variance == "beta":
        ratio = (schedule.log_alpha_bar[t] - schedule.log_alpha_bar[before]).exp()
        variance = 1 - ratio
    elif config.variance == "learned":
        variance = variance + on_x**2 * error
    return on_z, on_x, variance


def guided(mean: Tensor, variance: Tensor, gradient: Tensor) -> Tensor:
    """Return a mean moved by a classifier's gradient: ``mean + variance * gradient`` (E 18.41)."""
    return mean + variance * gradient


def guidance_gradient(
    guidance_fn: GuidanceFunction, to_data: Callable[[Tensor], Tensor], x: Tensor, t: int
) -> Tensor:
    """Return the gradient of a guidance function of rows of data in ``x``, in model units."""
    with torch.enable_grad():
        leaf = x.detach().clone().requires_grad_()
        value = guidance_fn(to_data(leaf), t)
        (found,) = torch.autograd.grad(value.sum(), leaf)
    return found


@dataclass(frozen=True)
class InpaintingMask:
    """Known columns, so that only the others are sampled.

    Args:
        rows: rows with the known values; other values are ignored.
        known: mask of the known values.
    """

    rows: Tensor
    known: Tensor


def denoise(
    schedule: NoiseSchedule,
    config: SamplerConfig,
    predict_x0: PredictX0,
    errors: Tensor,
    shape: tuple[int, int],
    generator: torch.Generator,
    *,
    dtype: torch.dtype,
    gradient: Callable[[Tensor, int], Tensor] | None = None,
    inpainting: InpaintingMask | None = None,
    progress: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """Return sampled rows, and their variance by uncertain weights.

    Approximate: the variance adds those of the predictions at all times as if they were
    independent, and leaves out how an error at one time changes the later predictions.

    Args:
        schedule: noise schedule.
        config: options of the sampler.
        predict_x0: prediction of the network.
        errors: variance of its error in the row, for every time and column.
        shape: numbers of rows and columns.
        generator: random generator of the noise.
        dtype: type of the samples.
        gradient: gradient of a guidance function at the predicted row, which moves by it times its
            variance. That is exact for Gaussian rows and a linear function, and guides DDPM and
            DDIM alike.
        inpainting: known columns; they are replaced by a noised version at every time.
        progress: show a progress bar.
    """

    def noise() -> Tensor:
        return torch.randn(shape, generator=generator, dtype=dtype)

    z, times = noise(), schedule.times(config.steps)
    weight_variance = torch.zeros(shape, dtype=dtype)
    with Progress(len(times), "Sampling", progress) as bar:
        for t, before in zip(times, [*times[1:], 0], strict=True):
            if inpainting is not None:
                noised = schedule.q_sample(inpainting.rows, noise(), t)
                z = torch.where(inpainting.known, noised, z)
            x, x_variance = predict_x0(z, t)
            if gradient is not None:
                x = guided(x, errors[t - 1].to(dtype), gradient(x, t))
            on_z, on_x, variance = (
                v.to(dtype) for v in step_weights(schedule, config, t, before, errors[t - 1])
            )
            mean = on_z * z + on_x * x
            weight_variance = on_z**2 * weight_variance + on_x**2 * x_variance
            adds_noise = before > 0 or config.final_noise
            z = mean + variance.sqrt() * noise() if adds_noise else mean
            bar.advance()
    if inpainting is not None:
        z = torch.where(inpainting.known, inpainting.rows, z)
        weight_variance = weight_variance.masked_fill(inpainting.known, 0.0)
    return z, weight_variance
