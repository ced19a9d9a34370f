"""Networks of plain ``torch.nn`` layers as JSON and back, without running code from a file.

Only containers and layers of this list, with their constructor's arguments, are written and
rebuilt.  Any other network is saved without its architecture and needs ``load(path, net=...)``.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import nn

from tractable import layer_iteration
from tractable.errors import InvalidModelFile
from tractable.persistence import validation

_LAYERS: dict[str, type[nn.Module]] = {
    layer.__name__: layer
    for layer in (
        nn.Linear, nn.Identity, nn.Flatten, nn.Embedding,
        nn.Conv1d, nn.Conv2d, nn.Conv3d,
        nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d,
        nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d, nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d,
        nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d,
        nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d,
        nn.ReLU, nn.LeakyReLU, nn.Tanh, nn.Sigmoid, nn.Softplus, nn.GELU, nn.SiLU, nn.ELU,
        nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.LayerNorm, nn.GroupNorm,
        nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d,
    )
}  # fmt: skip
_NOT_ARGUMENTS = {"self", "device", "dtype", "_weight", "_freeze"}
_MOST_LAYERS = 2_000

Spec = dict[str, Any]


def describe(net: nn.Module) -> Spec | None:
    """Return the architecture of ``net`` as JSON values, or None if they cannot represent it.

    This is the case if a module is not in the list or has hooks, if parameters are shared other
    than by using a layer twice, or if some are not trainable (their values would be lost).
    """
    spec = _describe(net, "", {})
    if spec is None or not all(p.requires_grad for p in net.parameters()):
        return None
    try:
        rebuilt = _on_meta(spec)
    except (TypeError, ValueError, RuntimeError, ZeroDivisionError):
        return None
    same = repr(rebuilt) == repr(net) and _shapes(rebuilt) == _shapes(net)
    return spec if same else None


def build(spec: Spec, most_numbers: int) -> nn.Module:
    """Return the network that ``describe`` described.

    Args:
        spec: result of ``describe``.
        most_numbers: maximum number of entries of parameters and buffers: that of the file.

    Raises:
        InvalidModelFile: the description names a layer that is not in the list, or is too large.
    """
    needed = sum(shape.numel() for shape in _shapes(_on_meta(spec)).values())
    if needed > most_numbers:
        raise InvalidModelFile(
            f"the network in the file has {needed} parameters, and the file only {most_numbers} "
            f"numbers"
        )
    return _build(spec, {})


def _describe(module: nn.Module, name: str, described: dict[int, str]) -> Spec | None:
    if layer_iteration.has_forward_hooks(module):
        return None
    if id(module) in described:
        return {"layer": "same", "as": described[id(module)]}
    described[id(module)] = name
    if type(module) is nn.Sequential:
        children = {
            child: _describe(inner, f"{name}.{child}" if name else child, described)
            for child, inner in layer_iteration.children(module).items()
        }
        if any(child is None for child in children.values()):
            return None
        return {"layer": "Sequential", "children": children}
    layer = _LAYERS.get(type(module).__name__)
    if layer is not type(module):
        return None
    arguments: dict[str, Any] = {}
    for argument, parameter in inspect.signature(layer.__init__).parameters.items():
        variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if argument in _NOT_ARGUMENTS or variadic:
            continue
        if not hasattr(module, argument):
            return None
        value = getattr(module, argument)
        arguments[argument] = value is not None if argument == "bias" else value
    return {"layer": layer.__name__, "arguments": arguments}


def _build(spec: Spec, made: dict[str, nn.Module], name: str = "") -> nn.Module:
    kind = spec.get("layer")
    if kind == "same":
        return made[spec["as"]]
    if kind == "Sequential":
        net = made[name] = nn.Sequential()
        for child, inner in spec["children"].items():
            net.add_module(child, _build(inner, made, f"{name}.{child}" if name else child))
        return net
    layer = _LAYERS.get(str(kind))
    if layer is None:
        raise InvalidModelFile(f"unknown layer {kind!r} in the file")
    arguments = {
        argument: tuple(value) if isinstance(value, list) else value
        for argument, value in spec["arguments"].items()
        if argument not in _NOT_ARGUMENTS
    }
    validation.check_arguments(layer, arguments, str(kind))
    made[name] = layer(**arguments)
    return made[name]


def _on_meta(spec: Spec) -> nn.Module:
    """Return the network on the meta device, to read its shapes without allocating memory."""
    if _count(spec) > _MOST_LAYERS:
        raise InvalidModelFile(f"a network of more than {_MOST_LAYERS} layers: too many for a file")
    with torch.device("meta"):
        return _build(spec, {})


def _count(spec: Spec) -> int:
    return 1 + sum(_count(child) for child in spec.get("children", {}).values())


def _shapes(net: nn.Module) -> dict[str, torch.Size]:
    named = [*net.named_parameters(), *net.named_buffers()]
    return {name: tensor.shape for name, tensor in named}
