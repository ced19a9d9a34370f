"""A module as a function of its parameters and buffers.

What ``torch.func.functional_call`` does, with the places looked up once instead of in every call:
for small networks the look-up costs more than the network.  Parameters may be tensors, Gaussians
or draws; the module's own are not used.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from tractable.errors import InvalidInput
from tractable.learners.network.locks import new_lock
from tractable.learners.network.module_copy import STORES, detached_copy, private_copy
from tractable.learners.network.output_selection import single_output
from tractable.posterior import trainable_shapes, views
from tractable.training.inputs import Inputs, MultiInput, map_inputs


class Network:
    """A private copy of a module that is run with given parameters and buffers.

    Args:
        net: any module; adding or removing parameters later is not noticed.
        dtype: precision of its floating point numbers.
        device: device that it computes on.

    Attributes:
        module: the copy.
        shapes: the shape of every trainable parameter by name.
        takes_vmap: whether ``torch.func.vmap`` can run it, as far as is known.

    >>> network = Network(nn.Linear(1, 1), torch.float32, torch.device("cpu"))
    >>> weights = {"weight": torch.tensor([[2.0]]), "bias": torch.tensor([1.0])}
    >>> network(weights, torch.ones(1, 1))
    tensor([[3.]])
    """

    def __init__(self, net: nn.Module, dtype: torch.dtype, device: torch.device) -> None:
        self.module = private_copy(net, dtype, device)
        self.dtype, self.device = dtype, device
        self.takes_vmap = True  # until it does not
        self.shapes = trainable_shapes(self.module)
        self.lock = new_lock(self)

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes without the lock and the cached places."""
        return {n: value for n, value in vars(self).items() if n not in ("places", "lock")}

    def __setstate__(self, held: dict[str, Any]) -> None:
        """Restore the result of ``__getstate__``."""
        vars(self).update(held)
        self.lock = new_lock(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Network:
        """Return a network with its own module, without results of forward passes in it."""
        copied = memo[id(self)] = copy.copy(self)
        copied.module = detached_copy(self.module, memo)
        return copied

    @cached_property
    def places(self) -> dict[str, list[tuple[dict[str, Any], str]]]:
        """The dictionaries that hold each parameter and buffer; shared ones are in several."""
        found: dict[int, list[tuple[dict[str, Any], str]]] = {}
        for module in self.module.modules():
            for store in (getattr(module, name) for name in STORES):
                for key, tensor in store.items():
                    if tensor is not None:
                        found.setdefault(id(tensor), []).append((store, key))
        named = [*self.module.named_parameters(), *self.module.named_buffers()]
        return {name: found[id(tensor)] for name, tensor in named}

    def __call__(self, tensors: Mapping[str, Tensor], x: Inputs, *, train: bool = False) -> Any:
        """Return the output with these tensors in place of the module's own.

        Buffers are changed in the given tensors when ``train`` is set.
        """
        with self.holding(tensors):
            return self.run(x, train=train)

    @contextmanager
    def holding(self, tensors: Mapping[str, Tensor]) -> Iterator[None]:
        """Put these tensors in place of the module's own inside the block.

        A backward pass belongs inside as well: ``torch.utils.checkpoint`` runs parts of the module
        again in it.  One thread at a time: members of an ensemble share a module.
        """
        held = []
        with self.lock:
            try:
                for name, tensor in tensors.items():
                    for store, key in self.places[name]:
                        held.append((store, key, store[key]))
                        store[key] = tensor
                yield
            finally:
                for store, key, tensor in reversed(held):
                    store[key] = tensor

    def run(self, x: Inputs, *, train: bool = False) -> Any:
        """Return the output of the module as it is, rows first, with at least two dimensions.

        Args:
            x: inputs.
            train: whether the module is in training mode. Default: evaluation mode.
        """
        if self.module.training is not train:
            self.module.train(train)
        z = x.into(self.module) if isinstance(x, MultiInput) else self.module(x)
        z = single_output(z)
        rows, ndim = len(x), z.dim()
        if ndim == 0 and rows == 1:  # all dimensions of length one were squeezed out
            return z.reshape(1, 1)
        if ndim == 0 or z.shape[0] != rows:
            raise InvalidInput(
                f"the network must return a row of outputs for each row of inputs: it made "
                f"outputs of shape {tuple(z.shape)} of {rows} rows"
            )
        return z.unsqueeze(1) if ndim == 1 else z

    def linearized(
        self, flat: Tensor, buffers: Mapping[str, Tensor], x: Inputs, last: int
    ) -> tuple[Tensor, Tensor]:
        """Return outputs and their derivative with respect to the last weights, per row.

        Args:
            flat: all weights.
            buffers: running statistics.
            x: rows of inputs.
            last: number of weights, from the end, to differentiate by; whole parameters.

        Returns:
            The outputs, and ``[rows, outputs of a row, last]``.
        """
        named = self.with_flat(flat.detach())
        free: dict[str, Tensor] = {}
        for name in reversed(self.shapes):
            if sum(part.numel() for part in free.values()) == last:
                break
            free = {name: named[name]} | free

        def of(weights: dict[str, Tensor], row: Inputs) -> tuple[Tensor, Tensor]:
            z = self({**named, **weights, **buffers}, _as_batch(row))[0]
            return z.flatten(), z

        if self.takes_vmap:
            try:
                every = torch.func.vmap(torch.func.jacrev(of, has_aux=True), (None, 0))
                parts, z = every(free, x)
                return z, torch.cat([parts[name].flatten(2) for name in free], -1)
            except RuntimeError:
                self.takes_vmap = False  # if it is for another reason, what follows fails as well
        constant = {name: part for name, part in named.items() if name not in free} | dict(buffers)
        found = [self._one_row(constant, free, x[i]) for i in range(len(x))]
        return torch.stack([z for z, _ in found]), torch.stack([slopes for _, slopes in found])

    def _one_row(
        self, constant: dict[str, Tensor], free: dict[str, Tensor], row: Inputs
    ) -> tuple[Tensor, Tensor]:
        """Return the outputs of a row and their derivatives, one output at a time."""
        leaves = {name: part.detach().requires_grad_() for name, part in free.items()}
        again, slopes = row.requires_grad, []
        with torch.enable_grad(), self.holding({**constant, **leaves}):
            z = self.run(_as_batch(row))[0]
            for output in z.flatten():
                found = torch.autograd.grad(
                    output, list(leaves.values()), retain_graph=True, create_graph=again,
                    allow_unused=True, materialize_grads=True,
                )  # fmt: skip
                slopes.append(torch.cat([part.flatten() for part in found]))
        return z if again else z.detach(), torch.stack(slopes)

    def with_flat(self, flat: Tensor) -> dict[str, Tensor]:
        """Return the parts of a flat vector by parameter name.

        Args:
            flat: values of all parameters, ``[n_parameters]``.
        """
        return dict(zip(self.shapes, self.split(flat), strict=True))

    def split(self, flat: Tensor) -> list[Tensor]:
        """Return views of a flat vector, one per parameter, in its shape.

        Args:
            flat: values of all parameters, ``[n_parameters]``.
        """
        return views(flat, self.shapes)

    @property
    def size(self) -> int:
        """Number of trainable weights."""
        return sum(shape.numel() for shape in self.shapes.values())

    def initial_buffers(self) -> dict[str, Tensor]:
        """Return copies of the module's initial buffers."""
        return {name: buffer.clone() for name, buffer in self.module.named_buffers()}


def _as_batch(row: Inputs) -> Inputs:
    return map_inputs(lambda part: part.unsqueeze(0), row)


def last_layer(shapes: Mapping[str, torch.Size]) -> int:
    """Return the number of weights of the last module with weights.

    >>> shapes = {"0.weight": torch.Size([3, 2]), "2.weight": torch.Size([1, 3])}
    >>> last_layer(shapes | {"2.bias": torch.Size([1])})
    4
    """
    owner = list(shapes)[-1].rpartition(".")[0]
    return sum(s.numel() for name, s in shapes.items() if name.rpartition(".")[0] == owner)
