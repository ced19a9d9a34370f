"""A linear map with a lower triangular matrix: the flow that is exactly a Gaussian."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tractable.generative.transforms.base import RowTransform


class LinearTransform(RowTransform):
    """``y = A x + b`` with any invertible ``A`` (E 16.29): log abs det of the matrix.

    Args:
        weight: the matrix A.
        bias: the vector b.
    """

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.weight, self.bias = weight, bias

    def call_and_ladj(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """See ``RowTransform``."""
        log_det = torch.linalg.slogdet(self.weight).logabsdet
        return x @ self.weight.T + self.bias, log_det.expand(x.shape[:-1])

    def _inverse(self, y: Tensor) -> Tensor:
        return torch.linalg.solve(self.weight, (y - self.bias).unsqueeze(-1)).squeeze(-1)


class Linear(nn.Module):
    """A lower triangular matrix with a positive diagonal, and a shift.

    With a normal base it can be any Gaussian, and only one: fitted, the maximum-likelihood one.

    Args:
        columns: number of columns.
    """

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.below = nn.Parameter(torch.zeros(columns, columns))
        self.log_diagonal = nn.Parameter(torch.zeros(columns))
        self.bias = nn.Parameter(torch.zeros(columns))

    def reset_parameters(self) -> None:
        """The identity."""
        for parameter in self.parameters():
            nn.init.zeros_(parameter)

    def forward(self, context: Tensor | None = None) -> LinearTransform:
        """The transform; a context has no effect."""
        weight = torch.tril(self.below, -1) + torch.diag_embed(self.log_diagonal.exp())
        return LinearTransform(weight, self.bias)
