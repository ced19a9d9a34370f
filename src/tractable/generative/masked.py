"""A masked network: one pass gives every column's conditional given the columns before it.

Germain and others, "MADE: masked autoencoder for distribution estimation" (2015).  A hidden unit
has a degree: it sees columns up to it, and a column's outputs see hidden units of lower degrees.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tractable.errors import InvalidInput


class MaskedLinear(nn.Linear):
    """A linear layer some of whose weights are zero for good.

    Args:
        mask: ``[outputs, inputs]``, true where there is a weight.
    """

    mask: Tensor

    def __init__(self, mask: Tensor) -> None:
        super().__init__(mask.shape[1], mask.shape[0])
        self.register_buffer("mask", mask.to(self.weight.dtype))

    def forward(self, x: Tensor) -> Tensor:
        """See ``nn.Linear``."""
        return F.linear(x, self.weight * self.mask, self.bias)


class Masked(nn.Module):
    """A network from rows (and a context) to the outputs of every column, ``[rows, columns, m]``.

    The outputs of a column depend on the columns before it and on the context.

    Args:
        columns: number of columns of a row.
        outputs: m, of each column.
        context: columns of the context, which stand in front of those of the row.
        hidden: widths of the hidden layers, at least one.
    """

    def __init__(
        self, columns: int, outputs: int, context: int = 0, hidden: Sequence[int] = (64, 64)
    ) -> None:
        super().__init__()
        if columns < 1 or outputs < 1 or context < 0 or not hidden:
            raise ValueError(
                f"a masked network needs columns, outputs and a hidden layer: got {columns}, "
                f"{outputs} and {tuple(hidden)}"
            )
        self.columns, self.outputs = columns, outputs
        degrees = [torch.cat([torch.zeros(context), torch.arange(1.0, columns + 1)])]
        for width in hidden:  # from 0 (the context only) to columns - 1, evenly
            degrees.append((torch.arange(width) % columns).float())
        masks = [later[:, None] >= early for early, later in itertools.pairwise(degrees)]
        last = torch.arange(columns).repeat_interleave(outputs).float()
        masks.append(last[:, None] >= degrees[-1])
        self.layers = nn.ModuleList(MaskedLinear(mask) for mask in masks)

    def forward(self, x: Tensor) -> Tensor:
        """Outputs of every column."""
        *inner, last = self.layers
        for layer in inner:
            x = F.relu(layer(x))
        return last(x).reshape(-1, self.columns, self.outputs)


def check_order(run: object, context: int, columns: int, outputs: Tensor, moved: Tensor) -> None:
    """Refuse a network that looks at a column, or later ones, for the column's own outputs.

    Args:
        run: the network, for the message.
        context: columns in front of those of the row.
        columns: number of columns of a row.
        outputs: at some rows, ``[1, columns, m]``.
        moved: the same with each column of the row moved by itself, ``[columns, columns, m]``.
    """
    changed = (moved - outputs).abs().amax(-1) > 1e-6 * outputs.abs().amax().clamp(min=1.0)
    early = changed & torch.ones_like(changed).tril()  # column i moved, output k <= i
    if bool(early.any()):
        column, output = early.nonzero()[0].tolist()
        raise InvalidInput(
            f"the network {type(run).__name__} looks at column {column} for the outputs of column "
            f"{output}: a chain of conditionals may look at the columns before it only. "
            f"generative.Masked is one that does"
        )
