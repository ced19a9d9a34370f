"""How far held-out windows were missed: the noise of steps, how they hang together, and drift.

A network that saw its windows many times is too sure of itself, and the months to come may be
calmer or wilder than those it saw.  So three things are measured on windows that were held out:

* ``factors``: on the noise variance of each series and step, drawn towards the series' own mean by
  as much as ten windows would;
* ``correlation``: of the errors of different steps, drawn towards one that falls with their
  distance, more so the fewer windows there are; it makes paths out of steps;
* ``memory``: over how many times to average recent squared errors, ``z^2`` in units of what was
  forecast.  The variance of a step is multiplied by that average (from forecasts whose outcome is
  known at the origin, so nothing of the future is used):

      r <- r + (min(z^2, 25) - r) / memory        at every new value, of every step

  It is dropped where it costs the later half of the windows more than 0.05 nats a value, with
  factors of the earlier half.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tractable.forecast.model import Model, Origins
from tractable.forecast.recursion import Recursion
from tractable.forecast.windows import Array, History, seen_at, targets_at

Doubles = npt.NDArray[np.float64]
MEMORY = 500.0
"""Times to average over, unless that costs held-out windows too much."""
COST = 0.05
"""Nats a value that it may cost: an insurance against calmer or wilder times."""
_CLIP = 25.0
_DRAWN = 10.0
_LEAST = 1e-3


@dataclass(frozen=True)
class Errors:
    """What a model said of windows it had not seen; all are ``[origins, series, steps]``.

    Attributes:
        error: what came less the mean; NaN where it is missing.
        within: variance without the noise.
        noise: variance of the noise.
    """

    error: Array
    within: Array
    noise: Array

    @classmethod
    def of(cls, model: Model | Recursion, history: History, origins: Origins) -> Errors:
        """At these origins; those of windows without any value are missing."""
        series, steps = history.loc.shape[1], model.layout.steps
        parts: list[tuple[Array, Array, Array]] = []
        for some in model.chunks(origins, series):
            found = model.predictive(history, some)
            level = np.zeros(len(some) * series, np.float32)
            after = targets_at(history, model.layout, some, level)
            if model.units is not None:
                mean, scale = (np.tile(part, len(some))[:, None] for part in model.units)
                after = after * scale + mean
            e = after - found.mean.numpy().reshape(after.shape)
            e[~seen_at(history, model.layout.lags, some).reshape(-1)] = np.nan
            row = (e, found.epistemic.numpy(), found.aleatoric.numpy())
            a, b, c = (p.reshape(len(some), series, steps).astype(np.float32) for p in row)
            parts.append((a, b, c))
        return cls(*(np.concatenate(kind) for kind in zip(*parts, strict=True)))

    @classmethod
    def joined(cls, parts: list[Errors]) -> Errors:
        """Those of several fits."""
        names = ("error", "within", "noise")
        return cls(*(np.concatenate([getattr(part, n) for part in parts]) for n in names))

    def at(self, rows: slice) -> Errors:
        """Some origins."""
        return Errors(self.error[rows], self.within[rows], self.noise[rows])

    def __len__(self) -> int:
        return len(self.error)

    @property
    def score(self) -> float:
        """Minus half the log of the mean squared error of each series: the larger, the better."""
        known = self.known
        square = np.nanmean(np.square(self.error[:, known], dtype=np.float64), axis=(0, 2))
        return float(-0.5 * np.mean(np.log(square + 1e-12)))

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """Which series have any error; the others have no values where these were measured."""
        found: npt.NDArray[np.bool_] = np.any(~np.isnan(self.error), axis=(0, 2))
        return found

    def variance(self, factors: Array) -> Array:
        """What is forecast, with these factors on the noise."""
        made: Array = self.within + factors.astype(np.float32) * self.noise
        return made

    def log_density(self, factors: Array) -> float:
        """Mean log density of what came."""
        variance = self.variance(factors)
        density = -0.5 * (self.error**2 / variance + np.log(2 * np.pi * variance))
        return float(np.nanmean(density, dtype=np.float64))


@dataclass(frozen=True)
class Spread:
    """What held-out windows say of the error bars.

    Attributes:
        factors: on the noise variance, ``[series, steps]``.
        correlation: correlation of the errors of steps, ``[steps, steps]``.
        memory: times that recent errors are averaged over; None for no such average.
    """

    factors: Doubles
    correlation: Doubles
    memory: float | None

    @classmethod
    def plain(cls, series: int, steps: int) -> Spread:
        """Nothing is known: as the network says, steps independent."""
        return cls(np.ones((series, steps)), np.eye(steps), None)

    @classmethod
    def of(cls, errors: Errors, memory: float | str | None) -> Spread:
        """Measured on held-out windows of consecutive origins.

        Args:
            errors: what was missed at the windows.
            memory: ``"auto"`` chooses it.
        """
        factors = factors_of(errors)
        if memory == "auto":
            memory = chosen_memory(errors)
        assert not isinstance(memory, str)
        return cls(factors, correlation_of(errors, factors), memory)


def factors_of(errors: Errors) -> Doubles:
    """Factors on the noise variance that suit these windows, ``[series, steps]``.

    A series without any held-out value, such as one that ended early, has the factors of all others
    together.
    """
    there = ~np.isnan(errors.error)
    count = there.sum(0)
    least = np.maximum(count, 1)
    square = np.where(there, np.square(errors.error, dtype=np.float64), 0).sum(0)
    within = np.where(there, errors.within, 0).sum(0, dtype=np.float64)
    noise = np.where(there, errors.noise, 0).sum(0, dtype=np.float64)
    wanted = np.maximum(square - within, _LEAST * square)
    pooled = wanted.sum(1, keepdims=True) / np.maximum(noise.sum(1, keepdims=True), 1e-30)
    size = np.where(count > 0, noise / least, 1.0)
    found: Doubles = (wanted + _DRAWN * pooled * size) / ((count + _DRAWN) * size)
    known = count.sum(1) > 0
    found[~known] = wanted.sum(0) / np.maximum(noise.sum(0), 1e-30)
    steps = count.sum(0) > 0  # of which any outcome is known
    found[np.ix_(~known, ~steps)] = wanted.sum() / max(noise.sum(), 1e-30)
    return np.maximum(found, 1e-9)


def correlation_of(errors: Errors, factors: Doubles) -> Doubles:
    """Correlation of the errors of different steps, over all series."""
    z = errors.error / np.sqrt(errors.variance(factors))
    z = z.reshape(-1, z.shape[-1]).astype(np.float64)
    there = (~np.isnan(z)).astype(np.float64)
    z = np.nan_to_num(z)
    together = np.maximum(there.T @ there, 1)
    cross = (z.T @ z) / together
    size = np.sqrt(np.maximum(cross.diagonal(), 1e-12))
    found = np.clip(cross / np.outer(size, size), -1, 1)
    steps = len(found)
    if steps == 1:
        return np.ones((1, 1))
    near = float(np.clip(np.diagonal(found, 1).mean(), 0.0, 0.999))
    apart = np.abs(np.subtract.outer(np.arange(steps), np.arange(steps)))
    weight = 1 / (1 + len(errors) / steps)
    mixed = (1 - weight) * found + weight * near**apart
    return positive(mixed)


def positive(matrix: Doubles) -> Doubles:
    """The nearest correlation whose eigenvalues are positive."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    if values[0] > 1e-8:
        return matrix
    made = (vectors * np.maximum(values, 1e-8)) @ vectors.T
    size = np.sqrt(made.diagonal())
    kept: Doubles = made / np.outer(size, size)
    return kept


def chosen_memory(errors: Errors) -> float | None:
    """The usual memory, unless later windows are clearly less likely under it.

    Factors are those of the earlier half.  Too few windows have no memory.
    """
    half = len(errors) // 2
    if half < max(errors.error.shape[2], MEMORY / 2):
        return None
    earlier = errors.at(slice(0, half))
    if not (earlier.known.any() and errors.at(slice(half, None)).known.any()):
        return None
    base = factors_of(earlier)
    z2 = errors.error**2 / errors.variance(base)
    later = errors.at(slice(half, None))
    following = later.log_density(base * tracked(z2, MEMORY)[0][half:])
    return MEMORY if following > later.log_density(base) - COST else None


def tracked(z2: Array, memory: float, start: Array | None = None) -> tuple[Array, Array]:
    """The average of recent squares at each origin, and after the last.

    Args:
        z2: squared errors in units of their variance at consecutive origins,
            ``[origins, series, steps]``; NaN where nothing is known.
        memory: times to average over.
        start: the average before the first origin.
    """
    origins, series, steps = z2.shape
    r = np.ones((series, steps), np.float32) if start is None else start.astype(np.float32)
    made = np.empty_like(z2)
    ahead = np.arange(steps)
    for i in range(origins):
        r = followed(r, _outcomes(z2, i, ahead), memory)
        made[i] = r
    return made, r


def _outcomes(z2: Array, now: int, ahead: npt.NDArray[np.int64]) -> Array:
    """The squares that the value at origin ``now`` tells: of step k made k origins before."""
    made = now - 1 - ahead
    there = made >= 0
    found = np.full(z2.shape[1:], np.nan, z2.dtype)
    found[:, there] = z2[made[there], :, ahead[there]].T
    return found


def followed(r: Array, z2: Array, memory: float) -> Array:
    """The average with one more square of each step; what is missing changes nothing."""
    known = np.isfinite(z2)
    seen = np.where(known, np.minimum(z2, _CLIP), r)
    moved: Array = r + (seen - r) / memory
    return moved
