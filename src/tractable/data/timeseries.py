"""Time series: airline passengers, sunspots, and the temperature of a transformer (ETTh1).

References: G. Box and G. Jenkins, "Time series analysis" (1976), series G; D. Andrews and
A. Herzberg, "Data" (1985), Zurich sunspot numbers; H. Zhou et al., "Informer" (2021), ETTh1.
"""

import csv
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tractable.data.download import locate

__all__ = ["TimeSeries", "airline", "etth1", "sunspots"]


@dataclass(frozen=True, eq=False)
class TimeSeries:
    """A time series with regular time steps.

    Attributes:
        name: name of the series.
        columns: names of the columns of ``values``.
        times: NumPy datetimes, ``[T]``.
        values: ``[T, columns]``.
    """

    name: str
    columns: tuple[str, ...]
    times: npt.NDArray[np.datetime64] = field(repr=False)
    values: Tensor = field(repr=False)


def airline(*, dtype: torch.dtype = torch.float32) -> TimeSeries:
    """Return airline passengers, in thousands: 144 months from January 1949.

    Args:
        dtype: precision of the values.
    """
    return _read("airline", "timeseries/airline-passengers.csv", "M", dtype)


def sunspots(*, dtype: torch.dtype = torch.float32) -> TimeSeries:
    """Return Zurich sunspot numbers: 2,820 months from January 1749.

    Args:
        dtype: precision of the values.
    """
    return _read("sunspots", "timeseries/monthly-sunspots.csv", "M", dtype)


def etth1(*, dtype: torch.dtype = torch.float32) -> TimeSeries:
    """Return ETTh1: six loads and the oil temperature ``OT``, 17,420 hours from 1 July 2016.

    The license (CC BY-ND 4.0) permits sharing the unmodified file only.

    Args:
        dtype: precision of the values.
    """
    return _read("etth1", "timeseries/ETTh1.csv", "h", dtype)


def _read(name: str, file: str, unit: str, dtype: torch.dtype) -> TimeSeries:
    """Return the series in a CSV file whose first column is the time, in months or hours."""
    with locate(file).open(newline="") as stream:
        header, *rows = csv.reader(stream)
    values = np.array([row[1:] for row in rows], dtype=np.float64)
    return TimeSeries(
        name=name,
        columns=tuple(header[1:]),
        times=np.array([row[0] for row in rows], dtype="datetime64").astype(f"datetime64[{unit}]"),
        values=torch.from_numpy(values).to(dtype),
    )
