"""Columns of data frames: their labels, their roles, and their values as numbers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from tractable.errors import InvalidInput, did_you_mean

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ColumnRoles:
    """The roles of the columns of a data frame.

    Columns are given by label, or by the text of the label; ``resolved`` returns texts.

    Attributes:
        time_col: column of time stamps; None for the index, if it has time stamps.
        target_cols: column or columns to forecast; None for all that have no other role.
        id_col: column with the name of the series of each row, in long frames.
        future_covariates: covariates whose future is known, such as holidays and prices.
        past_covariates: covariates that are known up to the present only, such as the weather.
    """

    time_col: Any = None
    target_cols: Any = None
    id_col: Any = None
    future_covariates: Any = ()
    past_covariates: Any = ()

    def resolved(self, frame: LabeledFrame) -> ColumnRoles:
        """Return the same roles with the text of each label.

        Raises:
            InvalidInput: the frame has no such column, or several.
        """
        time_col, id_col = (
            None if n is None else frame.name(n) for n in (self.time_col, self.id_col)
        )
        future = frame.names_of(self.future_covariates, "future_covariates")
        past = frame.names_of(self.past_covariates, "past_covariates")
        target: str | tuple[str, ...] | None = None
        if self.target_cols is not None:
            target = frame.names_of(self.target_cols, "target_cols")
            target = target[0] if frame.is_label(self.target_cols) else target
        return ColumnRoles(time_col, target, id_col, future, past)


class LabeledFrame:
    """The columns of a data frame by the text of their labels.

    Labels are texts, numbers, tuples or anything else that pandas allows.

    Args:
        frame: pandas data frame, or an object with ``columns`` that returns a column for a label.
    """

    def __init__(self, frame: Any) -> None:
        self.frame, self.labels = frame, list(frame.columns)
        self.names = [str(label) for label in self.labels]

    def __getitem__(self, name: str) -> Any:
        return self.frame[self.labels[self.names.index(name)]]

    def is_label(self, given: Any) -> bool:
        """Return whether ``given`` is one label and not a list of labels; tuples may be labels."""
        several = isinstance(given, list | tuple) and str(given) not in self.names
        return not several

    def name(self, given: Hashable) -> str:
        """Return the text of a label.

        Raises:
            InvalidInput: there is no such column, or more than one.
        """
        name = str(given)
        count = self.names.count(name)
        if count == 0:
            close = did_you_mean(name, list(dict.fromkeys(self.names)))
            raise InvalidInput(f"no column {name!r} in the frame.{close}")
        if count > 1:
            raise InvalidInput(
                f"{count} columns of the frame are called {name!r}: rename them, or leave out all "
                "but one"
            )
        return name

    def names_of(self, given: Any, what: str) -> tuple[str, ...]:
        """Return the texts of one or several labels; ``what`` names the argument in errors."""
        if given is None:
            return ()
        if hasattr(given, "shape") and not isinstance(given, np.generic):
            raise InvalidInput(
                f"with a data frame, {what} takes names of columns; got an array of shape "
                f"{given.shape}"
            )
        labels = [given] if self.is_label(given) else given
        return tuple(self.name(label) for label in labels)

    def table(self, names: Sequence[str]) -> Array:
        """Return columns as an array, ``[rows, columns]``."""
        return np.stack([to_numbers(self[name], f"column {name!r}") for name in names], axis=1)


def to_numbers(given: Any, what: str) -> Array:
    """Return an array of float64; None and NaN are missing values.

    Raises:
        InvalidInput: there are no values, or one is not a number or infinite.
    """
    try:
        if isinstance(given, Tensor):
            given = given.detach().cpu().double().numpy()
        array = np.asarray(given.to_numpy() if hasattr(given, "to_numpy") else given)
        if array.dtype.kind in "Mm":
            raise TypeError("got dates")
        values = array.astype(np.float64, order="C")  # sums depend on the order in memory
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{what} must be numbers: {error}") from None
    if np.isinf(values).any():
        row = int(np.argwhere(np.isinf(values))[0, 0])
        raise InvalidInput(f"{what}: an infinite value in row {row}")
    if values.size == 0:
        raise InvalidInput(f"{what}: there are no values")
    return values
