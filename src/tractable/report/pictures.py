"""Pictures for a page to hold: image files beside the results, and no others."""

from __future__ import annotations

import base64
from pathlib import Path

#: Ending of a file, its kind, and what its first bytes are.
KINDS = {
    ".png": ("image/png", b"\x89PNG\r\n\x1a\n"),
    ".jpg": ("image/jpeg", b"\xff\xd8\xff"),
    ".jpeg": ("image/jpeg", b"\xff\xd8\xff"),
}


def picture_uri(folder: Path, name: str) -> str | None:
    """An image in a folder as text, for a page to hold; None where there is none.

    The name comes from a file that anyone may have written.  It must be that of a PNG or JPEG file
    in this folder: no path, no link that leads out of it, nothing that is not an image.
    """
    kind, start = KINDS.get(Path(name).suffix.lower(), ("", b""))
    if not kind or "/" in name or "\\" in name or "\0" in name:
        return None
    path = folder / name
    if not path.is_file() or path.resolve().parent != folder.resolve():
        return None
    content = path.read_bytes()
    if not content.startswith(start):
        return None
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"
