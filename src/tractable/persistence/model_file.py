"""Model files: tensors in safetensors format, everything else as JSON in the header.

A file contains a SHA-256 of its header and tensors, which detects damage.  Reading runs no
code from the file and imports nothing that it names.  Every defect of a file raises
``InvalidModelFile``: a loader builds its object inside ``as_invalid_file(path)``, which
converts all other errors to this one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from tractable.errors import InvalidModelFile
from tractable.persistence.atomic import write_bytes

FORMAT = 2
LONGEST_HEADER = 10_000_000
"""Maximum number of characters; the records of a hundred thousand epochs are that long."""

Tensors = dict[str, Tensor]
Header = dict[str, Any]


def write(path: str | Path, tensors: Mapping[str, Tensor], header: Header) -> None:
    """Write a model file; an old one is replaced only when the new one is complete."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    pairs = sorted(name for name, tensor in plain.items() if tensor.is_complex())
    for name in pairs:  # the format has no complex numbers of double precision
        plain[name] = torch.view_as_real(plain[name].resolve_conj())
    text = json.dumps({"format": FORMAT, **header, **({"complex": pairs} if pairs else {})})
    sealed = json.dumps({**json.loads(text), "checksum": _checksum(json.loads(text), plain)})
    if len(sealed) > LONGEST_HEADER:
        raise ValueError(
            f"cannot save {Path(path).name}: what is not a tensor (history, records of episodes) "
            f"takes {len(sealed)} characters; a file holds at most {LONGEST_HEADER}"
        )
    write_bytes(path, save(plain, {"tractable": sealed}))


def read(path: str | Path) -> tuple[Tensors, Header]:
    """Return the tensors and the header of a model file.

    Raises:
        FileNotFoundError: there is no such file.
        InvalidModelFile: damaged, truncated, foreign, or of a newer format.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no model file at {path}")
    with as_invalid_file(path):
        tensors, metadata = _parts(path)
        if "tractable" not in metadata:
            raise InvalidModelFile(f"{path} is a safetensors file, but not one of tractable")
        header = _header(path, metadata["tractable"])
        expected = header.pop("checksum", None)
        if expected != _checksum(header, tensors):
            raise InvalidModelFile(f"{path} is damaged: its checksum is not that of its contents")
        for name in header.pop("complex", []):
            # A copy, because complex numbers must not lie across the bounds of words in memory.
            tensors[name] = torch.view_as_complex(tensors[name].clone())
    return tensors, header


@contextmanager
def as_invalid_file(path: str | Path) -> Iterator[None]:
    """Convert every error inside the block to ``InvalidModelFile``."""
    try:
        yield
    except InvalidModelFile:
        raise
    except FileNotFoundError:
        raise
    except (Exception, RecursionError) as error:
        words = str(error) or type(error).__name__
        raise InvalidModelFile(f"{path} does not fit: {words}") from error


def under_prefix(tensors: Mapping[str, Tensor], prefix: str) -> Tensors:
    """Return the tensors whose names start with a prefix such as ``"learner/"``, without it."""
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


def with_prefix(tensors: Mapping[str, Tensor], prefix: str) -> Tensors:
    """Return the tensors with a prefix before their names."""
    return {f"{prefix}{name}": tensor for name, tensor in tensors.items()}


def count_numbers(tensors: Mapping[str, Tensor]) -> int:
    """Return the number of entries of all tensors: an upper bound of what may be built from a
    file.
    """
    return sum(tensor.numel() for tensor in tensors.values())


def _parts(path: Path) -> tuple[Tensors, dict[str, str]]:
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            return {name: file.get_tensor(name) for name in file.keys()}, metadata  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise InvalidModelFile(f"{path} is not a whole model file: {error}") from error


def _header(path: Path, text: str) -> Header:
    if len(text) > LONGEST_HEADER:
        raise InvalidModelFile(f"{path} has a header of {len(text)} characters: too long")
    try:
        header = json.loads(text)
    except (json.JSONDecodeError, RecursionError, ValueError) as error:
        raise InvalidModelFile(f"{path} has a damaged header: {error}") from error
    found = header.get("format") if isinstance(header, dict) else None
    if type(found) is not int or found != FORMAT:
        raise InvalidModelFile(f"{path} has file format {found!r}, this version reads {FORMAT}")
    return dict(header)


def _checksum(header: Header, tensors: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 of header and tensors, independent of their order."""
    seen = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        seen.update(f"\0{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        seen.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return seen.hexdigest()
