"""The columns of a table of rows: their units, and those in which there is nothing to model."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from tractable.data import Standardizer
from tractable.errors import InvalidInput
from tractable.training.data import as_tensor

FEW_VALUES = 20
"""Different values up to which a column of a hundred rows or more is taken for a discrete one."""
_MANY_ROWS = 100
_MOST_COMPARED = 2_048  # columns that are searched for copies of each other
_SAME = 1e-6


class DiscreteColumns(UserWarning):
    """Columns that take few values, whose density has no finite value."""


@dataclass(frozen=True, eq=False)
class Columns:
    """What a model sees of rows: the columns that vary, with mean 0 and variance 1.

    A constant column is not modelled: samples have its value, and a row with another one has
    density zero.  Discrete columns are spread evenly over their steps when learnt
    (``steps`` > 0), if that was asked for, and brought back to their values in samples.

    Attributes:
        units: mean and scale of every column.
        steps: width that each column is spread over; 0 for those that are not.
        values: smallest and largest value of each column that was seen.
    """

    units: Standardizer
    steps: Tensor
    values: Tensor

    @classmethod
    def of(cls, x: Tensor, *, scale: bool, spread: bool, continuous: bool) -> Self:
        """The columns of training rows.

        Args:
            x: rows, checked.
            scale: whether to bring columns to mean 0 and variance 1.
            spread: whether to spread discrete columns over their steps.
            continuous: whether the model is a density of real numbers, for which copies of a
                column are refused and discrete columns are warned of.
        """
        wide = x.double()
        units = Standardizer.fit(wide)
        steps = torch.zeros(x.shape[1], dtype=torch.float64)
        if continuous:
            _refuse_copies(units.transform(wide), units.constant)
            found = _steps(wide, units.constant)
            if spread:
                steps = found
            elif bool((found > 0).any()):
                few = (found > 0).nonzero().flatten().tolist()
                warnings.warn(
                    f"columns {few[:10]} take at most {FEW_VALUES} different values: a density "
                    f"can grow without bound there. dequantize=True spreads them over their steps",
                    DiscreteColumns,
                    stacklevel=4,
                )
        if not scale:
            plain = torch.zeros_like(units.mean), torch.ones_like(units.scale)
            centre = torch.where(units.constant, units.mean, plain[0])
            units = Standardizer(centre, plain[1], units.constant)
        return cls(units, steps, torch.stack([wide.amin(0), wide.amax(0)]))

    def whole(self) -> Columns:
        """The same with constant columns as columns like all others."""
        units = self.units
        return Columns(
            Standardizer(units.mean, units.scale, torch.zeros_like(units.constant)),
            self.steps,
            self.values,
        )

    @property
    def kept(self) -> Tensor:
        """Which columns vary."""
        return ~self.units.constant

    @property
    def modelled(self) -> int:
        """How many do."""
        return int(self.kept.sum())

    @property
    def log_scale(self) -> float:
        """Log volume of a unit of the model in units of the data, in nats."""
        return float(self.units.scale[self.kept].log().sum())

    def inward(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """From rows of data to rows of the model."""
        return self.units.transform(x.double())[..., self.kept].to(dtype)

    def spread(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Rows with their discrete columns spread evenly over their steps."""
        if not bool((self.steps > 0).any()):
            return x
        noise = torch.rand(x.shape, generator=generator, dtype=torch.float64) - 0.5
        return (x.double() + noise * self.steps).to(x.dtype)

    def outward(self, z: Tensor) -> Tensor:
        """From rows of the model to rows of data."""
        whole = self._wide(z)
        low, high = self.values
        some = self.steps > 0
        if bool(some.any()):
            step = self.steps[some]
            number = ((whole[..., some] - low[some]) / step).round()
            top = ((high[some] - low[some]) / step).round()
            whole[..., some] = low[some] + step * number.clamp(min=0).minimum(top)
        return whole.to(z.dtype)

    def unrounded(self, z: Tensor) -> Tensor:
        """Return rows of data with dequantized columns as continuous numbers.

        It is differentiable in ``z``, unlike ``outward``, which rounds these columns.
        """
        return self._wide(z).to(z.dtype)

    def _wide(self, z: Tensor) -> Tensor:
        kept = self.kept
        whole = self.units.mean.expand(*z.shape[:-1], len(kept)).clone()
        whole[..., kept] = z.double() * self.units.scale[kept] + self.units.mean[kept]
        return whole

    def possible(self, x: Tensor) -> Tensor:
        """Whether the constant columns of each row have their value."""
        fixed = self.units.constant
        near = _SAME * self.units.mean.abs().clamp(min=1.0)
        return ((x.double() - self.units.mean).abs() <= near)[..., fixed].all(-1)

    def tensors(self) -> dict[str, Tensor]:
        """For a file."""
        return {**self.units.to_dict(), "steps": self.steps, "values": self.values}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> Self:
        """From a file.

        Raises:
            ValueError: tensors that columns cannot have.
        """
        held = dict(tensors)
        steps, values = held.pop("steps"), held.pop("values")
        units = Standardizer.from_dict(held)
        if steps.shape != units.mean.shape or values.shape != (2, *units.mean.shape):
            raise ValueError("steps and values must have the same columns as the units")
        if not steps.dtype == values.dtype == torch.float64:
            raise ValueError("steps and values must be float64 numbers")
        if not bool((steps >= 0).all() and steps.isfinite().all() and values.isfinite().all()):
            raise ValueError("steps must be finite and not negative, and values finite")
        return cls(units, steps, values)


def as_rows(
    given: Any, what: str, dtype: torch.dtype, columns: int | None = None, *, holes: bool = False
) -> Tensor:
    """A table of finite numbers, ``[rows, columns]``; a vector is one column of rows.

    Args:
        given: an array or a tensor.
        what: what it is, for the message.
        dtype: precision wanted.
        columns: how many columns there must be.
        holes: whether values may be missing (NaN).

    Raises:
        InvalidInput: it is something else.
    """
    x = as_tensor(given, what)
    if x.is_complex() or x.ndim == 0 or x.numel() == 0:
        raise InvalidInput(
            f"{what} must be real numbers, at least one row: got {x.dtype}, {tuple(x.shape)}"
        )
    x = x.to("cpu", dtype)
    if x.ndim == 1:
        x = x.unsqueeze(0) if columns is not None and columns == len(x) > 1 else x.unsqueeze(1)
    x = x.flatten(1)
    if columns is not None and x.shape[1] != columns:
        raise InvalidInput(f"{what} have {x.shape[1]} columns, and the model has {columns}")
    if not bool((x.isfinite() | x.isnan() if holes else x.isfinite()).all()):
        row, column = (~x.isfinite()).nonzero()[0].tolist()
        raise InvalidInput(
            f"{what} have NaN or infinite values, the first in row {row}, column {column}: "
            f"rows with holes can be filled by infer.impute once a model is fitted, and "
            f"generative.GaussianMixture learns from them"
        )
    return x


def without_holes(x: Tensor, generator: torch.Generator) -> Tensor:
    """Rows with every hole (NaN) filled by another value of its column, drawn at random.

    So means, scales, steps and constants are those of what is there.

    Raises:
        InvalidInput: a column has no value at all.
    """
    holes = x.isnan()
    if not bool(holes.any()):
        return x
    filled = x.clone()
    for k in holes.any(0).nonzero().flatten().tolist():
        there = x[~holes[:, k], k]
        if not len(there):
            raise InvalidInput(f"column {k} has no values: leave it out")
        number = int(holes[:, k].sum())
        filled[holes[:, k], k] = there[torch.randint(len(there), (number,), generator=generator)]
    return filled


def _refuse_copies(z: Tensor, constant: Tensor) -> None:
    """Refuse columns that are, up to their units, copies of each other: no density is finite."""
    rows, columns = z.shape
    if not 2 <= columns <= _MOST_COMPARED or rows < 3:
        return
    alike = (z.T @ z / rows).abs()
    alike.fill_diagonal_(0)
    alike[constant] = 0
    pairs = (alike > 1 - 1e-9).nonzero()
    if len(pairs):
        first, second = pairs[0].tolist()
        raise InvalidInput(
            f"columns {first} and {second} are copies of each other (up to their units): rows lie "
            f"on a plane, where a density is infinite. Leave one of them out"
        )


def _steps(x: Tensor, constant: Tensor) -> Tensor:
    """The smallest difference between values of each column with few of them; else 0."""
    steps = torch.zeros(x.shape[1], dtype=torch.float64)
    if len(x) < _MANY_ROWS:
        return steps
    for k in range(x.shape[1]):
        if constant[k]:
            continue
        found = torch.unique(x[:, k])
        if len(found) <= FEW_VALUES:
            steps[k] = (found[1:] - found[:-1]).min()
    return steps
