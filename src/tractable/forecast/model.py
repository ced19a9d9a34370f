"""A network that forecasts: how it is made, taught on windows, and asked.

All numbers here are scaled ones.  The network has an output for every step ahead (a *direct* head),
each with a noise of its own that is inferred with the weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from tractable.errors import InvalidInput
from tractable.forecast.windows import Array, History, Layout, Level, rows_at, targets_at
from tractable.gaussian import Gaussian
from tractable.learners import TAGI, Ensemble, Learner
from tractable.likelihoods import IncompleteNormal, Likelihood, Normal
from tractable.nn import mlp
from tractable.predictive import NormalPredictive, Predictive

Origins = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_AT_ONCE = 1 << 21  # numbers that are forecast at once
_WINDOWS = 32_000  # that a fit sees in all, at least four times


@dataclass(frozen=True)
class Setting:
    """What is chosen on held-out windows.

    Attributes:
        lags: length of the window.
        hidden: widths of the hidden layers; empty for a linear model.
        level: what a window is measured from.
        gain: factor on the prior variance of the weights, of ``TAGI``.
        epochs: over the windows.
    """

    lags: int
    hidden: tuple[int, ...] = ()
    level: Level = "last"
    gain: float | None = None
    epochs: int | None = None


@dataclass(frozen=True)
class Recipe:
    """How learners are made, whatever the setting.

    Attributes:
        steps: ahead, outputs of the network.
        kind: class of the learner.
        net: a network of the user's own.
        likelihood: None for a normal one whose noise is inferred.
        members: size of an ensemble; 1 for none.
        options: further arguments of the learner.
        batch_size: windows per update.
        seed: seed of the learner.
        sequence: whether windows are given as sequences.
        known: number of covariates with a known future.
        past: number of those without.
        ahead: steps to run on for, where the network looks one step ahead; 0 for direct heads.
        way: how a recursion carries its spread.
        stride: times between windows to learn from.
    """

    steps: int
    kind: type[Learner] = TAGI
    net: nn.Module | None = None
    likelihood: Likelihood | None = None
    members: int = 1
    options: dict[str, Any] = field(default_factory=dict)
    batch_size: int | None = None
    seed: int = 0
    sequence: bool = False
    known: int = 0
    past: int = 0
    ahead: int = 0
    way: str = "covariance"
    stride: int = 1

    @property
    def reach(self) -> int:
        """Steps that are forecast, by heads or by recursion."""
        return self.ahead or self.steps

    @property
    def normal(self) -> bool:
        """Whether noise is normal, so that it can be scaled and may have gaps."""
        return self.likelihood is None or isinstance(self.likelihood, Normal)

    @property
    def counts(self) -> bool:
        """Whether targets are not numbers on a scale, and so must not be standardised."""
        return self.likelihood is not None and not self.likelihood.can_widen

    @property
    def gaussian_inputs(self) -> bool:
        """Whether the learner takes inputs with error bars."""
        return issubclass(self.kind, TAGI)

    def layout(self, setting: Setting) -> Layout:
        """What a row holds."""
        level: Level = "none" if self.counts else setting.level
        return Layout(setting.lags, self.steps, level, self.known, self.past, self.sequence)

    def learner(self, setting: Setting, *, incomplete: bool) -> Learner:
        """A learner that has seen nothing."""
        net = self.net
        if net is None:
            net = dense(self.layout(setting).inputs, setting.hidden, self.steps)
        options: dict[str, Any] = {"seed": self.seed, **self.options}
        if self.gaussian_inputs and setting.gain is not None:
            options.setdefault("gain", setting.gain)
        likelihood = self._likelihood(incomplete)
        if self.members == 1:
            return self.kind(net, likelihood, **options)
        return Ensemble(net, likelihood, n_estimators=self.members, learner=self.kind, **options)

    def _likelihood(self, incomplete: bool) -> Likelihood:
        given = self.likelihood
        if given is None or type(given) is Normal:
            sigma = None if given is None else given.sigma
            made = IncompleteNormal if incomplete else Normal
            return made(sigma, outputs=self.steps)
        config = given.config()
        if "outputs" in config:
            config["outputs"] = self.steps
        return type(given)(**config)


def dense(inputs: int, hidden: tuple[int, ...], outputs: int) -> nn.Sequential:
    """Linear layers with rectifiers between them."""
    return mlp(inputs, hidden, outputs)


@dataclass
class Model:
    """A learner, and how it sees series.

    Attributes:
        learner: taught on windows.
        layout: what a row holds.
        gaussian_inputs: whether rows may have error bars.
        units: mean and scale of each series, where targets are not standardised; else None.
    """

    learner: Learner
    layout: Layout
    gaussian_inputs: bool
    units: tuple[Array, Array] | None = None

    def inputs(self, history: History, origins: Origins) -> tuple[Any, Array, Mask]:
        """Rows as the learner takes them, their levels, and which have any value."""
        rows = rows_at(history, self.layout, origins)
        x: Any = torch.from_numpy(np.ascontiguousarray(rows.loc, np.float32))
        if rows.variance is not None and self.gaussian_inputs:
            x = Gaussian(x, torch.from_numpy(np.ascontiguousarray(rows.variance, np.float32)))
        return x, rows.level, rows.there

    def targets(self, history: History, origins: Origins, level: Array) -> Array:
        """What came after, as the likelihood has it."""
        y = targets_at(history, self.layout, origins, level)
        if self.units is None:
            return y
        series = history.loc.shape[1]
        mean, scale = (np.tile(part, len(y) // series)[:, None] for part in self.units)
        counts: Array = np.rint(y * scale + mean)
        return counts

    def update(self, history: History, origin: int, memory: float | None) -> None:
        """Learn one origin, if all that came after it is known (or gaps are)."""
        at = np.array([origin])
        x, level, there = self.inputs(history, at)
        y = self.targets(history, at, level)
        gaps = isinstance(self.learner.state.likelihood, IncompleteNormal)
        missing: Mask = np.isnan(y)
        good = there & ~_bad(missing, gaps)
        if good.all():
            targets = torch.from_numpy(np.ascontiguousarray(y, np.float32))
            self.learner.learn_batch(x, targets, memory_rows=memory)
        elif good.any():
            keep = torch.from_numpy(good)
            targets = torch.from_numpy(np.ascontiguousarray(y[good], np.float32))
            self.learner.learn_batch(x[keep], targets, memory_rows=memory)

    def predictive(
        self, history: History, origins: Origins, factors: Array | None = None
    ) -> Predictive:
        """What is forecast at these origins: rows ``[origins * series, steps]``.

        Args:
            history: scaled series.
            origins: the last times known.
            factors: on the variance of a normal noise, ``[origins, series, steps]`` or less.

        A window without any value is forecast from as if it were of average values, which says
        nothing of the series: callers leave such rows out (``windows.seen_at``).
        """
        x, level, _ = self.inputs(history, origins)
        found = self.learner.predict(x)
        if not isinstance(self.learner.state.likelihood, Normal):
            if self.units is not None:
                return found
            return found.double().rescaled(torch.from_numpy(level.astype(float))[:, None], 1.0)
        shape = (len(level), self.layout.steps)
        parts = (found.mean, found.epistemic, found.aleatoric)
        mean, within, noise = (part.double().reshape(shape) for part in parts)
        if factors is not None:
            series = history.loc.shape[1]
            whole = np.broadcast_to(factors, (len(origins), series, self.layout.steps))
            noise = noise * torch.from_numpy(np.array(whole, np.float64)).reshape(shape)
        return NormalPredictive(mean + torch.from_numpy(level)[:, None], within, noise)

    def chunks(self, origins: Origins, series: int) -> Iterator[Origins]:
        """Origins in parts that fit into memory."""
        size = max(_AT_ONCE // (series * (self.layout.steps + self.layout.inputs)), 1)
        for first in range(0, len(origins), size):
            yield origins[first : first + size]


def taught(
    recipe: Recipe,
    setting: Setting,
    history: History,
    origins: Origins,
    units: tuple[Array, Array] | None = None,
    *,
    progress: bool | None = False,
) -> Model:
    """A model fitted to the windows of these origins.

    Raises:
        InvalidInput: no window has both a past and a future.
    """
    layout = recipe.layout(setting)
    model = Model.__new__(Model)
    model.layout, model.gaussian_inputs = layout, recipe.gaussian_inputs
    model.units = units if recipe.counts else None
    x, level, there = model.inputs(history, origins)
    y = model.targets(history, origins, level)
    missing = np.isnan(y)
    keep = there & ~_bad(missing, recipe.normal)
    if not keep.any():
        raise InvalidInput(
            f"no window of {layout.lags} values has anything known both in it and in the "
            f"{layout.steps} steps after it: too many values are missing, or there are too few"
        )
    if not keep.all():
        x, y, missing = x[torch.from_numpy(keep)], y[keep], missing[keep]
    model.learner = recipe.learner(setting, incomplete=bool(missing.any()))
    epochs = setting.epochs or usual_epochs(len(y))
    batch = recipe.batch_size
    if batch is None and (missing.any() or isinstance(x, Gaussian)):  # not for the kernel
        batch = min(max(len(y) // 50, 8), 32)
    targets: Tensor = torch.from_numpy(np.ascontiguousarray(y, np.float32))
    model.learner.fit(
        x, targets, epochs=epochs, batch_size=batch, distance_aware=False, progress=progress
    )
    return model


def usual_epochs(windows: int) -> int:
    """Epochs over so many windows, unless they are given."""
    return min(max(_WINDOWS // windows, 4), 40)


def _bad(missing: Mask, gaps: bool) -> Mask:
    """Rows that nothing can be learnt from, where gaps are allowed and where they are not."""
    found: Mask = np.all(missing, axis=1) if gaps else np.any(missing, axis=1)
    return found
