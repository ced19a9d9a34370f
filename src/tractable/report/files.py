"""Files that are whole or not there: written beside their place and renamed."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A name to write to, which becomes ``path`` if the block ends well and nothing otherwise."""
    scratch = path.with_name(f".{path.stem}.{secrets.token_hex(4)}{path.suffix}")
    try:
        yield scratch
        os.replace(scratch, path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> Path:
    """Write a text file, replacing an older one only when the new one is complete."""
    with whole_file(path) as scratch:
        scratch.write_text(text, encoding="utf-8")
    return path
