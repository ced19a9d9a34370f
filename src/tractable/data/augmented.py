"""Images that are mirrored and shifted at random, anew in every pass."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler


class Augmented(Dataset[tuple[Tensor, Tensor]]):
    """Images and labels of which every draw is a new variation.

    An item is a whole batch: index with a list of rows, or take :meth:`batches`, a
    ``DataLoader`` that any learner's ``fit`` takes.

    Args:
        images: (rows, channels, height, width).
        labels: one per row.
        mirror: mirror half of the images, left to right.
        shift: largest shift in pixels in each direction; what comes in from outside is the
            reflection of the image at its border.
        seed: seed of the random number generator for order and variations.
    """

    def __init__(
        self, images: Tensor, labels: Tensor, *, mirror: bool = True, shift: int = 2, seed: int = 0
    ) -> None:
        if images.ndim != 4 or len(images) != len(labels):
            raise ValueError(
                "images must be (rows, channels, height, width) with one label a row, "
                f"got {tuple(images.shape)} and {len(labels)} labels"
            )
        if not 0 <= shift < min(images.shape[-2:]):
            raise ValueError(f"shift must lie between 0 and the image's size, got {shift}")
        self.images, self.labels = images, labels
        self.mirror, self.shift = mirror, shift
        self.generator = torch.Generator().manual_seed(seed)

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.images)

    def __getitem__(self, rows: list[int]) -> tuple[Tensor, Tensor]:
        """A batch: the variations of these images, and their labels."""
        images = self.images[rows]
        if self.mirror:
            mirrored = self._draw(0, 2, len(images)).bool()
            images = torch.where(mirrored[:, None, None, None], images.flip(3), images)
        return self._shifted(images) if self.shift else images, self.labels[rows]

    def batches(self, batch_size: int) -> DataLoader[tuple[Tensor, Tensor]]:
        """All images once a pass, in a new order each, in batches."""
        order = RandomSampler(self, generator=self.generator)
        return DataLoader(self, batch_size=None, sampler=BatchSampler(order, batch_size, False))

    def _shifted(self, images: Tensor) -> Tensor:
        rows, channels, height, width = images.shape
        bordered = F.pad(images, (self.shift,) * 4, mode="reflect")
        down, right = (self._draw(0, 2 * self.shift + 1, rows) for _ in range(2))
        i = (down[:, None] + torch.arange(height, device=images.device))[:, None, :, None]
        j = (right[:, None] + torch.arange(width, device=images.device))[:, None, None, :]
        k = torch.arange(rows, device=images.device)[:, None, None, None]
        return bordered[k, torch.arange(channels, device=images.device)[:, None, None], i, j]

    def _draw(self, low: int, high: int, count: int) -> Tensor:
        return torch.randint(low, high, (count,), generator=self.generator).to(self.images.device)
