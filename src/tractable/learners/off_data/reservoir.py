"""Rows of a data loader to remember: it is read once an epoch, and may not be read again."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from tractable.learners.off_data import support
from tractable.training.data import ArrayData, LoaderData
from tractable.training.inputs import Inputs, distance_input


class ReservoirLoader(LoaderData):
    """A loader that keeps a uniform random sample of the rows of its last epoch.

    Every row gets a random number, and those with the greatest are kept.

    Args:
        source: the loader to watch.
        seed: seed of the draw.
    """

    def __init__(self, source: LoaderData, seed: int) -> None:
        super().__init__(source.loader, source.taken, source.format)
        self.seed = seed
        self.kept: Tensor | None = None

    def epoch(self, order: Tensor | None) -> Iterator[tuple[Inputs, Tensor]]:
        """Yield the batches of one epoch."""
        self.kept, keys = None, torch.zeros(0, dtype=torch.float64)
        generator = support.support_generator(self.seed)
        for x, y in super().epoch(order):
            at = distance_input(x)
            if at is not None:
                keys = self._sample(at, keys, generator)
            yield x, y

    def _sample(self, rows: Tensor, keys: Tensor, generator: torch.Generator) -> Tensor:
        """Sample rows of a batch and return the random keys of all kept rows."""
        if self.kept is None:
            self.kept = rows[:0]
        if rows.shape[1:] != self.kept.shape[1:]:
            return keys  # rows of several shapes cannot be compared
        new = torch.rand(len(rows), generator=generator, dtype=torch.float64)
        keys = torch.cat([keys, new])
        best = keys.topk(min(support.max_kept_rows(tuple(rows.shape[1:])), len(keys))).indices
        if bool((best >= len(self.kept)).any()):
            self.kept = torch.cat([self.kept, rows])[best.to(rows.device)]
            return keys[best]
        return keys[: len(self.kept)]


def kept_rows(source: ArrayData | LoaderData, seed: int) -> Tensor | None:
    """Return a random sample of the rows of a fit; None if they have no distances."""
    if isinstance(source, ArrayData):
        at = distance_input(source.x)
        return None if at is None else support.sample_rows(at, seed)
    return source.kept if isinstance(source, ReservoirLoader) else None
