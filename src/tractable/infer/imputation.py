"""Multiple imputation: missing values of rows, sampled given the observed ones.

The missing values of a row are sampled jointly from their distribution given the observed values.
They are therefore consistent with each other, and estimates from the completed tables have the
right spread (Rubin, "Multiple imputation", 1987).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor


class Completes(Protocol):
    """A prediction that can sample the missing values of rows, given the observed ones."""

    def impute(self, rows: Any, draws: int = 1, generator: torch.Generator | None = None) -> Tensor:
        """Return ``[draws, rows, columns]``, with unchanged observed values."""


class ModelOfRows(Protocol):
    """A model of ``tractable.generative``, with the methods that are used here."""

    def predict(self, context: Any = None, **options: Any) -> Any:
        """Return the distribution of a row, given a context if the model was fitted with one."""


@dataclass(frozen=True)
class Imputation:
    """Tables whose missing values are sampled given the observed ones.

    Attributes:
        draws: ``[draws, rows, columns]``; observed values are the same in all draws.
        missing: mask of the missing values, ``[rows, columns]``.
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
            raise ValueError(
                "got one sample, expected at least two draws for a standard deviation: use "
                "n_samples=2 or more"
            )
        return self.draws.std(0) * self.missing

    def interval(self, level: float = 0.9) -> tuple[Tensor, Tensor]:
        """Return lower and upper ends of intervals; observed values are both ends.

        Exact: one more draw would lie inside with probability ``level``, because the k-th smallest
        of n draws has on average the share k / (n + 1) of the distribution below it.
        Approximate: with fewer than ``2 / (1 - level) - 1`` draws (19 for 0.9) the interval extends
        from the smallest to the largest draw, which is too narrow.
        """
        if not 0 < level < 1:
            raise ValueError(f"level must lie between 0 and 1, got {level}")
        # Sorting, because torch.quantile supports at most 16 million numbers.
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

    Exact for ``generative.GaussianMixture``; other models state their approximation.

    Args:
        model: a fitted model of ``tractable.generative`` that has conditional distributions.
        rows: a table with NaN for missing values.
        context: rows of a context, for a model that was fitted with one.
        n_samples: number of samples of every missing value: 20 suffice for a mean, a 90 % interval
            needs 200.
        generator: random generator. Default: one with the model's seed.
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
            f"model must have conditional distributions of rows, such as "
            f"generative.GaussianMixture; got {type(model).__name__}"
        )
    filled = predictive.impute(rows, n_samples, generator)
    table = torch.as_tensor(rows).reshape(filled.shape[1:])
    return Imputation(filled, table.isnan())
