"""Which tensor of what a network returns is its output.

Networks return tuples, dictionaries and dataclasses as well.  One that holds a single tensor is
that tensor; of several, the user selects one by wrapping the network in ``Output``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn

Key = str | int


class Output(nn.Module):
    """A network that returns one tensor, selected or concatenated from what another returns.

    Args:
        net: any module that returns a tuple, a dictionary or a dataclass.
        key: the place or the name of its output; or a list of them, whose tensors are joined
            along their columns, as several heads for a likelihood of several outputs.  Where the
            network returns a tensor by itself, as some do when they do not train, that is what
            one name stands for.

    >>> class Heads(nn.Module):
    ...     def forward(self, x):
    ...         return {"mean": x[:, :1], "hidden": x, "scale": x[:, 1:]}
    >>> Output(Heads(), "mean")(torch.tensor([[1.0, 2.0]]))
    tensor([[1.]])
    >>> Output(Heads(), ["scale", "mean"])(torch.tensor([[1.0, 2.0]]))
    tensor([[2., 1.]])
    """

    def __init__(self, net: nn.Module, key: Key | Sequence[Key]) -> None:
        super().__init__()
        self.net = net
        self.key = key if isinstance(key, str | int) else list(key)
        if self.key == []:
            raise ValueError("key is an empty list: pass the name or index of at least one output")

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """Return the selected output.

        Args:
            *args: positional arguments of the network.
            **kwargs: keyword arguments of the network.
        """
        returned = self.net(*args, **kwargs)
        if isinstance(returned, Tensor) and isinstance(self.key, str):
            return returned
        found = named_outputs(returned)
        if not isinstance(self.key, list):
            return self._taken(found, self.key)
        return torch.cat([_column(self._taken(found, key)) for key in self.key], 1)

    def _taken(self, found: Mapping[Key, Any], key: Key) -> Tensor:
        if isinstance(key, int) and key not in found:
            found = dict(enumerate(found.values()))
        if not isinstance(found.get(key), Tensor):
            raise TypeError(f"the network has no output {key!r}; its outputs are {_listed(found)}")
        tensor: Tensor = found[key]
        return tensor

    def extra_repr(self) -> str:
        """Return the key of the selected output."""
        return f"key={self.key!r}"


def named_outputs(returned: Any) -> dict[Key, Any]:
    """Return what a network returned as a dictionary, by position or name."""
    if isinstance(returned, Mapping):
        return dict(returned)
    if isinstance(returned, tuple) and hasattr(returned, "_fields"):
        return dict(zip(returned._fields, returned, strict=True))
    if isinstance(returned, tuple | list):
        return dict(enumerate(returned))
    if is_dataclass(returned):
        return {field.name: getattr(returned, field.name) for field in fields(returned)}
    return {0: returned}


def single_output(returned: Any) -> Tensor:
    """Return the only tensor of what a network returned.

    Raises:
        TypeError: there is none, or the user must say which.
    """
    if isinstance(returned, Tensor):
        return returned
    found = {key: part for key, part in named_outputs(returned).items() if isinstance(part, Tensor)}
    if len(found) == 1:
        return next(iter(found.values()))
    kind = type(returned).__name__
    if not found:
        raise TypeError(f"the network must return a tensor, got {kind}")
    first = next(iter(found))
    raise TypeError(
        f"the network must return one tensor, got {kind} of {_listed(found)}: wrap it to say "
        f"which, tr.Output(net, {first!r}), or join several, tr.Output(net, {list(found)!r})"
    )


def _column(tensor: Tensor) -> Tensor:
    return tensor.unsqueeze(1) if tensor.dim() == 1 else tensor


def _listed(found: Mapping[Key, Any]) -> str:
    return ", ".join(
        f"{key!r} {tuple(part.shape) if isinstance(part, Tensor) else type(part).__name__}"
        for key, part in found.items()
    )
