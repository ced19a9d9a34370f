"""The dense reference of a case: linear maps as matrices, bilinear maps as tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import torch
from torch import Tensor

from tests.rules.cases import Case


def sizes(case: Case) -> list[int]:
    """The number of entries of each argument."""
    return [torch.Size(shape).numel() for shape in case.shapes]


def _from_vector(case: Case) -> Callable[[Tensor], Tensor]:
    parts = sizes(case)

    def function(vector: Tensor) -> Tensor:
        pieces = vector.split(parts)
        arguments = [p.reshape(s) for p, s in zip(pieces, case.shapes, strict=True)]
        return case.function(*arguments).reshape(-1)

    return function


@cache
def matrix(case: Case) -> Tensor:
    """``A`` with ``f(x) = A x + f(0)``, all arguments of the case put into one vector."""
    function, n = _from_vector(case), sum(sizes(case))
    offset = function(torch.zeros(n, dtype=torch.float64))
    columns = [function(unit) - offset for unit in torch.eye(n, dtype=torch.float64)]
    return torch.stack(columns, 1)


@cache
def table(case: Case) -> Tensor:
    """``T`` with ``z_k = sum_ij T[k, i, j] x_i w_j``, the bias left out."""
    x, w = (torch.eye(n, dtype=torch.float64) for n in sizes(case)[:2])

    def value(a: Tensor, b: Tensor) -> Tensor:
        first, second = a.reshape(case.shapes[0]), b.reshape(case.shapes[1])
        return without_bias(case, first, second).reshape(-1)

    return torch.stack([torch.stack([value(a, b) for b in w], -1) for a in x], 1)


@cache
def bias(case: Case) -> Tensor:
    """``B`` with ``z = ... + B b``."""
    if len(case.shapes) < 3:
        return torch.zeros(table(case).shape[0], 0, dtype=torch.float64)
    units = torch.eye(sizes(case)[2], dtype=torch.float64)
    return torch.stack([only_bias(case, b.reshape(case.shapes[2])).reshape(-1) for b in units], 1)


def without_bias(case: Case, x: Tensor, w: Tensor) -> Tensor:
    """The bilinear part: the function itself with no bias."""
    return case.function(x, w, *(torch.zeros(shape, dtype=x.dtype) for shape in case.shapes[2:]))


def only_bias(case: Case, b: Tensor) -> Tensor:
    """Return the contribution of the bias."""
    x, w = (torch.zeros(shape, dtype=b.dtype) for shape in case.shapes[:2])
    return case.function(x, w, b)


def flat(tensors: Sequence[Tensor]) -> Tensor:
    """All entries in one vector."""
    return torch.cat([t.reshape(-1) for t in tensors])
