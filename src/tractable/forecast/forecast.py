"""The result of a forecast: a distribution for each step, and the correlation of the steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from tractable.errors import InvalidInput, MissingExtra
from tractable.forecast import scaling
from tractable.forecast.scaling import Transform
from tractable.predictive import Predictive

Array = npt.NDArray[np.float64]
_MAX_Z = 4.5  # standard deviations up to which samples follow the quantiles of a skewed forecast
_N_QUANTILES = 181  # 0.05 standard deviations apart


@dataclass(frozen=True)
class Forecast:
    """The distribution of the next values.

    Arrays have shape ``[steps]`` if the series was given as a vector, else ``[steps, series]``.

    Attributes:
        times: time stamp of each step.
        series_names: names of the series.
        predictive: distribution of the transformed values, ``[series, steps]``.
        correlation: correlation of the steps, ``[steps, steps]``, or one for each series.
        transform: transform of the values.
        squeezed: whether arrays have no axis of series.
        sample_paths: sample paths ``[paths, series, steps]`` that the forecast was made from, or
            None.
        has_forecast: which series have a forecast; NaN is returned for the others. None if all.
    """

    times: npt.NDArray[Any]
    series_names: tuple[str, ...]
    predictive: Predictive
    correlation: Array
    transform: Transform = "none"
    squeezed: bool = True
    sample_paths: Array | None = None
    has_forecast: npt.NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.times)

    # --- each step by itself ---------------------------------------------------------------

    @property
    def _moments(self) -> tuple[Array, Array]:
        mean, variance = _numpy(self.predictive.mean), _numpy(self.predictive.variance)
        return scaling.moments(self.transform, mean, variance)

    @property
    def mean(self) -> Array:
        """Expected value of each step."""
        return self._to_user(self._moments[0])

    @property
    def variance(self) -> Array:
        """Variance of each step."""
        return self._to_user(self._moments[1])

    @property
    def std(self) -> Array:
        """Standard deviation of each step."""
        return np.sqrt(self.variance)

    @property
    def epistemic(self) -> Array:
        """Part of the variance that comes from uncertain weights and window values.

        0 for ``strategy="recursive"``, where all variance counts as noise.
        """
        mean, variance = _numpy(self.predictive.mean), _numpy(self.predictive.variance)
        epistemic = _numpy(self.predictive.epistemic)
        return self._to_user(scaling.epistemic_variance(self.transform, mean, epistemic, variance))

    @property
    def aleatoric(self) -> Array:
        """Part of the variance that remains when the weights are known."""
        return self.variance - self.epistemic

    @property
    def median(self) -> Array:
        """Median of each step."""
        return self.quantile(0.5)

    def quantile(self, q: float) -> Array:
        """Return the value that is not exceeded with probability ``q``, for each step."""
        if self.sample_paths is not None:
            return self._to_user(np.quantile(self.sample_paths, q, axis=0))
        found = _numpy(self.predictive.quantile(q))
        return self._to_user(scaling.backward(self.transform, found))

    def quantiles(
        self, levels: Sequence[float] = (0.05, 0.25, 0.5, 0.75, 0.95)
    ) -> dict[float, Array]:
        """Return several quantiles, by level.

        Args:
            levels: probabilities of the quantiles, between 0 and 1.
        """
        return {q: self.quantile(q) for q in levels}

    def interval(self, level: float = 0.9) -> tuple[Array, Array]:
        """Return lower and upper ends of the central interval of this coverage, for each step."""
        if not 0 < level < 1:
            raise ValueError(f"level must lie between 0 and 1, got {level}")
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)

    def log_prob(self, y: Any) -> Array:
        """Return the log density of each observed value; NaN where it is missing."""
        values = self._from_user(y)
        density = log_densities(self.predictive, scaling.forward(self.transform, values))
        slope = scaling.log_slope(self.transform, values)
        return self._to_user(np.where(np.isnan(values), np.nan, density + slope))

    # --- all steps together ----------------------------------------------------------------

    @property
    def covariance(self) -> Array:
        """Covariance of the steps of each transformed series, ``[(series,) steps, steps]``."""
        std = np.sqrt(_numpy(self.predictive.variance))
        found: Array = self.correlation * std[:, :, None] * std[:, None, :]
        found = self._masked(found)
        return found[0] if self.squeezed else found

    def sample(self, n_samples: int = 100, *, generator: torch.Generator | None = None) -> Array:
        """Return sample paths: joint samples of all steps.

        Each step has its forecast distribution, and the steps are correlated as the errors on
        validation windows (a Gaussian copula). Series are independent.

        Args:
            n_samples: number of paths.
            generator: random generator; by default one with a fixed seed, so that the same call
                returns the same paths.

        Returns:
            Array ``[n_samples, steps]``, or ``[n_samples, steps, series]``.
        """
        seed = 0
        if generator is not None:
            seed = int(torch.randint(2**63 - 1, (), generator=generator))
        random = np.random.default_rng(seed)
        if self.sample_paths is not None:
            paths = self.sample_paths[random.integers(len(self.sample_paths), size=n_samples)]
        else:
            root = np.linalg.cholesky(self.correlation + 1e-9 * np.eye(len(self)))
            series = len(self.series_names)
            white = random.standard_normal((n_samples, series, len(self), 1))
            z = (root @ white)[..., 0]
            paths = scaling.backward(self.transform, self._from_normal(z))
        paths = np.moveaxis(self._masked(np.moveaxis(paths, 1, 0)), 0, 1)
        found: Array = np.moveaxis(paths, 1, 2)
        return found[..., 0] if self.squeezed else found

    def _from_normal(self, z: Array) -> Array:
        """Return the quantiles of each step at standard normal values."""
        if hasattr(self.predictive, "noise_variance"):
            mean, std = _numpy(self.predictive.mean), np.sqrt(_numpy(self.predictive.variance))
            values: Array = mean + std * z
            return values
        # A table of quantiles, evenly spaced in z to cover the tails, constant beyond its ends.
        grid = np.linspace(-_MAX_Z, _MAX_Z, _N_QUANTILES)
        levels = torch.special.ndtr(torch.from_numpy(grid)).tolist()
        table = np.stack([_numpy(self.predictive.quantile(q)) for q in levels])
        found = np.empty_like(z)
        for at in np.ndindex(table.shape[1:]):
            column = (slice(None), *at)
            found[column] = np.interp(z[column], grid, table[column])
        return np.rint(found) if self.predictive.is_discrete else found

    # --- tables ----------------------------------------------------------------------------

    def to_frame(self, level: float = 0.9) -> Any:
        """Return a pandas data frame: mean, std, lower and upper, indexed by time (and series).

        Raises:
            MissingExtra: pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtra("to_frame needs pandas: pip install pandas") from error
        low, high = self.interval(level)
        table = {"mean": self.mean, "std": self.std, "lower": low, "upper": high}
        if self.squeezed:
            return pd.DataFrame(table, index=pd.Index(self.times, name="time"))
        levels = [self.times, self.series_names]
        index = pd.MultiIndex.from_product(levels, names=["time", "series"])
        return pd.DataFrame({name: part.reshape(-1) for name, part in table.items()}, index=index)

    def _masked(self, found: Array) -> Array:
        """Replace series without a forecast, along the first axis, by NaN."""
        if self.has_forecast is None or self.has_forecast.all():
            return found
        found = found.astype(np.float64)
        found[~self.has_forecast] = np.nan
        return found

    def _to_user(self, found: Array) -> Array:
        """Return ``[series, steps]`` in the shape of the public arrays."""
        found = self._masked(found)
        return found[0] if self.squeezed else found.T

    def _from_user(self, y: Any) -> Array:
        """Return values of the user as ``[series, steps]``."""
        values = np.asarray(y, dtype=np.float64)
        values = values.reshape(1, -1) if self.squeezed else values.T
        if values.shape != (len(self.series_names), len(self)):
            raise InvalidInput(
                f"{len(self)} steps were forecast, got values of shape {np.shape(y)}"
            )
        return values


def log_densities(predictive: Predictive, y: Array) -> Array:
    """Return the log density of each value, ``[rows, steps]``; NaN where it is missing.

    A likelihood with a density of whole rows only (such as angles) is divided evenly among the
    steps.
    """
    missing = np.isnan(y)
    mean = _numpy(predictive.mean)
    filled = np.where(missing, np.rint(mean) if predictive.is_discrete else mean, y)
    at = torch.from_numpy(filled)
    try:
        found = _numpy(predictive.elementwise_log_prob(at))
    except TypeError:
        found = np.repeat(_numpy(predictive.log_prob(at))[:, None] / y.shape[1], y.shape[1], axis=1)
    density: Array = np.where(missing, np.nan, found)
    return density


def _numpy(values: torch.Tensor) -> Array:
    array: Array = values.detach().cpu().numpy().astype(np.float64)
    return array
