"""Model files: tensors by safetensors, everything else as JSON in its header.

Writing is atomic, and reading runs no code from the file.
"""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

FORMAT = 1


class InvalidModelFile(ValueError):
    """A file that is not a whole model file of this library."""


def write(path: str | Path, tensors: dict[str, Tensor], header: dict[str, Any]) -> None:
    """Write a model file, replacing an older one only when the new one is complete."""
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot save {path.name}: no folder {path.parent}")
    metadata = {"tractable": json.dumps({"format": FORMAT, **header})}
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    payload = save(plain, metadata)
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with scratch.open("xb") as file:
            file.write(payload)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise


def read(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and header of a model file.

    Raises:
        FileNotFoundError: there is no such file.
        InvalidModelFile: truncated, foreign, or of a newer format.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no model file at {path}")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise InvalidModelFile(f"{path} is not a whole model file: {error}") from error
    if "tractable" not in metadata:
        raise InvalidModelFile(f"{path} is a safetensors file, but not one of tractable")
    try:
        header = json.loads(metadata["tractable"])
    except json.JSONDecodeError as error:
        raise InvalidModelFile(f"{path} has a damaged header: {error}") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        found = header.get("format") if isinstance(header, dict) else None
        raise InvalidModelFile(f"{path} has file format {found}, this version reads {FORMAT}")
    return tensors, header
