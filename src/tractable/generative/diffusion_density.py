"""What a diffusion model knows once it has learnt: the bound, samples, and how unsure they are."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tractable.generative.columns import Columns
from tractable.generative.predictive import Density, RowPredictive, row_by_row
from tractable.generative.samplers import Guide, Hold, Walk, gradient_of, step, walk_back
from tractable.generative.schedule import Form, Schedule

_NOISE_SEED = 104_729
"""The noise of bounds comes from a stream of its own, this far from the model's seed."""


@dataclass(frozen=True)
class Reading:
    """A network as a reader of rows in noise.

    Args:
        schedule: schedule of the noise.
        form: what the network predicts.
        learner: who learnt it.
        draws: draws of the weights; None for the learner's own number.
        guidance: how strongly the context is followed.
    """

    schedule: Schedule
    form: Form
    learner: Any
    draws: int | None
    guidance: float

    def seen(self, z: Tensor, t: int, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """The row that is seen in ``z``, and the variance of that by the weights."""
        mean, variance = self._asked(z, t, context, there=True)
        if context is not None and self.guidance != 1:
            plain, _ = self._asked(z, t, context, there=False)
            mean = plain + self.guidance * (mean - plain)
        factor = float(self.schedule.row_factor(self.form, t))
        return self.schedule.row_of(self.form, mean, z, t), factor**2 * variance

    def _asked(
        self, z: Tensor, t: int, context: Tensor | None, there: bool
    ) -> tuple[Tensor, Tensor]:
        time = self.schedule.features(t).to(z.dtype).expand(len(z), -1)
        parts = [z, time]
        if context is not None:
            flag = z.new_full((len(z), 1), float(there))
            parts += [context * float(there), flag]
        options = {} if self.draws is None else {"n_weight_samples": self.draws}
        found = self.learner.outputs(torch.cat(parts, 1), **options)
        mean, variance = found.moments()
        return mean.detach(), variance.detach()


class DiffusionDensity(Density):
    """The distribution that a diffusion model has learnt; see ``Diffusion.density``."""

    def __init__(
        self,
        reading: Reading,
        errors: Tensor,
        walk: Walk,
        context: Tensor | None,
        *,
        columns: Columns,
        guide: Guide | None,
        guide_scale: float,
        noise_draws: int,
        seed: int,
        dtype: torch.dtype,
        progress: bool | None,
    ) -> None:
        self.reading, self.errors, self.walk, self.context = reading, errors, walk, context
        self.columns, self.guide, self.guide_scale = columns, guide, guide_scale
        self.noise_draws, self.seed, self.dtype = noise_draws, seed, dtype
        self.progress = progress

    def log_prob(self, z: Tensor) -> Tensor:
        """The full bound on the log density of each row, in nats (E 18.24).

        ``E[log p(x | z_1)] - sum over t of E[KL(q(z_{t-1} | z_t, x) || p(z_{t-1} | z_t))]
        - KL(q(z_T | x) || p(z_T))``.
        """
        schedule, walk = self.reading.schedule, self.walk
        generator = torch.Generator().manual_seed(self.seed + _NOISE_SEED)
        plain = Walk("ddpm", None, walk.variance)
        context = row_by_row(self.context, len(z))
        bound = -schedule.prior_divergence(z).double().sum(1)
        for t in range(schedule.steps, 0, -1):
            on_z, on_x, spread = step(schedule, plain, t, t - 1, self.errors[t - 1])
            if t == 1 and plain.variance == "posterior":
                spread = schedule.beta(1)  # the posterior of the first step is a point
            spread = spread.to(z.dtype)
            for _ in range(self.noise_draws):
                noise = torch.randn(z.shape, generator=generator, dtype=z.dtype)
                noised = schedule.noised(z, noise, t)
                x, _ = self.reading.seen(noised, t, context)
                mean = on_z.to(z.dtype) * noised + on_x.to(z.dtype) * x
                if t == 1:
                    term = -0.5 * ((z - mean) ** 2 / spread + (2 * math.pi * spread).log())
                else:
                    quadratic, rest = schedule.divergence(z, noised, t, mean, spread)
                    term = -(quadratic + rest)
                bound += term.double().sum(1) / self.noise_draws
        return bound.to(z.dtype)

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """See ``Density``."""
        return self.doubtful_sample(n, generator)[0]

    def doubtful_sample(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Rows, and the variance of each by not knowing the weights; see ``walk_back``."""
        contexts = 1 if self.context is None else len(self.context)
        context = None if self.context is None else self.context.repeat(n, 1)
        found = self._walked(n * contexts, context, generator)
        if self.context is None:
            return found
        z, doubt = (part.unflatten(0, (n, contexts)) for part in found)
        return z, doubt

    def complete(self, z: Tensor, known: Tensor, draws: int, generator: torch.Generator) -> Tensor:
        """Draws of the columns that are not known, ``[draws, rows, columns]``.

        Approximate: known columns are replaced by noised ones on the way, so that the others only
        learn of them step by step.
        """
        context = row_by_row(self.context, len(z))
        context = None if context is None else context.repeat(draws, 1)
        hold = Hold(z.nan_to_num(0.0).repeat(draws, 1), known.repeat(draws, 1))
        found, _ = self._walked(draws * len(z), context, generator, hold)
        return found.unflatten(0, (draws, len(z)))

    def _walked(
        self,
        rows: int,
        context: Tensor | None,
        generator: torch.Generator,
        hold: Hold | None = None,
    ) -> tuple[Tensor, Tensor]:
        return walk_back(
            self.reading.schedule,
            self.walk,
            lambda z, t: self.reading.seen(z, t, context),
            self.errors,
            (rows, self.errors.shape[1]),
            generator,
            dtype=self.dtype,
            shift=self._shift(),
            hold=hold,
            progress=self.progress,
        )

    def _shift(self) -> Callable[[Tensor, int], Tensor] | None:
        guide = self.guide
        if guide is None:
            return None
        # Discrete columns are not rounded: the gradient of a rounded value is zero.
        rows, scale = self.columns.unrounded, self.guide_scale
        return lambda x, t: scale * gradient_of(guide, rows, x, t)


class DiffusionPredictive(RowPredictive):
    """The distribution of a new row under a diffusion model."""

    density: DiffusionDensity

    def doubtful_sample(
        self, n: int, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """New rows, and how unsure each value is because the weights are not known.

        Args:
            n: how many, as for ``sample``, which draws the same rows.
            generator: where to draw from.

        Returns:
            Rows, and a standard deviation for each value, in the units of the data.
        """
        generator = torch.Generator().manual_seed(self.seed) if generator is None else generator
        with torch.no_grad():
            z, doubt = self.density.doubtful_sample(n, generator)
        scale = self.columns.units.scale
        std = torch.zeros(*z.shape[:-1], len(scale), dtype=z.dtype)
        std[..., self.columns.kept] = doubt.sqrt() * scale[self.columns.kept].to(z.dtype)
        return self.columns.outward(z), std
