"""Standardization of columns: zero mean and unit variance on the training rows."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

__all__ = ["Standardizer"]


@dataclass(frozen=True, eq=False)
class Standardizer:
    r"""An affine map of each column, z = (x - mean) / scale, made by ``fit``.

    Mean and scale are float64; transformed values keep their dtype.

    A column is constant if its standard deviation is explained by rounding errors: at most
    :math:`\max(n\,\varepsilon_{64}, \varepsilon_x)\,\max_i |x_i|` for :math:`n` rows, where
    :math:`\varepsilon_x` is the precision of the dtype of x. Division by such a deviation
    would turn rounding errors into noise of order one. A constant column has scale 1 and becomes 0.

    Attributes:
        mean: mean of each column; the value of a constant column.
        scale: standard deviation of each column (divisor n); 1 for a constant column.
        constant: whether each column is constant.

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
        """Return the standardizer of training rows.

        Args:
            x: ``[n, ...]``, floating point and finite. The axes after the first one are columns; a
                vector ``[n]`` is one column.
        """
        _check(x)
        wide = x.detach().double()
        magnitude = wide.abs().amax(dim=0)
        unit = wide / magnitude.where(
            magnitude > 0, 1.0
        )  # so that squares do not overflow or underflow
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
        """Return a standardizer whose output columns are multiplied by positive factors.

        Args:
            factors: factor of each column, positive, of the shape of ``scale``.
        """
        return type(self)(self.mean, self.scale / factors.double(), self.constant)

    def transform(self, x: Tensor) -> Tensor:
        """Return values in standardized units, for values in original units."""
        mean, scale = self._statistics(x)
        return ((x.double() - mean) / scale).to(x.dtype)

    def inverse(self, z: Tensor) -> Tensor:
        """Return values in original units, for values in standardized units."""
        mean, scale = self._statistics(z)
        return (z.double() * scale + mean).to(z.dtype)

    def inverse_variance(self, variance: Tensor) -> Tensor:
        """Return variances in original units, for variances in standardized units."""
        _, scale = self._statistics(variance)
        return (variance.double() * scale.square()).to(variance.dtype)

    def to_dict(self) -> dict[str, Tensor]:
        """Return the state as named tensors, for a file."""
        return {"mean": self.mean, "scale": self.scale, "constant": self.constant}

    @classmethod
    def from_dict(cls, tensors: dict[str, Tensor]) -> Self:
        """Return the standardizer with the tensors that ``to_dict`` returned.

        Raises:
            ValueError: they are not those of a standardizer.
        """
        expected = {"mean", "scale", "constant"}
        if set(tensors) != expected:
            raise ValueError(f"got tensors {sorted(tensors)}, expected {sorted(expected)}")
        mean, scale, constant = (tensors[name] for name in ("mean", "scale", "constant"))
        if not (mean.dtype == scale.dtype == torch.float64 and constant.dtype == torch.bool):
            raise ValueError("mean and scale must be float64, and constant boolean")
        if not mean.shape == scale.shape == constant.shape:
            raise ValueError("mean, scale and constant must have the same columns")
        if not bool((mean.isfinite() & scale.isfinite() & (scale > 0)).all()):
            raise ValueError("means must be finite, and scales positive")
        return cls(mean, scale, constant)

    def _statistics(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and scale on the device of ``x``, whose last axes must be the columns."""
        _check_dtype(x)
        columns = self.mean.shape
        if x.ndim < len(columns) or x.shape[x.ndim - len(columns) :] != columns:
            raise ValueError(
                f"got shape {tuple(x.shape)}, expected one that ends in the columns of the "
                f"training rows, {tuple(columns)}"
            )
        return self.mean.to(x.device), self.scale.to(x.device)


def _check(x: Tensor) -> None:
    """Raise if mean and standard deviation do not exist."""
    _check_dtype(x)
    if x.ndim == 0 or x.numel() == 0:
        raise ValueError(f"got shape {tuple(x.shape)}, expected [rows, ...] with at least one row")
    bad = (~x.isfinite()).reshape(len(x), -1).any(dim=0).nonzero().flatten().tolist()
    if bad:
        raise ValueError(f"columns {bad[:10]} have values that are not finite")


def _check_dtype(x: Tensor) -> None:
    """Raise for integers, which cannot represent standardized values."""
    if not x.is_floating_point():
        raise TypeError(f"got dtype {x.dtype}, expected floating point")
