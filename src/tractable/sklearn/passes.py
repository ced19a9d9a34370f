"""How often to learn the rows: chosen on rows held out.

Every pass takes the same rows for new evidence, so the right number depends on the noise: forty
serve data that are nearly exact, five those that are mostly noise.  Tried are the usual number, a
half, a quarter and an eighth of it; what counts is the likelihood of rows held out, with the
noise scaled to suit them.  The usual number stands unless another is better by two standard
errors of the difference, row by row: near ties are chance.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor

from tractable.learners import Learner
from tractable.learners.base import usual_epochs
from tractable.learners.held_out import held_out, tenths
from tractable.likelihoods.base import HeldOut


def choose(learner: Learner, x: Tensor, y: Tensor, *, batch_size: int | None) -> tuple[int, float]:
    """The number of passes, and the scale of the noise that goes with it.

    Args:
        learner: as it is before it learns; it is left as it is.
        x: all rows.
        y: their targets.
        batch_size: of the fits, as ``Learner.fit`` takes it.
    """
    return compare(learner, x, y, tenths(learner, len(x)), batch_size=batch_size)


def compare(
    learner: Learner, x: Tensor, y: Tensor, parts: Sequence[Tensor], *, batch_size: int | None
) -> tuple[int, float]:
    """The same with these rows held out in turn."""
    x, y = learner._checked(x, y)
    most = usual_epochs(len(x))
    tried: dict[int, tuple[Tensor, float]] = {}
    for passes in sorted({max(most // k, 1) for k in (1, 2, 4, 8)}, reverse=True):
        seen = held_out(learner, x, y, parts, epochs=passes, batch_size=batch_size, progress=False)
        tried[passes] = _score(learner, seen)
    best, most_gained = most, 0.0
    for passes, (log_probs, _) in tried.items():
        gained = log_probs - tried[most][0]
        clearly = gained.mean() > 2 * gained.std() / len(gained) ** 0.5
        if clearly and gained.mean() > most_gained:
            best, most_gained = passes, float(gained.mean())
    return best, tried[best][1]


def _score(learner: Learner, seen: list[HeldOut]) -> tuple[Tensor, float]:
    """Log-likelihood of each row that was held out, with the noise scaled; the scale."""
    scale = learner.likelihood.held_out_scale(seen)
    parts = []
    for likelihood, targets, mean, variance in seen:
        scaled = copy.deepcopy(likelihood)
        scaled.rescale(scale)
        parts.append(scaled.predictive(mean, variance).log_prob(targets).double())
    return torch.cat(parts), scale
