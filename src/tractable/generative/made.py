"""A masked network: one pass computes every column's outputs from the columns before it.

Germain and others, "MADE: masked autoencoder for distribution estimation" (2015). A hidden unit has
a degree: it depends on columns up to that one, and a column's outputs depend on hidden units of
lower degree.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from typing_extensions import override

from tractable.errors import InvalidInput


class MaskedLinear(nn.Linear):
    """A linear layer in which some weights are always zero.

    Args:
        mask: ``[outputs, inputs]``, true where there is a weight.
    """

    mask: Tensor

    def __init__(self, mask: Tensor) -> None:
        super().__init__(mask.shape[1], mask.shape[0])
        self.register_buffer("mask", mask.to(self.weight.dtype))

    @override
    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight * self.mask, self.bias)


class MADE(nn.Module):
    """A network from rows (and a context) to the outputs of every column, ``[rows, columns, m]``.

    The outputs of a column depend on the columns before it and on the context.

    Args:
        columns: number of columns of a row.
        outputs: number m of outputs of each column.
        context: number of columns of the context, which precede those of the row.
        hidden_layer_sizes: widths of the hidden layers, at least one.
    """

    def __init__(
        self,
        columns: int,
        outputs: int,
        context: int = 0,
        hidden_layer_sizes: Sequence[int] = (64, 64),
    ) -> None:
        super().__init__()
        if columns < 1 or outputs < 1 or context < 0 or not hidden_layer_sizes:
            raise ValueError(
                f"MADE needs at least one column, output and hidden layer: got columns={columns}, "
                f"outputs={outputs} and hidden_layer_sizes={tuple(hidden_layer_sizes)}"
            )
        self.columns, self.outputs = columns, outputs
        degrees = [torch.cat([torch.zeros(context), torch.arange(1.0, columns + 1)])]
        for width in hidden_layer_sizes:  # evenly from 0 (the context only) to columns - 1
            degrees.append((torch.arange(width) % columns).float())
        masks = [later[:, None] >= early for early, later in itertools.pairwise(degrees)]
        last = torch.arange(columns).repeat_interleave(outputs).float()
        masks.append(last[:, None] >= degrees[-1])
        self.layers = nn.ModuleList(MaskedLinear(mask) for mask in masks)

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs of every column, ``[rows, columns, m]``."""
        *inner, last = self.layers
        for layer in inner:
            x = F.relu(layer(x))
        return last(x).reshape(-1, self.columns, self.outputs)


def check_autoregressive(
    net: object, context: int, columns: int, outputs: Tensor, changed: Tensor
) -> None:
    """Raise if the outputs of a column depend on that column or a later one.

    Args:
        net: network, for the error message.
        context: number of columns before those of the row.
        columns: number of columns of a row.
        outputs: outputs at some row, ``[1, columns, m]``.
        changed: outputs with each column of the row changed in turn, ``[columns, columns, m]``.

    Raises:
        InvalidInput: an output depends on such a column.
    """
    differs = (changed - outputs).abs().amax(-1) > 1e-6 * outputs.abs().amax().clamp(min=1.0)
    wrong = differs & torch.ones_like(differs).tril()  # column i changed, output k <= i
    if bool(wrong.any()):
        column, output = wrong.nonzero()[0].tolist()
        raise InvalidInput(
            f"the outputs of column {output} of the network {type(net).__name__} depend on column "
            f"{column}: they may depend on the columns before it only. Use generative.MADE, or "
            f"mask the weights of the network"
        )
