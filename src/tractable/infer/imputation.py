"""Filling holes: what is missing in a row, given what is there and a model of rows.

Known columns condition the rest, as draws from their joint distribution: so the holes of a row fit
each other, and what is computed from completed tables has the right spread (Rubin, "Multiple
imputation", 1987).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor


class Completes(Protocol):
    """What a model's prediction must offer: rows with their holes drawn given the rest."""

    def impute(self, rows: Any, draws: int = 1, generator: torch.Generator | None = None) -> Tensor:
        """``[draws, rows, columns]``, known values as they were."""


class ModelOfRows(Protocol):
    """A model of ``tractable.generative``, with the methods that are used here."""

    def predict(self, context: Any = None, **options: Any) -> Any:
        """The distribution of a row, given a context if it was fitted with one."""


@dataclass(frozen=True)
class Imputation:
    """Tables whose missing values are sampled given the observed ones.

    Attributes:
        draws: ``[draws, rows, columns]``; known values are the same in all.
        missing: which values were, ``[rows, columns]``.
    """

    draws: Tensor
    missing: Tensor

    @property
    def mean(self) -> Tensor:
        """The table with each missing value replaced by the mean of its samples."""
        return torch.where(self.missing, self.draws.mean(0), self.draws[0])

    @property
    def std(self) -> Tensor:
        """Standard deviation of the samples; 0 for observed values."""
        if len(self.draws) < 2:
            raise ValueError("a standard deviation needs at least two draws")
        return self.draws.std(0) * self.missing

    def interval(self, level: float = 0.9) -> tuple[Tensor, Tensor]:
        """Return lower and upper ends of intervals; observed values are both ends.

        Exact: were the hole one more draw, it would lie inside with probability ``level``.  Of n
        draws the k-th smallest has k / (n + 1) of the distribution below it on average, not
        (k - 1) / (n - 1): so two draws hold a third between them.  Approximate: below ``2 / (1 -
        level) - 1`` draws (19 for 0.9) the interval is from the least to the greatest, too narrow.
        """
        if not 0 < level < 1:
            raise ValueError(f"level must lie between 0 and 1, got {level}")
        # By sorting: torch.quantile takes no more than 16 million numbers.
        n, ordered = len(self.draws), self.draws.sort(0).values
        places = [(n + 1) * share - 1 for share in ((1 - level) / 2, (1 + level) / 2)]
        low, high = (
            torch.lerp(ordered[math.floor(at)], ordered[math.ceil(at)], at - math.floor(at))
            for at in (min(max(place, 0.0), n - 1.0) for place in places)
        )
        known = self.draws[0]
        return torch.where(self.missing, low, known), torch.where(self.missing, high, known)

    def __len__(self) -> int:
        return len(self.draws)


def impute(
    model: ModelOfRows,
    rows: Any,
    *,
    context: Any = None,
    n_samples: int = 20,
    generator: torch.Generator | None = None,
    **options: Any,
) -> Imputation:
    """Sample the missing values of rows from a generative model, given the observed values.

    Exact for ``generative.GaussianMixture``; other models say how far they are.

    Args:
        model: a fitted model of ``tractable.generative`` that has conditional distributions.
        rows: a table with NaN where a value is missing.
        context: rows to condition on as well, for a model that was fitted with a context.
        n_samples: how many times to fill every hole: 20 will do for a mean, a 90 % interval wants
            200.
        generator: where to draw from; by default one with the model's seed.
        options: further arguments of the model's ``predict``.

    >>> import tractable as tr
    >>> x = torch.randn(500, 1, generator=torch.Generator().manual_seed(0))
    >>> model = tr.generative.GaussianMixture(1).fit(torch.cat([x, 2 * x + 0.1 * x.flip(0)], 1))
    >>> found = impute(model, [[1.0, float("nan")]], n_samples=200)
    >>> round(found.mean[0, 1].item()), found.std[0, 0].item()
    (2, 0.0)
    """
    if isinstance(n_samples, bool) or not isinstance(n_samples, int) or n_samples < 1:
        raise ValueError(f"n_samples must be an integer of at least 1, got {n_samples!r}")
    predict = getattr(model, "predict", None)
    predictive: Any = predict(context, **options) if callable(predict) else None
    if not hasattr(predictive, "impute"):
        raise TypeError(
            f"impute needs a model of rows, such as generative.GaussianMixture; got "
            f"{type(model).__name__}"
        )
    filled = predictive.impute(rows, n_samples, generator)
    table = torch.as_tensor(rows).reshape(filled.shape[1:])
    return Imputation(filled, table.isnan())
