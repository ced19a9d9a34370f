"""Random splits of rows into folds, and into a training and a test set.

Every function returns row numbers, so that inputs, targets and weights are split alike.
"""

from __future__ import annotations

import torch
from torch import Tensor


def shuffled_folds(n_rows: int, n_folds: int, generator: torch.Generator) -> list[Tensor]:
    """Return disjoint folds of shuffled row numbers, which together contain every row once.

    Args:
        n_rows: number of rows.
        n_folds: number of folds; there are fewer if there are fewer rows.
        generator: source of the random order.

    Returns:
        Row numbers of each fold; all folds have the same length, except for a shorter last one.

    >>> folds = shuffled_folds(10, 4, torch.Generator().manual_seed(0))
    >>> [len(fold) for fold in folds], sorted(torch.cat(folds).tolist()) == list(range(10))
    ([3, 3, 3, 1], True)
    """
    return list(torch.randperm(n_rows, generator=generator).chunk(n_folds))


def train_test_rows(n_rows: int, n_test: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return the row numbers of a training set and of a test set, in random order.

    Args:
        n_rows: number of rows.
        n_test: number of rows in the test set.
        generator: source of the random order.
    """
    order = torch.randperm(n_rows, generator=generator)
    return order[n_test:], order[:n_test]


def complement(n_rows: int, rows: Tensor) -> Tensor:
    """Return the numbers of all other rows, in ascending order.

    >>> complement(5, torch.tensor([3, 0])).tolist()
    [1, 2, 4]
    """
    is_kept = torch.ones(n_rows, dtype=torch.bool, device=rows.device)
    is_kept[rows] = False
    return is_kept.nonzero().squeeze(1)
