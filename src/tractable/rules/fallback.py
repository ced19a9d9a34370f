"""Automatic rules of torch functions that have none in the table.

Three kinds of functions get a rule, in this order: an in-place function uses the rule of the
out-of-place one and writes the result into its target; a function that torch tags as pointwise is
linearized with its derivative by autograd (``linearized``); a composite function of
``torch.nn.functional`` executes its Python body with Gaussians.  All others have no rule.

Exact: in-place writes.
Approximate: what the rules that are used approximate; the steps of a composite function are
treated as independent.
"""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any

from torch import Tensor

from tractable.gaussian import Gaussian, Rule, find_rule, write_in_place
from tractable.rules.linearized import is_pointwise, pointwise
from tractable.rules.structural import constant
from tractable.torch_functions import function_name, torch_functions

_COMPOSITE_MODULES = ("torch.nn.functional", "torch.functional")
_UNSUPPORTED = {"requires_grad_", "set_", "resize_", "resize_as_", "share_memory_", "rename_"}


def automatic_rule(function: Any) -> Rule | None:
    """Return the automatic rule of a function, or None."""
    return _in_place_rule(function) or _pointwise_rule(function) or _python_body(function)


def _in_place_rule(function: Any) -> Rule | None:
    """Return the rule of an in-place function: ``x.add_(y)`` uses that of ``x.add(y)``."""
    name = function_name(function)
    if not name.endswith("_") or name.endswith("__") or name in _UNSUPPORTED:
        return None
    try:
        candidates = torch_functions(name[:-1])
    except AttributeError:
        return None
    if getattr(Tensor, name, None) is function and hasattr(Tensor, name[:-1]):
        # The method first, because x.polygamma_(n) and torch.polygamma differ in their order.
        candidates = (getattr(Tensor, name[:-1]), *candidates)
    rule = next((found for f in candidates if (found := find_rule(f)) is not None), None)
    if rule is None:
        return None

    def run(target: Tensor, *args: Any, **kwargs: Any) -> Any:
        z = rule(target, *args, **kwargs)
        return write_in_place(target, z if isinstance(z, Gaussian) else constant(z))

    return run


def _pointwise_rule(function: Any) -> Rule | None:
    return pointwise(function) if is_pointwise(function_name(function)) else None


def _python_body(function: Any) -> Rule | None:
    """Return the Python body of a composite function, which runs on Gaussians.

    Torch's own check whether ``__torch_function__`` takes over is switched off inside.
    """
    plain = inspect.unwrap(function) if callable(function) else function
    if not isinstance(plain, FunctionType) or plain.__module__ not in _COMPOSITE_MODULES:
        return None
    if plain.__globals__["__name__"] not in _COMPOSITE_MODULES:
        # A wrapper of two functions (``torch.unique``), which would look this rule up again.
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
    """Return the Python body of a function of ``torch.nn.functional``, to be run on Gaussians.

    Raises:
        TypeError: the function has no Python body.
    """
    body = _python_body(function)
    if body is None:
        raise TypeError(f"{function_name(function)} has no Python body")
    return body
