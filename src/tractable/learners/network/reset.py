"""Reinitialization of a network: every layer's own ``reset_parameters``."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrize


def reset_parameters(module: nn.Module) -> None:
    """Reinitialize all layers by their ``reset_parameters``, from torch's global generator.

    Constants keep their values: parameters with ``requires_grad=False``, and buffers.
    """
    constants = [p for p in module.parameters() if not p.requires_grad] + [*module.buffers()]
    values = [tensor.detach().clone() for tensor in constants]
    _redraw_all(module)
    with torch.no_grad():
        for tensor, value in zip(constants, values, strict=True):
            if not torch.equal(tensor, value):  # a buffer may be a view that cannot be written
                tensor.copy_(value)


def _redraw_all(module: nn.Module) -> None:
    for part in module.modules():
        if isinstance(part, torch.jit.ScriptModule):
            _redraw_compiled(part)
            continue
        reset: Any = getattr(part, "reset_parameters", None)
        if reset is None:
            continue
        if parametrize.is_parametrized(part):
            _redraw_parametrized(part)
        else:
            reset()


def _redraw_compiled(part: nn.Module) -> None:
    """Reinitialize a TorchScript layer, which has no such method, like a linear layer."""
    own = dict(part.named_parameters(recurse=False))
    weight, bias = own.get("weight"), own.get("bias")
    if weight is None or weight.ndim < 2:
        return
    nn.init.kaiming_uniform_(weight, a=math.sqrt(5))
    if bias is not None:
        bound = 1 / math.sqrt(weight[0].numel())
        nn.init.uniform_(bias, -bound, bound)


def _redraw_parametrized(part: nn.Module) -> None:
    """Reinitialize a parametrized weight by assigning to it."""
    names = list(part.parametrizations)  # type: ignore[arg-type]
    own = dict(part.named_parameters(recurse=False))
    values = own | {name: getattr(part, name) for name in names}
    # The layer as its class would make it.  (remove_parametrizations would change the class, which
    # all copies of the layer share.)
    bare: Any = object.__new__(type(part).__bases__[0])
    vars(bare).update(vars(part), _modules={}, _parameters={})
    for name, value in values.items():
        bare.register_parameter(name, nn.Parameter(value.detach().clone()))
    bare.reset_parameters()
    with torch.no_grad():
        for name, drawn in bare.named_parameters():
            if name in names:
                setattr(part, name, drawn.detach())
            else:
                own[name].copy_(drawn)
