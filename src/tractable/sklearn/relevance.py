"""How much each column matters, as a factor on it: useless columns are shrunk away.

The prior of the first layer gives every column weights of the same variance, however little it
says; a hundred useless ones then drown three useful ones.  A column that is multiplied by a factor
has the prior variance of its weights multiplied by the square: so the factors are a prior of its
own for each column (automatic relevance determination: MacKay 1994, Neal 1996).  They are set to
the root mean square slope of the fitted mean along each column, in units of its deviation, and
scaled so that their squares have the mean 1; a few rounds of fitting and weighing settle them.

Approximate: slopes by difference quotients at a few rows; factors of a fit, not a posterior.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tractable.learners import Learner
from tractable.learners.support import column_slopes

LEAST = 1e-3
"""Of a factor, so that no column is lost for good."""
_ROWS = 200
_AT_ONCE = 8_192  # rows that are moved along a column


def weights(learner: Learner, x: Tensor, before: Tensor) -> Tensor:
    """New factors on standardised columns.

    Args:
        learner: fitted to ``x * before``.
        x: standardised inputs.
        before: the factors so far.
    """
    varies = x.amax(0) > x.amin(0)
    square = torch.where(varies, slopes(learner, x, before).square(), 0.0)
    mean = square.sum() / varies.sum().clamp_min(1)
    if not bool(mean > 0):
        return before
    found = (square / mean).sqrt().clamp_min(LEAST)
    return torch.where(varies, found, 1.0).to(x.dtype)


def slopes(learner: Learner, x: Tensor, factors: Tensor) -> Tensor:
    """Root mean square slope of the outputs' mean along each standardised column.

    Args:
        learner: fitted to ``x * factors``.
        x: standardised inputs; a few of the rows are used.
        factors: on its columns.
    """

    def mean(at: Tensor) -> Tensor:
        return learner.outputs(learner.format.inputs(at), batch_size=_AT_ONCE).moments()[0]

    return column_slopes(mean, x[:_ROWS] * factors.to(x), factors)
