"""Normalisation by statistics that are treated as constants.

Exact: given the statistics (the map is then affine).
Approximate: the dependence of the statistics on the states is dropped, as in the authors' own
convolutional work; so are the covariances between the states that share them.
"""

from __future__ import annotations

import torch
from torch import Tensor


def statistics(mu: Tensor, var: Tensor | None, dims: list[int]) -> tuple[Tensor, Tensor]:
    """Mean and variance over ``dims`` of the mixture of Gaussians that the entries form.

    By the law of total variance: the variance of the means plus the mean of the variances.
    """
    variance, centre = torch.var_mean(mu, dims, correction=0, keepdim=True)
    if var is not None:
        variance = variance + var.mean(dims, keepdim=True)
    return centre, variance
