"""Moment rules of softmax and its logarithm, by their Jacobian (``tractable.moments.softmax``).

Exact: the probabilities sum to one, so a part that all inputs share has no effect.
Approximate: linearized at the means; the results are treated as independent, although they sum to
one (attention has a rule that takes this into account).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tractable.gaussian import Gaussian, moment_rule
from tractable.moments.softmax import log_softmax_variance, softmax_variance
from tractable.torch_functions import torch_functions


def _cast(input: Gaussian, dtype: torch.dtype | None) -> tuple[Tensor, Tensor]:
    if dtype is None or dtype == input.dtype:
        return input.loc, input.variance
    return input.loc.to(dtype), input.variance.to(dtype)


def _dim(input: Gaussian, dim: int | None) -> int:
    """Return ``dim``; the default of torch is 0 for one and three dimensions, else 1."""
    if dim is not None:
        return dim
    return 0 if input.dim() in (0, 1, 3) else 1


@moment_rule(*torch_functions("softmax"), torch.special.softmax)
def softmax(
    input: Gaussian, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Gaussian:
    """Return probabilities that sum to one along ``dim``."""
    mu, var = _cast(input, _dtype(_stacklevel, dtype))
    dim = _dim(input, dim)
    p = torch.softmax(mu, dim)
    return Gaussian.wrap(p, softmax_variance(p.detach(), var, dim))


@moment_rule(*torch_functions("log_softmax"), torch.special.log_softmax)
def log_softmax(
    input: Gaussian, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Gaussian:
    """Return the logarithms of such probabilities."""
    mu, var = _cast(input, _dtype(_stacklevel, dtype))
    dim = _dim(input, dim)
    logs = torch.log_softmax(mu, dim)
    return Gaussian.wrap(logs, log_softmax_variance(logs.detach().exp(), var, dim))


def _dtype(second: Any, dtype: Any) -> torch.dtype | None:
    """Return the dtype, which ``torch.softmax`` takes where ``F.softmax`` has ``_stacklevel``."""
    return second if isinstance(second, torch.dtype) else dtype


@moment_rule(F.softmin)
def softmin(
    input: Gaussian, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Gaussian:
    """Return the softmax of the negative."""
    return softmax(-input, dim, _stacklevel, dtype)
