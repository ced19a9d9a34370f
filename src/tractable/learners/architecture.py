"""Networks of plain ``torch.nn`` layers as JSON and back, without running code from a file.

Only containers and layers of this list, with their constructor's arguments, are written and
rebuilt.  Any other network is saved without its architecture and needs ``load(path, net=...)``.
"""

from __future__ import annotations

import inspect
from typing import Any

from torch import nn

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

Spec = dict[str, Any]


def describe(net: nn.Module) -> Spec | None:
    """The architecture of ``net`` as JSON values, or None if it is not of plain layers."""
    if type(net) is nn.Sequential:
        children = {name: describe(child) for name, child in net.named_children()}
        if any(child is None for child in children.values()):
            return None
        return {"layer": "Sequential", "children": children}
    layer = _LAYERS.get(type(net).__name__)
    if layer is not type(net):
        return None
    arguments: dict[str, Any] = {}
    for name, parameter in inspect.signature(layer.__init__).parameters.items():
        variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if name in _NOT_ARGUMENTS or variadic:
            continue
        if not hasattr(net, name):
            return None
        value = getattr(net, name)
        arguments[name] = value is not None if name == "bias" else value
    spec = {"layer": layer.__name__, "arguments": arguments}
    try:
        faithful = repr(build(spec)) == repr(net)
    except (TypeError, ValueError):
        return None
    return spec if faithful else None


def build(spec: Spec) -> nn.Module:
    """The network of a description.

    Raises:
        ValueError: the description names a layer that is not in the list.
    """
    if spec.get("layer") == "Sequential":
        net = nn.Sequential()
        for name, child in spec["children"].items():
            net.add_module(name, build(child))
        return net
    layer = _LAYERS.get(str(spec.get("layer")))
    if layer is None:
        raise ValueError(f"unknown layer {spec.get('layer')!r} in the file")
    arguments = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in spec["arguments"].items()
    }
    return layer(**arguments)
