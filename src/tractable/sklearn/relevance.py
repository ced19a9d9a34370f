"""How much each column matters, as a factor on it: useless columns are shrunk away.

The prior of the first layer gives every column weights of the same variance, however little it
says; a hundred useless ones then drown three useful ones.  A column that is multiplied by a factor
has the prior variance of its weights multiplied by the square: so the factors are a prior of its
own for each column (automatic relevance determination: MacKay 1994, Neal 1996).  They are set to
the root mean square slope of the fitted mean along each column, in units of its deviation, and
scaled so that their squares have the mean 1; a few rounds of fitting and weighing settle them.

Approximate: slopes at a few rows, by difference quotients (of more than 256 columns by the
gradient of the networks at the means of their weights, in one backward pass); factors of a fit,
not a posterior.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tractable.learners import Ensemble, Learner
from tractable.learners.off_data.support import rms_column_slopes

LEAST = 1e-3
"""Of a factor, so that no column is lost for good."""
_ROWS = 200
_AT_ONCE = 8_192  # rows that are moved along a column
_MOST_DIFFERENCES = 256  # columns; rows times the square of their number are read


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
    if x.shape[1] > _MOST_DIFFERENCES:
        return _gradients(learner, x[:_ROWS] * factors.to(x)) * factors.double()

    def mean(at: Tensor) -> Tensor:
        return learner.outputs(learner.format.inputs(at), batch_size=_AT_ONCE).moments()[0]

    return rms_column_slopes(mean, x[:_ROWS] * factors.to(x), factors)


def _gradients(learner: Learner, x: Tensor) -> Tensor:
    """Root mean square gradient of the outputs' mean in each column, in double precision."""
    members = learner.members if isinstance(learner, Ensemble) else [learner]
    at = x.to(device=learner.device, dtype=learner.dtype).requires_grad_()
    with torch.enable_grad():
        mean = torch.stack([member.mean_module()(at) for member in members]).mean(0).flatten(1)
        sums = mean.sum(0).unbind()
        found = [torch.autograd.grad(total, at, retain_graph=True)[0] for total in sums]
    return torch.stack(found).double().square().mean(dim=(0, 1)).sqrt().to(x.device)
