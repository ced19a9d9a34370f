"""How a row is turned into noise step by step, and everything about it that is in closed form.

    z_t = sqrt(1 - beta_t) z_{t-1} + sqrt(beta_t) eps                      (UDL, E 18.2)

The book's ``alpha_t`` is the product of all ``1 - beta`` up to t; it is called ``alpha_bar`` here,
as in the paper of DDPM, where ``alpha_t`` is ``1 - beta_t``.  Times are whole numbers from 1 to T,
and time 0 is the row itself: ``alpha_bar(0) = 1``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, Self

import torch
from torch import Tensor

Form = Literal["noise", "x", "v"]
FORMS: tuple[Form, ...] = ("noise", "x", "v")
Time = int | Tensor


class Schedule:
    """A schedule of noise.

    Args:
        betas: share of the variance that is replaced by noise in each step, between 0 and 1.

    Exact: every formula; products of many factors are summed in logarithms.

    >>> Schedule([0.1, 0.2, 0.3]).alpha_bar(torch.arange(4))
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
        """Betas that grow evenly; by default 1e-4 to 0.02 for 1,000 steps, more for fewer.

        Fewer steps have betas larger in proportion (below 0.999), so that they end in noise too.
        """
        _whole(steps)
        many = 1000 / steps
        first = min(1e-4 * many, 0.5) if first is None else first
        last = min(0.02 * many, 0.999) if last is None else last
        return cls(torch.linspace(first, last, steps, dtype=torch.float64))

    @classmethod
    def cosine(cls, steps: int, offset: float = 0.008) -> Self:
        """``alpha_bar`` falls as a squared cosine (Nichol & Dhariwal, 2021); betas end at 0.999."""
        _whole(steps)
        if not offset > 0:
            raise ValueError(f"offset must be positive, got {offset}")
        turn = (torch.linspace(0, 1, steps + 1, dtype=torch.float64) + offset) / (1 + offset)
        height = torch.cos(turn * math.pi / 2).square()
        return cls((1 - height[1:] / height[:-1]).clamp(max=0.999))

    @property
    def steps(self) -> int:
        """Their number, T."""
        return len(self.betas)

    def alpha_bar(self, t: Time) -> Tensor:
        """Share of the row's variance that is left at time t (E 18.7, in logarithms)."""
        return self.log_alpha_bar[torch.as_tensor(t)].exp()

    def noise_share(self, t: Time) -> Tensor:
        """``1 - alpha_bar``, without cancellation where it is small."""
        return -torch.expm1(self.log_alpha_bar[torch.as_tensor(t)])

    def beta(self, t: Time) -> Tensor:
        """Of step t, from 1 to T."""
        return self.betas[torch.as_tensor(t) - 1]

    # --- the way to noise ------------------------------------------------------------------

    def kernel(self, x: Tensor, t: Time) -> tuple[Tensor, Tensor]:
        """Mean and variance of ``q(z_t | x)`` (E 18.8)."""
        return _as(self.alpha_bar(t).sqrt(), x) * x, _as(self.noise_share(t), x)

    def noised(self, x: Tensor, noise: Tensor, t: Time) -> Tensor:
        """``z_t`` of a row with this noise (E 18.29)."""
        mean, variance = self.kernel(x, t)
        return mean + variance.sqrt() * noise

    def posterior(
        self, x: Tensor, z: Tensor, t: Time, before: Time | None = None
    ) -> tuple[Tensor, Tensor]:
        """Mean and variance of ``q(z_s | z_t, x)`` for ``s = t - 1``, or an earlier ``before``.

        E 18.15; for a jump, with the product of the betas between in place of one.
        """
        on_z, on_x, variance = self.posterior_weights(t, before)
        return _as(on_z, z) * z + _as(on_x, z) * x, _as(variance, z)

    def posterior_weights(self, t: Time, before: Time | None = None) -> tuple[Tensor, ...]:
        """Factors of ``z_t`` and ``x`` in the mean of the posterior, and its variance."""
        s = torch.as_tensor(t) - 1 if before is None else torch.as_tensor(before)
        kept = (self.log_alpha_bar[torch.as_tensor(t)] - self.log_alpha_bar[s]).exp()
        beta, late, early = 1 - kept, self.noise_share(t), self.noise_share(s)
        return (
            early / late * kept.sqrt(),
            self.alpha_bar(s).sqrt() * beta / late,
            beta * early / late,
        )

    # --- forms of what a network predicts ----------------------------------------------------

    def target(self, form: Form, x: Tensor, noise: Tensor, t: Time) -> Tensor:
        """What a network of this form is to predict.

        The noise; the row ``x``; or ``v = sqrt(alpha_bar) noise - sqrt(1 - alpha_bar) x`` (Salimans
        & Ho, 2022), whose best predictor is zero for standard normal rows.
        """
        if form == "noise":
            return noise
        if form == "x":
            return x
        a, b = self._pair(x, t)
        return a * noise - b * x

    def row_of(self, form: Form, predicted: Tensor, z: Tensor, t: Time) -> Tensor:
        """The row ``x`` that a prediction stands for (E 18.31 for the noise)."""
        if form == "x":
            return predicted
        a, b = self._pair(z, t)
        return (z - b * predicted) / a if form == "noise" else a * z - b * predicted

    def row_factor(self, form: Form, t: Time) -> Tensor:
        """Derivative of ``row_of`` in the prediction: how its error becomes one of the row."""
        a, b = self.alpha_bar(t).sqrt(), self.noise_share(t).sqrt()
        if form == "x":
            return torch.ones_like(a)
        return -b / a if form == "noise" else -b

    def noise_of(self, x: Tensor, z: Tensor, t: Time) -> Tensor:
        """The noise that leads from the row to ``z_t``."""
        a, b = self._pair(z, t)
        return (z - a * x) / b

    def mean_of_noise(self, noise: Tensor, z: Tensor, t: Time) -> Tensor:
        """Mean of ``z_{t-1}`` from a prediction of the noise (E 18.33, 18.36)."""
        beta = self.beta(t)
        factor = beta / (self.noise_share(t).sqrt() * (1 - beta).sqrt())
        return z / _as((1 - beta).sqrt(), z) - _as(factor, z) * noise

    # --- the bound -----------------------------------------------------------------------------

    def noise_weights(self, variance: Tensor | None = None) -> Tensor:
        """Weight of the squared error of the noise in the bound, for every step (E 18.39).

        Args:
            variance: variance of each step back; by default its beta.
        """
        variance = self.betas if variance is None else variance
        times = torch.arange(1, self.steps + 1)
        return self.betas**2 / (self.noise_share(times) * (1 - self.betas) * 2 * variance)

    def divergence(
        self, x: Tensor, z: Tensor, t: Time, mean: Tensor, variance: Tensor
    ) -> tuple[Tensor, Tensor]:
        """``KL(q(z_{t-1} | z_t, x) || N(mean, variance))`` of every column (E 18.28).

        Returns:
            The part that depends on the mean, and the rest; for t = 1 the posterior is a point,
            and the divergence infinite: there the bound has a density instead.
        """
        true, spread = self.posterior(x, z, t)
        ratio = spread / variance
        return (true - mean) ** 2 / (2 * variance), 0.5 * (ratio - 1 - ratio.log())

    def prior_divergence(self, x: Tensor) -> Tensor:
        """``KL(q(z_T | x) || N(0, 1))`` of every column: small for long schedules, never zero.

        The book drops it (E 18.24-18.25); without it the bound of a short schedule can exceed the
        log density.
        """
        mean, variance = self.kernel(x, self.steps)
        return 0.5 * (variance + mean**2 - 1 - variance.log())

    # --- times ---------------------------------------------------------------------------------

    def times(self, number: int | None = None) -> list[int]:
        """Times to visit when sampling, last first, evenly spread; all of them by default.

        Raises:
            ValueError: more than the schedule has.
        """
        if number is None or number == self.steps:
            return list(range(self.steps, 0, -1))
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise ValueError(f"the number of sampling steps must be from 1, got {number!r}")
        if number > self.steps:
            raise ValueError(
                f"{number} sampling steps are more than the schedule has: it was learnt with "
                f"{self.steps}"
            )
        found = torch.linspace(self.steps, self.steps / number, number).round().int()
        return [int(t) for t in found]

    def features(self, t: Time) -> Tensor:
        """Four numbers that tell a network the time, each with mean 0 and variance 1 over it.

        Time itself, the shares of row and noise in ``z_t`` (as deviations), and the logarithm of
        their ratio.
        """
        every = torch.arange(1, self.steps + 1)
        table = self._shown(every)
        scale = table.std(0, correction=0)
        scale = torch.where(scale > 1e-9, scale, torch.ones_like(scale))
        return (self._shown(torch.as_tensor(t)) - table.mean(0)) / scale

    def _shown(self, t: Tensor) -> Tensor:
        row, noise = self.alpha_bar(t).sqrt(), self.noise_share(t).sqrt()
        return torch.stack([t.double() / self.steps, row, noise, noise.log() - row.log()], -1)

    def _pair(self, like: Tensor, t: Time) -> tuple[Tensor, Tensor]:
        return _as(self.alpha_bar(t).sqrt(), like), _as(self.noise_share(t).sqrt(), like)


TIME_FEATURES = 4


def _as(values: Tensor, like: Tensor) -> Tensor:
    """One value for all rows, or one for each, to multiply rows with."""
    values = values.to(like.device, like.dtype if like.is_floating_point() else torch.float64)
    return values if values.ndim == 0 else values.reshape(*values.shape, *[1] * (like.ndim - 1))


def _whole(steps: int) -> None:
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise ValueError(f"steps must be a whole number from 1, got {steps!r}")
