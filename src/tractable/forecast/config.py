"""Options of a forecaster, checked before anything is fitted."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from torch import nn

from tractable.errors import InvalidInput
from tractable.forecast.panel import Panel
from tractable.forecast.scaling import Transform, check_transform
from tractable.forecast.windows import NORMALIZATIONS, Normalization, WindowLayout
from tractable.learners import TAGI, Ensemble, Learner
from tractable.learners.serialization import learner_class
from tractable.likelihoods import Likelihood, Normal
from tractable.nn import mlp

if TYPE_CHECKING:
    from tractable.forecast.forecaster import Forecaster

Uncertainty = Literal["covariance", "paths"]


@dataclass(frozen=True)
class HyperParameters:
    """Hyperparameters that are selected on validation windows.

    Attributes:
        lags: length of the window, in time steps.
        hidden_layer_sizes: widths of the hidden layers; empty for a linear model.
        normalize_by: level that is subtracted from a window.
        gain: factor on the prior variances of the weights, for ``TAGI``; None for the learner's
            own.
        epochs: number of passes over the windows; None for the default.
    """

    lags: int
    hidden_layer_sizes: tuple[int, ...] = ()
    normalize_by: Normalization = "last"
    gain: float | None = None
    epochs: int | None = None


@dataclass(frozen=True)
class ModelConfig:
    """Options of the model that do not depend on the hyperparameters.

    Attributes:
        steps: number of outputs of the network, one per forecast step.
        learner_class: class of the learner.
        net: network of the user; None to build one from the hyperparameters.
        likelihood: likelihood of the values; None for ``Normal`` with learned noise.
        n_estimators: number of networks in an ensemble; 1 for a single network.
        learner_kwargs: further arguments of the learner.
        batch_size: windows per update.
        seed: random seed of the learner.
        sequence: whether windows are passed as sequences.
        n_future_covariates: number of covariates with a known future.
        n_past_covariates: number of covariates without a known future.
        recursive_steps: number of forecast steps of the recursive strategy; 0 for the direct one.
        uncertainty: how the recursive strategy propagates uncertainty.
        window_stride: number of times between training windows.
    """

    steps: int
    learner_class: type[Learner] = TAGI
    net: nn.Module | None = None
    likelihood: Likelihood | None = None
    n_estimators: int = 1
    learner_kwargs: dict[str, Any] = field(default_factory=dict)
    batch_size: int | None = None
    seed: int = 0
    sequence: bool = False
    n_future_covariates: int = 0
    n_past_covariates: int = 0
    recursive_steps: int = 0
    uncertainty: Uncertainty = "covariance"
    window_stride: int = 1

    @property
    def horizon(self) -> int:
        """Number of forecast steps, direct or recursive."""
        return self.recursive_steps or self.steps

    @property
    def has_normal_noise(self) -> bool:
        """Whether noise is normal: its variance can be scaled, and targets may be missing."""
        return self.likelihood is None or isinstance(self.likelihood, Normal)

    @property
    def keeps_target_units(self) -> bool:
        """Whether targets, such as counts and angles, must not be standardized."""
        return self.likelihood is not None and not self.likelihood.traits.supports_extra_variance

    @property
    def takes_gaussian_inputs(self) -> bool:
        """Whether the learner accepts inputs with variances."""
        return issubclass(self.learner_class, TAGI)

    def layout(self, params: HyperParameters) -> WindowLayout:
        """Return the content of an input row."""
        normalize_by: Normalization = "none" if self.keeps_target_units else params.normalize_by
        return WindowLayout(
            params.lags, self.steps, normalize_by, self.n_future_covariates,
            self.n_past_covariates, self.sequence,
        )  # fmt: skip

    def make_learner(self, params: HyperParameters, *, incomplete: bool) -> Learner:
        """Return an untrained learner; if ``incomplete``, for targets with missing values."""
        net = self.net
        if net is None:
            n_inputs = self.layout(params).n_inputs
            net = mlp(n_inputs, params.hidden_layer_sizes, self.steps)
        options: dict[str, Any] = {"seed": self.seed, **self.learner_kwargs}
        if self.takes_gaussian_inputs and params.gain is not None:
            options.setdefault("gain", params.gain)
        likelihood = self._likelihood(incomplete)
        if self.n_estimators == 1:
            return self.learner_class(net, likelihood, **options)
        return Ensemble(
            net, likelihood, n_estimators=self.n_estimators, learner=self.learner_class, **options
        )

    def _likelihood(self, incomplete: bool) -> Likelihood:
        given = self.likelihood
        if given is None or type(given) is Normal:
            sigma = None if given is None else given.sigma
            return Normal(sigma, outputs=self.steps, missing=incomplete)
        config = given.config()
        if "outputs" in config:
            config["outputs"] = self.steps
        return type(given)(**config)


@dataclass(frozen=True)
class ForecasterFitOptions:
    """Choices of the user for a fit; None leaves a choice to the validation windows.

    Attributes:
        lags: length of the window.
        normalize_by: level that is subtracted from a window.
        hidden_layer_sizes: widths of the hidden layers.
        epochs: number of passes over the windows.
        season_length: length of a season, in time steps.
        transform: transform of the series.
        n_validation: number of times at the end for validation.
        refit: whether to train on the validation times as well in the end.
        error_window: number of times that recent errors are averaged over; ``"auto"`` selects it.
    """

    lags: int | None
    normalize_by: Normalization | None
    hidden_layer_sizes: tuple[int, ...] | None
    epochs: int | None
    season_length: int
    transform: Transform
    n_validation: int | None
    refit: bool
    error_window: float | Literal["auto"] | None


def model_config(forecaster: Forecaster, panel: Panel) -> ModelConfig:
    """Return the options of the model, from the arguments of a forecaster and its series.

    Raises:
        TypeError: the learner is not a class of learners or its name.
        ValueError: an argument has an unknown value.
        InvalidInput: the arguments do not allow these covariates.
    """
    given = forecaster.learner
    kind = learner_class(given) if isinstance(given, str) else given
    if not (isinstance(kind, type) and issubclass(kind, Learner)):
        raise TypeError(f"learner must be a class of learners or its name, got {kind!r}")
    if forecaster.strategy not in ("direct", "recursive"):
        raise ValueError(f"strategy must be 'direct' or 'recursive', got {forecaster.strategy!r}")
    if forecaster.uncertainty not in ("covariance", "paths"):
        raise ValueError(
            f"uncertainty must be 'covariance' or 'paths', got {forecaster.uncertainty!r}"
        )
    horizon = positive_int(forecaster.horizon, "horizon")
    recursive = forecaster.strategy == "recursive"
    if horizon is None:
        raise ValueError("horizon must be a whole number from 1, got None")
    check_memory_rows(forecaster.memory_rows, kind)
    n_past, n_future = panel.past_covariates.shape[2], panel.future_covariates.shape[2]
    if recursive and n_past:
        raise InvalidInput(
            "strategy='recursive' needs the future of all covariates: leave out past_covariates="
        )
    if forecaster.sequence and n_future:
        raise InvalidInput("sequence=True does not support future_covariates=")
    return ModelConfig(
        steps=1 if recursive else horizon,
        learner_class=kind,
        net=forecaster.net if isinstance(forecaster.net, nn.Module) else None,
        likelihood=forecaster.likelihood,
        n_estimators=positive_int(forecaster.n_estimators, "n_estimators") or 1,
        learner_kwargs=dict(forecaster.learner_kwargs or {}),
        batch_size=forecaster.batch_size,
        seed=forecaster.seed,
        sequence=forecaster.sequence,
        n_future_covariates=n_future,
        n_past_covariates=n_past,
        recursive_steps=horizon if recursive else 0,
        uncertainty=forecaster.uncertainty,
        window_stride=positive_int(forecaster.window_stride, "window_stride") or 1,
    )


def fit_options(forecaster: Forecaster, season_length: int) -> ForecasterFitOptions:
    """Return the choices of the user, from the arguments of a forecaster.

    Raises:
        ValueError: an argument has an unknown value.
    """
    normalize_by = forecaster.normalize_by
    if normalize_by is not None and normalize_by not in NORMALIZATIONS:
        raise ValueError(
            f"normalize_by must be one of {', '.join(NORMALIZATIONS)}; got {normalize_by!r}"
        )
    window = forecaster.error_window
    if window not in ("auto", None) and not _is_number_from_one(window):
        raise ValueError(f"error_window must be 'auto', None or a number from 1, got {window!r}")
    lags = positive_int(forecaster.lags, "lags")
    module = isinstance(forecaster.net, nn.Module)
    if module and lags is None:
        raise ValueError("net is a module with a fixed number of inputs: give lags= as well")
    return ForecasterFitOptions(
        lags=lags,
        normalize_by=normalize_by,
        hidden_layer_sizes=None if module else hidden_layer_sizes(forecaster.net),
        epochs=positive_int(forecaster.epochs, "epochs"),
        season_length=season_length,
        transform=check_transform(forecaster.transform),
        n_validation=positive_int(forecaster.n_validation, "n_validation"),
        refit=bool(forecaster.refit),
        # A NumPy number would change the precision of the averages.
        error_window=window if window == "auto" or window is None else float(window),
    )


def hidden_layer_sizes(net: Any) -> tuple[int, ...] | None:
    """Return the widths of the hidden layers that ``net`` stands for; None if ``net`` is None.

    Raises:
        ValueError: ``net`` is neither ``"linear"`` nor positive widths.
    """
    if net is None:
        return None
    if net == "linear":
        return ()
    given = [net] if isinstance(net, int) else list(net)
    if not all(isinstance(w, int) and not isinstance(w, bool) and w >= 1 for w in given):
        raise ValueError(f"net must be 'linear', widths of hidden layers or a module, got {net!r}")
    return tuple(given)


def check_memory_rows(memory_rows: Any, kind: type[Learner]) -> None:
    """Raise if ``update`` could not use this ``memory_rows``.

    Raises:
        ValueError: it is not None or a number above 1.
        InvalidInput: the learner does not support forgetting.
    """
    if memory_rows is None:
        return
    number = isinstance(memory_rows, int | float | np.number) and not isinstance(memory_rows, bool)
    if not (number and 1 < memory_rows < math.inf):
        raise ValueError(
            f"memory_rows must be None or a number of rows above 1, got {memory_rows!r}"
        )
    if not issubclass(kind, TAGI):
        raise InvalidInput(
            f"memory_rows={memory_rows}: {kind.__name__} does not support forgetting, only TAGI "
            "does: leave out memory_rows="
        )


def positive_int(given: Any, what: str) -> int | None:
    """Return a whole number from 1, or None.

    Raises:
        ValueError: ``given`` is something else.
    """
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < 1:
        raise ValueError(f"{what} must be a whole number from 1, got {given!r}")
    return int(given)


def _is_number_from_one(given: Any) -> bool:
    number = isinstance(given, int | float) and not isinstance(given, bool)
    return number and 1 <= given < math.inf
