"""Networks named on the command line, and random input batches of a given shape."""

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

from tractable.cli.errors import UsageError, one_line, unknown_name

_SEED = 0


def load_network(text: str) -> nn.Module:
    """Return the network ``module:name`` or ``file.py:name``; a function is called.

    The module is imported, or the file executed.
    """
    home, _, name = text.rpartition(":")
    if not home or not name:
        raise UsageError(f"a network must be given as module:name or file.py:name, got {text!r}")
    try:
        module = _import_file(Path(home)) if home.endswith(".py") else importlib.import_module(home)
    except Exception as error:
        raise UsageError(f"cannot import {home}: {one_line(error)}") from error
    if not hasattr(module, name):
        public = [known for known in vars(module) if not known.startswith("_")]
        raise unknown_name(f"name in {home}", name, public)
    found = getattr(module, name)
    net = found() if callable(found) and not isinstance(found, nn.Module) else found
    if not isinstance(net, nn.Module):
        raise UsageError(
            f"{text} must be a torch.nn.Module or a function that returns one, got "
            f"{type(net).__name__}"
        )
    return net


def random_batch(shapes: Sequence[str]) -> Tensor | tuple[Tensor, ...]:
    """Return random inputs of these shapes; zeros for ``:int``, which are valid indices.

    >>> [tuple(part.shape) for part in random_batch(["2,3", "2,5:int"])]
    [(2, 3), (2, 5)]
    """
    if not shapes:
        raise UsageError("pass the shape of an input batch, e.g. --input 4,3,32,32")
    parts = tuple(_random_tensor(shape) for shape in shapes)
    return parts[0] if len(parts) == 1 else parts


def _random_tensor(text: str) -> Tensor:
    sizes, _, kind = text.partition(":")
    try:
        shape = [int(size) for size in sizes.split(",")]
    except ValueError:
        shape = []
    if not shape or min(shape) < 1 or kind not in ("", "float", "int"):
        raise UsageError(f"--input must be a shape such as 4,3,32,32 or 4,16:int, got {text!r}")
    if kind == "int":
        return torch.zeros(shape, dtype=torch.long)
    return torch.randn(shape, generator=torch.Generator().manual_seed(_SEED))


def _import_file(path: Path) -> ModuleType:
    spec: Any = importlib.util.spec_from_file_location(path.stem, path)
    if not path.is_file() or spec is None:
        raise FileNotFoundError(f"no file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
