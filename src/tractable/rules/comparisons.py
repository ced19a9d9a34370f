"""Moment rules of comparisons, index functions and constructors, which are evaluated at the means.

Exact: shapes, dtypes and new tensors.
Approximate: comparisons, indices of extremes, tests for zero: each value is taken to be its mean.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from tractable.gaussian import Gaussian, Rule, moment_rule
from tractable.torch_functions import torch_functions

_COMPARISONS = """
    eq ne lt le gt ge less less_equal greater greater_equal not_equal isnan isinf isfinite isneginf
    isposinf isreal signbit argmax argmin argsort nonzero count_nonzero equal allclose isclose any
    all logical_and logical_or logical_not logical_xor searchsorted bucketize is_nonzero
    is_same_size result_type
"""
_CONSTRUCTORS = """
    zeros_like ones_like full_like empty_like rand_like randn_like randint_like new_zeros new_ones
    new_full new_empty new_tensor
"""
_OPERATORS = "__eq__ __ne__ __lt__ __le__ __gt__ __ge__"


def _mean(value: Any) -> Any:
    return value.loc.detach() if isinstance(value, Gaussian) else value


def evaluate_at_means(function: Any) -> Rule:
    """Return the rule that calls the function with the means."""

    def rule(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = tree_map(_mean, (args, kwargs))
        return function(*args, **kwargs)

    return rule


for _name in (_COMPARISONS + _CONSTRUCTORS).split():
    for _function in torch_functions(_name):
        moment_rule(_function)(evaluate_at_means(_function))
for _name in _OPERATORS.split():
    if hasattr(Tensor, _name):
        moment_rule(getattr(Tensor, _name))(evaluate_at_means(getattr(Tensor, _name)))
moment_rule(torch.isin)(evaluate_at_means(torch.isin))
