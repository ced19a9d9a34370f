"""A likelihood of residuals that gives outliers less weight.

A normal density gives a residual of a thousand standard deviations more weight than all other
residuals together.  The density used here is normal up to k = 3.5 standard deviations and falls
like ``|e|^-(k^2)`` beyond, so that the score of an outlier is that of the normal density times
``k^2 / chi2`` with ``chi2 = e^2 / S``.
"""

from __future__ import annotations

import torch
from torch import Tensor

OUTLIER_THRESHOLD = 3.5
"""Standard deviations up to which a residual has full weight."""


def robust_chi2(chi2: Tensor) -> Tensor:
    """Return ``-2 log`` of the robust density, up to a constant.

    Args:
        chi2: squared residuals divided by their predicted variance.
    """
    edge = OUTLIER_THRESHOLD**2
    return torch.where(chi2 > edge, edge * (1 + (chi2.clamp_min(edge) / edge).log()), chi2)
