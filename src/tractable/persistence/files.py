"""Writing files so that a reader sees the old one or the new one, whole.

The new content goes to a scratch file beside the old one, is flushed to the disk and renamed over
it.  A symbolic link keeps pointing where it did (the file behind it is replaced), and the
permissions of a file that is replaced are kept: a private model stays private.  Scratch files that
a killed process left behind are removed after an hour.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import time
from contextlib import suppress
from pathlib import Path

_STALE_SECONDS = 3_600.0


def write_bytes(path: str | Path, payload: bytes) -> None:
    """Write a file, replacing an older one only when the new one is complete.

    Raises:
        FileNotFoundError: the folder does not exist.
        OSError: it cannot be written to; the old file is as it was.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot save {path.name}: no folder {path.parent}")
    path = Path(os.path.realpath(path))
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with os.fdopen(descriptor, "wb") as file:
            _keep_permissions(path, descriptor)
            file.write(payload)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
    _flush_folder(path.parent)
    _sweep(path)


def write_text(path: str | Path, text: str) -> None:
    """The same for text, in UTF-8."""
    write_bytes(path, text.encode())


def _keep_permissions(old: Path, new: int) -> None:
    with suppress(OSError):  # there is no old file, or it is another user's
        os.fchmod(new, stat.S_IMODE(old.stat().st_mode))


def _flush_folder(folder: Path) -> None:
    """Make the renaming last through a power failure, where folders can be flushed."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _sweep(path: Path) -> None:
    """Remove scratch files of the same name that nobody writes to any more."""
    scratch = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{8}}")
    oldest = time.time() - _STALE_SECONDS
    with suppress(OSError), os.scandir(path.parent) as entries:
        for entry in entries:
            if scratch.fullmatch(entry.name):
                with suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_mtime < oldest:
                        os.unlink(entry.path)
