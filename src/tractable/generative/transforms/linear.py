"""Linear transforms; with a normal base, the distribution is Gaussian."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from typing_extensions import override

from tractable.generative.transforms.base import RowTransform


class LinearTransform(RowTransform):
    """``y = A x + b`` with any invertible ``A`` (E 16.29).

    Args:
        weight: the matrix A.
        bias: the vector b.
    """

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.weight, self.bias = weight, bias

    @override
    def call_and_ladj(self, x: Tensor) -> tuple[Tensor, Tensor]:
        log_det = torch.linalg.slogdet(self.weight).logabsdet
        return x @ self.weight.T + self.bias, log_det.expand(x.shape[:-1])

    def _inverse(self, y: Tensor) -> Tensor:
        return torch.linalg.solve(self.weight, (y - self.bias).unsqueeze(-1)).squeeze(-1)


class Linear(nn.Module):
    """A trainable lower triangular matrix with a positive diagonal, and a shift.

    With a normal base it represents any Gaussian distribution.

    Args:
        columns: number of columns.
    """

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.below = nn.Parameter(torch.zeros(columns, columns))
        self.log_diagonal = nn.Parameter(torch.zeros(columns))
        self.bias = nn.Parameter(torch.zeros(columns))

    def reset_parameters(self) -> None:
        """Reset to the identity."""
        for parameter in self.parameters():
            nn.init.zeros_(parameter)

    def forward(self, context: Tensor | None = None) -> LinearTransform:
        """Return the transform; the context is ignored."""
        weight = torch.tril(self.below, -1) + torch.diag_embed(self.log_diagonal.exp())
        return LinearTransform(weight, self.bias)
