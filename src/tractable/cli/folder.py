"""Atomic creation of output folders: written under a temporary name and renamed when complete."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tractable.cli.errors import UsageError


@contextmanager
def atomic_folder(path: Path, *, force: bool) -> Iterator[Path]:
    """Yield a temporary folder that becomes ``path`` if the block succeeds, else is removed.

    Args:
        path: output folder, which must not exist or be empty unless ``force``.
        force: replace the folder once the new one is complete.
    """
    if path.is_dir() and any(path.iterdir()) and not force:
        raise UsageError(
            f"the folder {path} is not empty: choose another --out, or replace it with --force"
        )
    problem = write_problem(path)
    if problem:
        raise UsageError(problem)
    made = [parent for parent in path.parents if not parent.exists()]
    token = secrets.token_hex(4)
    scratch = path.parent / f".{path.name}.{token}"
    try:
        scratch.mkdir(parents=True)
    except OSError as error:
        raise UsageError(f"cannot write to {path}: {error.strerror or error}") from error
    try:
        yield scratch
        _replace(scratch, path, token)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        for parent in made:
            parent.rmdir()
        raise


def _replace(scratch: Path, path: Path, token: str) -> None:
    if not path.exists():
        os.rename(scratch, path)
        return
    old = path.parent / f".{path.name}.{token}.old"
    os.rename(path, old)
    try:
        os.rename(scratch, path)
    except OSError:
        os.rename(old, path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def write_problem(folder: Path) -> str | None:
    """Return why a folder cannot be created or written to, or None; nothing is created."""
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        return f"cannot write to {folder}: {there} is not a folder"
    if not os.access(there, os.W_OK | os.X_OK):
        return f"cannot write to {folder}: no permission to write in {there}"
    return None
