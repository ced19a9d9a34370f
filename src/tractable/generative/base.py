"""The interface of every model of rows: ``fit(X)``, ``predict()``, ``save``, ``load``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from tractable.errors import InvalidInput, NotFitted, Unsupported
from tractable.generative import files
from tractable.generative.columns import Columns, as_rows, without_holes
from tractable.generative.predictive import Density, RowPredictive

MOST_HELD_OUT = 500
_FEWEST_ROWS = 5


class Generative(ABC):
    """A model of rows, ``p(x)``, or of rows given a context, ``p(x | c)``.

    This class owns what all of them share: checks, units, the rows that are held out so that
    ``novelty`` is calibrated, seeds and files.  A model supplies ``learn``, ``density``, ``config``
    and what it has learnt (``pack``, ``unpack``).

    Args:
        standardize: bring columns to mean 0 and variance 1 (contexts as well).
        dequantize: spread columns of few values evenly over their steps before learning.
        held_out: share of the rows that is not learnt from (at most 500 rows), and a saved file
            then holds; 0 for none, and then there is no ``novelty``.
        dtype: ``torch.float32`` or ``torch.float64``; by default torch's default.
        seed: seed of everything that is drawn.

    Attributes:
        columns_: units of the rows.
        context_columns_: units of the context; None without one.
    """

    continuous: ClassVar[bool] = True
    """Whether the model is a density of real numbers (and not of counts or yes and no)."""

    whole_rows: ClassVar[bool] = False
    """Whether constant columns are modelled as well, as by a network of the user's own."""

    takes_holes: ClassVar[bool] = False
    """Whether it learns from rows with missing values (NaN)."""

    predictive_class: ClassVar[type[RowPredictive]] = RowPredictive
    """What ``predict`` returns."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Make the model known to ``load``."""
        super().__init_subclass__(**arguments)
        files.register(cls)

    def __init__(
        self,
        *,
        standardize: bool = True,
        dequantize: bool = False,
        held_out: float = 0.1,
        dtype: torch.dtype | None = None,
        seed: int = 0,
    ) -> None:
        if not 0 <= held_out < 1:
            raise ValueError(f"held_out must be a share from 0 to below 1, got {held_out!r}")
        dtype = torch.get_default_dtype() if dtype is None else dtype
        if dtype not in (torch.float32, torch.float64):
            raise TypeError(f"dtype must be torch.float32 or torch.float64, got {dtype}")
        self.standardize, self.dequantize, self.held_out = standardize, dequantize, held_out
        self.dtype, self.seed = dtype, seed
        self.columns_: Columns | None = None
        self.context_columns_: Columns | None = None
        self.reference_: tuple[Tensor | None, Tensor] | None = None

    def fitted_columns(self) -> Columns:
        """Return the columns of the rows that were learnt.

        Raises:
            NotFitted: the model has seen no rows.
        """
        if self.columns_ is None:
            raise NotFitted(f"this {type(self).__name__} has seen no rows: fit it first")
        return self.columns_

    # --- what a model supplies -------------------------------------------------------------

    @abstractmethod
    def learn(self, *rows: Any, **options: Any) -> None:
        """Learn from rows in the model's units: ``learn(x, context, *, progress, ...)``.

        The context is None without one; more keywords are those of ``fit``.
        """

    @abstractmethod
    def density(self, *context: Any, **options: Any) -> Density:
        """The distribution that was learnt, in the model's units: ``density(context, ...)``.

        The context is None without one; keywords are those of ``predict``.
        """

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """The constructor's own arguments as JSON values, without modules and ``common``."""

    @abstractmethod
    def pack(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """What was learnt, as tensors and JSON values."""

    @abstractmethod
    def unpack(
        self, path: Path, tensors: dict[str, Tensor], header: dict[str, Any], net: nn.Module | None
    ) -> None:
        """Take over what ``pack`` gave; errors become ``InvalidModelFile``."""

    @classmethod
    def rebuilt(cls, config: dict[str, Any], net: nn.Module | None) -> Self:
        """A new model from ``config`` and ``common``, and ``net=`` where the caller gave one."""
        arguments = config if net is None else {**config, "net": net}
        return cls(**arguments)

    def look_at_held_out(self, x: Tensor, context: Tensor | None) -> None:
        """Look at the rows held out, in the model's units, once the others were learnt.

        By default nothing but ``novelty`` is made of them.
        """
        return

    # --- learning --------------------------------------------------------------------------

    def fit(self, *data: Any, progress: bool | None = None, **options: Any) -> Self:
        """Learn from rows: ``fit(X)``, or ``fit(context, X)`` for rows given a context.

        Args:
            data: ``X``, or ``context, X``: arrays or tensors, one row per observation.  What
                follows the first axis are columns.
            progress: show a progress bar; by default on a terminal only.
            options: further arguments of the model's learning, such as ``epochs``, and for models
                around a learner ``validation=X`` (or ``(context, X)``): rows in the units of the
                data whose score is recorded in every epoch.

        Returns:
            The model itself.
        """
        if len(data) not in (1, 2):
            raise TypeError(f"fit takes X, or a context and X: got {len(data)} arguments")
        x = as_rows(data[-1], "rows", self.dtype, holes=self.takes_holes)
        context = as_rows(data[0], "contexts", self.dtype) if len(data) == 2 else None
        if context is not None and len(context) != len(x):
            raise InvalidInput(f"there are {len(x)} rows and {len(context)} contexts")
        if len(x) < _FEWEST_ROWS:
            raise InvalidInput(f"a model needs at least {_FEWEST_ROWS} rows, got {len(x)}")
        generator = torch.Generator().manual_seed(self.seed)
        columns = Columns.of(
            without_holes(x, generator),
            scale=self.standardize,
            spread=self.dequantize,
            continuous=self.continuous,
        )
        if self.whole_rows:
            columns = columns.whole()
        if not columns.modelled:
            raise InvalidInput("every column is constant: there is nothing to model")
        about = None
        if context is not None:
            about = Columns.of(context, scale=self.standardize, spread=False, continuous=False)
        before = self.columns_, self.context_columns_, self.reference_
        self.columns_, self.context_columns_ = columns, about
        order = torch.randperm(len(x), generator=generator)
        order = order[x[order].isnan().any(1).int().argsort(stable=True)]  # whole rows first
        apart = min(MOST_HELD_OUT, round(self.held_out * int((~x.isnan().any(1)).sum())))
        kept, held = order[apart:].sort().values, order[:apart].sort().values
        spread = columns.inward(columns.spread(x, generator), self.dtype)
        scaled = None if context is None or about is None else about.inward(context, self.dtype)
        try:
            self.learn(
                spread[kept], None if scaled is None else scaled[kept], progress=progress, **options
            )
            if apart:
                self.look_at_held_out(spread[held], None if scaled is None else scaled[held])
        except BaseException:
            self.columns_, self.context_columns_, self.reference_ = before
            raise
        self.reference_ = None
        if apart:
            self.reference_ = None if context is None else context[held], x[held]
        return self

    def validation_rows(self, validation: Any) -> tuple[Tensor, Tensor | None]:
        """Return validation rows and their contexts, checked and in the model's units.

        Args:
            validation: rows in the units of the data: ``X``, ``(X,)`` or ``(context, X)``.

        Raises:
            InvalidInput: rows or contexts do not fit those that the model is fitted on.
            NotFitted: the model has seen no rows.
        """
        given = tuple(validation) if isinstance(validation, tuple) else (validation,)
        if len(given) not in (1, 2):
            raise TypeError(
                f"validation must be X, or a context and X in a tuple: got {len(given)} parts"
            )
        columns, about = self.fitted_columns(), self.context_columns_
        if (len(given) == 1) != (about is None):
            raise InvalidInput(
                "the model is fitted without a context: give validation=(X,)"
                if about is None
                else "the model is fitted with a context: give validation=(context, X)"
            )
        x = as_rows(given[-1], "validation rows", self.dtype, len(columns.steps))
        z = columns.inward(x, self.dtype)
        if about is None:
            return z, None
        context = as_rows(given[0], "validation contexts", self.dtype, len(about.steps))
        if len(context) != len(x):
            raise InvalidInput(f"validation has {len(x)} rows and {len(context)} contexts")
        return z, about.inward(context, self.dtype)

    # --- predicting ------------------------------------------------------------------------

    def predict(self, context: Any = None, **options: Any) -> RowPredictive:
        """The distribution of a new row, or of one for each row of a context.

        Args:
            context: rows to condition on, for a model that was fitted with a context.
            options: further arguments of the model's density.
        """
        columns, about = self.fitted_columns(), self.context_columns_
        if (context is None) != (about is None):
            raise InvalidInput(
                "this model was fitted without a context, and has none to condition on"
                if about is None
                else "this model was fitted with a context: predict(context) needs one"
            )
        scaled = None
        if about is not None:
            rows = as_rows(context, "contexts", self.dtype, len(about.steps))
            scaled = about.inward(rows, self.dtype)
        return self.predictive_class(
            self.density(scaled, **options),
            columns,
            contexts=None if scaled is None else len(scaled),
            held_out=lambda: self._held_out_scores(options),
            dtype=self.dtype,
            seed=self.seed,
        )

    def _held_out_scores(self, options: dict[str, Any]) -> Tensor:
        """Log densities of the rows that were held out, under the same options."""
        if self.reference_ is None:
            raise Unsupported(
                "novelty compares with rows held out, and there are none: fit with held_out above "
                "0, and with more rows if there were few"
            )
        context, rows = self.reference_
        return self.predict(context, **options).log_prob(rows)

    # --- files -----------------------------------------------------------------------------

    def common(self) -> dict[str, Any]:
        """The arguments that all models share, as JSON values."""
        return {
            "standardize": self.standardize, "dequantize": self.dequantize,
            "held_out": self.held_out, "dtype": str(self.dtype).removeprefix("torch."),
            "seed": self.seed,
        }  # fmt: skip

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file, atomically; ``load`` reads it."""
        self.fitted_columns()
        files.write(path, self)

    @classmethod
    def load(cls, path: str | Path, net: nn.Module | None = None) -> Self:
        """Read a model that ``save`` wrote; nothing that the file names is imported or run.

        Args:
            path: the file.
            net: a network of the same architecture, for models whose network is the user's own
                and not made of plain ``torch.nn`` layers.

        Raises:
            InvalidModelFile: the file is damaged, foreign, or of another kind of model.
        """
        return files.read(path, cls, net)
