"""Interface of all generative models of rows: ``fit(X)``, ``predict()``, ``save``, ``load``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from tractable.errors import InvalidInput, NotFitted, Unsupported
from tractable.generative import serialization
from tractable.generative.column_scaler import ColumnScaler, as_matrix, hot_deck_filled
from tractable.generative.predictive import Density, DensityPredictive

MAX_HELD_OUT = 500  # held-out rows; enough for shares with a standard error of 2 %
_MIN_ROWS = 5


class GenerativeModel(ABC):
    """A model of rows, ``p(x)``, or of rows given a context, ``p(x | c)``.

    This class implements what all models share: checks, scaling, held-out rows that calibrate
    ``novelty_share``, seeds and files. A model implements ``_fit``, ``_density``, ``config``,
    ``pack`` and ``unpack``.

    Args:
        standardize: scale columns, including those of the context, to mean 0 and variance 1.
        dequantize: spread columns with few distinct values uniformly over their steps in training.
        validation_fraction: share of the rows (at most 500 rows) that is not used for training, and
            stored in a saved file; 0 for none, without ``novelty_share``.
        dtype: ``torch.float32`` or ``torch.float64``. Default: torch's default.
        seed: random seed.

    Attributes:
        scaler_: scaler of the rows; None before ``fit``.
        context_scaler_: scaler of the context; None without a context.
        held_out_: contexts (or None) and rows that were not used for training; None if there are
            none.
    """

    is_continuous: ClassVar[bool] = True
    """Whether the model is a density of real numbers, not of counts or binary values."""

    keeps_constant_columns: ClassVar[bool] = False
    """Whether constant columns are modeled as well, for networks that take whole rows."""

    supports_nan: ClassVar[bool] = False
    """Whether ``fit`` accepts missing values (NaN)."""

    predictive_class: ClassVar[type[DensityPredictive]] = DensityPredictive
    """Class of the result of ``predict``."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Register the model, so that ``load`` finds it."""
        super().__init_subclass__(**arguments)
        serialization.register(cls)

    def __init__(
        self,
        *,
        standardize: bool = True,
        dequantize: bool = False,
        validation_fraction: float = 0.1,
        dtype: torch.dtype | None = None,
        seed: int = 0,
    ) -> None:
        if not 0 <= validation_fraction < 1:
            raise ValueError(
                f"validation_fraction must be from 0 to below 1, got {validation_fraction!r}"
            )
        dtype = torch.get_default_dtype() if dtype is None else dtype
        if dtype not in (torch.float32, torch.float64):
            raise TypeError(f"dtype must be torch.float32 or torch.float64, got {dtype}")
        self.standardize, self.dequantize = standardize, dequantize
        self.validation_fraction = validation_fraction
        self.dtype, self.seed = dtype, seed
        self.scaler_: ColumnScaler | None = None
        self.context_scaler_: ColumnScaler | None = None
        self.held_out_: tuple[Tensor | None, Tensor] | None = None

    def fitted_scaler(self) -> ColumnScaler:
        """Return the scaler of the rows.

        Raises:
            NotFitted: the model is not fitted.
        """
        if self.scaler_ is None:
            raise self._not_fitted()
        return self.scaler_

    def _not_fitted(self) -> NotFitted:
        return NotFitted(f"this {type(self).__name__} is not fitted yet: call fit first")

    # --- what a model implements -----------------------------------------------------------

    @abstractmethod
    def _fit(self, *rows: Any, **options: Any) -> None:
        """Fit to rows in the units of the model: ``_fit(x, context, *, progress, ...)``.

        The context is None without one; further keywords are those of ``fit``.
        """

    @abstractmethod
    def _density(self, *context: Any, **options: Any) -> Density:
        """Return the fitted distribution in the units of the model: ``_density(context, ...)``.

        The context is None without one; keywords are those of ``predict``.
        """

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Return the constructor's own arguments as JSON values, without modules."""

    @abstractmethod
    def pack(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return what was learned as tensors and JSON values."""

    @abstractmethod
    def unpack(
        self, path: Path, tensors: dict[str, Tensor], header: dict[str, Any], net: nn.Module | None
    ) -> None:
        """Restore what ``pack`` returned; any error becomes ``InvalidModelFile``."""

    @classmethod
    def from_config(cls, config: dict[str, Any], net: nn.Module | None) -> Self:
        """Return an unfitted model.

        Args:
            config: arguments as returned by ``config`` and ``common_config``.
            net: network of the caller, or None.
        """
        arguments = config if net is None else {**config, "net": net}
        return cls(**arguments)

    def _on_held_out(self, x: Tensor, context: Tensor | None) -> None:
        """Use the held-out rows, in the units of the model, after training; does nothing."""
        return

    # --- fitting ---------------------------------------------------------------------------

    def fit(
        self, X: Any, context: Any = None, *, progress: bool | None = None, **options: Any
    ) -> Self:
        """Fit to rows, or to rows given a context.

        Args:
            X: array or tensor, one row per observation; axes after the first are columns.
            context: array or tensor with one row for each row of ``X``; None for no context.
            progress: show a progress bar. Default: on a terminal only.
            options: further arguments of the model, such as ``epochs``, and for models with a
                learner ``validation=X`` or ``validation=(X, context)``: rows in the units of the
                data whose score is recorded in every epoch.

        Returns:
            The model itself.

        Raises:
            InvalidInput: rows or contexts are too few, not finite, or of different length.
        """
        x = as_matrix(X, "rows", self.dtype, allow_missing=self.supports_nan)
        given = None if context is None else as_matrix(context, "contexts", self.dtype)
        if given is not None and len(given) != len(x):
            raise InvalidInput(f"there are {len(x)} rows and {len(given)} contexts")
        if len(x) < _MIN_ROWS:
            raise InvalidInput(f"a model needs at least {_MIN_ROWS} rows, got {len(x)}")
        generator = torch.Generator().manual_seed(self.seed)
        before = self.scaler_, self.context_scaler_, self.held_out_
        scaler = self._fit_scalers(x, given, generator)
        order = torch.randperm(len(x), generator=generator)
        order = order[x[order].isnan().any(1).int().argsort(stable=True)]  # complete rows first
        n_complete = int((~x.isnan().any(1)).sum())
        n_held_out = min(MAX_HELD_OUT, round(self.validation_fraction * n_complete))
        train, held_out = order[n_held_out:].sort().values, order[:n_held_out].sort().values
        z = scaler.to_model(scaler.dequantized(x, generator), self.dtype)
        c = None
        if given is not None and self.context_scaler_ is not None:
            c = self.context_scaler_.to_model(given, self.dtype)
        try:
            self._fit(z[train], None if c is None else c[train], progress=progress, **options)
            if n_held_out:
                self._on_held_out(z[held_out], None if c is None else c[held_out])
        except BaseException:
            self.scaler_, self.context_scaler_, self.held_out_ = before
            raise
        self.held_out_ = None
        if n_held_out:
            self.held_out_ = None if given is None else given[held_out], x[held_out]
        return self

    def _fit_scalers(
        self, x: Tensor, context: Tensor | None, generator: torch.Generator
    ) -> ColumnScaler:
        """Fit and set the scalers of rows and context, and return that of rows."""
        scaler = ColumnScaler.fit(
            hot_deck_filled(x, generator),
            standardize=self.standardize,
            dequantize=self.dequantize,
            is_continuous=self.is_continuous,
        )
        if self.keeps_constant_columns:
            scaler = scaler.with_constants()
        if not scaler.n_varying:
            raise InvalidInput("every column is constant: there is nothing to model")
        of_context = None
        if context is not None:
            of_context = ColumnScaler.fit(
                context, standardize=self.standardize, dequantize=False, is_continuous=False
            )
        self.scaler_, self.context_scaler_ = scaler, of_context
        return scaler

    def validation_rows(self, validation: Any) -> tuple[Tensor, Tensor | None]:
        """Return validation rows and their contexts, checked and in the units of the model.

        Args:
            validation: rows in the units of the data: ``X``, ``(X,)`` or ``(X, context)``.

        Raises:
            InvalidInput: rows or contexts have other columns than those of the fit.
            NotFitted: the model is not fitted.
        """
        given = tuple(validation) if isinstance(validation, tuple) else (validation,)
        if len(given) not in (1, 2):
            raise TypeError(
                f"validation must be X, or X and a context in a tuple: got {len(given)} parts"
            )
        scaler, of_context = self.fitted_scaler(), self.context_scaler_
        if (len(given) == 1) != (of_context is None):
            raise InvalidInput(
                "the model is fitted without a context: give validation=(X,)"
                if of_context is None
                else "the model is fitted with a context: give validation=(X, context)"
            )
        x = as_matrix(given[0], "validation rows", self.dtype, len(scaler.steps))
        z = scaler.to_model(x, self.dtype)
        if of_context is None:
            return z, None
        columns = len(of_context.steps)
        context = as_matrix(given[1], "validation contexts", self.dtype, columns)
        if len(context) != len(x):
            raise InvalidInput(f"validation has {len(x)} rows and {len(context)} contexts")
        return z, of_context.to_model(context, self.dtype)

    # --- predicting ------------------------------------------------------------------------

    def predict(self, context: Any = None, **options: Any) -> DensityPredictive:
        """Return the distribution of a new row, or of one for each row of a context.

        Args:
            context: rows to condition on, for a model that was fitted with a context.
            options: further arguments of the model.

        Raises:
            NotFitted: the model is not fitted.
            InvalidInput: a context is missing, or was not used in ``fit``.
        """
        scaler, of_context = self.fitted_scaler(), self.context_scaler_
        if (context is None) != (of_context is None):
            raise InvalidInput(
                "this model was fitted without a context: leave out the context"
                if of_context is None
                else "this model was fitted with a context: use predict(context)"
            )
        c = None
        if of_context is not None:
            rows = as_matrix(context, "contexts", self.dtype, len(of_context.steps))
            c = of_context.to_model(rows, self.dtype)
        return self.predictive_class(
            self._density(c, **options),
            scaler,
            n_contexts=None if c is None else len(c),
            held_out=lambda: self._held_out_log_prob(options),
            dtype=self.dtype,
            seed=self.seed,
        )

    def _held_out_log_prob(self, options: dict[str, Any]) -> Tensor:
        """Return the log densities of the held-out rows, under the same options."""
        if self.held_out_ is None:
            raise Unsupported(
                "novelty_share compares with held-out rows, and there are none: fit with "
                "validation_fraction above 0, or with more rows"
            )
        context, rows = self.held_out_
        return self.predict(context, **options).log_prob(rows)

    # --- files -----------------------------------------------------------------------------

    def common_config(self) -> dict[str, Any]:
        """Return the arguments that all models share as JSON values."""
        return {
            "standardize": self.standardize, "dequantize": self.dequantize,
            "validation_fraction": self.validation_fraction,
            "dtype": str(self.dtype).removeprefix("torch."), "seed": self.seed,
        }  # fmt: skip

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file, atomically.

        Raises:
            NotFitted: the model is not fitted.
        """
        self.fitted_scaler()
        serialization.save(self, path)

    @classmethod
    def load(cls, path: str | Path, *, net: nn.Module | None = None) -> Self:
        """Return the model of a file; nothing that the file names is imported or run.

        Args:
            path: file written by ``save``.
            net: network with the same architecture, if it was a module of the user that does not
                consist of plain ``torch.nn`` layers.

        Raises:
            FileNotFoundError: there is no such file.
            InvalidModelFile: the file is damaged or holds another kind of model.
        """
        return serialization.load(path, cls, net)
