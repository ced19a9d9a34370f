"""The losses of generative adversarial networks, as functions of a discriminator's scores.

A score is the logit that a row is of the data (logistic), or a critic's value (Wasserstein).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import softplus


def discriminator_loss(real: Tensor, made: Tensor) -> Tensor:
    """``-E log D(x) - E log(1 - D(x*))`` of logits (UDL E 15.8).

    The best discriminator has ``2 log 2 - 2 JS``: twice ``log 2`` less the Jensen–Shannon
    divergence of data and what is made.  It is the binary cross-entropy of the labelled union
    (E 15.2), each half counting fully.
    """
    return softplus(-real).mean() + softplus(made).mean()


def generator_loss(made: Tensor, *, saturating: bool = False) -> Tensor:
    """What the generator lowers, given the logits of what it made.

    Args:
        made: logits.
        saturating: minus the generated part of ``discriminator_loss`` (E 15.5), whose gradient
            vanishes where the discriminator is sure; by default ``-E log D(x*)`` instead
            (Goodfellow et al., 2014), with the same fixed point.
    """
    return -softplus(made).mean() if saturating else softplus(-made).mean()


def critic_loss(real: Tensor, made: Tensor) -> Tensor:
    """``E f(x*) - E f(x)`` (UDL E 15.16): minus the Wasserstein distance at the best ``f``."""
    return made.mean() - real.mean()


def gradient_penalty(
    critic: Callable[[Tensor], Tensor], real: Tensor, made: Tensor, share: Tensor
) -> Tensor:
    """``E (|grad f| - 1)^2`` at places between real and made rows.

    Gulrajani et al., "Improved training of Wasserstein GANs" (2017), eq. 3.

    Args:
        critic: from rows to scores.
        real: rows of the data.
        made: as many made rows.
        share: how far between each pair to look, ``[rows, 1]``, from 0 to 1.
    """
    between = (real + share * (made - real)).detach().requires_grad_()
    (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    return (slope.flatten(1).norm(dim=1) - 1).square().mean()


def truncated_normal(
    shape: tuple[int, ...], most: float, generator: torch.Generator, dtype: torch.dtype
) -> Tensor:
    """Standard normal numbers, given that each lies between ``-most`` and ``most``."""
    end = torch.special.ndtr(torch.tensor(most, dtype=torch.float64))
    uniform = torch.rand(shape, generator=generator, dtype=torch.float64)
    return torch.special.ndtri((1 - end) + uniform * (2 * end - 1)).to(dtype)


def kept_mass(most: float, coordinates: int = 1) -> float:
    """Probability that all coordinates of a standard normal lie within ``-most..most`` (B 15.6)."""
    inside = torch.special.erf(torch.tensor(most / 2**0.5, dtype=torch.float64))
    return float(inside**coordinates)
