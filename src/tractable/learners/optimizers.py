"""Optimizers and schedules of the gradient learners: made, described as JSON, saved and restored.

A *factory* makes one: a class of ``torch.optim``, its name, a ``functools.partial`` of it with
more arguments, or any function.  All but the last can be written to a model file.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from tractable.errors import InvalidModelFile

Factory = Callable[..., Any] | str | dict[str, Any]
_UNKNOWN = "a function of the user's own"


def resolve(factory: Factory, home: Any, what: str) -> Callable[..., Any]:
    """The function behind a factory; ``home`` is the module that its name is looked up in."""
    if isinstance(factory, str):
        factory = {"name": factory, "keywords": {}}
    if isinstance(factory, dict):
        if factory["name"] == _UNKNOWN:
            raise ValueError(
                f"the file does not hold the {what}, {_UNKNOWN}: give load(path, {what}=...)"
            )
        found = getattr(home, str(factory["name"]), None)
        if not isinstance(found, type):
            raise ValueError(f"{home.__name__} has no {what} {factory['name']!r}")
        return partial(found, **factory["keywords"])
    if not callable(factory):
        raise TypeError(f"{what} must be a class of {home.__name__}, got {factory!r}")
    return factory


def describe(factory: Factory, home: Any) -> dict[str, Any]:
    """A factory as JSON values that ``resolve`` takes."""
    if isinstance(factory, dict):
        return factory
    if isinstance(factory, str):
        return {"name": factory, "keywords": {}}
    keywords: dict[str, Any] = {}
    if isinstance(factory, partial) and not factory.args:
        keywords, factory = dict(factory.keywords), factory.func
    plain = all(
        isinstance(v, bool | int | float | str | None | list | tuple) for v in keywords.values()
    )
    name = getattr(factory, "__name__", "")
    if plain and getattr(home, name, None) is factory:
        return {"name": name, "keywords": keywords}
    return {"name": _UNKNOWN, "keywords": {}}


def make(factory: Factory, vectors: list[Tensor], lr: float) -> Optimizer:
    """The optimizer of these vectors; plain Adam is fused into one pass."""
    maker = resolve(factory, torch.optim, "optimizer")
    target = maker.func if isinstance(maker, partial) else maker
    keywords: dict[str, Any] = {"lr": lr}
    if target in (torch.optim.Adam, torch.optim.AdamW) and not (
        isinstance(maker, partial)
        and {"foreach", "capturable", "differentiable"} & set(maker.keywords)
    ):
        keywords["fused"] = True
    optimizer = maker(vectors, **keywords)
    if not isinstance(optimizer, Optimizer):
        raise TypeError(
            f"optimizer must make a torch.optim.Optimizer, got {type(optimizer).__name__}"
        )
    return optimizer


def state(optimizer: Optimizer) -> tuple[dict[str, Tensor], Any]:
    """An optimizer's state as named tensors and JSON values."""
    held = optimizer.state_dict()
    tensors: dict[str, Tensor] = {}
    numbers: dict[str, dict[str, Any]] = {}
    for index, entries in held["state"].items():
        for name, value in entries.items():
            if isinstance(value, Tensor):
                tensors[f"{index}/{name}"] = value
            else:
                numbers.setdefault(str(index), {})[name] = value
    return tensors, {"numbers": numbers, "groups": held["param_groups"]}


def restore(optimizer: Optimizer, tensors: dict[str, Tensor], values: Any) -> None:
    """Take over what ``state`` gave."""
    entries: dict[int, dict[str, Any]] = {}
    vectors = [vector for group in optimizer.param_groups for vector in group["params"]]
    for name, tensor in tensors.items():
        index, _, key = name.partition("/")
        if tensor.numel() != 1 and tensor.shape != vectors[int(index)].shape:
            raise InvalidModelFile(f"the optimizer's {name} in the file has another size")
        entries.setdefault(int(index), {})[key] = tensor
    for index, numbers in values["numbers"].items():
        entries.setdefault(int(index), {}).update(numbers)
    groups = [
        {
            key: tuple(v) if isinstance(v, list) and key != "params" else v
            for key, v in group.items()
        }
        for group in values["groups"]
    ]
    optimizer.load_state_dict({"state": entries, "param_groups": groups})
