"""MNIST and Fashion-MNIST."""

import gzip
import struct

import numpy as np
import pytest
import torch

from tractable import data


def idx(array: np.ndarray) -> bytes:
    """The array as a compressed IDX file of bytes."""
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    return gzip.compress(header + array.astype(np.uint8).tobytes())


@pytest.fixture(params=["mnist", "fashion-mnist"])
def tiny(request, make_folder):
    """Three training images and one for test, two rows of three pixels each."""
    images = np.arange(0, 240, 10).reshape(4, 2, 3)
    make_folder(
        {
            f"{request.param}/train-images-idx3-ubyte.gz": idx(images[:3]),
            f"{request.param}/train-labels-idx1-ubyte.gz": idx(np.array([9, 0, 1])),
            f"{request.param}/t10k-images-idx3-ubyte.gz": idx(images[3:]),
            f"{request.param}/t10k-labels-idx1-ubyte.gz": idx(np.array([7])),
        }
    )
    load = {"mnist": data.mnist, "fashion-mnist": data.fashion_mnist}[request.param]
    return load(), torch.from_numpy(images).float() / 255


def test_images_have_a_channel_and_values_up_to_one(tiny):
    loaded, images = tiny
    assert torch.equal(loaded.train_images, images[:3, None])
    assert torch.equal(loaded.test_images, images[3:, None])
    assert loaded.train_images.dtype == loaded.test_images.dtype == torch.float32


def test_labels_are_class_numbers(tiny):
    loaded, _ = tiny
    assert loaded.train_labels.tolist() == [9, 0, 1]
    assert loaded.test_labels.tolist() == [7]
    assert loaded.train_labels.dtype == loaded.test_labels.dtype == torch.int64
    assert len(loaded.classes) == 10
    assert loaded.classes[7] == {"mnist": "7", "fashion-mnist": "Sneaker"}[loaded.name]


def test_the_data_show_themselves_in_one_line(tiny):
    loaded, _ = tiny
    assert "\n" not in repr(loaded)
    assert loaded.name in repr(loaded)


@pytest.mark.parametrize("file", ["train-images-idx3", "train-labels-idx1", "t10k-images-idx3"])
def test_each_file_is_needed(tiny, file, tmp_path):
    loaded, _ = tiny
    (tmp_path / "data" / loaded.name / f"{file}-ubyte.gz").unlink()
    load = {"mnist": data.mnist, "fashion-mnist": data.fashion_mnist}[loaded.name]
    with pytest.raises(data.DataNotFound, match=f"{loaded.name}/{file}-ubyte.gz"):
        load()


def test_mnist_is_the_published_one(real_data):
    loaded = data.mnist()
    assert loaded.train_images.shape == (60_000, 1, 28, 28)
    assert loaded.test_images.shape == (10_000, 1, 28, 28)
    train = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    test = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert loaded.train_labels.bincount().tolist() == train
    assert loaded.test_labels.bincount().tolist() == test
    pixels = loaded.train_images.double()
    assert pixels.mean().item() == pytest.approx(0.1307, abs=5e-5)
    assert pixels.std().item() == pytest.approx(0.3081, abs=5e-5)
    assert (pixels.min().item(), pixels.max().item()) == (0, 1)
