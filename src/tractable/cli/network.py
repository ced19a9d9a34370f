"""Networks that a user names on the command line, and batches of a shape to run them on."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from tractable.cli.errors import BadUse, one_line, unknown

_SEED = 0


def named(text: str) -> nn.Module:
    """The network that ``module:name`` or ``file.py:name`` says; a function is called.

    The module is imported, or the file run: the user has named it.
    """
    home, _, name = text.rpartition(":")
    if not home or not name:
        raise BadUse(f"a network is named as module:name or file.py:name, got {text!r}")
    try:
        module = _file(Path(home)) if home.endswith(".py") else importlib.import_module(home)
    except Exception as error:
        raise BadUse(f"cannot import {home}: {one_line(error)}") from error
    if not hasattr(module, name):
        public = [known for known in vars(module) if not known.startswith("_")]
        raise unknown(f"name in {home}", name, public)
    found = getattr(module, name)
    net = found() if callable(found) and not isinstance(found, nn.Module) else found
    if not isinstance(net, nn.Module):
        raise BadUse(f"{text} is no torch.nn.Module and does not make one: {type(net).__name__}")
    return net


def batch(shapes: Sequence[str]) -> Tensor | tuple[Tensor, ...]:
    """Random inputs of these shapes; one with ``:int`` has zeros, for row numbers.

    >>> [tuple(part.shape) for part in batch(["2,3", "2,5:int"])]
    [(2, 3), (2, 5)]
    """
    if not shapes:
        raise BadUse("give the shape of a batch of inputs, for instance --input 4,3,32,32")
    parts = tuple(_tensor(shape) for shape in shapes)
    return parts[0] if len(parts) == 1 else parts


def _tensor(text: str) -> Tensor:
    sizes, _, kind = text.partition(":")
    try:
        shape = [int(size) for size in sizes.split(",")]
    except ValueError:
        shape = []
    if not shape or min(shape) < 1 or kind not in ("", "float", "int"):
        raise BadUse(f"a shape is like 4,3,32,32 or 4,16:int, got {text!r}")
    if kind == "int":
        return torch.zeros(shape, dtype=torch.long)
    return torch.randn(shape, generator=torch.Generator().manual_seed(_SEED))


def _file(path: Path) -> ModuleType:
    spec: Any = importlib.util.spec_from_file_location(path.stem, path)
    if not path.is_file() or spec is None:
        raise FileNotFoundError(f"no file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
