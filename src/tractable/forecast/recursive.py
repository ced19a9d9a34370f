"""Forecasts of many steps with a network that looks one step ahead (the *recursive* strategy).

Feeding a predicted Gaussian back as if it were independent of the rest of the window loses the
covariance by which errors accumulate: 90 % intervals then cover 64 % after 24 steps of the
sunspots. Two methods keep it.

``"covariance"``: the window has a covariance P. With J the derivative of the predicted mean with
respect to the window (the message of TAGI to its input for ``d_mu = 1``, ``d_var = 0``), a new
value has

    variance  J P J' + variance from the weights + noise,    covariance with the window  P J'

and the window moves on. Exact: a linear network with known weights. Approximate: the mean is
linearized at the mean of the window, and the weights are independent between steps.

``"paths"``: sample paths are drawn step by step, each from the prediction for a window of sampled
values. Any learner, any likelihood. Approximate: finitely many paths; the weights are independent
between steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tractable.forecast.config import Uncertainty
from tractable.forecast.direct import DirectModel, Origins
from tractable.forecast.windows import (
    Array,
    History,
    WindowLayout,
    padded_future_covariates,
    rows_at,
)
from tractable.learners import TAGI
from tractable.likelihoods import Normal
from tractable.predictive import NormalPredictive, Predictive

N_PATHS = 200  # the error of a standard deviation from 200 paths is 5 %
_CHUNK_NUMBERS = 1 << 23  # covariances or paths held at once: 64 MB in double precision


@dataclass
class RecursiveModel:
    """A one-step model that is iterated; it has the interface of ``DirectModel``.

    Attributes:
        one_step: model of one step.
        n_steps: number of forecast steps.
        uncertainty: how uncertainty is propagated.
        seed: random seed of the paths.
    """

    one_step: DirectModel
    n_steps: int
    uncertainty: Uncertainty = "covariance"
    seed: int = 0

    @property
    def learner(self) -> Any:
        """Learner of the one-step model."""
        return self.one_step.learner

    @property
    def layout(self) -> WindowLayout:
        """Layout of the one-step model, with the number of forecast steps as ``steps``."""
        return replace(self.one_step.layout, steps=self.n_steps)

    @property
    def target_units(self) -> tuple[Array, Array] | None:
        """Units of the targets, as in ``DirectModel``."""
        return self.one_step.target_units

    def update(self, history: History, origin: int, memory_rows: float | None) -> None:
        """Train the one-step model on one origin."""
        self.one_step.update(history, origin, memory_rows)

    def chunks(self, origins: Origins, series: int) -> Iterator[Origins]:
        """Yield parts of the origins whose covariances or paths fit into memory."""
        width = self.one_step.layout.lags + self.n_steps
        numbers = width * width if self.uncertainty == "covariance" else N_PATHS * width
        size = max(_CHUNK_NUMBERS // (series * numbers), 1)
        for first in range(0, len(origins), size):
            yield origins[first : first + size]

    def predictive(
        self, history: History, origins: Origins, factors: Array | None = None
    ) -> Predictive:
        """Return the distribution of the values after each origin, ``[origins * series, steps]``.

        All variance counts as noise, so that ``factors`` scale it. See ``DirectModel.predictive``.
        """
        if self.uncertainty == "paths":
            paths = self.paths(history, origins)
            mean, variance = paths.mean(0), paths.var(0)
        else:
            mean, covariance = self.joint(history, origins)
            variance = covariance.diagonal(dim1=1, dim2=2)
        if factors is not None:
            shape = (len(origins), history.loc.shape[1], self.n_steps)
            full = np.array(np.broadcast_to(factors, shape), np.float64)
            variance = variance * torch.from_numpy(full).reshape(variance.shape)
        return NormalPredictive(mean, torch.zeros_like(variance), variance)

    def joint(self, history: History, origins: Origins) -> tuple[Tensor, Tensor]:
        """Return mean ``[rows, steps]`` and covariance ``[rows, steps, steps]`` of all steps.

        Raises:
            TypeError: the learner is not ``TAGI`` with a normal likelihood.
        """
        learner, lags = self.one_step.learner, self.one_step.layout.lags
        if not isinstance(learner, TAGI) or not isinstance(learner.likelihood, Normal):
            raise TypeError(
                "uncertainty='covariance' needs TAGI with a normal likelihood, and no ensemble: "
                "use uncertainty='paths' for other learners and likelihoods"
            )
        noise = float(learner.likelihood.noise_mean[0])
        mean, window_variance = self._window(history, origins)
        rows = len(mean)
        values = torch.zeros(rows, lags + self.n_steps, dtype=torch.float64)
        values[:, :lags] = mean
        p = torch.zeros(rows, lags + self.n_steps, lags + self.n_steps, dtype=torch.float64)
        p[:, :lags, :lags] = torch.diag_embed(window_variance)
        to_inputs, to_level = self._linear_maps(lags)
        for k in range(self.n_steps):
            window = values[:, k : k + lags]
            level = window @ to_level
            x = self._inputs(window - level[:, None], history, origins, k)
            slope, change, weight_variance = _linearized(learner, x, lags)
            j = slope @ to_inputs + to_level
            column = (p[:, :, k : k + lags] @ j[:, :, None])[..., 0]
            at = lags + k
            variance = (j * column[:, k : k + lags]).sum(1) + weight_variance + noise
            values[:, at] = level + change
            p[:, :at, at] = p[:, at, :at] = column[:, :at]
            p[:, at, at] = variance
        return values[:, lags:], p[:, lags:, lags:]

    def paths(self, history: History, origins: Origins, n_paths: int = N_PATHS) -> Tensor:
        """Return sample paths in the units of the targets, ``[n_paths, rows, steps]``."""
        lags = self.one_step.layout.lags
        generator = torch.Generator().manual_seed(self.seed)
        mean, variance = self._window(history, origins)
        first = mean + variance.sqrt() * torch.randn(
            n_paths, *mean.shape, generator=generator, dtype=torch.float64
        )
        values = torch.cat([first, torch.zeros(*first.shape[:2], self.n_steps)], 2)
        _, to_level = self._linear_maps(lags)
        for k in range(self.n_steps):
            window = values[:, :, k : k + lags].reshape(-1, lags)
            level = window @ to_level
            x = self._inputs(window - level[:, None], history, origins, k)
            found = self.one_step.learner.predict(x).double()
            sample = found.sample(1, generator).reshape(-1)
            if self.one_step.target_units is not None:
                shift, scale = self._tiled_units(len(sample), history)
                values[:, :, lags + k] = ((sample - shift) / scale).reshape(n_paths, -1)
            else:
                values[:, :, lags + k] = (level + sample).reshape(n_paths, -1)
        paths = values[:, :, lags:]
        if self.one_step.target_units is None:
            return paths
        shift, scale = self._tiled_units(paths.shape[1], history)
        return paths * scale[:, None] + shift[:, None]

    def _tiled_units(self, rows: int, history: History) -> tuple[Tensor, Tensor]:
        """Return the mean and the scale of the series of each row."""
        assert self.one_step.target_units is not None
        repeats = rows // history.loc.shape[1]
        mean, scale = (
            torch.from_numpy(np.tile(part, repeats)) for part in self.one_step.target_units
        )
        return mean, scale

    def _window(self, history: History, origins: Origins) -> tuple[Tensor, Tensor]:
        """Return mean and variance of the values in each window, ``[rows, lags]``."""
        plain = replace(
            self.one_step.layout,
            n_future_covariates=0,
            n_past_covariates=0,
            sequence=False,
            normalize_by="none",
        )
        rows = rows_at(history, plain, origins)
        mean = torch.from_numpy(rows.loc.astype(np.float64))
        if rows.variance is None:
            return mean, torch.zeros_like(mean)
        return mean, torch.from_numpy(rows.variance.astype(np.float64))

    def _linear_maps(self, lags: int) -> tuple[Tensor, Tensor]:
        """Return the maps from a window to its normalized values and to its level."""
        weights = torch.zeros(lags, dtype=torch.float64)
        if self.one_step.layout.normalize_by == "last":
            weights[-1] = 1
        elif self.one_step.layout.normalize_by == "mean":
            weights[:] = 1 / lags
        return torch.eye(lags, dtype=torch.float64) - weights.expand(lags, lags), weights

    def _inputs(self, window: Tensor, history: History, origins: Origins, step: int) -> Tensor:
        """Return the inputs of the network: windows, and the covariates of the next time."""
        x = window.float()
        layout = self.one_step.layout
        if layout.n_future_covariates:
            ahead = padded_future_covariates(history, self.n_steps)[origins + 1 + step]
            ahead = ahead.reshape(-1, layout.n_future_covariates)
            covariates = torch.from_numpy(np.nan_to_num(ahead))
            x = torch.cat([x, covariates.repeat(len(x) // len(covariates), 1)], 1)
        return x.unsqueeze(-1) if layout.sequence else x


def maybe_recursive(
    model: DirectModel, n_steps: int, uncertainty: Uncertainty, seed: int
) -> DirectModel | RecursiveModel:
    """Return the model itself if ``n_steps`` is 0, otherwise a recursive model of it."""
    return RecursiveModel(model, n_steps, uncertainty, seed) if n_steps else model


def _linearized(learner: TAGI, x: Tensor, lags: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the derivative of the mean by the window, the mean, and the weight variance."""
    leaf = x.clone().requires_grad_()
    with torch.enable_grad():
        z = learner.propagate(leaf)
        ones = torch.ones_like(z.loc)
        (slope,) = torch.autograd.grad([z.loc, z.variance], leaf, [ones, torch.zeros_like(ones)])
    window = slope.reshape(len(x), -1)[:, :lags]
    mean, variance = (part.detach().double().reshape(-1) for part in (z.loc, z.variance))
    return window.double(), mean, variance
