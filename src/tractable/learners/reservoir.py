"""Rows of a data loader to remember: it is read once an epoch, and may not be read again."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from tractable.learners import support
from tractable.training.batches import Loader, Rows
from tractable.training.inputs import Inputs, measurable


class WatchedLoader(Loader):
    """A loader that keeps some of the rows of its last epoch, drawn uniformly.

    Every row gets a random number, and those with the greatest are kept.

    Args:
        source: the loader to watch.
        seed: seed of the draw.
    """

    def __init__(self, source: Loader, seed: int) -> None:
        super().__init__(source.loader, source.taken, source.format)
        self.seed = seed
        self.kept: Tensor | None = None

    def epoch(self, order: Tensor | None) -> Iterator[tuple[Inputs, Tensor]]:
        """The batches of one pass."""
        self.kept, keys = None, torch.zeros(0, dtype=torch.float64)
        generator = support.generator(self.seed)
        for x, y in super().epoch(order):
            at = measurable(x)
            if at is not None:
                keys = self._see(at, keys, generator)
            yield x, y

    def _see(self, rows: Tensor, keys: Tensor, generator: torch.Generator) -> Tensor:
        """Keep some rows of a batch; the numbers of all rows that are kept."""
        if self.kept is None:
            self.kept = rows[:0]
        if rows.shape[1:] != self.kept.shape[1:]:
            return keys  # rows of several shapes cannot be compared
        new = torch.rand(len(rows), generator=generator, dtype=torch.float64)
        keys = torch.cat([keys, new])
        best = keys.topk(min(support.room(tuple(rows.shape[1:])), len(keys))).indices
        if bool((best >= len(self.kept)).any()):
            self.kept = torch.cat([self.kept, rows])[best.to(rows.device)]
            return keys[best]
        return keys[: len(self.kept)]


def kept_rows(source: Rows | Loader, seed: int) -> Tensor | None:
    """Some rows of inputs of a fit, drawn at random; None if they cannot be compared."""
    if isinstance(source, Rows):
        at = measurable(source.x)
        return None if at is None else support.drawn(at, seed)
    return source.kept if isinstance(source, WatchedLoader) else None
