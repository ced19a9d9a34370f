"""A network that forecasts all steps at once (the *direct* strategy): training and prediction.

All values here are scaled. The network has one output per forecast step, each with its own noise
variance, which is learned together with the weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tractable.errors import InvalidInput
from tractable.forecast.config import HyperParameters, ModelConfig
from tractable.forecast.windows import Array, History, WindowLayout, rows_at, targets_at
from tractable.gaussian import Gaussian
from tractable.learners import Learner
from tractable.likelihoods import Normal
from tractable.predictive import NormalPredictive, Predictive

Origins = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_CHUNK_NUMBERS = 1 << 21  # inputs and outputs of one call of the network: about 16 MB
_TOTAL_WINDOWS = 32_000  # default of epochs times windows, but at least 4 epochs


@dataclass
class DirectModel:
    """A learner together with the layout of its input rows.

    Attributes:
        learner: learner, trained on windows.
        layout: content of an input row.
        takes_gaussian_inputs: whether inputs may have variances.
        target_units: mean and scale of each series, where targets are not standardized; else None.
    """

    learner: Learner
    layout: WindowLayout
    takes_gaussian_inputs: bool
    target_units: tuple[Array, Array] | None = None

    def inputs(self, history: History, origins: Origins) -> tuple[Any, Array, Mask]:
        """Return the inputs of the learner, their levels, and which windows have any value."""
        rows = rows_at(history, self.layout, origins)
        x: Any = torch.from_numpy(np.ascontiguousarray(rows.loc, np.float32))
        if rows.variance is not None and self.takes_gaussian_inputs:
            x = Gaussian(x, torch.from_numpy(np.ascontiguousarray(rows.variance, np.float32)))
        return x, rows.level, rows.has_values

    def targets(self, history: History, origins: Origins, level: Array) -> Array:
        """Return the values after each origin in the units of the likelihood, ``[rows, steps]``."""
        y = targets_at(history, self.layout, origins, level)
        if self.target_units is None:
            return y
        series = history.loc.shape[1]
        mean, scale = (np.tile(part, len(y) // series)[:, None] for part in self.target_units)
        counts: Array = np.rint(y * scale + mean)
        return counts

    def update(self, history: History, origin: int, memory_rows: float | None) -> None:
        """Train on the windows of one origin, except those whose targets are missing."""
        at = np.array([origin])
        x, level, has_values = self.inputs(history, at)
        y = self.targets(history, at, level)
        allows_missing = self.learner.state.likelihood.traits.supports_missing
        missing: Mask = np.isnan(y)
        usable = has_values & ~_unusable(missing, allows_missing)
        if usable.all():
            targets = torch.from_numpy(np.ascontiguousarray(y, np.float32))
            self.learner.learn_batch(x, targets, memory_rows=memory_rows)
        elif usable.any():
            keep = torch.from_numpy(usable)
            targets = torch.from_numpy(np.ascontiguousarray(y[usable], np.float32))
            self.learner.learn_batch(x[keep], targets, memory_rows=memory_rows)

    def predictive(
        self, history: History, origins: Origins, factors: Array | None = None
    ) -> Predictive:
        """Return the distribution of the values after each origin, ``[origins * series, steps]``.

        Args:
            history: scaled series.
            origins: last known times.
            factors: factors on the variance of normal noise, broadcast to
                ``[origins, series, steps]``; None for 1.

        The forecast of a window without any value is meaningless; callers leave such rows out
        (``windows.windows_with_values``).
        """
        x, level, _ = self.inputs(history, origins)
        found = self.learner.predict(x)
        if not isinstance(self.learner.state.likelihood, Normal):
            if self.target_units is not None:
                return found
            return found.double().rescaled(torch.from_numpy(level.astype(float))[:, None], 1.0)
        shape = (len(level), self.layout.steps)
        parts = (found.mean, found.epistemic, found.aleatoric)
        mean, epistemic, noise = (part.double().reshape(shape) for part in parts)
        if factors is not None:
            series = history.loc.shape[1]
            full = np.broadcast_to(factors, (len(origins), series, self.layout.steps))
            noise = noise * torch.from_numpy(np.array(full, np.float64)).reshape(shape)
        return NormalPredictive(mean + torch.from_numpy(level)[:, None], epistemic, noise)

    def chunks(self, origins: Origins, series: int) -> Iterator[Origins]:
        """Yield parts of the origins whose rows fit into memory."""
        size = max(_CHUNK_NUMBERS // (series * (self.layout.steps + self.layout.n_inputs)), 1)
        for first in range(0, len(origins), size):
            yield origins[first : first + size]


def fit_direct_model(
    config: ModelConfig,
    params: HyperParameters,
    history: History,
    origins: Origins,
    target_units: tuple[Array, Array] | None = None,
    *,
    progress: bool | None = False,
) -> DirectModel:
    """Return a model trained on the windows of these origins.

    Args:
        config: options of the model.
        params: hyperparameters.
        history: scaled series.
        origins: origins of the training windows.
        target_units: mean and scale of each series, for targets that are not standardized.
        progress: show a progress bar; None for terminals only.

    Raises:
        InvalidInput: no window has both a past and a future.
    """
    layout = config.layout(params)
    model = DirectModel.__new__(DirectModel)
    model.layout, model.takes_gaussian_inputs = layout, config.takes_gaussian_inputs
    model.target_units = target_units if config.keeps_target_units else None
    x, level, has_values = model.inputs(history, origins)
    y = model.targets(history, origins, level)
    missing = np.isnan(y)
    usable = has_values & ~_unusable(missing, config.has_normal_noise)
    if not usable.any():
        raise InvalidInput(
            f"no window of {layout.lags} values has both a value in it and one in the "
            f"{layout.steps} steps after it: too many values are missing, or there are too few"
        )
    if not usable.all():
        x, y, missing = x[torch.from_numpy(usable)], y[usable], missing[usable]
    model.learner = config.make_learner(params, incomplete=bool(missing.any()))
    epochs = params.epochs or default_epochs(len(y))
    batch_size = config.batch_size
    if batch_size is None and (missing.any() or isinstance(x, Gaussian)):
        # The native kernel does not support these; small batches train faster in torch.
        batch_size = min(max(len(y) // 50, 8), 32)
    targets: Tensor = torch.from_numpy(np.ascontiguousarray(y, np.float32))
    model.learner.fit(
        x, targets, epochs=epochs, batch_size=batch_size, distance_aware=False, progress=progress
    )
    return model


def default_epochs(n_windows: int) -> int:
    """Return the number of epochs, between 4 and 40, that processes about 32,000 windows."""
    return min(max(_TOTAL_WINDOWS // n_windows, 4), 40)


def _unusable(missing: Mask, allows_missing: bool) -> Mask:
    """Return the rows without a target, or with any missing target if those are not allowed."""
    found: Mask = np.all(missing, axis=1) if allows_missing else np.any(missing, axis=1)
    return found
