"""Distribution of rows under a fitted diffusion model: the bound of the density, and samples."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from tractable.generative.column_scaler import ColumnScaler
from tractable.generative.diffusion.samplers import (
    GuidanceFunction,
    InpaintingMask,
    SamplerConfig,
    denoise,
    guidance_gradient,
    step_weights,
)
from tractable.generative.diffusion.schedule import NoiseSchedule, PredictionType
from tractable.generative.predictive import Density, DensityPredictive, repeat_context

_NOISE_SEED = 104_729  # added to the seed, so that the noise of bounds differs from that of samples


@dataclass(frozen=True)
class Denoiser:
    """A trained network that predicts rows from noised rows.

    Args:
        schedule: noise schedule.
        prediction_type: what the network predicts.
        learner: trained learner.
        n_weight_samples: number of weight samples; None for the learner's own.
        guidance_scale: weight of the context in classifier-free guidance.
    """

    schedule: NoiseSchedule
    prediction_type: PredictionType
    learner: Any
    n_weight_samples: int | None
    guidance_scale: float

    def predict_x0(self, z: Tensor, t: int, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the row predicted from ``z``, and its variance by uncertain weights."""
        mean, variance = self._outputs(z, t, context, use_context=True)
        if context is not None and self.guidance_scale != 1:
            plain, _ = self._outputs(z, t, context, use_context=False)
            mean = plain + self.guidance_scale * (mean - plain)
        factor = float(self.schedule.dx0(self.prediction_type, t))
        return self.schedule.x0_from(self.prediction_type, mean, z, t), factor**2 * variance

    def _outputs(
        self, z: Tensor, t: int, context: Tensor | None, use_context: bool
    ) -> tuple[Tensor, Tensor]:
        time = self.schedule.features(t).to(z.dtype).expand(len(z), -1)
        parts = [z, time]
        if context is not None:
            flag = z.new_full((len(z), 1), float(use_context))
            parts += [context * float(use_context), flag]
        count = self.n_weight_samples
        options = {} if count is None else {"n_weight_samples": count}
        found = self.learner.outputs(torch.cat(parts, 1), **options)
        mean, variance = found.moments()
        return mean.detach(), variance.detach()


class DiffusionDensity(Density):
    """The fitted distribution; for the arguments see ``Diffusion.predict``."""

    def __init__(
        self,
        denoiser: Denoiser,
        errors: Tensor,
        config: SamplerConfig,
        context: Tensor | None,
        *,
        scaler: ColumnScaler,
        guidance_fn: GuidanceFunction | None,
        guidance_fn_scale: float,
        n_noise_samples: int,
        seed: int,
        dtype: torch.dtype,
        progress: bool | None,
    ) -> None:
        self.denoiser, self.errors, self.config = denoiser, errors, config
        self.context, self.scaler = context, scaler
        self.guidance_fn, self.guidance_fn_scale = guidance_fn, guidance_fn_scale
        self.n_noise_samples, self.seed, self.dtype = n_noise_samples, seed, dtype
        self.progress = progress

    @override
    def log_prob(self, z: Tensor) -> Tensor:
        """Return the full bound of the log density of each row, in nats (E 18.24).

        ``E[log p(x | z_1)] - sum over t of E[KL(q(z_{t-1} | z_t, x) || p(z_{t-1} | z_t))]
        - KL(q(z_T | x) || p(z_T))``.
        """
        schedule = self.denoiser.schedule
        generator = torch.Generator().manual_seed(self.seed + _NOISE_SEED)
        ddpm = SamplerConfig("ddpm", None, self.config.variance)
        context = repeat_context(self.context, len(z))
        bound = -schedule.prior_divergence(z).double().sum(1)
        for t in range(schedule.steps, 0, -1):
            on_z, on_x, variance = step_weights(schedule, ddpm, t, t - 1, self.errors[t - 1])
            if t == 1 and ddpm.variance == "posterior":
                variance = schedule.beta(1)  # the posterior of the first step is a point
            variance = variance.to(z.dtype)
            for _ in range(self.n_noise_samples):
                noise = torch.randn(z.shape, generator=generator, dtype=z.dtype)
                noised = schedule.q_sample(z, noise, t)
                x, _ = self.denoiser.predict_x0(noised, t, context)
                mean = on_z.to(z.dtype) * noised + on_x.to(z.dtype) * x
                if t == 1:
                    term = -0.5 * ((z - mean) ** 2 / variance + (2 * math.pi * variance).log())
                else:
                    quadratic, rest = schedule.divergence(z, noised, t, mean, variance)
                    term = -(quadratic + rest)
                bound += term.double().sum(1) / self.n_noise_samples
        return bound.to(z.dtype)

    @override
    def sample(self, n_samples: int, generator: torch.Generator) -> Tensor:
        return self.sample_with_variance(n_samples, generator)[0]

    def sample_with_variance(
        self, n_samples: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Return rows, and the variance of each value by uncertain weights; see ``denoise``."""
        n_contexts = 1 if self.context is None else len(self.context)
        context = None if self.context is None else self.context.repeat(n_samples, 1)
        found = self._denoised(n_samples * n_contexts, context, generator)
        if self.context is None:
            return found
        z, variance = (part.unflatten(0, (n_samples, n_contexts)) for part in found)
        return z, variance

    @override
    def impute(
        self, z: Tensor, known: Tensor, n_samples: int, generator: torch.Generator
    ) -> Tensor:
        """Return samples of the unknown columns, ``[n_samples, rows, columns]``.

        Approximate: known columns are replaced by noised ones at every time, so that the others
        depend on them through one step at a time only.
        """
        context = repeat_context(self.context, len(z))
        context = None if context is None else context.repeat(n_samples, 1)
        mask = InpaintingMask(z.nan_to_num(0.0).repeat(n_samples, 1), known.repeat(n_samples, 1))
        found, _ = self._denoised(n_samples * len(z), context, generator, mask)
        return found.unflatten(0, (n_samples, len(z)))

    def _denoised(
        self,
        rows: int,
        context: Tensor | None,
        generator: torch.Generator,
        inpainting: InpaintingMask | None = None,
    ) -> tuple[Tensor, Tensor]:
        return denoise(
            self.denoiser.schedule,
            self.config,
            lambda z, t: self.denoiser.predict_x0(z, t, context),
            self.errors,
            (rows, self.errors.shape[1]),
            generator,
            dtype=self.dtype,
            gradient=self._gradient(),
            inpainting=inpainting,
            progress=self.progress,
        )

    def _gradient(self) -> Callable[[Tensor, int], Tensor] | None:
        guidance_fn = self.guidance_fn
        if guidance_fn is None:
            return None
        # Discrete columns are not rounded: the gradient of a rounded value is zero.
        to_data, scale = self.scaler.to_unrounded_data, self.guidance_fn_scale
        return lambda x, t: scale * guidance_gradient(guidance_fn, to_data, x, t)


class DiffusionPredictive(DensityPredictive):
    """The distribution of a new row under a diffusion model."""

    density: DiffusionDensity

    def sample_with_std(
        self, n_samples: int, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return new rows, and the standard deviation of each value by uncertain weights.

        Args:
            n_samples: number of rows, as for ``sample``, which returns the same rows.
            generator: random generator. Default: one with the seed of the model.

        Returns:
            Rows and standard deviations, in the units of the data.
        """
        with torch.no_grad():
            z, variance = self.density.sample_with_variance(n_samples, self._generator(generator))
        scale, varying = self.scaler.units.scale, self.scaler.varying
        std = torch.zeros(*z.shape[:-1], len(scale), dtype=z.dtype)
        std[..., varying] = variance.sqrt() * scale[varying].to(z.dtype)
        return self.scaler.to_data(z), std
