"""The normalization layers under test, each with the sets of entries that it normalizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Norm:
    """A function of an input, and perhaps of weights and offsets."""

    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    """Of the input, the weights and, if it has them, the offsets."""
    layout: tuple[int, ...]
    """Return the shape with which weights and offsets broadcast to an input."""
    sets: Callable[[Tensor], Tensor]
    """The input with the entries of each set in the last dimension."""


def _batch(x: Any, w: Any = None, b: Any = None) -> Any:
    return F.batch_norm(x, None, None, w, b, training=True)


def _layer(x: Any, w: Any = None, b: Any = None) -> Any:
    return F.layer_norm(x, (2, 3), w, b)


def _group(x: Any, w: Any = None, b: Any = None) -> Any:
    return F.group_norm(x, 2, w, b)


def _instance(x: Any, w: Any = None, b: Any = None) -> Any:
    return F.instance_norm(x, None, None, w, b)


def _rms(x: Any, w: Any = None) -> Any:
    return F.rms_norm(x, (5,), w, 1e-5)


def _by_channel(x: Tensor) -> Tensor:
    return x.movedim(1, 0).flatten(1)


NORMS = {
    "batch_norm": Norm(_batch, ((3, 2, 3), (2,), (2,)), (2, 1), _by_channel),
    "batch_norm, rows": Norm(_batch, ((6, 3), (3,), (3,)), (3,), _by_channel),
    "layer_norm": Norm(_layer, ((3, 2, 3), (2, 3), (2, 3)), (2, 3), lambda x: x.flatten(1)),
    "group_norm": Norm(_group, ((2, 4, 2), (4,), (4,)), (4, 1), lambda x: x.reshape(2, 2, 4)),
    "instance_norm": Norm(_instance, ((2, 3, 4), (3,), (3,)), (3, 1), lambda x: x),
    "rms_norm": Norm(_rms, ((3, 5), (5,)), (5,), lambda x: x),
}
each_norm = pytest.mark.parametrize("name", NORMS)
