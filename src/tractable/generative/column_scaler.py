"""Scaling of table columns, and treatment of constant, discrete and copied columns."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from tractable.errors import InvalidInput
from tractable.training.data import as_tensor
from tractable.training.standardizer import Standardizer

MAX_DISCRETE_VALUES = 20  # distinct values up to which a column counts as discrete
_MIN_ROWS_FOR_DISCRETE = 100  # rows below which no column is taken to be discrete
_MAX_COMPARED_COLUMNS = 2_048  # columns above which no copies are searched for: a matrix of 32 MB
_SAME = 1e-6  # relative difference up to which a value equals that of a constant column


class DiscreteColumnsWarning(UserWarning):
    """Warning about columns with few distinct values, where a density has no finite maximum."""


@dataclass(frozen=True, eq=False)
class ColumnScaler:
    """Conversion between rows of data and rows of a model.

    A model has the columns that vary, by default with mean 0 and variance 1. Constant columns are
    not modeled: samples have their value, and a row with another value has density zero. Discrete
    columns can be dequantized: spread uniformly over their step in training, and rounded to their
    values in samples.

    Attributes:
        units: mean and scale of every column.
        steps: width over which each column is dequantized; 0 for those that are not.
        values: smallest and largest value of each column, ``[2, columns]``.
    """

    units: Standardizer
    steps: Tensor
    values: Tensor

    @classmethod
    def fit(cls, x: Tensor, *, standardize: bool, dequantize: bool, is_continuous: bool) -> Self:
        """Return the scaler of training rows.

        Args:
            x: training rows without missing values.
            standardize: whether to scale columns to mean 0 and variance 1.
            dequantize: whether to spread discrete columns over their steps.
            is_continuous: whether the model is a density of real numbers, so that copies of a
                column raise an error and discrete columns a warning.

        Raises:
            InvalidInput: a column is a copy of another.
        """
        wide = x.double()
        units = Standardizer.fit(wide)
        steps = torch.zeros(x.shape[1], dtype=torch.float64)
        if is_continuous:
            _check_copies(units.transform(wide), units.constant)
            found = _discrete_steps(wide, units.constant)
            if dequantize:
                steps = found
            elif bool((found > 0).any()):
                discrete = (found > 0).nonzero().flatten().tolist()
                warnings.warn(
                    f"columns {discrete[:10]} have at most {MAX_DISCRETE_VALUES} distinct values, "
                    f"where a density can grow without bound. Use dequantize=True to spread them "
                    f"uniformly over their steps",
                    DiscreteColumnsWarning,
                    stacklevel=4,
                )
        if not standardize:
            zeros, ones = torch.zeros_like(units.mean), torch.ones_like(units.scale)
            mean = torch.where(units.constant, units.mean, zeros)
            units = Standardizer(mean, ones, units.constant)
        return cls(units, steps, torch.stack([wide.amin(0), wide.amax(0)]))

    def with_constants(self) -> ColumnScaler:
        """Return the same scaler with constant columns treated like all others."""
        units = self.units
        return ColumnScaler(
            Standardizer(units.mean, units.scale, torch.zeros_like(units.constant)),
            self.steps,
            self.values,
        )

    @property
    def varying(self) -> Tensor:
        """Which columns are modeled, as a mask."""
        return ~self.units.constant

    @property
    def n_varying(self) -> int:
        """Number of columns that are modeled."""
        return int(self.varying.sum())

    @property
    def log_scale(self) -> float:
        """Log determinant of the scales: log density in model units minus that in data units."""
        return float(self.units.scale[self.varying].log().sum())

    def to_model(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """Return rows of data as rows of the model."""
        return self.units.transform(x.double())[..., self.varying].to(dtype)

    def dequantized(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Return rows of data with uniform noise added to discrete columns."""
        if not bool((self.steps > 0).any()):
            return x
        noise = torch.rand(x.shape, generator=generator, dtype=torch.float64) - 0.5
        return (x.double() + noise * self.steps).to(x.dtype)

    def to_data(self, z: Tensor) -> Tensor:
        """Return rows of the model as rows of data; dequantized columns are rounded."""
        x = self._scaled_back(z)
        low, high = self.values
        some = self.steps > 0
        if bool(some.any()):
            step = self.steps[some]
            index = ((x[..., some] - low[some]) / step).round()
            last = ((high[some] - low[some]) / step).round()
            x[..., some] = low[some] + step * index.clamp(min=0).minimum(last)
        return x.to(z.dtype)

    def to_unrounded_data(self, z: Tensor) -> Tensor:
        """Return rows of data with dequantized columns as continuous numbers.

        It is differentiable in ``z``, unlike ``to_data``, which rounds these columns.
        """
        return self._scaled_back(z).to(z.dtype)

    def _scaled_back(self, z: Tensor) -> Tensor:
        varying = self.varying
        x = self.units.mean.expand(*z.shape[:-1], len(varying)).clone()
        x[..., varying] = z.double() * self.units.scale[varying] + self.units.mean[varying]
        return x

    def matches_constants(self, x: Tensor) -> Tensor:
        """Return which rows equal the training rows in all constant columns."""
        constant = self.units.constant
        tolerance = _SAME * self.units.mean.abs().clamp(min=1.0)
        return ((x.double() - self.units.mean).abs() <= tolerance)[..., constant].all(-1)

    def to_tensors(self) -> dict[str, Tensor]:
        """Return the attributes as tensors, for a file."""
        return {**self.units.to_dict(), "steps": self.steps, "values": self.values}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> Self:
        """Return the scaler that ``to_tensors`` described.

        Raises:
            ValueError: the tensors have other shapes or types, or invalid values.
        """
        given = dict(tensors)
        steps, values = given.pop("steps"), given.pop("values")
        units = Standardizer.from_dict(given)
        if steps.shape != units.mean.shape or values.shape != (2, *units.mean.shape):
            raise ValueError("steps and values must have the same columns as the units")
        if not steps.dtype == values.dtype == torch.float64:
            raise ValueError("steps and values must be float64 numbers")
        if not bool((steps >= 0).all() and steps.isfinite().all() and values.isfinite().all()):
            raise ValueError("steps must be finite and not negative, and values finite")
        return cls(units, steps, values)


def as_matrix(
    given: Any,
    what: str,
    dtype: torch.dtype,
    columns: int | None = None,
    *,
    allow_missing: bool = False,
) -> Tensor:
    """Return a table of finite numbers, ``[rows, columns]``.

    Args:
        given: an array or tensor; axes after the first one are flattened to columns. A vector is
            one column, or one row if its length is the expected number of columns.
        what: name of the table, for error messages.
        dtype: type of the result.
        columns: expected number of columns.
        allow_missing: whether values may be missing (NaN).

    Raises:
        InvalidInput: the table is empty, not real, of another width, or has invalid values.
    """
    x = as_tensor(given, what)
    if x.is_complex() or x.ndim == 0 or x.numel() == 0:
        raise InvalidInput(
            f"{what} must be real numbers with at least one row, "
            f"got dtype {x.dtype} and shape {tuple(x.shape)}"
        )
    x = x.to("cpu", dtype)
    if x.ndim == 1:
        x = x.unsqueeze(0) if columns is not None and columns == len(x) > 1 else x.unsqueeze(1)
    x = x.flatten(1)
    if columns is not None and x.shape[1] != columns:
        raise InvalidInput(f"{what} have {x.shape[1]} columns, and the model has {columns}")
    if not bool((x.isfinite() | x.isnan() if allow_missing else x.isfinite()).all()):
        row, column = (~x.isfinite()).nonzero()[0].tolist()
        raise InvalidInput(
            f"{what} have NaN or infinite values, the first in row {row}, column {column}. "
            f"generative.GaussianMixture can be fitted to rows with missing values, and "
            f"infer.impute fills them in with a fitted model"
        )
    return x


def hot_deck_filled(x: Tensor, generator: torch.Generator) -> Tensor:
    """Return rows with each missing value (NaN) replaced by a random value of the same column.

    So mean, scale, steps and constancy of the columns are those of the values that are not missing.

    Raises:
        InvalidInput: all values of a column are missing.
    """
    missing = x.isnan()
    if not bool(missing.any()):
        return x
    filled = x.clone()
    for k in missing.any(0).nonzero().flatten().tolist():
        known = x[~missing[:, k], k]
        if not len(known):
            raise InvalidInput(f"column {k} has no values: leave it out")
        count = int(missing[:, k].sum())
        filled[missing[:, k], k] = known[torch.randint(len(known), (count,), generator=generator)]
    return filled


def _check_copies(z: Tensor, constant: Tensor) -> None:
    """Raise if a column is, up to its units, a copy of another, where no density is finite."""
    rows, columns = z.shape
    if not 2 <= columns <= _MAX_COMPARED_COLUMNS or rows < 3:
        return
    correlation = (z.T @ z / rows).abs()
    correlation.fill_diagonal_(0)
    correlation[constant] = 0
    pairs = (correlation > 1 - 1e-9).nonzero()
    if len(pairs):
        first, second = pairs[0].tolist()
        raise InvalidInput(
            f"columns {first} and {second} are copies of each other (up to their units): rows lie "
            f"on a plane, where a density is infinite. Leave one of them out"
        )


def _discrete_steps(x: Tensor, constant: Tensor) -> Tensor:
    """Return the smallest difference between the values of each discrete column, else 0."""
    steps = torch.zeros(x.shape[1], dtype=torch.float64)
    if len(x) < _MIN_ROWS_FOR_DISCRETE:
        return steps
    for k in range(x.shape[1]):
        if constant[k]:
            continue
        found = torch.unique(x[:, k])
        if len(found) <= MAX_DISCRETE_VALUES:
            steps[k] = (found[1:] - found[:-1]).min()
    return steps
