"""Model selection: compare configurations by their scores on the same held-out rows.

``sklearn`` selects by cross-validation and ``forecast`` on the last windows of a series. Both make
one decision after the other, starting with the simpler configuration, and accept an alternative
only if it is clearly better. They supply the fits and the scores (``Evaluate``); ``ModelSearch``
keeps the results, and ``coordinate_search`` is the loop over the fields of a configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from torch import Tensor

C = TypeVar("C")


@dataclass(frozen=True)
class TrialResult(Generic[C]):
    """Scores of one configuration on held-out data.

    Attributes:
        config: the configuration, hashable.
        scores: one score for each held-out row or window, ``[n]``; larger is better. All
            configurations of a search are scored on the same rows, in the same order.
        noise_scale: factor on the noise variance that maximizes the scores (default 1).
        n_estimators: number of networks in the ensemble that was scored (default 1).
    """

    config: C
    scores: Tensor = field(repr=False)
    noise_scale: float = 1.0
    n_estimators: int = 1

    @property
    def mean(self) -> float:
        """Mean score over the held-out rows or windows."""
        return float(self.scores.mean())

    def is_significantly_better(self, other: TrialResult[C], standard_errors: float = 1.0) -> bool:
        """Return whether the mean of the paired differences exceeds their standard error.

        The differences are taken row by row, because the rows differ much more from each other
        than the configurations do.

        Args:
            other: the result to compare with, on the same rows.
            standard_errors: number of standard errors that the mean difference must exceed.
        """
        gain = self.scores - other.scores
        standard_error = gain.std() / len(gain) ** 0.5
        return bool(gain.mean() > standard_errors * standard_error)


Evaluate = Callable[[Sequence[C]], list[TrialResult[C]]]
"""Fits configurations, if possible in parallel, and returns their results in the same order."""
IsBetter = Callable[[TrialResult[C], TrialResult[C]], bool]
"""Whether the first result is clearly better than the second."""


def best_improvement(
    current: TrialResult[C],
    others: Iterable[TrialResult[C]],
    is_better: IsBetter[C] = TrialResult.is_significantly_better,
) -> TrialResult[C]:
    """Return the result of highest mean among those clearly better than the current one.

    Ties keep the current result, which is therefore the simpler configuration.
    """
    improvements = [other for other in others if is_better(other, current)]
    return max(improvements, key=lambda result: result.mean, default=current)


def last_improvement(
    current: TrialResult[C],
    others: Iterable[TrialResult[C]],
    is_better: IsBetter[C] = TrialResult.is_significantly_better,
) -> TrialResult[C]:
    """Return the last result that is clearly better than the best one before it.

    The others are ordered from simple to complex, and every step must pay for its complexity.
    """
    for other in others:
        if is_better(other, current):
            current = other
    return current


Select = Callable[[TrialResult[C], Sequence[TrialResult[C]]], TrialResult[C]]
"""Chooses between the current result and alternatives, like ``best_improvement``."""


class ModelSearch(Generic[C]):
    """The results of a search; a configuration is evaluated once.

    Args:
        evaluate: fits and scores configurations.

    Attributes:
        results: all results, in the order in which they were evaluated.
    """

    def __init__(self, evaluate: Evaluate[C]) -> None:
        self._evaluate = evaluate
        self.results: list[TrialResult[C]] = []
        self._known: dict[C, TrialResult[C]] = {}

    def evaluate(self, configs: Sequence[C]) -> list[TrialResult[C]]:
        """Return the results of configurations, evaluating those that are new in one call."""
        new = [config for config in dict.fromkeys(configs) if config not in self._known]
        if new:
            self.add(*self._evaluate(new))
        return [self._known[config] for config in configs]

    def add(self, *results: TrialResult[C]) -> None:
        """Append results that were obtained elsewhere; they replace earlier ones."""
        self.results.extend(results)
        self._known.update({result.config: result for result in results})


def coordinate_search(
    search: ModelSearch[Any],
    start: TrialResult[Any],
    steps: Iterable[tuple[str, Sequence[Any]]],
    select: Select[Any] = best_improvement,
) -> TrialResult[Any]:
    """Return the best result of a search over one field of the configuration after the other.

    Args:
        search: evaluates the configurations, which are dataclasses, and keeps the results.
        start: the result to begin with.
        steps: name of each field and the alternatives to its value, in order of the decisions.
        select: chooses between the current result and its alternatives.

    >>> import torch
    >>> @dataclass(frozen=True)
    ... class Config:
    ...     width: int = 1
    ...     epochs: int = 1
    >>> def evaluate(configs):
    ...     return [TrialResult(c, torch.ones(3) * (c.width - abs(c.epochs - 4))) for c in configs]
    >>> search = ModelSearch(evaluate)
    >>> start, = search.evaluate([Config()])
    >>> coordinate_search(search, start, [("width", [2, 3]), ("epochs", [4, 5])]).config
    Config(width=3, epochs=4)
    >>> len(search.results)
    5
    """
    for name, values in steps:
        alternatives = [replace(start.config, **{name: value}) for value in values]
        start = select(start, search.evaluate(alternatives))
    return start
