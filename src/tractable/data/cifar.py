"""CIFAR-10, from the batches of its binary version.

Source: A. Krizhevsky, "Learning multiple layers of features from tiny images" (2009).
"""

import lzma
import tarfile
from pathlib import Path

import numpy as np

from tractable.data.images import Bytes, ImageData
from tractable.data.store import find_local, locate

__all__ = ["cifar10"]

_CLASSES = (
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
_BATCHES = (*(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin")
_ARCHIVE = "cifar10/cifar-10-binary.tar.gz"


def cifar10() -> ImageData:
    """CIFAR-10: 50,000 and 10,000 colour photographs, ``[N, 3, 32, 32]``.

    Read from ``cifar10/*.bin.xz`` in the local folder, one file a batch, else from the archive
    of the binary version as its author publishes it. Decoding takes some ten seconds.
    """
    local = {batch: find_local(f"cifar10/{batch}.xz") for batch in _BATCHES}
    present = [path for path in local.values() if path is not None]
    if len(present) == len(_BATCHES):
        batches = [lzma.decompress(path.read_bytes()) for path in present]
    else:
        missing = ", ".join(f"{batch}.xz" for batch, path in local.items() if path is None)
        batches = _unpack(locate(_ARCHIVE, instead=f"nor, locally, {missing} beside it"))
    *train, test = (_records(raw) for raw in batches)
    return ImageData.from_bytes("cifar10", _CLASSES, _join(train), _join([test]))


def _unpack(archive: Path) -> list[bytes]:
    """The batches in the archive, in the order of ``_BATCHES``."""
    found: dict[str, bytes] = {}
    with tarfile.open(archive) as members:
        for member in members:
            stream = members.extractfile(member)
            if stream is not None:
                found[Path(member.name).name] = stream.read()
    return [found[batch] for batch in _BATCHES]


def _records(raw: bytes) -> Bytes:
    """The records of a batch, one a row: the label, then the red, green and blue plane."""
    return np.frombuffer(raw, np.uint8).reshape(-1, 1 + 3 * 32 * 32)


def _join(batches: list[Bytes]) -> tuple[Bytes, Bytes]:
    """Pixels and labels of these batches."""
    records = np.concatenate(batches)
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0]
