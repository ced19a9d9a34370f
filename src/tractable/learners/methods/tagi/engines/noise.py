"""The noise of a likelihood as the compiled kernel reads and writes it: two vectors of numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from tractable.likelihoods import Likelihood, NegativeBinomial, Normal


def export_noise(likelihood: Likelihood, outputs: int) -> tuple[Tensor, Tensor]:
    """Return the noise as two vectors; for a normal noise they are the buffers themselves."""
    if isinstance(likelihood, Normal):
        return _normal(likelihood)
    if isinstance(likelihood, NegativeBinomial):
        return _dispersion(likelihood, outputs)
    return torch.zeros(0, dtype=torch.float64), torch.zeros(0, dtype=torch.float64)


def import_noise(likelihood: Likelihood, first: Tensor, second: Tensor) -> None:
    """Store the noise that the kernel changed, unless it wrote to the buffers themselves."""
    if isinstance(likelihood, NegativeBinomial) and likelihood.traits.learns_noise:
        found = {"parameter": first[:-1], "statistic": second[:-1], "rows": first[-1]}
        likelihood.set_buffers({name: value.clone() for name, value in found.items()})


def _normal(likelihood: Normal) -> tuple[Tensor, Tensor]:
    """Return mean and variance of the noise as vectors that the kernel can write to."""
    for name in ("noise_mean", "noise_variance"):
        tensor = getattr(likelihood, name)
        if not (tensor.is_contiguous() and tensor.dtype == torch.float64):
            setattr(likelihood, name, tensor.double().contiguous())
    return likelihood.noise_mean.detach(), likelihood.noise_variance.detach()


def _dispersion(likelihood: NegativeBinomial, outputs: int) -> tuple[Tensor, Tensor]:
    """Return dispersions with their number of rows, and their statistics."""
    rows = likelihood.rows.reshape(1)
    known = torch.cat([likelihood.parameter.expand(outputs), rows])
    statistic = torch.cat([likelihood.statistic.expand(outputs), torch.zeros_like(rows)])
    return known.double(), statistic.double()
