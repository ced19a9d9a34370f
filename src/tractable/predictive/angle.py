"""An angle."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor

from tractable.predictive.base import Predictive
from tractable.predictive.search import check_share
from tractable.predictive.shapes import like

_GRID = 2048
Density = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class AnglePredictive(Predictive):
    """Angles in radians, by the Fourier coefficients ``E[exp(i n y)]`` of their distribution.

    ``mean`` is the direction of the mean vector, between -pi and pi.  The variance is that of the
    way from there, on the shorter side; quantiles are that mean plus a quantile of the way, so that
    an interval is not cut at pi.

    Args:
        coefficients: for n = 1, 2, ... in front of rows and outputs.
        directions: those of the expected direction alone, without the noise.
        density: log density of each row of angles.
        dtype: precision of what is given.
        column: whether the only output of a row is given flat.
        novelty: how unlike the training rows each row is; see ``Predictive``.
    """

    coefficients: Tensor
    directions: Tensor
    density: Density = field(compare=False, repr=False)
    dtype: torch.dtype = torch.float64
    column: bool = False
    novelty: Tensor | None = field(default=None, compare=False, repr=False)

    def given(self, values: Tensor) -> Tensor:
        """As the caller sees it."""
        values = values.to(self.dtype)
        return values.squeeze(-1) if self.column else values

    @property
    def centre(self) -> Tensor:
        """The mean direction, in double precision."""
        return self.coefficients[0].angle()

    @property
    def mean(self) -> Tensor:
        """Direction of the mean vector."""
        return self.given(self.centre)

    @property
    def resultant(self) -> Tensor:
        """Length of the mean vector: 1 for one direction only, 0 for none at all."""
        return self.given(self.coefficients[0].abs())

    def _turned(self, coefficients: Tensor, by: Tensor) -> Tensor:
        n = torch.arange(1, len(coefficients) + 1, dtype=by.dtype, device=by.device)
        turn = torch.exp(-1j * n.reshape(-1, *[1] * by.ndim) * by)
        return coefficients * turn

    def _square(self, coefficients: Tensor) -> Tensor:
        """Mean square of the way from the mean direction: a series of cosines."""
        real = self._turned(coefficients, self.centre).real
        n = torch.arange(1, len(real) + 1, dtype=real.dtype, device=real.device)
        sign = 1 - 2 * (n % 2)
        shares = (sign / (n * n)).reshape(-1, *[1] * (real.ndim - 1))
        return (math.pi**2 / 3 + 4 * (shares * real).sum(0)).clamp_min(0)

    @property
    def variance(self) -> Tensor:
        """Mean square of the way from the mean direction."""
        return self.given(self._square(self.coefficients))

    @property
    def epistemic(self) -> Tensor:
        """The part of it that comes from not knowing the direction."""
        known = torch.minimum(self._square(self.directions), self._square(self.coefficients))
        return self.given(known)

    @property
    def aleatoric(self) -> Tensor:
        """What is left of the variance once the direction is known."""
        return self.variance - self.epistemic

    def log_prob(self, y: Tensor) -> Tensor:
        """Log density of each row, summed over its angles."""
        return self.density(like(y, self.centre)).to(self.dtype)

    # --- the way from the mean direction ---------------------------------------------------

    def _table(self) -> tuple[Tensor, Tensor]:
        """Ways from -pi to pi, and the share of probability up to each, ways last."""
        turned = self._turned(self.coefficients, self.centre)
        zero = torch.ones_like(turned[:1])
        spectrum = torch.cat([zero, turned.conj()]).movedim(0, -1)
        density = torch.fft.hfft(spectrum, n=_GRID).roll(_GRID // 2, -1).clamp_min(0)
        steps = 0.5 * (density + density.roll(-1, -1))
        share = torch.cat([torch.zeros_like(steps[..., :1]), steps.cumsum(-1)], -1)
        ways = torch.linspace(-math.pi, math.pi, _GRID + 1, dtype=share.dtype, device=share.device)
        return ways, share / share[..., -1:]

    def _way(self, share: Tensor) -> Tensor:
        """The way up to which a share of the probability lies; shares in a last dimension."""
        ways, table = self._table()
        after = torch.searchsorted(table.contiguous(), share.contiguous()).clamp(1, _GRID)
        low, high = table.gather(-1, after - 1), table.gather(-1, after)
        within = (share - low) / (high - low).clamp_min(1e-300)
        return ways[after - 1] + within.clamp(0, 1) * (2 * math.pi / _GRID)

    def unwound(self, y: Tensor) -> Tensor:
        """See ``Predictive``: within half a turn of the mean."""
        mean = self.mean
        return mean + torch.remainder(y - mean + math.pi, 2 * math.pi) - math.pi

    def cdf(self, y: Tensor) -> Tensor:
        """Probability of the ways from -pi to that of ``y``, by a table of 2,048 steps."""
        way = torch.remainder(like(y, self.centre) - self.centre + math.pi, 2 * math.pi)
        at = way / (2 * math.pi) * _GRID
        below = at.floor().long().clamp(0, _GRID - 1).unsqueeze(-1)
        _, table = self._table()
        low, high = table.gather(-1, below).squeeze(-1), table.gather(-1, below + 1).squeeze(-1)
        return self.given(low + (high - low) * (at - below.squeeze(-1)))

    def quantile(self, q: float) -> Tensor:
        """The mean direction plus a quantile of the way from it, by the same table."""
        check_share(q)
        share = torch.full((*self.centre.shape, 1), q, dtype=torch.float64).to(self.centre)
        return self.given(self.centre + self._way(share).squeeze(-1))

    @property
    def mode(self) -> Tensor:
        """Where the density is greatest, to a 2,048th of the circle."""
        _, table = self._table()
        best = table.diff(dim=-1).argmax(-1)
        return self.given(self.centre - math.pi + (best + 0.5) * (2 * math.pi / _GRID))

    def sample(self, n: int = 1, generator: torch.Generator | None = None) -> Tensor:
        """Draws, between -pi and pi."""
        shape = (*self.centre.shape, n)
        share = torch.rand(shape, generator=generator, dtype=torch.float64).to(self.centre)
        drawn = self.centre + self._way(share).movedim(-1, 0)
        return self.given(torch.remainder(drawn + math.pi, 2 * math.pi) - math.pi)

    # --- the same, otherwise ---------------------------------------------------------------

    def flat(self) -> AnglePredictive:
        """See ``Predictive``."""
        single = self.centre.ndim == 2 and self.centre.shape[1] == 1
        return replace(self, column=True) if single else self

    def double(self) -> AnglePredictive:
        """See ``Predictive``."""
        novelty = None if self.novelty is None else self.novelty.double()
        return replace(self, dtype=torch.float64, novelty=novelty)

    def pooled(self, draws: int) -> AnglePredictive:
        """Mean coefficients: a mixture of angles is of the same kind."""
        if draws == 1:
            return self
        return replace(
            self,
            coefficients=self.coefficients.unflatten(1, (draws, -1)).mean(1),
            directions=self.directions.unflatten(1, (draws, -1)).mean(1),
            density=partial(_over_draws, self.density, draws),
        )


def mean_angles(parts: Sequence[AnglePredictive]) -> AnglePredictive:
    """The even mixture of predictives of the same rows."""
    most = max(len(part.coefficients) for part in parts)
    return replace(
        parts[0],
        coefficients=torch.stack([_padded(part.coefficients, most) for part in parts]).mean(0),
        directions=torch.stack([_padded(part.directions, most) for part in parts]).mean(0),
        density=partial(_over_parts, tuple(part.density for part in parts)),
        novelty=None,
    )


def _padded(coefficients: Tensor, number: int) -> Tensor:
    missing = number - len(coefficients)
    return torch.cat([coefficients, coefficients.new_zeros(missing, *coefficients.shape[1:])])


def _over_draws(density: Density, draws: int, y: Tensor) -> Tensor:
    rows = y.repeat(draws, *[1] * (y.ndim - 1))
    return density(rows).unflatten(0, (draws, -1)).logsumexp(0) - math.log(draws)


def _over_parts(densities: tuple[Density, ...], y: Tensor) -> Tensor:
    found = torch.stack([density(y) for density in densities])
    return found.logsumexp(0) - math.log(len(found))
