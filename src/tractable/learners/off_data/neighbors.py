"""Distances to the nearest of a fixed set of rows, in one or two measures.

The compiled kernel subtracts row from row.  Torch computes ``|x|^2 - 2 x k + |k|^2``, in double
precision up to ``MAX_DOUBLE_COLUMNS``; both agree up to the rounding of a distance.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tractable import native

N_NEAREST = 3
"""Rows that a distance is taken to."""
MAX_DOUBLE_COLUMNS = 32
"""Up to here torch computes distances in double precision."""
_CHUNK = 128  # rows whose distances to all kept rows are held at once: they stay in the cache
_GROUPS = 32  # of distances, of which only those with the least are looked at in full


class DistanceLimits(NamedTuple):
    """Distances up to which nothing is counted.

    Attributes:
        radius: distance up to which rows count as inside the data.
        slope_radius: the same in the second measure.
        share: factor on the squared distance in the second measure.
    """

    radius: float = 0.0
    slope_radius: float = 0.0
    share: float = 1.0


NO_LIMITS = DistanceLimits()


class NearestDistances:
    """Root-mean-square distances to the three nearest of some rows.

    What does not depend on the rows that are asked for is computed once.

    Args:
        rows: the rows to measure distances to, ``[kept rows, columns]``.
        steep: factors on the columns in a second measure; None for the Euclidean one only.
        limits: up to which distances count as none.
    """

    def __init__(
        self, rows: Tensor, column_slopes: Tensor | None = None, limits: DistanceLimits = NO_LIMITS
    ) -> None:
        self.rows, self.column_slopes, self.limits = rows, column_slopes, limits

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes without cached results."""
        return {"rows": self.rows, "column_slopes": self.column_slopes, "limits": self.limits}

    def distances(self, x: Tensor, *, skip: int = 0) -> Tensor:
        """Return the distance of each row by torch, without the ``skip`` nearest kept rows."""
        return self._plain.distances(x, skip)

    def beyond(self, x: Tensor) -> Tensor:
        """Return by how much the distances exceed ``radius``; 0 where they do not."""
        if not self._kernel_serves(x):
            return (self._plain.distances(x) - self.limits.radius).clamp_min(0)
        found, _ = self._call(x, None)
        return torch.from_numpy(found)

    def growth(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``beyond``, and its square.

        With a second measure the square of what the distance by it exceeds ``slope_radius``, times
        ``share``, where that is greater.
        """
        column_slopes = self.column_slopes
        if column_slopes is None:
            novelty = self.beyond(x)
            return novelty, novelty.square()
        if self._kernel_serves(x):
            found, square = self._call(x, self._weights)
            return torch.from_numpy(found), torch.from_numpy(square)
        novelty, limits = self.beyond(x), self.limits
        other = (self._weighted.distances(x * column_slopes) - limits.slope_radius).clamp_min(0)
        return novelty, torch.maximum(novelty.square(), other.square() * limits.share)

    def _kernel_serves(self, x: Tensor) -> bool:
        """Return whether the compiled kernel can be used for these rows."""
        here = x.device.type == "cpu" and x.dtype == self.rows.dtype
        return here and native.kernel() is not None

    def _call(self, x: Tensor, weights: Any) -> tuple[Any, Any]:
        kernel = native.kernel()
        assert kernel is not None
        found: tuple[Any, Any] = kernel.beyond(
            x.contiguous().numpy(), self._blocks, len(self.rows), weights, *self.limits
        )
        return found

    @cached_property
    def _plain(self) -> _Products:
        return _Products(self.rows)

    @cached_property
    def _weighted(self) -> _Products:
        assert self.column_slopes is not None
        return _Products(self.rows * self.column_slopes)

    @cached_property
    def _blocks(self) -> Any:
        """The rows in the layout of the kernel: in blocks, column by column."""
        kernel = native.kernel()
        assert kernel is not None
        together = kernel.TOGETHER
        rows, columns = self.rows.shape
        padded = self.rows.new_zeros(-(-rows // together) * together, columns)
        padded[:rows] = self.rows
        return padded.unflatten(0, (-1, together)).transpose(1, 2).contiguous().numpy()

    @cached_property
    def _weights(self) -> Any:
        assert self.column_slopes is not None
        return self.column_slopes.square().contiguous().numpy()


class _Products:
    """Distances in one measure, by matrix products."""

    def __init__(self, rows: Tensor) -> None:
        self.dtype = torch.float64 if rows.shape[1] <= MAX_DOUBLE_COLUMNS else rows.dtype
        self.number = len(rows)
        kept = rows.to(self.dtype)
        padding = -len(kept) % _GROUPS
        self.columns = torch.cat([kept, kept.new_zeros(padding, kept.shape[1])]).T.contiguous()
        far = kept.new_full((padding,), float("inf"))
        self.squares = torch.cat([kept.square().sum(1), far])

    def distances(self, x: Tensor, skip: int = 0) -> Tensor:
        """Return the distance of each row, without the ``skip`` nearest kept rows."""
        number = min(N_NEAREST + skip, self.number)
        found = []
        for part in x.split(_CHUNK):
            part = part.to(self.dtype)
            from_kept = torch.addmm(self.squares, part, self.columns, alpha=-2)
            square = _least(from_kept, number)[:, skip:] + part.square().sum(1, keepdim=True)
            found.append(square.clamp_min(0).mean(1).sqrt())
        return torch.cat(found).to(x.dtype) if found else x.new_zeros(0)


def _least(values: Tensor, number: int) -> Tensor:
    """Return the smallest values of each row in order, ``[rows, number]``.

    They lie in those groups whose own least are the least, which is all that must be sorted.
    """
    groups = values.unflatten(1, (_GROUPS, -1))
    if groups.shape[2] > number:
        chosen = groups.amin(1).topk(number, largest=False).indices
        values = groups.gather(2, chosen.unsqueeze(1).expand(-1, _GROUPS, -1)).flatten(1)
    return values.topk(number, largest=False).values
