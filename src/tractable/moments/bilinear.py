"""Moments and messages of every map that is linear in each of two independent Gaussians.

Linear layers, convolutions, matrix products and elementwise products are all

    z_k = sum of x_i * w_j over the pairs (i, j) that meet in k,   plus b_k

so one pair of formulas serves them; a ``BilinearMap`` says only which pairs meet.

Source: Nguyen & Goulet, eqs. (8), (9), (11) and (14) with zero covariance.
Exact: mean and variance of each entry, if x and w are independent with independent entries.
Approximate: entries of z are treated as independent of each other (eq. 9), and z as Gaussian.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

Needs = tuple[bool, bool, bool]
BackwardParts = tuple[Tensor | None, Tensor | None, Tensor | None]


class BilinearMap(Protocol):
    """Which entries of x and w meet in which entry of z."""

    def apply(self, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
        """The sum of the products that meet in each entry of z, plus ``b``."""
        ...

    def pull(self, d: Tensor, x: Tensor, w: Tensor, needs: Needs) -> BackwardParts:
        """The transposes: from an entry of z back to the x, w and b that met in it."""
        ...


def forward(
    map: BilinearMap,
    x: tuple[Tensor, Tensor | None],
    w: tuple[Tensor, Tensor | None],
    b: tuple[Tensor | None, Tensor | None],
) -> tuple[Tensor, Tensor]:
    """Mean and variance of ``map(x, w) + b``; a variance of ``None`` marks a constant.

    ``E[z] = sum mu_x mu_w`` and ``var z = sum (mu_x^2 v_w + v_x (mu_w^2 + v_w))``, which is
    eq. (14) with the last two terms gathered into one product.
    """
    (mu_x, var_x), (mu_w, var_w), (mu_b, var_b) = x, w, b
    mean = map.apply(mu_x, mu_w, mu_b)
    if var_x is None and var_w is None:
        raise TypeError("a product of two constants has no moments to compute")
    if var_w is None:
        assert var_x is not None
        return mean, map.apply(var_x, mu_w * mu_w, var_b)
    variance = map.apply(mu_x * mu_x, var_w, var_b)
    if var_x is not None:
        variance += map.apply(var_x, (mu_w * mu_w).add_(var_w), None)
    return mean, variance


def messages(
    map: BilinearMap,
    d_mu: Tensor,
    d_var: Tensor,
    mu_x: Tensor,
    mu_w: Tensor,
    needs_mu: Needs,
    needs_var: Needs,
) -> tuple[BackwardParts, BackwardParts]:
    """Messages to ``(x, w, b)`` for the means and for the variances.

    ``cov(z, w) = v_w mu_x`` and ``cov(z, x) = v_x mu_w``, so a message is multiplied by the mean
    of the partner, and a variance message by its square.
    """
    to_means = map.pull(d_mu, mu_x, mu_w, needs_mu)
    if not any(needs_var):
        return to_means, (None, None, None)
    squared_x = mu_x * mu_x if needs_var[1] else mu_x
    squared_w = mu_w * mu_w if needs_var[0] else mu_w
    return to_means, map.pull(d_var, squared_x, squared_w, needs_var)
