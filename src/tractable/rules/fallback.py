"""The rule of a torch function that has none in the table, where its kind says what it must be.

Three mechanisms, tried in this order: a function in place is the plain one, written back under all
names of its target; what torch tags as pointwise is linearised with its derivative by autograd
(``tangent``); a composite of ``torch.nn.functional`` runs its own Python body on Gaussians.
Anything else has no rule, and is refused by name.

Exact: writing back.
Approximate: whatever the rules that are found approximate; a body takes its steps as independent.
"""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any

from torch import Tensor

from tractable.gaussian import (
    Gaussian,
    Rule,
    find_rule,
    function_name,
    torch_functions,
    write_in_place,
)
from tractable.rules.linearized import is_pointwise, pointwise
from tractable.rules.structural import constant

_BODIES = ("torch.nn.functional", "torch.functional")
_NEVER = {"requires_grad_", "set_", "resize_", "resize_as_", "share_memory_", "rename_"}


def automatic_rule(function: Any) -> Rule | None:
    """The rule that the kind of this function asks for, or None."""
    return _written_back(function) or _pointwise(function) or _body(function)


def _written_back(function: Any) -> Rule | None:
    """``x.add_(y)``: the rule of ``x.add(y)``, whose result ``x`` then holds."""
    name = function_name(function)
    if not name.endswith("_") or name.endswith("__") or name in _NEVER:
        return None
    try:
        candidates = torch_functions(name[:-1])
    except AttributeError:
        return None
    if getattr(Tensor, name, None) is function and hasattr(Tensor, name[:-1]):
        # The method first: x.polygamma_(n) has another order of arguments than torch.polygamma.
        candidates = (getattr(Tensor, name[:-1]), *candidates)
    rule = next((found for f in candidates if (found := find_rule(f)) is not None), None)
    if rule is None:
        return None

    def run(target: Tensor, *args: Any, **kwargs: Any) -> Any:
        z = rule(target, *args, **kwargs)
        return write_in_place(target, z if isinstance(z, Gaussian) else constant(z))

    return run


def _pointwise(function: Any) -> Rule | None:
    return pointwise(function) if is_pointwise(function_name(function)) else None


def _body(function: Any) -> Rule | None:
    """The Python of a composite function, without its question whether a rule takes over."""
    plain = inspect.unwrap(function) if callable(function) else function
    if not isinstance(plain, FunctionType) or plain.__module__ not in _BODIES:
        return None
    if plain.__globals__["__name__"] not in _BODIES:
        # A wrapper of two functions (``torch.unique``), which would ask for this rule again.
        return None
    names = {n: lambda *_: False for n in plain.__globals__ if n.startswith("has_torch_function")}
    body = FunctionType(
        plain.__code__,
        {**plain.__globals__, **names},
        plain.__name__,
        plain.__defaults__,
        plain.__closure__,
    )
    body.__kwdefaults__ = plain.__kwdefaults__
    return body


def python_body(function: Any) -> Rule:
    """The Python body of a function of ``torch.nn.functional``, to be run on Gaussians."""
    body = _body(function)
    if body is None:
        raise TypeError(f"{function_name(function)} has no Python body")
    return body
