"""Gradients of an expectation in the distribution that it is over, by two estimators.

``reparameterised`` moves the draws with the parameters (UDL E 17.25, 17.33); ``score`` leaves the
draws where they are and weighs them by how their density changes (E 17.34), which needs no
derivative of the function and has more variance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from torch import Tensor
from torch.distributions import Normal

Estimator = Literal["reparameterised", "score"]
ESTIMATORS = ("reparameterised", "score")


def expectation(
    function: Callable[[Tensor], Tensor], over: Normal, noise: Tensor, estimator: Estimator
) -> Tensor:
    """Values of a function at draws, whose gradient is an estimate of that of the expectation.

    With several draws the score estimator takes the mean of the others' values off each: the
    gradient is as right on average, with less variance.

    Args:
        function: takes draws ``[draws, ..., latent]``, gives ``[draws, ...]``.
        over: independent normals, ``[..., latent]``.
        noise: standard normal numbers, ``[draws, ..., latent]``.
        estimator: ``"reparameterised"`` or ``"score"``.

    Returns:
        The values, ``[draws, ...]``: their mean is the estimate.

    >>> import torch
    >>> mean = torch.tensor([1.5], requires_grad=True)
    >>> noise = torch.tensor([[0.5]])
    >>> value = expectation(lambda z: (z**2).sum(-1), Normal(mean, 1.0), noise, "score")
    >>> value.backward()
    >>> value.item(), mean.grad.item()  # z^2 and z^2 (z - mean)
    (4.0, 2.0)
    """
    if estimator not in ESTIMATORS:
        raise ValueError(f"estimator must be one of {ESTIMATORS}, got {estimator!r}")
    draws = over.loc + over.scale * noise
    if estimator == "reparameterised":
        return function(draws)
    draws = draws.detach()
    value = function(draws)
    gain, n = value.detach(), len(value)
    if n > 1:
        gain = (gain - gain.mean(0)) * n / (n - 1)  # the value less the mean of the others
    log_density = over.log_prob(draws).sum(-1)
    return value + gain * (log_density - log_density.detach())
