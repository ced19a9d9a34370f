"""Gradients of an expectation in the distribution that it is over, by three estimators.

``reparameterised`` moves the draws with the parameters (UDL E 17.25, 17.33); ``score`` leaves the
draws where they are and weighs them by how their density changes (E 17.34), which needs no
derivative of the function and has more variance.  ``doubly`` is for importance weights: with many
samples the plain gradient of what proposes them drowns in its noise (Rainforth et al., "Tighter
variational bounds are not necessarily better", 2018), and this one does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from torch import Tensor
from torch.distributions import Normal

Estimator = Literal["reparameterised", "score", "doubly"]
_OF_EXPECTATIONS = ("reparameterised", "score")
ESTIMATORS = (*_OF_EXPECTATIONS, "doubly")


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
    if estimator not in _OF_EXPECTATIONS:
        raise ValueError(f"estimator must be one of {_OF_EXPECTATIONS}, got {estimator!r}")
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


def doubly_reparameterised(
    log_joint: Callable[[Tensor], Tensor], over: Normal, noise: Tensor
) -> Tensor:
    """The bound ``log mean_k p(x, z_k) / q(z_k)``, whose gradient has less variance.

    Tucker et al., "Doubly reparameterized gradient estimators for Monte Carlo objectives" (2019),
    eq. 8: with weights ``w_k`` that sum to one, the gradient of the joint is ``sum w_k d log p``,
    that of ``q`` is ``sum w_k^2 (d log p / dz - d log q / dz) dz``, and the dependence of
    ``log q`` on its own parameters, whose gradient is zero on average, is left out.

    Args:
        log_joint: takes draws ``[draws, ..., latent]``, gives ``[draws, ...]``, but for a constant
            ``latent log(2 pi) / 2`` that cancels that of ``q``.
        over: independent normals, ``[..., latent]``.
        noise: standard normal numbers, ``[draws, ..., latent]``.
    """
    z = over.loc + over.scale * noise
    mean, scale = over.loc.detach(), over.scale.detach()
    log_q = -(0.5 * ((z - mean) / scale) ** 2 + scale.log()).sum(-1)
    log_weights = log_joint(z) - log_q
    share = log_weights.detach().softmax(0)
    if z.requires_grad:
        z.register_hook(lambda gradient: gradient * share.unsqueeze(-1))
    value = (share * log_weights).sum(0)
    bound = log_weights.detach().logsumexp(0) - math.log(len(noise))
    return bound + value - value.detach()
