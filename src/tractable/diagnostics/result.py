"""Base class of diagnostic results: a frozen record with a table, a figure and a JSON form."""

from __future__ import annotations

import dataclasses
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from tractable.persistence.atomic import write_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Cell = str | float | int | None


class DiagnosticResult(ABC):
    """Frozen dataclass with a table, a figure and a JSON form; ``print`` shows the table."""

    @abstractmethod
    def table_header(self) -> list[str]:
        """Return the names of the table's columns."""

    @abstractmethod
    def table_rows(self) -> list[list[Cell]]:
        """Return the rows of the table."""

    @abstractmethod
    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the result on the given axes, or on new ones; return the axes."""

    def recommendation(self) -> str:
        """Return a recommendation in one sentence; empty if there is none."""
        return ""

    def table(self) -> str:
        """Return the table as text with aligned columns."""
        lines = [
            self.table_header(),
            *([format_cell(cell) for cell in row] for row in self.table_rows()),
        ]
        widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
        right = [_numeric([row[i] for row in self.table_rows()]) for i in range(len(widths))]
        return "\n".join(
            "  ".join(
                cell.rjust(w) if r else cell.ljust(w)
                for cell, w, r in zip(line, widths, right, strict=True)
            ).rstrip()
            for line in lines
        )

    def __str__(self) -> str:
        return "\n".join(part for part in (self.table(), self.recommendation()) if part)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as plain values; numbers that JSON cannot represent become None."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        held = {field.name: to_json_value(getattr(self, field.name)) for field in fields}
        return {"diagnostic": type(self).__name__, **held, "recommendation": self.recommendation()}

    def to_json(self, path: str | Path | None = None) -> str:
        """Return the result as JSON text, and write it to a file if ``path`` is given."""
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False)
        if path is not None:
            write_text(Path(path), text + "\n")
        return text


def format_cell(cell: Cell) -> str:
    """Return a cell of a table as text.

    >>> [format_cell(cell) for cell in (0.012346, 3, None, "Linear", float("nan"), 123456.0)]
    ['0.01235', '3', '–', 'Linear', '–', '1.235e+05']
    """
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return "–"
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def to_json_value(value: Any) -> Any:
    """Convert tensors, arrays, tuples and dataclasses to JSON values."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json_value(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Tensor | np.ndarray | np.generic):
        return to_json_value(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): to_json_value(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_value(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _numeric(cells: Sequence[Cell]) -> bool:
    return all(isinstance(cell, int | float) or cell is None for cell in cells)
