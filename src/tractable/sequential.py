"""Walking an ``nn.Sequential``: its layers in the order of their calls, shared ones included.

The compiled kernel, the derivatives and the file format all see a network this way, so there is
one walk.  ``named_children`` would pass over a layer that was met before: a network that uses one
activation twice would lose the second.

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
    """A module that is not a plain ``nn.Sequential``, where it stands in one."""

    name: str
    """Its path, as in ``named_modules``; empty for the network itself."""
    module: nn.Module

    @property
    def description(self) -> str:
        """For messages: its class and where it is."""
        return f"{type(self.module).__name__} ({self.name or 'the network'})"


def children(net: nn.Sequential) -> dict[str, nn.Module]:
    """The entries of a chain by name, one that is used twice twice."""
    return {name: module for name, module in net.named_modules(remove_duplicate=False)
            if name and "." not in name}  # fmt: skip


def layers(net: nn.Module) -> list[Layer]:
    """The layers of a network, nested chains unrolled; any other module is one layer."""
    return list(_walk(net, ""))


def _walk(module: nn.Module, name: str) -> Iterator[Layer]:
    if type(module) is nn.Sequential:
        for child, inner in children(module).items():
            yield from _walk(inner, f"{name}.{child}" if name else child)
    else:
        yield Layer(name, module)


def has_forward_hooks(module: nn.Module) -> bool:
    """Whether a module does more than its class says: it has forward hooks."""
    # torch has no public name for them.
    return any(len(vars(module).get(kind, ())) > 0 for kind in _HOOKS)


_HOOKS = ("_forward_hooks", "_forward_pre_hooks")


def parameter_names(net: nn.Module) -> dict[int, str]:
    """The name of every parameter by its ``id``; a shared one has the name it is met by first."""
    return {id(parameter): name for name, parameter in net.named_parameters()}
