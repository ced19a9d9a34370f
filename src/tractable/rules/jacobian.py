"""Rules of functions of whole matrices, by their dense Jacobian: for small ones only.

Every entry of the result depends on every entry of the matrix, so the table of derivatives has as
many entries as both together; it is refused where it would be large.

Exact: the Jacobian at the means; the zero-variance limit.
Approximate: the curvature over the width of the arguments; entries of the result count as
independent.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tractable.errors import NoMomentRule
from tractable.gaussian import Gaussian, Rule, function_name, moment_rule, torch_functions

_MAX_ENTRIES = 4_000_000
"""Entries of the dense Jacobian: 32 MB in double precision."""


def linearize_by_jacobian(function: Any) -> Rule:
    """The rule of a function of one Gaussian, from all its derivatives."""

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
