"""What is worth watching while a control agent learns: signs that tell failures apart."""

from __future__ import annotations

import torch
from torch import Tensor

from tractable.agents.control.advice import Advice

METRICS = ("slope", "slope_variance", "output", "output_variance", "action", "disagree")
"""Names of what ``metrics`` gives."""


def metrics(mean: Tensor, variance: Tensor, advice: Advice) -> Tensor:
    """The metrics of a batch, in the order of ``METRICS``.

    |dq/da|, its variance, the policy's outputs and their variance, |tanh|, and the share of
    actions where eqs. (3) and (4) point apart.
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
