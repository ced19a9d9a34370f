"""What is forecast: a distribution for every step, and how the steps hang together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from tractable.errors import InvalidInput, MissingExtra
from tractable.forecast import units
from tractable.forecast.units import Transform
from tractable.predictive import Predictive

Array = npt.NDArray[np.float64]
_TAIL = 4.5  # deviations up to which paths know the quantiles of what is not normal
_QUANTILES = 181


@dataclass(frozen=True)
class Forecast:
    """The distribution of the next values.

    Arrays are ``[steps]`` for a series that came alone, and ``[steps, series]`` otherwise.

    Attributes:
        times: the time stamp of every step.
        names: names of the series.
        predictive: distribution of the transformed values, ``[series, steps]``.
        correlation: how the steps hang together, ``[steps, steps]``, or one for each series.
        transform: what was applied to the data.
        alone: whether arrays have no axis of series.
        paths: drawn ones, ``[paths, series, steps]``, where the forecast is made of them.
        there: which series have a value to forecast from; numbers of the others are NaN. None
            if all have.
    """

    times: npt.NDArray[Any]
    names: tuple[str, ...]
    predictive: Predictive
    correlation: Array
    transform: Transform = "none"
    alone: bool = True
    paths: Array | None = None
    there: npt.NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.times)

    # --- one step by itself ----------------------------------------------------------------

    @property
    def _moments(self) -> tuple[Array, Array]:
        mean, variance = _numpy(self.predictive.mean), _numpy(self.predictive.variance)
        return units.moments(self.transform, mean, variance)

    @property
    def mean(self) -> Array:
        """Expected values."""
        return self._given(self._moments[0])

    @property
    def variance(self) -> Array:
        """Variances."""
        return self._given(self._moments[1])

    @property
    def std(self) -> Array:
        """Standard deviations."""
        return np.sqrt(self.variance)

    @property
    def median(self) -> Array:
        """The values that are as likely to be passed as not."""
        return self.quantile(0.5)

    def quantile(self, q: float) -> Array:
        """The value below which a share ``q`` of the probability lies, at every step."""
        if self.paths is not None:
            return self._given(np.quantile(self.paths, q, axis=0))
        found = _numpy(self.predictive.quantile(q))
        return self._given(units.backward(self.transform, found))

    def quantiles(
        self, shares: Sequence[float] = (0.05, 0.25, 0.5, 0.75, 0.95)
    ) -> dict[float, Array]:
        """Several quantiles."""
        return {q: self.quantile(q) for q in shares}

    def interval(self, level: float = 0.9) -> tuple[Array, Array]:
        """The central interval that holds a share ``level`` of the probability, at every step."""
        if not 0 < level < 1:
            raise ValueError(f"level must lie between 0 and 1, got {level}")
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)

    def log_prob(self, y: Any) -> Array:
        """Log density of each value that came, by itself; NaN where it is missing."""
        seen = self._taken(y)
        density = log_densities(self.predictive, units.forward(self.transform, seen))
        slope = units.log_slope(self.transform, seen)
        return self._given(np.where(np.isnan(seen), np.nan, density + slope))

    # --- all steps together ----------------------------------------------------------------

    @property
    def covariance(self) -> Array:
        """Of the steps of each series, transformed: ``[steps, steps]``, or with series in front."""
        std = np.sqrt(_numpy(self.predictive.variance))
        found: Array = self.correlation * std[:, :, None] * std[:, None, :]
        found = self._masked(found)
        return found[0] if self.alone else found

    def sample(self, n: int = 100, *, seed: int = 0) -> Array:
        """Paths: draws of all steps together.

        Every step has the distribution that is forecast for it, and steps are as correlated as the
        errors of held-out forecasts were (a Gaussian copula).  Series are independent.

        Returns:
            ``[n, steps]``, or ``[n, steps, series]``.
        """
        generator = np.random.default_rng(seed)
        if self.paths is not None:
            chosen = generator.integers(len(self.paths), size=n)
            drawn = self.paths[chosen]
        else:
            root = np.linalg.cholesky(self.correlation + 1e-9 * np.eye(len(self)))
            series = len(self.names)
            white = generator.standard_normal((n, series, len(self), 1))
            z = (root @ white)[..., 0]
            drawn = units.backward(self.transform, self._placed(z))
        made: Array = np.moveaxis(np.moveaxis(self._masked(np.moveaxis(drawn, 1, 0)), 0, 1), 1, 2)
        return made[..., 0] if self.alone else made

    def _placed(self, z: Array) -> Array:
        """Standard normal numbers as draws from what is forecast for each step."""
        if hasattr(self.predictive, "noise"):
            mean, std = _numpy(self.predictive.mean), np.sqrt(_numpy(self.predictive.variance))
            made: Array = mean + std * z
            return made
        # Quantiles at even deviations, so that the tails are there; beyond the last, the last.
        deviations = np.linspace(-_TAIL, _TAIL, _QUANTILES)
        shares = torch.special.ndtr(torch.from_numpy(deviations)).tolist()
        table = np.stack([_numpy(self.predictive.quantile(q)) for q in shares])
        found = np.empty_like(z)
        for at in np.ndindex(table.shape[1:]):
            every = (slice(None), *at)
            found[every] = np.interp(z[every], deviations, table[every])
        return np.rint(found) if self.predictive.is_discrete else found

    # --- tables ----------------------------------------------------------------------------

    def to_frame(self, level: float = 0.9) -> Any:
        """A data frame of pandas: mean, std, lower and upper, indexed by time (and series)."""
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtra("to_frame needs pandas: pip install pandas") from error
        low, high = self.interval(level)
        table = {"mean": self.mean, "std": self.std, "lower": low, "upper": high}
        if self.alone:
            return pd.DataFrame(table, index=pd.Index(self.times, name="time"))
        index = pd.MultiIndex.from_product([self.times, self.names], names=["time", "series"])
        return pd.DataFrame({name: part.reshape(-1) for name, part in table.items()}, index=index)

    def _masked(self, found: Array) -> Array:
        """NaN for series without a forecast, which are the first axis."""
        if self.there is None or self.there.all():
            return found
        found = found.astype(np.float64)
        found[~self.there] = np.nan
        return found

    def _given(self, found: Array) -> Array:
        found = self._masked(found)
        return found[0] if self.alone else found.T

    def _taken(self, y: Any) -> Array:
        seen = np.asarray(y, dtype=np.float64)
        seen = seen.reshape(1, -1) if self.alone else seen.T
        if seen.shape != (len(self.names), len(self)):
            raise InvalidInput(
                f"{len(self)} steps were forecast, got values of shape {np.shape(y)}"
            )
        return seen


def log_densities(predictive: Predictive, y: Array) -> Array:
    """Log density of every number by itself, NaN where it is; angles have an even share a row."""
    missing = np.isnan(y)
    mean = _numpy(predictive.mean)
    at = torch.from_numpy(np.where(missing, np.rint(mean) if predictive.is_discrete else mean, y))
    try:
        found = _numpy(predictive.elementwise_log_prob(at))
    except TypeError:
        found = np.repeat(_numpy(predictive.log_prob(at))[:, None] / y.shape[1], y.shape[1], axis=1)
    made: Array = np.where(missing, np.nan, found)
    return made


def _numpy(values: torch.Tensor) -> Array:
    made: Array = values.detach().cpu().numpy().astype(np.float64)
    return made
