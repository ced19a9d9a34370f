"""Rows of a data loader to remember: it is read once an epoch, and may not be read again."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from tractable.gaussian import Gaussian
from tractable.learners import support
from tractable.training.batches import Loader


class WatchedLoader(Loader):
    """A loader that keeps some of the rows of its last epoch, drawn uniformly.

    Every row gets a random number, and those with the greatest are kept.

    Args:
        source: the loader to watch.
        seed: of the draw.
    """

    def __init__(self, source: Loader, seed: int) -> None:
        super().__init__(source.loader, source.format)
        self.seed = seed
        self.kept: Tensor | None = None

    def epoch(self, order: Tensor | None) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of one pass."""
        self.kept, keys = None, torch.zeros(0, dtype=torch.float64)
        generator = support.generator(self.seed)
        for x, y in super().epoch(order):
            keys = self._see(x, keys, generator)
            yield x, y

    def _see(self, x: Tensor, keys: Tensor, generator: torch.Generator) -> Tensor:
        """Keep some rows of a batch; the numbers of all rows that are kept."""
        rows = x.loc if isinstance(x, Gaussian) else x
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
