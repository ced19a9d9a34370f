"""Slopes of activations, as ``tractable.moments.derivative`` needs them.

Every smooth slope here is a quadratic of its activation, ``phi' = k + l a - a^2`` (tanh: k = 1,
l = 0; sigmoid: k = 0, l = 1), with ``g = l - 2 E[a]``; tanh gives eqs. (39) to (47):

    E[phi']          = k + l E[a] - E[a]^2 - var a                                     (40)
    var phi'         = var a (g^2 + 2 var a)                                           (41)
    cov(phi', u)     = g cov(a, u)                                             (42, 46, 47)
    cov(phi', phi'~) = g g~ c + 2 c^2,   c = cov(a, a~)                                (44)

Piecewise linear ones have a constant slope, decided by the sign of the mean (48).

Exact: the formulas, for a Gaussian activation.
Approximate: activations are linearised (10), so that they are Gaussian.

Source: Nguyen & Goulet, appendix B, with the misprints of eqs. 41, 46 and 48 put right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tractable.moments import activation as act


@dataclass(frozen=True)
class Units:
    """One layer: states ``z``, activations ``a`` and slopes ``phi'(z)``, one row per input.

    ``k + l a - a^2`` at the mean is the jacobian, so that a smooth slope has the mean
    ``J - var a``, and its own slope, ``phi'' = (l - 2 a) phi'``, the mean ``g (J - 3 var a)``.
    What follows from these four is computed when asked for, anew each time: it is the caller's
    to write into.
    """

    mean: Tensor
    """E[a]"""
    variance: Tensor
    """var a"""
    jacobian: Tensor
    """J = phi'(E[z]), so that cov(a, u) = J cov(z, u)"""
    linear: float | None = None
    """l, or None where the slope is constant"""

    @property
    def bend(self) -> Tensor | None:
        """The factor g, or None where the slope is constant."""
        if self.linear is None:
            return None
        g = -2 * self.mean
        return g.add_(self.linear) if self.linear else g

    @property
    def slope(self) -> Tensor:
        """E[phi'(z)] (40); where it is constant, the jacobian itself."""
        return self.jacobian if self.linear is None else self.jacobian - self.variance

    @property
    def slope_variance(self) -> Tensor | None:
        """Variance of phi'(z) (41), or None where it is zero."""
        g = self.bend
        return None if g is None else g.square_().add_(self.variance, alpha=2).mul_(self.variance)

    @property
    def second(self) -> Tensor | None:
        """E[phi''(z)], or None where it is zero."""
        g = self.bend
        return None if g is None else g.mul_(self.jacobian - 3 * self.variance)


def linear(mu: Tensor, var: Tensor) -> Units:
    """``a = z``."""
    return Units(mu, var, torch.ones_like(mu))


def relu(mu: Tensor, var: Tensor) -> Units:
    """Slope 1 where the mean is positive, else 0 (48)."""
    return leaky_relu(mu, var, 0.0)


def leaky_relu(mu: Tensor, var: Tensor, negative_slope: float = 0.01) -> Units:
    """Slope 1 where the mean is positive, else ``negative_slope``."""
    a, j = act.leaky_relu(mu, negative_slope)
    return Units(a, (var * j).mul_(j), j)


def tanh(mu: Tensor, var: Tensor) -> Units:
    """``phi' = 1 - a^2``."""
    a, j = act.tanh(mu)
    return Units(a, (var * j).mul_(j), j, 0.0)


def sigmoid(mu: Tensor, var: Tensor) -> Units:
    """``phi' = a - a^2``."""
    a, j = act.sigmoid(mu)
    return Units(a, (var * j).mul_(j), j, 1.0)


Slopes = Callable[[Tensor, Tensor], Units]
