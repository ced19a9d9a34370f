"""Many steps ahead from a network that looks one step ahead.

Feeding a predicted Gaussian back as if it were independent of the rest of the window loses the
covariance that makes errors add up: 90 % intervals then cover 64 % after 24 steps of the sunspots.
Two ways keep it.

``covariance``: the window has a covariance P.  With J the derivative of the predicted mean in the
window (the message of TAGI to its input for ``d_mu = 1``, ``d_var = 0``), a new value has

    variance  J P J' + variance from the weights + noise,    covariance with the window  P J'

and the window moves on.  Exact: a linear network with known weights.  Approximate: the mean is
linearised at the mean of the window, and the weights' variance is taken as new at every step.

``paths``: values are drawn, step by step, from what is predicted for a window of drawn values; any
learner, any likelihood.  Approximate: finitely many paths; weights are drawn anew at every step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from tractable.forecast.model import Model, Origins
from tractable.forecast.windows import Array, History, Layout, known_ahead, rows_at
from tractable.learners import TAGI
from tractable.likelihoods import Normal
from tractable.predictive import NormalPredictive, Predictive

Way = Literal["covariance", "paths"]
PATHS = 200
_AT_ONCE = 1 << 23


@dataclass
class Recursion:
    """A one-step model, run on for several steps; it stands for a model of all of them.

    Attributes:
        one: the model of one step.
        ahead: how many steps.
        way: how spread is carried along.
        seed: seed of paths.
    """

    one: Model
    ahead: int
    way: Way = "covariance"
    seed: int = 0

    @property
    def learner(self) -> Any:
        """The learner of the one-step model."""
        return self.one.learner

    @property
    def layout(self) -> Layout:
        """As if there were an output for every step."""
        return replace(self.one.layout, steps=self.ahead)

    @property
    def units(self) -> tuple[Array, Array] | None:
        """As the one-step model has them."""
        return self.one.units

    def update(self, history: History, origin: int, memory: float | None) -> None:
        """Learn one more step."""
        self.one.update(history, origin, memory)

    def chunks(self, origins: Origins, series: int) -> Iterator[Origins]:
        """Origins in parts that fit into memory."""
        width = self.one.layout.lags + self.ahead
        each = width * width if self.way == "covariance" else PATHS * width
        size = max(_AT_ONCE // (series * each), 1)
        for first in range(0, len(origins), size):
            yield origins[first : first + size]

    def predictive(
        self, history: History, origins: Origins, factors: Array | None = None
    ) -> Predictive:
        """See ``Model``; all variance counts as noise, for factors to scale."""
        if self.way == "paths":
            drawn = self.paths(history, origins)
            mean, variance = drawn.mean(0), drawn.var(0)
        else:
            mean, covariance = self.joint(history, origins)
            variance = covariance.diagonal(dim1=1, dim2=2)
        if factors is not None:
            shape = (len(origins), history.loc.shape[1], self.ahead)
            whole = np.array(np.broadcast_to(factors, shape), np.float64)
            variance = variance * torch.from_numpy(whole).reshape(variance.shape)
        return NormalPredictive(mean, torch.zeros_like(variance), variance)

    def joint(self, history: History, origins: Origins) -> tuple[Tensor, Tensor]:
        """Mean ``[rows, steps]`` and covariance ``[rows, steps, steps]``."""
        learner, lags = self.one.learner, self.one.layout.lags
        if not isinstance(learner, TAGI) or not isinstance(learner.likelihood, Normal):
            raise TypeError(
                "a covariance of the window needs TAGI with a normal likelihood, and no ensemble: "
                "spread='paths' serves the others"
            )
        noise = float(learner.likelihood.noise_mean[0])
        mean, spread = self._window(history, origins)
        rows = len(mean)
        values = torch.zeros(rows, lags + self.ahead, dtype=torch.float64)
        values[:, :lags] = mean
        p = torch.zeros(rows, lags + self.ahead, lags + self.ahead, dtype=torch.float64)
        p[:, :lags, :lags] = torch.diag_embed(spread)
        back, from_level = self._map(lags)
        for k in range(self.ahead):
            window = values[:, k : k + lags]
            level = window @ from_level
            x = self._inputs(window - level[:, None], history, origins, k)
            slope, moved, doubt = _slope(learner, x, lags)
            j = slope @ back + from_level
            column = (p[:, :, k : k + lags] @ j[:, :, None])[..., 0]
            at = lags + k
            own = (j * column[:, k : k + lags]).sum(1) + doubt + noise
            values[:, at] = level + moved
            p[:, :at, at] = p[:, at, :at] = column[:, :at]
            p[:, at, at] = own
        return values[:, lags:], p[:, lags:, lags:]

    def paths(self, history: History, origins: Origins, n: int = PATHS) -> Tensor:
        """Drawn paths, ``[n, rows, steps]``."""
        lags = self.one.layout.lags
        generator = torch.Generator().manual_seed(self.seed)
        mean, spread = self._window(history, origins)
        first = mean + spread.sqrt() * torch.randn(
            n, *mean.shape, generator=generator, dtype=torch.float64
        )
        values = torch.cat([first, torch.zeros(*first.shape[:2], self.ahead)], 2)
        _, from_level = self._map(lags)
        for k in range(self.ahead):
            window = values[:, :, k : k + lags].reshape(-1, lags)
            level = window @ from_level
            x = self._inputs(window - level[:, None], history, origins, k)
            found = self.one.learner.predict(x).double()
            drawn = found.sample(1, generator).reshape(-1)
            if self.one.units is not None:
                unit, scale = self._unit(len(drawn), history)
                values[:, :, lags + k] = ((drawn - unit) / scale).reshape(n, -1)
            else:
                values[:, :, lags + k] = (level + drawn).reshape(n, -1)
        made = values[:, :, lags:]
        if self.one.units is None:
            return made
        unit, scale = self._unit(made.shape[1], history)
        return made * scale[:, None] + unit[:, None]

    def _unit(self, rows: int, history: History) -> tuple[Tensor, Tensor]:
        assert self.one.units is not None
        repeated = rows // history.loc.shape[1]
        mean, scale = (torch.from_numpy(np.tile(part, repeated)) for part in self.one.units)
        return mean, scale

    def _window(self, history: History, origins: Origins) -> tuple[Tensor, Tensor]:
        """Mean and variance of the values in every window."""
        plain = replace(self.one.layout, known=0, past=0, sequence=False, level="none")
        rows = rows_at(history, plain, origins)
        mean = torch.from_numpy(rows.loc.astype(np.float64))
        if rows.variance is None:
            return mean, torch.zeros_like(mean)
        return mean, torch.from_numpy(rows.variance.astype(np.float64))

    def _map(self, lags: int) -> tuple[Tensor, Tensor]:
        """How inputs depend on the window, and the level on it."""
        weights = torch.zeros(lags, dtype=torch.float64)
        if self.one.layout.level == "last":
            weights[-1] = 1
        elif self.one.layout.level == "mean":
            weights[:] = 1 / lags
        return torch.eye(lags, dtype=torch.float64) - weights.expand(lags, lags), weights

    def _inputs(self, window: Tensor, history: History, origins: Origins, step: int) -> Tensor:
        """Rows of the network: the window, and the covariates of the next time."""
        x = window.float()
        if self.one.layout.known:
            ahead = known_ahead(history, self.ahead)[origins + 1 + step]
            ahead = ahead.reshape(-1, self.one.layout.known)
            known = torch.from_numpy(np.nan_to_num(ahead))
            x = torch.cat([x, known.repeat(len(x) // len(known), 1)], 1)
        return x.unsqueeze(-1) if self.one.layout.sequence else x


def run_on(model: Model, ahead: int, way: str, seed: int) -> Model | Recursion:
    """The model itself, or as a recursion of so many steps."""
    if not ahead:
        return model
    return Recursion(model, ahead, "paths" if way == "paths" else "covariance", seed)


def _slope(learner: TAGI, x: Tensor, lags: int) -> tuple[Tensor, Tensor, Tensor]:
    """Derivative of the mean in the window, the mean, and the variance from the weights."""
    leaf = x.clone().requires_grad_()
    with torch.enable_grad():
        z = learner.propagate(leaf)
        ones = torch.ones_like(z.loc)
        (slope,) = torch.autograd.grad([z.loc, z.variance], leaf, [ones, torch.zeros_like(ones)])
    window = slope.reshape(len(x), -1)[:, :lags]
    mean, variance = (part.detach().double().reshape(-1) for part in (z.loc, z.variance))
    return window.double(), mean, variance
