"""Rows held out in turn from copies of a learner, and what the copies say about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tractable.learners.many import fit_many
from tractable.likelihoods.base import HeldOut

if TYPE_CHECKING:
    from tractable.learners.base import Learner

FEW_ROWS = 2_000
"""Below, five tenths are held out in turn; above, one tenth is enough."""


def tenths(learner: Learner, rows: int) -> tuple[Tensor, ...]:
    """The rows to hold out, drawn by the learner's generator."""
    order = torch.randperm(rows, generator=learner.generator).to(learner.device)
    return order.chunk(10)[: 5 if rows < FEW_ROWS else 1]


def held_out(
    learner: Learner, x: Tensor, y: Tensor, parts: Sequence[Tensor], **options: Any
) -> list[HeldOut]:
    """Fit a copy of the learner to the other rows of each part; its moments of the part.

    Args:
        learner: as it is before it learns; it is left as it is.
        x: checked inputs.
        y: checked targets.
        parts: the rows to hold out in turn.
        options: of ``fit_many``.
    """
    jobs = []
    for fold, out in enumerate(parts):
        keep = torch.ones(len(x), dtype=torch.bool, device=x.device)
        keep[out] = False
        jobs.append((learner._twin(seed=fold), x[keep], y[keep]))
    found: list[HeldOut] = []
    for twin, out in zip(fit_many(jobs, **options), parts, strict=True):
        moments = twin._moments(twin._all_outputs(x[out], 1024))
        found.append((twin.likelihood, y[out], *moments))
    return found
