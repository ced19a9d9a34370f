"""Training metrics of a control agent, for the diagnosis of failures."""

from __future__ import annotations

import torch
from torch import Tensor

from tractable.agents.control.advice import Advice

METRICS = ("slope", "slope_variance", "output", "output_variance", "action", "disagree")
"""Names of the entries that ``metrics`` returns."""


def metrics(mean: Tensor, variance: Tensor, advice: Advice) -> Tensor:
    """Return the metrics of a batch, in the order of ``METRICS``.

    They are |dq/da|, its variance, the policy's outputs and their variance, |tanh|, and the
    fraction of actions for which eqs. (3) and (4) have opposite directions.
    """
    agree = advice.curvature < 0  # eq. (3) moves by -h g, eq. (4) by +|h g| along the sign of g
    return torch.stack(
        [
            advice.slope.abs().mean(),
            advice.slope_variance.mean(),
            mean.abs().mean(),
            variance.mean(),
            torch.tanh(mean).abs().mean(),
            1 - agree.float().mean(),
        ]
    )
