"""A file is found locally, in the cache or by download, and only if it is the right one."""

import hashlib
import os
import sys
from pathlib import Path

import pytest

from tractable.data import ChecksumMismatch, DataNotFound, download

NAME = "mushroom/agaricus-lepiota.data"


def test_the_local_folder_comes_first(make_folder):
    folder = make_folder({NAME: b"p,x\n"})
    assert download.locate(NAME) == folder / NAME


def test_a_home_folder_may_be_abbreviated(make_folder, monkeypatch):
    folder = make_folder({NAME: b"p,x\n"})
    monkeypatch.setenv("HOME", str(folder.parent))
    monkeypatch.setenv(download.FOLDER, f"~/{folder.name}")
    assert download.locate(NAME) == folder / NAME


def test_a_file_with_another_checksum_is_refused(make_folder):
    folder = make_folder({NAME: b"p,x\n"})
    (folder / NAME).write_bytes(b"p,y\n")
    with pytest.raises(ChecksumMismatch) as error:
        download.locate(NAME)
    assert str(folder / NAME) in str(error.value)
    assert hashlib.sha256(b"p,y\n").hexdigest() in str(error.value)
    assert hashlib.sha256(b"p,x\n").hexdigest() in str(error.value)


def test_an_unchanged_file_is_hashed_once_and_a_changed_one_again(make_folder, monkeypatch):
    path = make_folder({NAME: b"p,x\n"}) / NAME
    hashed = []
    digest = hashlib.file_digest
    monkeypatch.setattr(
        hashlib, "file_digest", lambda stream, kind: hashed.append(kind) or digest(stream, kind)
    )
    download.locate(NAME)
    download.locate(NAME)
    assert hashed == ["sha256"]
    later = path.stat().st_mtime_ns + 1_000_000_000
    path.write_bytes(b"p,y\n")  # of the same size
    os.utime(path, ns=(later, later))
    with pytest.raises(ChecksumMismatch):
        download.locate(NAME)


def test_a_missing_file_error_names_file_folders_and_remedy(tmp_path, monkeypatch):
    monkeypatch.setenv(download.FOLDER, str(tmp_path))
    with pytest.raises(DataNotFound) as error:
        download.locate(NAME)
    message = str(error.value)
    assert isinstance(error.value, FileNotFoundError)
    assert f"data file {NAME} was not found" in message
    assert f"{download.FOLDER}={tmp_path} has no {NAME}" in message
    assert str(tmp_path / "cache" / "tractable" / NAME) in message
    assert f"put the file with SHA-256 {download.SHA256[NAME]} at DIR/{NAME}" in message
    assert f"set {download.FOLDER}=DIR" in message


def test_a_missing_file_error_says_that_no_folder_is_named(monkeypatch):
    monkeypatch.delenv(download.FOLDER, raising=False)
    with pytest.raises(DataNotFound, match=f"variable {download.FOLDER} is not set"):
        download.locate(NAME)


def test_a_missing_file_error_says_that_the_named_folder_is_none(tmp_path, monkeypatch):
    monkeypatch.setenv(download.FOLDER, str(tmp_path / "nowhere"))
    with pytest.raises(DataNotFound, match="nowhere is not a folder"):
        download.locate(NAME)


def test_without_pooch_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.delenv(download.FOLDER, raising=False)
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(DataNotFound, match=r"pip install 'tractable\[data\]'") as error:
        download.locate(NAME)
    assert isinstance(error.value.__cause__, ImportError)


def test_the_local_folder_needs_no_pooch(make_folder, monkeypatch):
    folder = make_folder({NAME: b"p,x\n"})
    monkeypatch.setitem(sys.modules, "pooch", None)
    assert download.locate(NAME) == folder / NAME


def test_the_real_folder_is_the_one_the_checksums_are_of(real_data: Path):
    real = download._read_sums((real_data / "SHA256SUMS").read_text())
    both = download.SHA256.keys() & real.keys()
    assert len(both) > 200
    for name in both:
        assert download.SHA256[name] == real[name]
        assert download.locate(name) == real_data / name
