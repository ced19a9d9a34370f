"""Standardising columns: zero mean and unit variance on the training rows."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

__all__ = ["Standardizer"]


@dataclass(frozen=True, eq=False)
class Standardizer:
    r"""An affine map of each column, z = (x - mean) / scale.

    Made by :meth:`fit`. The statistics are float64; what is transformed keeps its own dtype.

    A column counts as constant when its deviation is a rounding residue of its magnitude: at most
    :math:`\max(n\,\varepsilon_{64}, \varepsilon_x)\,\max_i |x_i|` for :math:`n` rows, where
    :math:`\varepsilon_x` is the precision of the dtype of x. Dividing by such a deviation would
    make noise of order one out of nothing, so a constant column has scale 1, and becomes zero.

    Attributes:
        mean: mean of each column; the value itself for a constant column.
        scale: the standard deviation of each column (divisor n), 1 for a constant column.
        constant: which columns are constant.

    >>> x = torch.tensor([[1.0, 7.0], [3.0, 7.0]])
    >>> standardizer = Standardizer.fit(x)
    >>> standardizer.transform(x)
    tensor([[-1.,  0.],
            [ 1.,  0.]])
    >>> standardizer.inverse_variance(torch.tensor([0.25, 0.25]))  # scale is 1 for both
    tensor([0.2500, 0.2500])
    """

    mean: Tensor
    scale: Tensor
    constant: Tensor

    @classmethod
    def fit(cls, x: Tensor) -> Self:
        """The standardizer of these training rows.

        Args:
            x: ``[n, ...]``, floating point and finite. What follows the first axis are columns;
                a vector ``[n]`` is one column.
        """
        _check(x)
        wide = x.detach().double()
        magnitude = wide.abs().amax(dim=0)
        unit = wide / magnitude.where(magnitude > 0, 1.0)  # so that no square over- or underflows
        mean = unit.mean(dim=0)
        deviation = (unit - mean).square().mean(dim=0).sqrt()
        precision = max(len(x) * torch.finfo(torch.float64).eps, torch.finfo(x.dtype).eps)
        constant = deviation <= precision
        return cls(
            mean=torch.where(constant, wide[0], mean * magnitude),
            scale=torch.where(constant, 1.0, deviation * magnitude),
            constant=constant,
        )

    def scaled_by(self, factors: Tensor) -> Self:
        """The same with standardised columns multiplied by positive factors."""
        return type(self)(self.mean, self.scale / factors.double(), self.constant)

    def transform(self, x: Tensor) -> Tensor:
        """From original units to standardised ones."""
        mean, scale = self._statistics(x)
        return ((x.double() - mean) / scale).to(x.dtype)

    def inverse(self, z: Tensor) -> Tensor:
        """From standardised units back to original ones."""
        mean, scale = self._statistics(z)
        return (z.double() * scale + mean).to(z.dtype)

    def inverse_variance(self, variance: Tensor) -> Tensor:
        """A variance from standardised units back to original ones."""
        _, scale = self._statistics(variance)
        return (variance.double() * scale.square()).to(variance.dtype)

    def to_dict(self) -> dict[str, Tensor]:
        """The fitted tensors by name, as ``safetensors`` saves them."""
        return {"mean": self.mean, "scale": self.scale, "constant": self.constant}

    @classmethod
    def from_dict(cls, tensors: dict[str, Tensor]) -> Self:
        """The standardizer with these tensors, as :meth:`to_dict` gives them."""
        wanted = {"mean", "scale", "constant"}
        if set(tensors) != wanted:
            raise ValueError(f"got tensors {sorted(tensors)}, wanted {sorted(wanted)}")
        mean, scale, constant = (tensors[name] for name in ("mean", "scale", "constant"))
        if not (mean.dtype == scale.dtype == torch.float64 and constant.dtype == torch.bool):
            raise ValueError("got other types than float64 numbers and truth values")
        if not mean.shape == scale.shape == constant.shape:
            raise ValueError("mean, scale and constant must have the same columns")
        if not bool((mean.isfinite() & scale.isfinite() & (scale > 0)).all()):
            raise ValueError("means must be finite, and scales positive")
        return cls(mean, scale, constant)

    def _statistics(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and scale on the device of x, whose last axes must be the columns."""
        _check_dtype(x)
        columns = self.mean.shape
        if x.ndim < len(columns) or x.shape[x.ndim - len(columns) :] != columns:
            raise ValueError(
                f"got shape {tuple(x.shape)}, wanted one that ends in the columns of the "
                f"training rows, {tuple(columns)}"
            )
        return self.mean.to(x.device), self.scale.to(x.device)


def _check(x: Tensor) -> None:
    """Refuse what has no mean and deviation."""
    _check_dtype(x)
    if x.ndim == 0 or x.numel() == 0:
        raise ValueError(f"got shape {tuple(x.shape)}, wanted [rows, ...] with at least one row")
    bad = (~x.isfinite()).reshape(len(x), -1).any(dim=0).nonzero().flatten().tolist()
    if bad:
        raise ValueError(f"columns {bad[:10]} hold values that are not finite")


def _check_dtype(x: Tensor) -> None:
    """Refuse whole numbers, which cannot hold a standardised value."""
    if not x.is_floating_point():
        raise TypeError(f"got dtype {x.dtype}, wanted floating point")
