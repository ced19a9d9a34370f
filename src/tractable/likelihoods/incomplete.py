"""Normal observations of which some are missing."""

from __future__ import annotations

import torch
from torch import Tensor

from tractable.errors import InvalidTarget
from tractable.gaussian import Gaussian
from tractable.likelihoods.base import HeldOut, Messages, require_type
from tractable.likelihoods.normal import Normal


class IncompleteNormal(Normal):
    """``Normal`` for targets that may be NaN, which is to say: not observed.

    A missing target sends no message, and the noise of its output learns nothing from it.  For
    several outputs of which each row has some (steps beyond the end of a series, sensors that
    fail); for targets of several kinds there is ``Joint``.

    Exact: as ``Normal`` is.

    Args:
        sigma: as for ``Normal``.
        outputs: number of outputs.
    """

    def __init__(self, sigma: float | None = None, outputs: int = 1) -> None:
        super().__init__(sigma, outputs)

    @property
    def gates(self) -> bool:
        """Every value that is there is believed."""
        return False

    @property
    def takes_missing(self) -> bool:
        """See ``Likelihood``."""
        return True

    @property
    def takes_members(self) -> bool:
        """Which targets are missing differs from member to member."""
        return False

    def targets(self, y: Tensor, outputs: torch.Size) -> Tensor:
        """See ``Likelihood``."""
        if isinstance(y, Gaussian):
            raise InvalidTarget("IncompleteNormal takes numbers and NaN, not error bars")
        if not y.is_floating_point():
            return super().targets(y, outputs)
        missing = y.isnan()
        checked = super().targets(torch.where(missing, 0.0, y), outputs)
        return torch.where(missing.reshape(checked.shape), torch.nan, checked)

    def log_evidence(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Sum over the targets that are there."""
        there, y = _split(y, mean)
        total = variance + self.noise_mean.to(mean.dtype)
        density = -0.5 * ((y - mean) ** 2 / total + (2 * torch.pi * total).log())
        return (density * there).flatten(1).sum(1)

    def messages(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Those of ``Normal``, and none where a target is missing."""
        there, y = _split(y, mean)
        d_mu, d_var = super().messages(y, mean, variance)
        return d_mu * there, d_var * there

    def hear(
        self,
        y: Tensor,
        mean: Tensor,
        variance: Tensor,
        *,
        weight: Tensor | None = None,
        memory_rows: float | None = None,
    ) -> Messages:
        """See ``Likelihood``."""
        d_mu, d_var = self.messages(y, mean, variance)
        noise = self.update_noise(y, mean, variance, memory_rows=memory_rows)
        return Messages(d_mu, d_var, d_var, noise)

    def update_noise(
        self,
        y: Tensor,
        mean: Tensor,
        variance: Tensor,
        *,
        weight: Tensor | None = None,
        memory_rows: float | None = None,
    ) -> dict[str, Tensor]:
        """Each output from the rows that have its target; see ``Normal``."""
        if not self.learns_noise:
            return {}
        there, y = _split(y, mean)
        m, s = self.noise_mean, self.noise_variance
        if memory_rows is not None:
            s = torch.maximum(s, 2 * m * m / memory_rows)
        flat = (-1, self.outputs)
        seen = there.reshape(flat).to(m.dtype)
        residual, var = ((part.reshape(flat).to(m.dtype)) for part in (y - mean, variance))
        rows = seen.sum(0)
        least = rows.clamp(min=1)
        share = m / (var + m)
        e, p = share * residual, share * var
        square = ((e * e + p) * seen).sum(0) / least
        left = ((2 * p * p + 4 * p * e * e) * seen).sum(0) / least / least
        total = s + 2 * (s + m * m) / least
        gain = torch.where(rows > 0, s / total, torch.zeros_like(s))
        return {
            "noise_mean": m + gain * (square - m),
            "noise_variance": s - gain * gain * (total - left).clamp(min=0),
        }

    def sufficient_statistics(self, y: Tensor, z: Tensor) -> Tensor | None:
        """Squared residuals of each output, summed over rows, and the rows of each."""
        if not self.learns_noise:
            return None
        there, y = _split(y.repeat(len(z) // len(y), *[1] * (y.ndim - 1)), z)
        flat = (-1, self.outputs)
        squares = ((y - z).square() * there).reshape(flat).to(self.noise_mean.dtype)
        counts = there.reshape(flat).to(self.noise_mean.dtype).sum(0)
        return torch.cat([squares.sum(0), counts])

    def m_step(self, statistics: Tensor) -> None:
        """The mean squared residual of each output; one that was never seen keeps its noise."""
        squares, counts = statistics.chunk(2)
        smallest = torch.finfo(torch.float32).eps
        found = (squares / counts.clamp(min=1)).clamp_min(smallest)
        spread = 2 * found.square() / counts.clamp(min=1)
        self.noise_variance = torch.where(counts > 0, spread, self.noise_variance)
        self.noise_mean = torch.where(counts > 0, found, self.noise_mean)

    def held_out_scale(self, held_out: list[HeldOut], *, outliers: bool = False) -> float:
        """See ``Normal``; of the targets that are there."""
        flat: list[HeldOut] = []
        for likelihood, y, mean, variance in held_out:
            noise = require_type(likelihood, Normal).noise_mean
            there = ~y.isnan()
            one = Normal(1.0, int(there.sum()))
            one.noise_mean = noise.expand_as(mean)[there]
            flat.append((one, y[there], mean[there], variance[there]))
        return super().held_out_scale(flat, outliers=outliers)

    def held_out_log_prob(
        self, y: Tensor, mean: Tensor, variance: Tensor, *, outliers: bool = False
    ) -> Tensor:
        """See ``Likelihood``."""
        return self.log_evidence(y, mean, variance).double()


def _split(y: Tensor, mean: Tensor) -> tuple[Tensor, Tensor]:
    """Which targets are there, and the targets with any finite number in place of the others."""
    missing = y.isnan()
    return ~missing, torch.where(missing, mean.detach().to(y.dtype), y)
