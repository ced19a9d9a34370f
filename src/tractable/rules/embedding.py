"""Moment rules of embeddings.

Exact: a row of the table is returned as it is.
Approximate: a row that is used twice is treated as two independent ones.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tractable.gaussian import Gaussian, moment_rule


@moment_rule(F.embedding)
def embedding(input: Tensor, weight: Gaussian, *args: Any, **kwargs: Any) -> Gaussian:
    """Return rows ``input`` of ``weight``; messages to a row that is used several times add."""
    if kwargs.get("max_norm") is not None:
        raise TypeError("max_norm would change the Gaussian weight: use max_norm=None")
    if kwargs.get("scale_grad_by_freq"):
        raise TypeError(
            "scale_grad_by_freq=True averages messages, which must be summed: use False"
        )
    return Gaussian.wrap(
        F.embedding(input, weight.loc, *args, **kwargs),
        F.embedding(input, weight.variance, *args, **kwargs),
    )


@moment_rule(F.embedding_bag)
def embedding_bag(
    input: Tensor,
    weight: Gaussian,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Gaussian:
    """Return sums, means or maxima of the rows of each bag."""
    if max_norm is not None or scale_grad_by_freq or isinstance(per_sample_weights, Gaussian):
        raise TypeError(
            "embedding_bag of a Gaussian needs max_norm=None, scale_grad_by_freq=False and "
            "constant per_sample_weights"
        )
    if mode == "max":
        if input.dim() != 2 or padding_idx is not None:
            raise TypeError("embedding_bag of a Gaussian with mode='max' needs bags of equal size")
        return F.embedding(input, weight).amax(1)  # type: ignore[return-value]
    bags: dict[str, Any] = {"include_last_offset": include_last_offset, "padding_idx": padding_idx}

    def run(table: Tensor, mode: str, factors: Tensor | None) -> Tensor:
        return F.embedding_bag(input, table, offsets, mode=mode, per_sample_weights=factors, **bags)

    loc = run(weight.loc, mode, per_sample_weights)
    factors = None if per_sample_weights is None else per_sample_weights**2
    variance = run(weight.variance, "sum", factors)
    if mode == "mean":
        with torch.no_grad():
            count = run(torch.ones_like(weight.loc[:, :1]), "sum", None).clamp_min(1)
        variance = variance / count**2
    return Gaussian.wrap(loc, variance)
