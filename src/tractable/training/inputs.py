"""Rows of inputs: one tensor, or several that a network takes together.

``Inputs`` is either.  Both have a length, support row numbers, slices and masks as indices, and can
be split into batches.  ``tractable.learners.network.functional`` passes several tensors to the
network by position or by name.  Code between the user and the network does not distinguish the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from tractable.gaussian import Gaussian

Parts = tuple[Tensor, ...] | dict[str, Tensor]


class MultiInput:
    """Several inputs of a network, with the same rows.

    Args:
        parts: a tuple, for a network called as ``net(a, b)``, or tensors by name, for
            ``net(ids=a, mask=b)``; all with the same number of rows.

    >>> both = MultiInput((torch.zeros(4, 2), torch.arange(4)))
    >>> len(both), len(both[1:3]), [len(part) for part in both.split(3)]
    (4, 2, [3, 1])
    >>> both.into(lambda a, b: a[:, 0] + b)
    tensor([0., 1., 2., 3.])
    """

    def __init__(self, parts: Parts) -> None:
        self.parts = parts

    @property
    def tensors(self) -> list[Tensor]:
        """The inputs without their names."""
        return list(self.parts.values() if isinstance(self.parts, dict) else self.parts)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.tensors[0])

    def __getitem__(self, rows: Any) -> MultiInput:
        """Return the selected rows of every input."""
        return self.map(lambda part: part[rows])

    def split(self, size: int) -> list[MultiInput]:
        """Return the rows in parts of at most ``size``."""
        return [self[i : i + size] for i in range(0, len(self), size)]

    def map(self, function: Callable[[Tensor], Tensor]) -> MultiInput:
        """Apply a function to every input."""
        if isinstance(self.parts, dict):
            return MultiInput({name: function(part) for name, part in self.parts.items()})
        return MultiInput(tuple(function(part) for part in self.parts))

    def into(self, function: Callable[..., Any]) -> Any:
        """Call a function with the inputs, by position or by name."""
        return function(**self.parts) if isinstance(self.parts, dict) else function(*self.parts)

    @property
    def device(self) -> torch.device:
        """Device of the inputs."""
        return self.tensors[0].device

    @property
    def requires_grad(self) -> bool:
        """Whether one of the inputs requires a gradient."""
        return any(part.requires_grad for part in self.tensors)

    def __repr__(self) -> str:
        """Return names and shapes."""
        names = self.parts if isinstance(self.parts, dict) else range(len(self.parts))
        shapes = zip(names, self.tensors, strict=True)
        return f"MultiInput({', '.join(f'{n}: {tuple(t.shape)}' for n, t in shapes)})"


Inputs = Tensor | MultiInput


def _flatten(several: MultiInput) -> tuple[list[Any], Any]:
    parts = several.parts
    return several.tensors, tuple(parts) if isinstance(parts, dict) else None


def _unflatten(tensors: Any, names: Any) -> MultiInput:
    parts = tuple(tensors)
    return MultiInput(parts if names is None else dict(zip(names, parts, strict=True)))


# torch.func.vmap and the tracer of compiled steps need this to find the tensors.
pytree.register_pytree_node(MultiInput, _flatten, _unflatten)


def multi_input_parts(given: Any) -> tuple[Any, ...] | dict[str, Any] | None:
    """Return several inputs as a tuple or dictionary; None for a single input.

    >>> multi_input_parts((torch.zeros(2), torch.ones(2))) is None
    False
    >>> multi_input_parts(((1.0, 2.0), (3.0, 4.0))) is None
    True
    """
    if isinstance(given, MultiInput):
        return given.parts
    if isinstance(given, Mapping):
        return dict(given)
    if isinstance(given, tuple) and given and all(hasattr(part, "shape") for part in given):
        return given
    return None


def map_inputs(function: Callable[[Tensor], Tensor], x: Inputs) -> Inputs:
    """Apply a function to the input, or to each of several inputs."""
    return x.map(function) if isinstance(x, MultiInput) else function(x)


def tensors_of(x: Inputs) -> list[Tensor]:
    """Return the input, or each of several inputs, as a list."""
    return x.tensors if isinstance(x, MultiInput) else [x]


def input_signature(x: Inputs) -> tuple[Any, ...]:
    """Return a key of the shapes and types of inputs that a network may treat differently."""
    names = tuple(x.parts) if isinstance(x, MultiInput) and isinstance(x.parts, dict) else None
    shapes = [(tuple(part.shape[1:]), part.is_floating_point()) for part in tensors_of(x)]
    return (isinstance(x, MultiInput), names, *shapes)


def is_uncertain(x: Inputs) -> bool:
    """Return whether an input is a ``Gaussian``."""
    return any(isinstance(part, Gaussian) for part in tensors_of(x))


def distance_input(x: Inputs) -> Tensor | None:
    """Return the tensor in which distances between rows are measured; None if there is none.

    There is none for several inputs, which have no common scale, and for row numbers.
    """
    if isinstance(x, MultiInput):
        return None
    at = x.loc if isinstance(x, Gaussian) else x
    return at if at.is_floating_point() else None


def single_input(x: Inputs, what: str) -> Tensor:
    """Return the input; raise ``TypeError`` if there are several."""
    if isinstance(x, MultiInput):
        raise TypeError(f"{what} is for networks of one input; there are {len(x.tensors)}")
    return x
