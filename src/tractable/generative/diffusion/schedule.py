"""The noise schedule of a diffusion model, and all of its closed-form quantities.

    z_t = sqrt(1 - beta_t) z_{t-1} + sqrt(beta_t) eps                      (UDL, E 18.2)

The book's ``alpha_t``, the product of all ``1 - beta`` up to t, is called ``alpha_bar`` here, as in
the paper of DDPM, where ``alpha_t`` is ``1 - beta_t``. Times are whole numbers from 1 to T, and
time 0 is the row itself: ``alpha_bar(0) = 1``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, Self

import torch
from torch import Tensor

PredictionType = Literal["noise", "x", "v"]
PREDICTION_TYPES: tuple[PredictionType, ...] = ("noise", "x", "v")
Time = int | Tensor


class NoiseSchedule:
    """A noise schedule.

    Exact: every formula; products of many factors are computed as sums of logarithms.

    Args:
        betas: share of the variance that each step replaces by noise, between 0 and 1.

    >>> NoiseSchedule([0.1, 0.2, 0.3]).alpha_bar(torch.arange(4))
    tensor([1.0000, 0.9000, 0.7200, 0.5040], dtype=torch.float64)
    """

    def __init__(self, betas: Sequence[float] | Tensor) -> None:
        values = torch.as_tensor(betas, dtype=torch.float64).flatten()
        if not len(values):
            raise ValueError("a schedule needs at least one step")
        inside = (values > 0) & (values < 1)
        if not bool(inside.all()):
            step = int((~inside).nonzero()[0])
            raise ValueError(
                f"every beta must lie between 0 and 1: step {step + 1} has {float(values[step])}"
            )
        self.betas = values
        self.log_alpha_bar = torch.cat([values.new_zeros(1), torch.log1p(-values).cumsum(0)])

    @classmethod
    def linear(cls, steps: int, first: float | None = None, last: float | None = None) -> Self:
        """Return a schedule with linearly increasing betas.

        Args:
            steps: number of steps.
            first: first beta. Default: 1e-4 for 1,000 steps, proportionally more for fewer.
            last: last beta. Default: 0.02 for 1,000 steps, proportionally more for fewer, at most
                0.999, so that short schedules end in noise too.
        """
        _check_steps(steps)
        ratio = 1000 / steps
        first = min(1e-4 * ratio, 0.5) if first is None else first
        last = min(0.02 * ratio, 0.999) if last is None else last
        return cls(torch.linspace(first, last, steps, dtype=torch.float64))

    @classmethod
    def cosine(cls, steps: int, offset: float = 0.008) -> Self:
        """Return a schedule whose ``alpha_bar`` is a squared cosine (Nichol & Dhariwal, 2021).

        Args:
            steps: number of steps.
            offset: shift of the time, positive; betas are at most 0.999.
        """
        _check_steps(steps)
        if not offset > 0:
            raise ValueError(f"offset must be positive, got {offset}")
        time = (torch.linspace(0, 1, steps + 1, dtype=torch.float64) + offset) / (1 + offset)
        alpha_bar = torch.cos(time * math.pi / 2).square()
        return cls((1 - alpha_bar[1:] / alpha_bar[:-1]).clamp(max=0.999))

    @property
    def steps(self) -> int:
        """Number of steps, T."""
        return len(self.betas)

    def alpha_bar(self, t: Time) -> Tensor:
        """Return the share of the row's variance that remains at time t (E 18.7, in logarithms)."""
        return self.log_alpha_bar[torch.as_tensor(t)].exp()

    def one_minus_alpha_bar(self, t: Time) -> Tensor:
        """Return ``1 - alpha_bar``, without cancellation where it is small."""
        return -torch.expm1(self.log_alpha_bar[torch.as_tensor(t)])

    def beta(self, t: Time) -> Tensor:
        """Return beta of step t, from 1 to T."""
        return self.betas[torch.as_tensor(t) - 1]

    # --- forward process -------------------------------------------------------------------

    def kernel(self, x: Tensor, t: Time) -> tuple[Tensor, Tensor]:
        """Return mean and variance of ``q(z_t | x)`` (E 18.8)."""
        return _broadcast(self.alpha_bar(t).sqrt(), x) * x, _broadcast(
            self.one_minus_alpha_bar(t), x
        )

    def q_sample(self, x: Tensor, noise: Tensor, t: Time) -> Tensor:
        """Return ``z_t`` of a row with this noise, a sample of ``q(z_t | x)`` (E 18.29)."""
        mean, variance = self.kernel(x, t)
        return mean + variance.sqrt() * noise

    def posterior(
        self, x: Tensor, z: Tensor, t: Time, before: Time | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return mean and variance of ``q(z_s | z_t, x)``, with ``s = t - 1`` or ``before``.

        E 18.15; for several steps at once with the product of their ``1 - beta``.
        """
        on_z, on_x, variance = self.posterior_weights(t, before)
        return _broadcast(on_z, z) * z + _broadcast(on_x, z) * x, _broadcast(variance, z)

    def posterior_weights(self, t: Time, before: Time | None = None) -> tuple[Tensor, ...]:
        """Return the factors of ``z_t`` and ``x`` in the posterior mean, and its variance.

        Args:
            t: time, or one time for each row, from 1 to T.
            before: time s below t. Default: t - 1.
        """
        s = torch.as_tensor(t) - 1 if before is None else torch.as_tensor(before)
        kept = (self.log_alpha_bar[torch.as_tensor(t)] - self.log_alpha_bar[s]).exp()
        beta, late, early = 1 - kept, self.one_minus_alpha_bar(t), self.one_minus_alpha_bar(s)
        return (
            early / late * kept.sqrt(),
            self.alpha_bar(s).sqrt() * beta / late,
            beta * early / late,
        )

    # --- prediction types ------------------------------------------------------------------

    def target(self, prediction_type: PredictionType, x: Tensor, noise: Tensor, t: Time) -> Tensor:
        """Return the target of a network with this prediction type.

        The noise; the row ``x``; or ``v = sqrt(alpha_bar) noise - sqrt(1 - alpha_bar) x`` (Salimans
        & Ho, 2022), whose best predictor is zero for standard normal rows.

        Args:
            prediction_type: what the network predicts: ``"noise"``, ``"x"`` (the row) or ``"v"``.
            x: rows, ``[n, ...]``.
            noise: noise of each row, of the same shape.
            t: time, or one time for each row, from 1 to T.
        """
        if prediction_type == "noise":
            return noise
        if prediction_type == "x":
            return x
        a, b = self._scales(x, t)
        return a * noise - b * x

    def x0_from(
        self, prediction_type: PredictionType, predicted: Tensor, z: Tensor, t: Time
    ) -> Tensor:
        """Return the row ``x`` that corresponds to a prediction (E 18.31 for the noise).

        Args:
            prediction_type: what the network predicts: ``"noise"``, ``"x"`` (the row) or ``"v"``.
            predicted: outputs of the network, of the shape of z.
            z: noisy rows ``z_t``.
            t: time, or one time for each row, from 1 to T.
        """
        if prediction_type == "x":
            return predicted
        a, b = self._scales(z, t)
        return (z - b * predicted) / a if prediction_type == "noise" else a * z - b * predicted

    def dx0(self, prediction_type: PredictionType, t: Time) -> Tensor:
        """Return the derivative of ``x0_from`` in the prediction: the factor on its error.

        Args:
            prediction_type: what the network predicts: ``"noise"``, ``"x"`` (the row) or ``"v"``.
            t: time, or one time for each row, from 1 to T.
        """
        a, b = self.alpha_bar(t).sqrt(), self.one_minus_alpha_bar(t).sqrt()
        if prediction_type == "x":
            return torch.ones_like(a)
        return -b / a if prediction_type == "noise" else -b

    def noise_of(self, x: Tensor, z: Tensor, t: Time) -> Tensor:
        """Return the noise between a row and ``z_t``."""
        a, b = self._scales(z, t)
        return (z - a * x) / b

    def reverse_step_mean(self, noise: Tensor, z: Tensor, t: Time) -> Tensor:
        """Return the mean of ``z_{t-1}`` given ``z_t`` and predicted noise (E 18.33, 18.36).

        Args:
            noise: predicted noise, of the shape of z.
            z: noisy rows ``z_t``.
            t: time, or one time for each row, from 1 to T.
        """
        beta = self.beta(t)
        factor = beta / (self.one_minus_alpha_bar(t).sqrt() * (1 - beta).sqrt())
        return z / _broadcast((1 - beta).sqrt(), z) - _broadcast(factor, z) * noise

    # --- the bound -----------------------------------------------------------------------------

    def noise_weights(self, variance: Tensor | None = None) -> Tensor:
        """Return each step's weight of the squared noise error in the ELBO (E 18.39).

        Args:
            variance: variance of each denoising step. Default: its beta.
        """
        variance = self.betas if variance is None else variance
        times = torch.arange(1, self.steps + 1)
        return self.betas**2 / (self.one_minus_alpha_bar(times) * (1 - self.betas) * 2 * variance)

    def divergence(
        self, x: Tensor, z: Tensor, t: Time, mean: Tensor, variance: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return ``KL(q(z_{t-1} | z_t, x) || N(mean, variance))`` of every column (E 18.28).

        Returns:
            The part that depends on the mean, and the rest. For t = 1 the posterior is a point and
            the divergence infinite; the bound has a density there instead.
        """
        true, spread = self.posterior(x, z, t)
        ratio = spread / variance
        return (true - mean) ** 2 / (2 * variance), 0.5 * (ratio - 1 - ratio.log())

    def prior_divergence(self, x: Tensor) -> Tensor:
        """Return ``KL(q(z_T | x) || N(0, 1))`` of every column.

        It is small for long schedules and never zero. The book omits it (E 18.24-18.25); without it
        the bound of a short schedule can exceed the log density.
        """
        mean, variance = self.kernel(x, self.steps)
        return 0.5 * (variance + mean**2 - 1 - variance.log())

    # --- times ---------------------------------------------------------------------------------

    def times(self, n_times: int | None = None) -> list[int]:
        """Return the times of a sampler, last first, evenly spaced.

        Args:
            n_times: number of times. Default: all.

        Raises:
            ValueError: the schedule has fewer steps.
        """
        if n_times is None or n_times == self.steps:
            return list(range(self.steps, 0, -1))
        if isinstance(n_times, bool) or not isinstance(n_times, int) or n_times < 1:
            raise ValueError(f"the number of sampling steps must be from 1, got {n_times!r}")
        if n_times > self.steps:
            raise ValueError(
                f"{n_times} sampling steps are more than the {self.steps} steps of the schedule"
            )
        found = torch.linspace(self.steps, self.steps / n_times, n_times).round().int()
        return [int(t) for t in found]

    def features(self, t: Time) -> Tensor:
        """Return four features of the time, each with mean 0 and variance 1 over all times.

        They are the time, the standard deviations of row and noise in ``z_t``, and the logarithm of
        their ratio.
        """
        every = torch.arange(1, self.steps + 1)
        table = self._raw_features(every)
        scale = table.std(0, correction=0)
        scale = torch.where(scale > 1e-9, scale, torch.ones_like(scale))
        return (self._raw_features(torch.as_tensor(t)) - table.mean(0)) / scale

    def _raw_features(self, t: Tensor) -> Tensor:
        row, noise = self.alpha_bar(t).sqrt(), self.one_minus_alpha_bar(t).sqrt()
        return torch.stack([t.double() / self.steps, row, noise, noise.log() - row.log()], -1)

    def _scales(self, like: Tensor, t: Time) -> tuple[Tensor, Tensor]:
        return _broadcast(self.alpha_bar(t).sqrt(), like), _broadcast(
            self.one_minus_alpha_bar(t).sqrt(), like
        )


TIME_FEATURES = 4


def _broadcast(values: Tensor, like: Tensor) -> Tensor:
    """Return one value for all rows, or one for each, in a shape that multiplies rows."""
    values = values.to(like.device, like.dtype if like.is_floating_point() else torch.float64)
    return values if values.ndim == 0 else values.reshape(*values.shape, *[1] * (like.ndim - 1))


def _check_steps(steps: int) -> None:
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise ValueError(f"steps must be a whole number from 1, got {steps!r}")
