"""Optimizers and learning-rate schedules of the gradient learners, and their states in files.

A *factory* constructs one: a class of ``torch.optim``, its name, a ``functools.partial`` of it with
more arguments, or any function.  All but functions can be written to a model file.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from tractable.errors import InvalidModelFile

Factory = Callable[..., Any] | str | dict[str, Any]
_UNKNOWN = "a function of the user's own"
_KINDS = {"optimizer": Optimizer, "schedule": torch.optim.lr_scheduler.LRScheduler}
_Number = bool | int | float | str | None


def resolve_factory(factory: Factory, home: Any, what: str) -> Callable[..., Any]:
    """Return the function of a factory; a name is looked up in ``home``."""
    if isinstance(factory, str):
        factory = {"name": factory, "keywords": {}}
    if isinstance(factory, dict):
        if factory["name"] == _UNKNOWN:
            raise ValueError(
                f"the file does not contain the {what}, {_UNKNOWN}: pass load(path, {what}=...)"
            )
        kind = getattr(home, str(factory["name"]), None)
        if not (isinstance(kind, type) and issubclass(kind, _KINDS[what])):
            raise ValueError(f"{home.__name__} has no {what} {factory['name']!r}")
        return partial(kind, **{str(k): _plain(v) for k, v in factory["keywords"].items()})
    if not callable(factory):
        raise TypeError(f"{what} must be a class of {home.__name__}, got {factory!r}")
    return factory


def _plain(value: Any) -> Any:
    """Return a keyword from a file: a number, a word, or a short list of them."""
    if isinstance(value, list | tuple) and all(isinstance(v, _Number) for v in value):
        return tuple(value)
    if not isinstance(value, _Number):
        raise TypeError(
            f"argument of an optimizer in the file is {value!r}, expected a number, a string or "
            f"a list"
        )
    return value


def factory_config(factory: Factory, home: Any) -> dict[str, Any]:
    """Return a factory as JSON values that ``resolve_factory`` accepts."""
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


def make_optimizer(factory: Factory, vectors: list[Tensor], lr: float) -> Optimizer:
    """Return an optimizer of these vectors; plain Adam is fused into one pass."""
    create = resolve_factory(factory, torch.optim, "optimizer")
    target = create.func if isinstance(create, partial) else create
    keywords: dict[str, Any] = {"lr": lr}
    if target in (torch.optim.Adam, torch.optim.AdamW) and not (
        isinstance(create, partial)
        and {"foreach", "capturable", "differentiable"} & set(create.keywords)
    ):
        keywords["fused"] = True
    optimizer = create(vectors, **keywords)
    if not isinstance(optimizer, Optimizer):
        raise TypeError(
            f"optimizer must return a torch.optim.Optimizer, got {type(optimizer).__name__}"
        )
    return optimizer


def optimizer_state(optimizer: Optimizer) -> tuple[dict[str, Tensor], Any]:
    """Return an optimizer's state as named tensors and JSON values."""
    state_dict = optimizer.state_dict()
    tensors: dict[str, Tensor] = {}
    numbers: dict[str, dict[str, Any]] = {}
    for index, entries in state_dict["state"].items():
        for name, value in entries.items():
            if isinstance(value, Tensor):
                tensors[f"{index}/{name}"] = value
            else:
                numbers.setdefault(str(index), {})[name] = value
    return tensors, {"numbers": numbers, "groups": state_dict["param_groups"]}


def restore_optimizer(
    factory: Factory, optimizer: Optimizer, tensors: dict[str, Tensor], values: Any
) -> None:
    """Load the result of ``optimizer_state`` if it fits an optimizer of this factory."""
    vectors = [vector for group in optimizer.param_groups for vector in group["params"]]
    example = _stepped(factory, vectors[0], len(vectors))
    entries: dict[int, dict[str, Any]] = {}
    for name, tensor in tensors.items():
        index, _, key = name.partition("/")
        entries.setdefault(int(index), {})[key] = tensor
    for index, numbers in values["numbers"].items():
        entries.setdefault(int(index), {}).update(numbers)
    for number, entry in entries.items():
        _check_entry(entry, example["state"][number], vectors[number])
    kind = type(optimizer)
    pairs = zip(values["groups"], example["param_groups"], strict=True)
    groups = [_group(kind, given, usual) for given, usual in pairs]
    optimizer.load_state_dict({"state": entries, "param_groups": groups})


def _stepped(factory: Factory, like: Tensor, vectors: int) -> dict[str, Any]:
    """Return the state of an optimizer of vectors with one entry each, after one step."""
    small = [like.detach().new_zeros(1).requires_grad_() for _ in range(vectors)]
    optimizer = make_optimizer(factory, small, lr=1.0)
    for vector in small:
        vector.grad = torch.ones_like(vector)
    optimizer.step()
    return optimizer.state_dict()


def _check_entry(entry: dict[str, Any], example: dict[str, Any], vector: Tensor) -> None:
    """Raise an error unless a state has the names, shapes and domains of ``example``."""
    if entry.keys() != example.keys():
        raise InvalidModelFile(
            f"the optimizer in the file has the state {sorted(entry)}, expected {sorted(example)}"
        )
    for name, value in entry.items():
        usual = example[name]
        if not isinstance(usual, Tensor):
            check_value(value, usual, name)
            continue
        shape = vector.shape if usual.ndim else usual.shape
        if not isinstance(value, Tensor) or (value.shape, value.dtype) != (shape, usual.dtype):
            raise InvalidModelFile(f"the optimizer's {name} in the file has another type or shape")
        squares = name in _NOT_NEGATIVE  # of large gradients, which may be infinite
        if bool((value < 0).any()) if squares else not bool(value.isfinite().all()):
            raise InvalidModelFile(f"the optimizer's {name} in the file has invalid values")


def _group(kind: type[Optimizer], given: dict[str, Any], usual: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a file, after a check that the optimizer accepts them."""
    if given["params"] != usual["params"]:
        raise InvalidModelFile("the optimizer in the file belongs to other parameters")
    for key, value in given.items():
        if key in usual:
            check_value(value, usual[key], key)
    group = {**usual, **{k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}}
    group["params"] = usual["params"]
    accepted = inspect.signature(kind).parameters.keys() & group.keys() - {"params"}
    kind([torch.zeros(1)], **{name: group[name] for name in accepted})
    return group


def check_value(given: Any, usual: Any, name: str) -> None:
    """Raise an error unless a value is a number where ``usual`` is one, and else equal to it."""
    if isinstance(usual, list | tuple) and isinstance(given, list) and len(given) == len(usual):
        for pair in zip(given, usual, strict=True):
            check_value(*pair, name)
        return
    numbers = [isinstance(v, int | float) and not isinstance(v, bool) for v in (given, usual)]
    if not (all(numbers) and math.isfinite(given)) and given != usual:
        raise InvalidModelFile(
            f"the optimizer's {name} in the file is {given!r}, expected a value like {usual}"
        )


_NOT_NEGATIVE = {
    "exp_avg_sq", "max_exp_avg_sq", "square_avg", "acc_delta", "exp_inf", "sum",
}  # fmt: skip
