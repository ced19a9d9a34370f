"""Data folders for the tests: the real one where it is there, tiny ones made on the spot."""

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pooch
import pytest

from tractable.data import download

MakeFolder = Callable[[Mapping[str, bytes]], Path]


@pytest.fixture(autouse=True)
def sealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reaches the network or the user's cache."""
    monkeypatch.setattr(download, "_MIRRORS", {})
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache" / project)


@pytest.fixture
def real_data() -> Path:
    """The folder with the real data sets, if the environment names one."""
    folder = os.environ.get(download.FOLDER)
    if not folder:
        pytest.skip(f"{download.FOLDER} does not name a folder with the real data sets")
    return Path(folder)


@pytest.fixture
def make_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeFolder:
    """Make a data folder of these files and replace the expected checksums by theirs."""

    def make(files: Mapping[str, bytes]) -> Path:
        folder = tmp_path / "data"
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
        monkeypatch.setattr(download, "SHA256", download.SHA256 | sums)
        monkeypatch.setenv(download.FOLDER, str(folder))
        return folder

    return make
