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
from tractable.gaussian import Gaussian, Rule, moment_rule, name_of, spellings

_MOST = 4_000_000
"""Entries of a table of derivatives."""


def by_jacobian(function: Any) -> Rule:
    """The rule of a function of one Gaussian, from all its derivatives."""

    def rule(input: Gaussian, *args: Any, **kwargs: Any) -> Gaussian:
        def plain(x: Tensor) -> Tensor:
            result: Tensor = function(x, *args, **kwargs)
            return result

        loc = plain(input.loc)
        if loc.numel() * input.numel() > _MOST:
            raise NoMomentRule(
                f"no moment rule for {name_of(function)!r} of {tuple(input.shape)}: its table of "
                f"derivatives would have more than {_MOST} entries"
            )
        with torch.enable_grad():
            j: Any = torch.autograd.functional.jacobian(plain, input.loc.detach())
        squared = j.reshape(loc.numel(), input.numel()).square()
        return Gaussian.wrap(loc, (squared @ input.variance.reshape(-1)).reshape(loc.shape))

    return rule


for _function in (
    *spellings("matrix_exp"),
    torch.linalg.matrix_exp,
    *spellings("inverse"),
    torch.linalg.inv,
    *spellings("det"),
    torch.linalg.det,
    *spellings("logdet"),
):
    moment_rule(_function)(by_jacobian(_function))
