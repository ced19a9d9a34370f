"""Image data sets: MNIST, Fashion-MNIST, CIFAR-10, and random augmentation."""

from __future__ import annotations

import gzip
import lzma
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

from tractable.data.download import find_local, locate

__all__ = ["AugmentedImages", "Bytes", "ImageData", "cifar10", "fashion_mnist", "mnist"]

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class ImageData:
    """Images and their classes, in the published training and test sets.

    Attributes:
        name: name of the data set.
        classes: names of the classes, in the order of the labels.
        train_images: ``[N, channels, height, width]``, float32 between 0 and 1.
        train_labels: ``[N]``, int64.
        test_images: images of the test set, of the same form.
        test_labels: labels of the test set, of the same form.
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
    ) -> ImageData:
        """Return a data set from pixels, 0 to 255, and labels of the training and test sets.

        Args:
            name: name of the data set.
            classes: names of the classes, in the order of the labels.
            train: pixels ``[N, channels, height, width]`` and labels ``[N]`` of the training set.
            test: pixels and labels of the test set, of the same form.
        """
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


# --- MNIST and Fashion-MNIST -------------------------------------------------------------------

_FASHION_CLASSES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)


def mnist() -> ImageData:
    """Return MNIST: 60,000 training and 10,000 test images of digits, ``[N, 1, 28, 28]``.

    References:
        Y. LeCun, C. Cortes and C. Burges, the MNIST database of handwritten digits.
    """
    return _load_idx("mnist", tuple("0123456789"))


def fashion_mnist() -> ImageData:
    """Return Fashion-MNIST: 60,000 training and 10,000 test images of clothes, ``[N, 1, 28, 28]``.

    References:
        H. Xiao, K. Rasul and R. Vollgraf, "Fashion-MNIST: a novel image dataset for benchmarking
        machine learning algorithms" (2017).
    """
    return _load_idx("fashion-mnist", _FASHION_CLASSES)


def _load_idx(folder: str, classes: tuple[str, ...]) -> ImageData:
    return ImageData.from_bytes(
        folder, classes, _idx_part(folder, "train"), _idx_part(folder, "t10k")
    )


def _idx_part(folder: str, part: str) -> tuple[Bytes, Bytes]:
    """Return pixels, with an axis for the single channel, and labels."""
    pixels = _read_idx(f"{folder}/{part}-images-idx3-ubyte.gz")
    return pixels[:, np.newaxis], _read_idx(f"{folder}/{part}-labels-idx1-ubyte.gz")


def _read_idx(name: str) -> Bytes:
    """Return the array in an IDX file: number of axes in byte 3, their lengths, the values."""
    raw = gzip.decompress(locate(name).read_bytes())
    axes = raw[3]
    shape = np.frombuffer(raw, ">u4", count=axes, offset=4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * axes).reshape(shape)


# --- CIFAR-10 ----------------------------------------------------------------------------------

_CIFAR_CLASSES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
_CIFAR_BATCHES = (*(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin")
_CIFAR_ARCHIVE = "cifar10/cifar-10-binary.tar.gz"


def cifar10() -> ImageData:
    """Return CIFAR-10: 50,000 training and 10,000 test color images, ``[N, 3, 32, 32]``.

    It is read from ``cifar10/*.bin.xz`` in the local folder, one file per batch, else from the
    published archive of the binary version. Decoding takes about ten seconds.

    References:
        A. Krizhevsky, "Learning multiple layers of features from tiny images" (2009).
    """
    local = {batch: find_local(f"cifar10/{batch}.xz") for batch in _CIFAR_BATCHES}
    present = [path for path in local.values() if path is not None]
    if len(present) == len(_CIFAR_BATCHES):
        batches = [lzma.decompress(path.read_bytes()) for path in present]
    else:
        missing = ", ".join(f"{batch}.xz" for batch, path in local.items() if path is None)
        batches = _unpack_cifar(
            locate(_CIFAR_ARCHIVE, instead=f"nor, in the local folder, {missing}")
        )
    *train, test = (_cifar_records(raw) for raw in batches)
    return ImageData.from_bytes(
        "cifar10", _CIFAR_CLASSES, _cifar_arrays(train), _cifar_arrays([test])
    )


def _unpack_cifar(archive: Path) -> list[bytes]:
    """Return the batches in the archive, in the order of ``_CIFAR_BATCHES``."""
    found: dict[str, bytes] = {}
    with tarfile.open(archive) as members:
        for member in members:
            stream = members.extractfile(member)
            if stream is not None:
                found[Path(member.name).name] = stream.read()
    return [found[batch] for batch in _CIFAR_BATCHES]


def _cifar_records(raw: bytes) -> Bytes:
    """Return the records of a batch, one per row: label, then red, green and blue pixels."""
    return np.frombuffer(raw, np.uint8).reshape(-1, 1 + 3 * 32 * 32)


def _cifar_arrays(batches: list[Bytes]) -> tuple[Bytes, Bytes]:
    """Return pixels and labels of batches."""
    records = np.concatenate(batches)
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0]


# --- augmentation ------------------------------------------------------------------------------


class AugmentedImages(Dataset[tuple[Tensor, Tensor]]):
    """A data set of images that are randomly flipped and shifted each time they are read.

    An item is a batch, for a list of row numbers. ``batches`` returns a ``DataLoader`` for the
    ``fit`` of any learner.

    Args:
        images: ``[rows, channels, height, width]``.
        labels: labels, ``[rows]``.
        flip: whether to flip half of the images horizontally. Default: True.
        max_shift: maximum shift in each direction, in pixels; the border is reflected. Default: 2.
        seed: seed of the order and of the random changes. Default: 0.
    """

    def __init__(
        self,
        images: Tensor,
        labels: Tensor,
        *,
        flip: bool = True,
        max_shift: int = 2,
        seed: int = 0,
    ) -> None:
        if images.ndim != 4 or len(images) != len(labels):
            raise ValueError(
                "images must be [rows, channels, height, width], with one label per row; "
                f"got {tuple(images.shape)} and {len(labels)} labels"
            )
        if not 0 <= max_shift < min(images.shape[-2:]):
            raise ValueError(
                f"max_shift must lie between 0 and the size of the images, got {max_shift}"
            )
        self.images, self.labels = images, labels
        self.flip, self.max_shift = flip, max_shift
        self.generator = torch.Generator().manual_seed(seed)

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.images)

    def __getitem__(self, rows: list[int]) -> tuple[Tensor, Tensor]:
        """Return a batch: changed copies of the images, and their labels."""
        images = self.images[rows]
        if self.flip:
            is_flipped = self._draw(0, 2, len(images)).bool()
            images = torch.where(is_flipped[:, None, None, None], images.flip(3), images)
        return self._shifted(images) if self.max_shift else images, self.labels[rows]

    def batches(self, batch_size: int) -> DataLoader[tuple[Tensor, Tensor]]:
        """Return a loader of batches, which contains every image once per epoch, in random order.

        Args:
            batch_size: rows per batch.
        """
        order = RandomSampler(self, generator=self.generator)
        return DataLoader(self, batch_size=None, sampler=BatchSampler(order, batch_size, False))

    def _shifted(self, images: Tensor) -> Tensor:
        rows, channels, height, width = images.shape
        bordered = F.pad(images, (self.max_shift,) * 4, mode="reflect")
        down, right = (self._draw(0, 2 * self.max_shift + 1, rows) for _ in range(2))
        i = (down[:, None] + torch.arange(height, device=images.device))[:, None, :, None]
        j = (right[:, None] + torch.arange(width, device=images.device))[:, None, None, :]
        k = torch.arange(rows, device=images.device)[:, None, None, None]
        return bordered[k, torch.arange(channels, device=images.device)[:, None, None], i, j]

    def _draw(self, low: int, high: int, count: int) -> Tensor:
        return torch.randint(low, high, (count,), generator=self.generator).to(self.images.device)
