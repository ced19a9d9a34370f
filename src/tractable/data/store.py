"""Where a data file is found: the local folder, then the cache, then a download.

The local folder is the one that the environment variable ``TRACTABLE_DATA`` names; it holds
``mnist/``, ``fashion-mnist/``, ``cifar10/``, ``mushroom/``, ``uci/``, ``timeseries/`` and
``graphs/``. The cache is pooch's, in the user's cache directory. Wherever a file comes from, it is
used only if its SHA-256 is the one in ``SHA256SUMS``, beside this module.
"""

import hashlib
import os
from pathlib import Path
from typing import Any

from tractable.data import sources
from tractable.errors import ChecksumMismatch, DataNotFound

__all__ = ["FOLDER", "ChecksumMismatch", "DataNotFound", "find_local", "locate"]

#: The environment variable that names the local folder.
FOLDER = "TRACTABLE_DATA"

#: How often a failed download is tried again, at each address, after 1, 2, ... seconds.
RETRIES = 2

# Path -> (size, time of change) of the files verified by this process.
_verified: dict[Path, tuple[int, int]] = {}


def locate(name: str, *, instead: str = "") -> Path:
    """The path of a verified copy of a data file, downloaded if need be.

    Args:
        name: the file's path in the data folder, for example ``mushroom/agaricus-lepiota.data``.
        instead: what else would have served, for the error message.

    Raises:
        DataNotFound: the file is in none of the places.
        ChecksumMismatch: the local folder has the file, and its SHA-256 is wrong.
    """
    return find_local(name) or _fetch(name, instead)


def find_local(name: str) -> Path | None:
    """The verified file in the local folder; None if the folder does not have it."""
    folder = os.environ.get(FOLDER)
    if not folder:
        return None
    path = Path(folder).expanduser() / name
    if not path.is_file():
        return None
    _verify(path, name)
    return path


def _where_locally(name: str) -> str:
    """How the search in the local folder ended, in words."""
    folder = os.environ.get(FOLDER)
    if not folder:
        return f"the local folder: the environment variable {FOLDER} is not set"
    if not Path(folder).expanduser().is_dir():
        return f"the local folder: {FOLDER}={folder} is not a folder"
    return f"the local folder: {FOLDER}={folder} has no {name}"


def _verify(path: Path, name: str) -> None:
    """Refuse a file with another SHA-256; a file already verified, and unchanged, is not reread."""
    status = path.stat()
    stamp = (status.st_size, status.st_mtime_ns)
    if _verified.get(path) == stamp:
        return
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != sources.SHA256[name]:
        raise ChecksumMismatch(
            f"{path} has SHA-256 {digest}, wanted {sources.SHA256[name]} for {name}. Likely (a) an "
            f"incomplete copy, (b) the same data packed anew, (c) another version of the data set. "
            f"Replace the file, or remove it to have it downloaded."
        )
    _verified[path] = stamp


def _fetch(name: str, instead: str) -> Path:
    """The file from the cache or a download."""
    looked = [_where_locally(name)]
    try:
        import pooch
    except ImportError as error:
        looked.append("the cache and the network: pooch is missing (pip install 'tractable[data]')")
        raise DataNotFound(_explain(name, instead, looked)) from error
    cache = Path(pooch.os_cache("tractable"))
    looked.append(f"the cache: no valid {cache / name}")
    for url in sources.urls(name):
        try:
            return _download(pooch, cache, name, url)
        except (OSError, ValueError) as error:  # requests' errors; pooch's, for a wrong hash
            looked.append(f"{url}: {type(error).__name__}: {error}")
    raise DataNotFound(_explain(name, instead, looked))


def _explain(name: str, instead: str, looked: list[str]) -> str:
    """Which file is missing, where it was looked for and how to provide it."""
    places = "\n".join(f"  - {place}" for place in looked)
    return (
        f"data file {name} was not found{instead and f' ({instead})'}. Looked for it in:\n"
        f"{places}\n"
        f"To provide it, put the file with SHA-256 {sources.SHA256[name]} at DIR/{name}, DIR being "
        f"any folder, and set {FOLDER}=DIR; or run once with a network connection."
    )


def _download(pooch: Any, cache: Path, name: str, url: str) -> Path:
    """The cached file if it is valid, else the one at this address, kept in the cache."""
    keeper = pooch.create(
        path=cache,
        base_url="",
        registry={name: f"sha256:{sources.SHA256[name]}"},
        urls={name: url},
        retry_if_failed=RETRIES,
    )
    return Path(keeper.fetch(name))
