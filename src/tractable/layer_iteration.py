"""Iteration over the layers of an ``nn.Sequential`` in the order in which they are called.

The compiled kernel, the derivatives and the file format use this one iteration.  Unlike
``named_children``, it yields a module that occurs twice, such as a shared activation, twice.

>>> act = nn.Tanh()
>>> [layer.name for layer in layers(nn.Sequential(nn.Linear(1, 1), act, nn.Linear(1, 1), act))]
['0', '1', '2', '3']
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn


@dataclass(frozen=True)
class Layer:
    """A module that is not a plain ``nn.Sequential``, and its name in the network.

    Attributes:
        name: path as in ``named_modules``; empty for the network itself.
        module: the module.
    """

    name: str
    module: nn.Module

    @property
    def description(self) -> str:
        """Class and name of the module, for error messages."""
        return f"{type(self.module).__name__} ({self.name or 'the network'})"


def children(net: nn.Sequential) -> dict[str, nn.Module]:
    """Return the entries of a sequential network by name; one that occurs twice is listed twice."""
    return {
        name: module
        for name, module in net.named_modules(remove_duplicate=False)
        if name and "." not in name
    }


def layers(net: nn.Module) -> list[Layer]:
    """Return the layers of a network, with nested ``nn.Sequential`` modules expanded.

    Any other module is one layer.
    """
    return list(_iter_layers(net, ""))


def _iter_layers(module: nn.Module, name: str) -> Iterator[Layer]:
    if type(module) is nn.Sequential:
        for child, inner in children(module).items():
            yield from _iter_layers(inner, f"{name}.{child}" if name else child)
    else:
        yield Layer(name, module)


_HOOKS = ("_forward_hooks", "_forward_pre_hooks")  # torch has no public names


def has_forward_hooks(module: nn.Module) -> bool:
    """Return whether a module has forward hooks, which its class does not show."""
    return any(len(vars(module).get(kind, ())) > 0 for kind in _HOOKS)


def parameter_names(net: nn.Module) -> dict[int, str]:
    """Return the name of each parameter by its ``id``; a shared one has its first name."""
    return {id(parameter): name for name, parameter in net.named_parameters()}
