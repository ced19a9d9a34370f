"""Moment rules of ``einsum``, of ``addmm`` and similar functions, and of outer and inner products.

Exact: mean and variance of each entry, for independent factors.
Approximate: the entries of a result share factors and are treated as independent, and so are the
partial products of three or more factors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tractable.gaussian import Gaussian, moment_rule
from tractable.moments.bilinear import BackwardParts, BilinearMap, Needs
from tractable.rules.bilinear import matmul, multiply, product
from tractable.torch_functions import torch_functions

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True)
class EinsumMap(BilinearMap):
    """``einsum`` of two tensors, in which each summed index occurs in both.

    Attributes:
        x: indices of the first tensor.
        w: indices of the second tensor.
        z: indices of the result.
    """

    x: str
    w: str
    z: str

    def apply(self, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
        """Return the contraction of x and w, plus b."""
        z = torch.einsum(f"{self.x},{self.w}->{self.z}", x, w)
        return z if b is None else z + b

    def pull(self, d: Tensor, x: Tensor, w: Tensor, needs: Needs) -> BackwardParts:
        """Return the transposes, from z back to x, w and b."""
        to_x = torch.einsum(f"{self.z},{self.w}->{self.x}", d, w) if needs[0] else None
        to_w = torch.einsum(f"{self.z},{self.x}->{self.w}", d, x) if needs[1] else None
        return to_x, to_w, d if needs[2] else None


def _spell_out(equation: str, operands: list[Any]) -> tuple[list[str], str]:
    """Return the indices of each operand and of the result, with letters for the ellipsis."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    free = [c for c in _LETTERS if c not in equation]
    n_dots = 0
    for i, (term, operand) in enumerate(zip(terms, operands, strict=True)):
        if "..." in term:
            hidden = operand.dim() - len(term.replace("...", ""))
            n_dots = max(n_dots, hidden)
            terms[i] = term.replace("...", "".join(free[-hidden:]) if hidden else "")
    dots = "".join(free[-n_dots:]) if n_dots else ""
    if arrow:
        return terms, right.replace("...", dots)
    letters = "".join(terms)
    once = sorted(c for c in set(letters) if letters.count(c) == 1 and c not in dots)
    return terms, dots + "".join(once)


def _reduced(operand: Any, term: str, kept: str) -> tuple[Any, str]:
    """Sum over the indices that occur nowhere else, and take diagonals."""
    remaining = "".join(dict.fromkeys(c for c in term if c in kept))
    if remaining == term:
        return operand, term
    equation = f"{term}->{remaining}"
    if isinstance(operand, Gaussian):
        loc, variance = (torch.einsum(equation, m) for m in (operand.loc, operand.variance))
        return Gaussian.wrap(loc, variance), remaining
    return torch.einsum(equation, operand), remaining


def _pair(x: Any, w: Any, terms: tuple[str, str], kept: str) -> tuple[Any, str]:
    (x, left), (w, right) = (
        _reduced(x, terms[0], kept + terms[1]),
        _reduced(w, terms[1], kept + terms[0]),
    )
    z = "".join(dict.fromkeys(c for c in left + right if c in kept))
    if not isinstance(x, Gaussian) and not isinstance(w, Gaussian):
        return torch.einsum(f"{left},{right}->{z}", x, w), z
    # A broadcast index has size one in one operand only.  If it is summed, the other operand is
    # summed first, because copies of an entry are not independent; else the entry is repeated.
    sizes = [dict(zip(term, t.shape, strict=True)) for term, t in ((left, x), (right, w))]
    summed = [c for c in left if c in right and c not in kept]
    for c in summed:
        if sizes[0][c] != sizes[1][c]:
            x, w = x.sum(left.index(c), keepdim=True), w.sum(right.index(c), keepdim=True)
            sizes[0][c] = sizes[1][c] = 1
    full = {c: max(part.get(c, 1) for part in sizes) for c in left + right}
    x, w = (t.expand([full[c] for c in term]) for t, term in ((x, left), (w, right)))
    return product(EinsumMap(left, right, z), x, w), z


@moment_rule(torch.einsum)
def einsum(equation: str, *operands: Any) -> Any:
    """Return a sum of products; three or more factors are multiplied from left to right."""
    factors = list(operands[0] if isinstance(operands[0], list | tuple) else operands)
    terms, result = _spell_out(equation, factors)
    z, term = factors[0], terms[0]
    for i in range(1, len(factors)):
        kept = result + "".join(terms[i + 1 :])
        z, term = _pair(z, factors[i], (term, terms[i]), kept)
    z, term = _reduced(z, term, result)
    return z if term == result else z.permute([term.index(c) for c in result])


def _times(z: Any, factor: Any) -> Any:
    return z if isinstance(factor, int | float) and factor == 1 else z * factor


def _weighted_sum(input: Any, product: Any, beta: Any, alpha: Any) -> Any:
    if isinstance(beta, int | float) and beta == 0:
        return _times(product, alpha)
    return _times(input, beta) + _times(product, alpha)


@moment_rule(*torch_functions("addmm"))
def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """Return ``beta input + alpha mat1 @ mat2``."""
    return _weighted_sum(input, mat1 @ mat2, beta, alpha)


@moment_rule(*torch_functions("baddbmm"))
def baddbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """Return ``addmm`` for each matrix of a batch."""
    return _weighted_sum(input, batch1 @ batch2, beta, alpha)


@moment_rule(*torch_functions("addmv"))
def addmv(input: Any, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """Return ``beta input + alpha mat @ vec``."""
    return _weighted_sum(input, mat @ vec, beta, alpha)


@moment_rule(*torch_functions("addbmm"))
def addbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """Return ``addmm`` with the sum of the products of a batch."""
    return _weighted_sum(input, (batch1 @ batch2).sum(0), beta, alpha)


@moment_rule(*torch_functions("addr"))
def addr(input: Any, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """Return ``beta input + alpha vec1 vec2^T``."""
    return _weighted_sum(input, outer(vec1, vec2), beta, alpha)


@moment_rule(*torch_functions("addcmul"))
def addcmul(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    """Return ``input + value tensor1 tensor2``."""
    return _weighted_sum(input, tensor1 * tensor2, 1, value)


@moment_rule(*torch_functions("addcdiv"))
def addcdiv(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    """Return ``input + value tensor1 / tensor2``."""
    return _weighted_sum(input, tensor1 / tensor2, 1, value)


@moment_rule(*torch_functions("mm"), *torch_functions("bmm"))
def matrix_product(input: Any, mat2: Any) -> Any:
    """Return the product of two matrices, or of the matrices of two batches."""
    return matmul(input, mat2)


@moment_rule(*torch_functions("mv"))
def matrix_times_vector(input: Any, vec: Any) -> Any:
    """Return the product of a matrix and a vector."""
    return matmul(input, vec)


@moment_rule(*torch_functions("dot"))
def dot(input: Any, tensor: Any) -> Any:
    """Return the inner product of two vectors."""
    if input is tensor:
        return (input * input).sum()
    return matmul(input, tensor)


@moment_rule(*torch_functions("vdot"))
def vdot(input: Any, other: Any) -> Any:
    """Return the inner product of two real vectors, as ``dot``."""
    return dot(input, other)


@moment_rule(*torch_functions("inner"))
def inner(input: Any, other: Any) -> Any:
    """Return the sum of products over the last dimension of both."""
    return (
        input * other
        if not input.dim() or not other.dim()
        else torch.tensordot(input, other, dims=([-1], [-1]))
    )


@moment_rule(*torch_functions("outer"), *torch_functions("ger"))
def outer(input: Any, vec2: Any) -> Any:
    """Return the products of each entry with each entry."""
    return input.unsqueeze(1) * vec2.unsqueeze(0)


@moment_rule(torch.tensordot)
def tensordot(a: Any, b: Any, dims: Any = 2, out: Any = None) -> Any:
    """Return the sum of products over pairs of dimensions."""
    if isinstance(dims, int):
        dims = (range(a.dim() - dims, a.dim()), range(dims))
    left, right = ([d % t.dim() for d in part] for part, t in zip(dims, (a, b), strict=True))
    first, second = list(_LETTERS[: a.dim()]), list(_LETTERS[a.dim() : a.dim() + b.dim()])
    for i, j in zip(left, right, strict=True):
        second[j] = first[i]
    rest = [c for i, c in enumerate(first) if i not in left]
    rest += [c for j, c in enumerate(second) if j not in right]
    return einsum(f"{''.join(first)},{''.join(second)}->{''.join(rest)}", a, b)


@moment_rule(F.bilinear)
def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """Return ``input1^T weight input2 + bias`` for each output."""
    z = einsum("...i,oij,...j->...o", input1, weight, input2)
    return z if bias is None else z + bias


@moment_rule(torch.linalg.multi_dot, torch.chain_matmul)
def multi_dot(*tensors: Any) -> Any:
    """Return the product of several matrices, multiplied from left to right."""
    factors = tensors[0] if isinstance(tensors[0], list | tuple) else tensors
    z = factors[0]
    for factor in factors[1:]:
        z = z @ factor
    return z


@moment_rule(Tensor.__rpow__)
def reflected_power(input: Gaussian, other: Any) -> Any:
    """Return ``other ** input`` for a positive constant."""
    base = torch.as_tensor(other, dtype=input.dtype, device=input.device)
    return torch.exp(multiply(input, base.log()))
