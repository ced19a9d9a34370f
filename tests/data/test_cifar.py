"""CIFAR-10, from its repacked batches and from its archive."""

import io
import lzma
import tarfile

import numpy as np
import pytest
import torch

from tractable import data

BATCHES = [f"data_batch_{k}" for k in range(1, 6)] + ["test_batch"]
ARCHIVE = "cifar10/cifar-10-binary.tar.gz"


@pytest.fixture
def records() -> np.ndarray:
    """Two records for each of the six batches: a label, then the three planes."""
    rng = np.random.default_rng(0)
    made = rng.integers(0, 256, (6, 2, 3073), dtype=np.uint8)
    made[:, :, 0] %= 10
    return made


def packed(records: np.ndarray) -> dict[str, bytes]:
    return {
        f"cifar10/{batch}.bin.xz": lzma.compress(content.tobytes(), preset=0)
        for batch, content in zip(BATCHES, records, strict=True)
    }


def archived(records: np.ndarray) -> dict[str, bytes]:
    """The archive, its members in another order than the batches and with others among them."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        tar.addfile(tarfile.TarInfo("cifar-10-batches-bin/readme.html"))
        for batch, content in reversed(list(zip(BATCHES, records, strict=True))):
            info = tarfile.TarInfo(f"cifar-10-batches-bin/{batch}.bin")
            info.size = content.nbytes
            tar.addfile(info, io.BytesIO(content.tobytes()))
    return {ARCHIVE: buffer.getvalue()}


@pytest.mark.parametrize("pack", [packed, archived])
def test_both_forms_give_the_same_images(pack, records, make_folder):
    make_folder(pack(records))
    loaded = data.cifar10()
    flat = torch.from_numpy(records.reshape(12, 3073).astype(np.int64))
    pixels = flat[:, 1:].reshape(12, 3, 32, 32).float() / 255
    assert torch.equal(loaded.train_images, pixels[:10])
    assert torch.equal(loaded.test_images, pixels[10:])
    assert torch.equal(loaded.train_labels, flat[:10, 0])
    assert torch.equal(loaded.test_labels, flat[10:, 0])


def test_pixels_run_plane_by_plane_and_row_by_row(records, make_folder):
    records[0, 0, 1 + 1024 + 32 * 5 + 7] = 255  # green, row 5, column 7
    records[0, 0, 1 + 1024 + 32 * 7 + 5] = 0
    make_folder(packed(records))
    image = data.cifar10().train_images[0]
    assert image[1, 5, 7] == 1
    assert image[1, 7, 5] == 0


def test_an_incomplete_set_of_batches_is_named_in_the_error(records, make_folder):
    files = packed(records)
    folder = make_folder(files)
    (folder / "cifar10/data_batch_4.bin.xz").unlink()
    with pytest.raises(data.DataNotFound) as error:
        data.cifar10()
    assert ARCHIVE in str(error.value)
    assert "data_batch_4.bin.xz" in str(error.value)
    assert "data_batch_3.bin.xz" not in str(error.value)


def test_cifar10_is_the_published_one(real_data):
    loaded = data.cifar10()
    assert loaded.train_images.shape == (50_000, 3, 32, 32)
    assert loaded.test_images.shape == (10_000, 3, 32, 32)
    assert loaded.train_labels.bincount().tolist() == [5000] * 10
    assert loaded.test_labels.bincount().tolist() == [1000] * 10
    assert loaded.classes == tuple((real_data / "cifar10/batches.meta.txt").read_text().split())
    means, deviations = (125.3069, 122.9504, 113.8654), (62.9932, 62.0887, 66.7049)
    for channel in range(3):
        pixels = 255 * loaded.train_images[:, channel].double()
        assert pixels.mean().item() == pytest.approx(means[channel], abs=5e-5)
        assert pixels.std().item() == pytest.approx(deviations[channel], abs=5e-5)
