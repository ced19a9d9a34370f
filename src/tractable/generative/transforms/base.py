"""Base class of the transforms of rows."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from torch import Tensor
from torch.distributions import constraints
from torch.distributions.transforms import Transform


class RowTransform(Transform):
    """An invertible map of rows (the last dimension), with the log determinant of its Jacobian."""

    domain = constraints.real_vector
    codomain = constraints.real_vector
    bijective = True
    sign = +1

    def __init__(self) -> None:
        super().__init__()

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    @abstractmethod
    def call_and_ladj(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return transformed rows and log absolute determinants; zuko needs both at once."""

    def _call(self, x: Tensor) -> Tensor:
        return self.call_and_ladj(x)[0]

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the log absolute determinant of the Jacobian of each row."""
        return self.call_and_ladj(x)[1]

    @abstractmethod
    def _inverse(self, y: Tensor) -> Tensor: ...


def log_det_of(transform: Transform, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return transformed rows and log determinants of any transform, also of zuko."""
    both: Any = getattr(transform, "call_and_ladj", None)
    if both is not None:
        y, found = both(x)
    else:
        y = transform(x)
        found = transform.log_abs_det_jacobian(x, y)
    extra = found.ndim - (x.ndim - 1)
    return y, found.flatten(-extra).sum(-1) if extra > 0 else found
