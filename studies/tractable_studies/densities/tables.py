"""The seven UCI tables as rows of all columns, including the target."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tractable.data import uci

_FEW = 1_000  # Columns with fewer distinct values are dequantized.
_SAME = 1 - 1e-9
_VALIDATION = 0.15


@dataclass(frozen=True)
class Rows:
    """Standardized rows of a table.

    Attributes:
        train: training rows.
        validation: validation rows, for model selection.
        test: test rows, used once.
    """

    train: Tensor
    validation: Tensor
    test: Tensor

    @property
    def learnt(self) -> Tensor:
        """Return the training and validation rows, for the fit with selected settings."""
        return torch.cat([self.train, self.validation])


def rows_of(name: str, most: int, seed: int) -> Rows:
    """Return the first published split, with at most ``most`` training rows.

    Constant columns and copies of others are left out.  Columns of fewer than a thousand different
    values are spread evenly over their smallest step, for all models alike.
    """
    data = uci(name)
    table = torch.cat([data.features, data.targets], 1).double()
    generator = torch.Generator().manual_seed(seed)
    table = _spread(table[:, _kept(table)], generator)
    train, test = data.train_rows[0], data.test_rows[0]
    order = train[torch.randperm(len(train), generator=generator)][:most]
    test = test[torch.randperm(len(test), generator=generator)][:most]
    mean, scale = table[order].mean(0), table[order].std(0, correction=0)
    z = ((table - mean) / scale).float()
    n_validation = round(_VALIDATION * len(order))
    return Rows(z[order[n_validation:]], z[order[:n_validation]], z[test])


def _kept(table: Tensor) -> list[int]:
    scale = table.std(0, correction=0)
    z = (table - table.mean(0)) / scale.clamp(min=1e-12)
    alike = (z.T @ z / len(z)).abs()
    kept: list[int] = []
    for k in range(table.shape[1]):
        constant = float(scale[k]) <= 1e-9 * float(table[:, k].abs().max())
        if not constant and not any(float(alike[k, j]) > _SAME for j in kept):
            kept.append(k)
    return kept


def _spread(table: Tensor, generator: torch.Generator) -> Tensor:
    table = table.clone()
    for k in range(table.shape[1]):
        values = torch.unique(table[:, k])
        if len(values) < _FEW:
            step = (values[1:] - values[:-1]).min()
            noise = torch.rand(len(table), generator=generator, dtype=torch.float64) - 0.5
            table[:, k] += step * noise
    return table
