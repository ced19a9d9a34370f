"""What every likelihood of counts shares: whole numbers from zero, the row of a bad one named."""

from __future__ import annotations

import torch
from torch import Tensor

from tractable.errors import InvalidTarget
from tractable.likelihoods.base import real_targets


def count_targets(y: Tensor, outputs: torch.Size) -> Tensor:
    """Whole numbers from 0, in the shape of the outputs.

    Raises:
        InvalidTarget: there is a negative or fractional number, with its row.
    """
    y = real_targets(y, outputs)
    bad = (y < 0) | (y != y.round()) if y.is_floating_point() else y < 0
    if bool(bad.any()):
        row, *_ = torch.nonzero(bad)[0].tolist()
        value = y[bad][0].item()
        raise InvalidTarget(
            f"counts must be whole numbers from 0, got {value:g} in row {row}"
            + (": give counts as they are, not standardized" if value < 0 else "")
        )
    return y.to(torch.get_default_dtype()) if not y.is_floating_point() else y
