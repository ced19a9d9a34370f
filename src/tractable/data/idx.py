"""MNIST and Fashion-MNIST, which share the IDX file format.

Sources: Y. LeCun, C. Cortes and C. Burges, the MNIST database of handwritten digits; H. Xiao,
K. Rasul and R. Vollgraf, "Fashion-MNIST: a novel image dataset for benchmarking machine learning
algorithms" (2017).
"""

import gzip

import numpy as np

from tractable.data.images import Bytes, ImageData
from tractable.data.store import locate

__all__ = ["fashion_mnist", "mnist"]

_CLOTHES = (
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
    """MNIST: 60,000 and 10,000 handwritten digits, ``[N, 1, 28, 28]``."""
    return _load("mnist", tuple("0123456789"))


def fashion_mnist() -> ImageData:
    """Fashion-MNIST: 60,000 and 10,000 pieces of clothing, ``[N, 1, 28, 28]``."""
    return _load("fashion-mnist", _CLOTHES)


def _load(folder: str, classes: tuple[str, ...]) -> ImageData:
    return ImageData.from_bytes(folder, classes, _part(folder, "train"), _part(folder, "t10k"))


def _part(folder: str, part: str) -> tuple[Bytes, Bytes]:
    """Pixels, with an axis for the one channel, and labels."""
    pixels = _read(f"{folder}/{part}-images-idx3-ubyte.gz")
    return pixels[:, np.newaxis], _read(f"{folder}/{part}-labels-idx1-ubyte.gz")


def _read(name: str) -> Bytes:
    """An IDX file: the number of axes in byte 3, their big-endian lengths, then the bytes."""
    raw = gzip.decompress(locate(name).read_bytes())
    axes = raw[3]
    shape = np.frombuffer(raw, ">u4", count=axes, offset=4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * axes).reshape(shape)
