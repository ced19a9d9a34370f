"""Every file has a checksum and, unless it is only kept locally, a public address."""

import pytest

from tractable.data import download

REAL = download._MIRRORS


@pytest.fixture(autouse=True)
def unsealed(sealed, monkeypatch):
    """The real addresses, from which the tests of this folder are otherwise kept."""
    monkeypatch.setattr(download, "_MIRRORS", REAL)


def test_checksums_are_sha256():
    assert all(len(digest) == 64 and int(digest, 16) for digest in download.SHA256.values())


def test_every_file_but_the_repacked_ones_has_an_address():
    local_only = {name for name in download.SHA256 if not download.urls(name)}
    local_only -= {name for name in local_only if name.startswith("graphs/")}
    batches = {f"cifar10/data_batch_{k}.bin.xz" for k in range(1, 6)}
    assert local_only == batches | {"cifar10/test_batch.bin.xz", "cifar10/batches.meta.txt"}


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("mnist/t10k-labels-idx1-ubyte.gz", "/mnist/t10k-labels-idx1-ubyte.gz"),
        ("fashion-mnist/t10k-labels-idx1-ubyte.gz", "/fashion/t10k-labels-idx1-ubyte.gz"),
        ("cifar10/cifar-10-binary.tar.gz", "/~kriz/cifar-10-binary.tar.gz"),
        ("uci/energy/index_test_3.txt", "/UCI_Datasets/energy/data/index_test_3.txt"),
        ("timeseries/ETTh1.csv", "/ETT-small/ETTh1.csv"),
        ("timeseries/monthly-sunspots.csv", "/Datasets/master/monthly-sunspots.csv"),
    ],
)
def test_addresses(name, end):
    assert download.urls(name)[0].startswith("https://")
    assert download.urls(name)[0].endswith(end)
