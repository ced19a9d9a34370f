"""What a model of rows predicts: a distribution over a new row, in the units of the data."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tractable.errors import InvalidInput, Unsupported
from tractable.generative.columns import Columns, as_rows

_BEYOND = 1e6  # deviations from which a density may overflow


class Density(ABC):
    """A distribution over rows as a model has it inside: standardised columns, tensors in and out.

    Without a context it is one distribution; with one of k rows it is k of them.
    """

    @abstractmethod
    def log_prob(self, z: Tensor) -> Tensor:
        """Log density of each row, in nats; with k contexts, row i under context i."""

    @abstractmethod
    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """Rows ``[n, columns]``; with a context of k rows ``[n, k, columns]``."""

    def log_prob_draws(self, z: Tensor) -> Tensor:
        """Log density under each draw of the weights (or member), in front of the rows.

        One draw where the weights are certain, or where the model cannot tell.
        """
        return self.log_prob(z).unsqueeze(0)

    def complete(self, z: Tensor, known: Tensor, draws: int, generator: torch.Generator) -> Tensor:
        """Draws of the columns that are not known given those that are.

        Args:
            z: rows, anything where not known.
            known: which values are.
            draws: how many for each row.
            generator: where to draw from.

        Returns:
            ``[draws, rows, columns]``.
        """
        raise Unsupported(
            f"{type(self).__name__} cannot fill holes: generative.GaussianMixture fills them in "
            f"closed form, generative.VAE and Diffusion by sampling"
        )


def row_by_row(context: Tensor | None, rows: int) -> Tensor | None:
    """A context with a row for each of so many rows; one row of it goes with all."""
    if context is None or len(context) == rows:
        return context
    return context.expand(rows, -1)


class RowPredictive:
    """The distribution of a new row, or of one new row for each row of a context.

    Args:
        density: the distribution, in the model's units.
        columns: from the units of the data and back.
        contexts: rows of the context; None without one.
        held_out: log densities of rows that the model did not learn from (made when asked).
        dtype: precision of rows.
        seed: seed of samples for which no generator is given.
    """

    def __init__(
        self,
        density: Density,
        columns: Columns,
        *,
        contexts: int | None,
        held_out: Callable[[], Tensor],
        dtype: torch.dtype,
        seed: int,
    ) -> None:
        self.density, self.columns, self.contexts = density, columns, contexts
        self.dtype, self.seed = dtype, seed
        self._held_out, self._reference = held_out, None  # type: Callable[[], Tensor], Any

    def log_prob(self, rows: Any) -> Tensor:
        """Log density of each row, in nats, in the units of the data.

        Args:
            rows: ``[m, columns]``; with a context of k rows, m is k, and row i is judged under
                context i (a context of one row goes with any number).
        """
        return self._judged(rows, self.density.log_prob)

    def epistemic(self, rows: Any) -> Tensor:
        """How far draws of the weights (or members) disagree about each row, in nats.

        The standard deviation of the log density; 0 where the weights are certain.
        """
        return self._judged(rows, lambda z: self.density.log_prob_draws(z).std(0, correction=0), 0)

    def novelty(self, rows: Any) -> Tensor:
        """The share of rows held out of the training that have a higher density than each row.

        Evenly spread over 0 to 1 for new rows of the same kind, whatever the table and however
        good the model: 0.99 is what one row in a hundred has.  Near 1 for rows that do not belong;
        NaN where the log density is.
        """
        if self._reference is None:
            self._reference = self._held_out().double().nan_to_num(-math.inf).sort().values
        found = self.log_prob(rows).double()
        number = len(self._reference)
        higher = number - torch.searchsorted(self._reference, found, right=True)
        return torch.where(found.isnan(), found, higher / number).to(self.dtype)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """New rows, in the units of the data.

        Args:
            n: how many; with a context, how many for each of its rows.
            generator: where to draw from; by default one with the model's seed, so that the same
                call gives the same rows.

        Returns:
            ``[n, columns]``, or ``[n, k, columns]`` with a context of k rows.
        """
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise ValueError(f"the number of samples must be a whole number from 1, got {n!r}")
        generator = torch.Generator().manual_seed(self.seed) if generator is None else generator
        with torch.no_grad():
            return self.columns.outward(self.density.sample(n, generator))

    def complete(
        self, rows: Any, draws: int = 1, generator: torch.Generator | None = None
    ) -> Tensor:
        """Rows with their holes (NaN) filled in by draws given what is known of each row.

        Args:
            rows: ``[m, columns]``, NaN where a value is missing.
            draws: how many for each row.
            generator: where to draw from; by default one with the model's seed.

        Returns:
            ``[draws, m, columns]``, in the units of the data; what was known is as it was.
        """
        given = as_rows(rows, "rows", self.dtype, len(self.columns.steps), holes=True)
        known = ~given.isnan()
        whole = torch.where(known, given, self.columns.units.mean.to(self.dtype))
        if self.contexts not in (None, 1, len(whole)):
            raise InvalidInput(f"there are {len(whole)} rows and a context of {self.contexts}")
        generator = torch.Generator().manual_seed(self.seed) if generator is None else generator
        holed = ~known.all(1)
        if self.contexts not in (None, 1):  # rows stay beside their contexts
            holed = torch.ones_like(holed)
        filled = whole.repeat(draws, 1, 1)
        if bool(holed.any()):
            with torch.no_grad():
                z = self.columns.inward(whole[holed], self.dtype)
                seen = known[holed][:, self.columns.kept]
                found = self.columns.outward(self.density.complete(z, seen, draws, generator))
            filled[:, holed] = torch.where(known[holed], filled[:, holed], found)
        return filled

    def _judged(self, given: Any, ask: Callable[[Tensor], Tensor], scaled: int = 1) -> Tensor:
        rows = as_rows(given, "rows", self.dtype, len(self.columns.steps))
        if self.contexts not in (None, 1, len(rows)):
            raise InvalidInput(
                f"there are {len(rows)} rows and a context of {self.contexts}: row i is judged "
                f"under context i"
            )
        z = self.columns.inward(rows, self.dtype)
        with torch.no_grad():
            found = ask(z)
        found = found - scaled * self.columns.log_scale
        if not scaled:
            return found
        # So far out that squares overflow a density is no number: it is zero.
        possible = self.columns.possible(rows) & ~(found.isnan() & (z.abs() > _BEYOND).any(1))
        return torch.where(possible, found, found.new_tensor(-math.inf))

    def __repr__(self) -> str:
        """What it is a distribution over."""
        of = "" if self.contexts is None else f", contexts={self.contexts}"
        return f"RowPredictive(columns={len(self.columns.steps)}{of})"


def no_density(model: str, why: str) -> Unsupported:
    """The error of models that have samples and no density."""
    return Unsupported(f"{model} has no log_prob, and so no novelty: {why}")
