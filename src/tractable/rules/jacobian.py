"""Moment rules of functions of whole matrices, by their dense Jacobian: for small matrices only.

Each entry of the result depends on each entry of the matrix, so the Jacobian has as many entries as
the product of both sizes; a large one raises ``NoMomentRule``.

Exact: the Jacobian at the means; the limit of zero variance.
Approximate: linearized at the means; the entries of the result are treated as independent.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tractable.errors import NoMomentRule
from tractable.gaussian import Gaussian, Rule, moment_rule
from tractable.torch_functions import function_name, torch_functions

_MAX_ENTRIES = 4_000_000
"""Entries of the dense Jacobian: 32 MB in double precision."""


def linearize_by_jacobian(function: Any) -> Rule:
    """Return the rule of a function of one Gaussian, by its dense Jacobian."""

    def rule(input: Gaussian, *args: Any, **kwargs: Any) -> Gaussian:
        def plain(x: Tensor) -> Tensor:
            result: Tensor = function(x, *args, **kwargs)
            return result

        loc = plain(input.loc)
        if loc.numel() * input.numel() > _MAX_ENTRIES:
            raise NoMomentRule(
                f"no moment rule for {function_name(function)!r} of shape {tuple(input.shape)}: "
                f"its Jacobian would have more than {_MAX_ENTRIES} entries"
            )
        with torch.enable_grad():
            j: Any = torch.autograd.functional.jacobian(plain, input.loc.detach())
        squared = j.reshape(loc.numel(), input.numel()).square()
        return Gaussian.wrap(loc, (squared @ input.variance.reshape(-1)).reshape(loc.shape))

    return rule


for _function in (
    *torch_functions("matrix_exp"),
    torch.linalg.matrix_exp,
    *torch_functions("inverse"),
    torch.linalg.inv,
    *torch_functions("det"),
    torch.linalg.det,
    *torch_functions("logdet"),
):
    moment_rule(_function)(linearize_by_jacobian(_function))
