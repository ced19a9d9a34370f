"""A private copy of a user's module, on a device and in a precision; or why there can be none.

What ``copy.deepcopy`` and ``Module.to`` do, but for two things: tensors that a forward pass left
behind in the module (as hooks of weight normalization do) are copied without their graph, and
complex tensors stay complex.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.nn.parameter import is_lazy
from torch.utils import _pytree as pytree

STORES = ("_parameters", "_buffers")
"""Where a module holds its tensors; torch has no public name for the dicts themselves."""


def private_copy(net: nn.Module, dtype: torch.dtype, device: torch.device) -> nn.Module:
    """Return a copy of a module that can be run with other parameters.

    Raises:
        TypeError: it is lazy, or cannot be copied.
    """
    _runnable(net)
    try:
        copied = detached_copy(net)
    except Exception as error:
        raise TypeError(
            f"a learner works on a copy of the network, and copy.deepcopy cannot copy this "
            f"{type(net).__name__}: {error}"
        ) from error
    return _cast(copied, dtype, device)


def detached_copy(module: nn.Module, memo: dict[int, Any] | None = None) -> nn.Module:
    """Return a deep copy of a module, with tensors detached from their graphs."""
    memo = {} if memo is None else memo
    for part in module.modules():
        held = {name: value for name, value in vars(part).items() if name not in STORES}
        held.pop("_modules", None)
        for leaf in pytree.tree_leaves(held):
            if isinstance(leaf, Tensor) and is_functorch_wrapped_tensor(leaf):
                memo[id(leaf)] = torch.zeros(leaf.shape)  # its values are gone with vmap
            elif type(leaf) is Tensor and not leaf.is_leaf:
                memo[id(leaf)] = leaf.detach().clone()
    copied = copy.deepcopy(module, memo)
    for part in copied.modules():
        if isinstance(part, torch.jit.ScriptModule):  # the copies of its tensors have a graph
            for name, parameter in list(part.named_parameters(recurse=False)):
                leaf = nn.Parameter(parameter.detach(), parameter.requires_grad)
                getattr(part, STORES[0])[name] = leaf
    return copied


def scripted(net: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield the TorchScript modules inside a network, with their names."""
    for name, part in net.named_modules():
        if isinstance(part, torch.jit.ScriptModule):
            yield name, part


def scripted_parameters(net: nn.Module) -> set[str]:
    """Return the names of parameters that TorchScript code reads; it accepts plain tensors only."""
    found = {id(p) for _, part in scripted(net) for p in part.parameters()}
    return {name for name, parameter in net.named_parameters() if id(parameter) in found}


def refuse_scripted(net: nn.Module) -> None:
    """Raise ``TypeError`` if a module contains TorchScript code, which calls no moment rules.

    Raises:
        TypeError: a part is of TorchScript.
    """
    for name, _ in scripted(net):
        raise TypeError(
            f"{f'layer {name!r}' if name else 'the network'} is a compiled TorchScript module, "
            f"which takes weights that are drawn, not Gaussian ones: give the module that it "
            f"was scripted or traced from, or use a learner that draws weights"
        )


def _runnable(net: nn.Module) -> None:
    for name, part in net.named_modules():
        where = f"layer {name!r}" if name else "the network"
        tensors = [tensor for store in STORES for tensor in getattr(part, store).values()]
        if any(is_lazy(tensor) for tensor in tensors if tensor is not None):
            raise TypeError(
                f"{where} is a {type(part).__name__} that does not know its shape yet: run the "
                f"network once, for instance net(x[:2]), and then hand it over"
            )


def _cast(module: nn.Module, dtype: torch.dtype, device: torch.device) -> nn.Module:
    """Move a module to a device and dtype; complex tensors stay complex, of the same precision."""
    found: list[tuple[dict[str, Any], str, Tensor]] = []
    for part in module.modules():
        for store in (getattr(part, name) for name in STORES):
            for key, tensor in store.items():
                if tensor is not None and tensor.is_complex():
                    found.append((store, key, tensor))
    for store, key, _ in found:
        store[key] = None
    module.to(device, dtype)
    made: dict[int, Tensor] = {}  # one that is in two places stays one
    for store, key, tensor in found:
        if id(tensor) not in made:
            moved = tensor.detach().to(device, dtype.to_complex())
            made[id(tensor)] = (
                nn.Parameter(moved, tensor.requires_grad)
                if isinstance(tensor, nn.Parameter)
                else moved
            )
        store[key] = made[id(tensor)]
    return module
