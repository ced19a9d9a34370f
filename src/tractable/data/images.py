"""What an image data set is: pixels in [0, 1] and classes, for training and for test."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

__all__ = ["Bytes", "ImageData"]

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class ImageData:
    """Images and their classes, in the published split into training and test.

    Attributes:
        name: what the data set is called.
        classes: the names of the classes, in label order.
        train_images: ``[N, channels, height, width]``, float32 in [0, 1].
        train_labels: ``[N]``, int64.
        test_images: as ``train_images``.
        test_labels: as ``train_labels``.
    """

    name: str
    classes: tuple[str, ...]
    train_images: Tensor = field(repr=False)
    train_labels: Tensor = field(repr=False)
    test_images: Tensor = field(repr=False)
    test_labels: Tensor = field(repr=False)

    @classmethod
    def from_bytes(
        cls,
        name: str,
        classes: tuple[str, ...],
        train: tuple[Bytes, Bytes],
        test: tuple[Bytes, Bytes],
    ) -> "ImageData":
        """The data set of these (pixels, labels), pixels from 0 to 255."""
        return cls(
            name=name,
            classes=classes,
            train_images=_unit_interval(train[0]),
            train_labels=_labels(train[1]),
            test_images=_unit_interval(test[0]),
            test_labels=_labels(test[1]),
        )


def _unit_interval(pixels: Bytes) -> Tensor:
    return torch.from_numpy(pixels.astype(np.float32)).div_(255)


def _labels(labels: Bytes) -> Tensor:
    return torch.from_numpy(labels.astype(np.int64))
