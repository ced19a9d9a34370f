"""First weights anew: every layer's own ``reset_parameters``."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrize


def redraw(module: nn.Module) -> None:
    """Have all layers draw their parameters again, from torch's global generator."""
    for part in module.modules():
        reset: Any = getattr(part, "reset_parameters", None)
        if reset is None:
            continue
        if parametrize.is_parametrized(part):
            _redraw_parametrized(part)
        else:
            reset()


def _redraw_parametrized(part: nn.Module) -> None:
    """A parametrised weight is computed: what is drawn must be assigned, to reach what it is of."""
    names = list(part.parametrizations)  # type: ignore[arg-type]
    bare: Any = copy.deepcopy(part)
    for name in names:
        parametrize.remove_parametrizations(bare, name)
    bare.reset_parameters()
    with torch.no_grad():
        for name, drawn in bare.named_parameters(recurse=False):
            if name in names:
                setattr(part, name, drawn)
            else:
                part.get_parameter(name).copy_(drawn)
