"""Atomic writes: a reader finds either the complete old file or the complete new one.

The new content is written to a temporary file in the same folder, flushed to the disk and renamed
to the name of the old file.  A symbolic link is kept (its target is replaced), and so are the
permissions of the old file: a private model stays private.  Temporary files of killed processes are
removed after an hour.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_STALE_SECONDS = 3_600.0


@contextmanager
def atomic_file(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path that replaces ``path`` if the block succeeds, and is removed
    otherwise.

    Raises:
        FileNotFoundError: the folder does not exist.
        OSError: the folder is not writable; the old file is unchanged.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot save {path.name}: no folder {path.parent}")
    path = Path(os.path.realpath(path))
    # The suffix is kept, because some writers choose the format by it.
    scratch = path.with_name(f".{path.stem}.{secrets.token_hex(4)}{path.suffix}")
    try:
        os.close(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        _keep_permissions(path, scratch)
        yield scratch
        _flush(scratch)
        os.replace(scratch, path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
    with suppress(OSError):  # makes the renaming durable on systems that can flush folders
        _flush(path.parent)
    _sweep(path)


def write_bytes(path: str | Path, payload: bytes) -> None:
    """Write a file; an old one is replaced only when the new one is complete."""
    with atomic_file(path) as scratch:
        scratch.write_bytes(payload)


def write_text(path: str | Path, text: str) -> Path:
    """Write a text file in UTF-8, atomically, and return its path."""
    write_bytes(path, text.encode())
    return Path(path)


def _keep_permissions(old: Path, new: Path) -> None:
    with suppress(OSError):  # there is no old file, or it belongs to another user
        os.chmod(new, stat.S_IMODE(old.stat().st_mode))


def _flush(place: Path) -> None:
    """Flush a file or folder to the disk."""
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sweep(path: Path) -> None:
    """Remove temporary files that were left by killed processes."""
    stem, ending = re.escape(path.stem), re.escape(path.suffix)
    # Files were once written as .name.ending.token.
    scratch = re.compile(rf"\.{stem}(\.[0-9a-f]{{8}}{ending}|{ending}\.[0-9a-f]{{8}})")
    oldest = time.time() - _STALE_SECONDS
    with suppress(OSError), os.scandir(path.parent) as entries:
        for entry in entries:
            if scratch.fullmatch(entry.name):
                with suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_mtime < oldest:
                        os.unlink(entry.path)
