"""Moments and messages of maps that are linear in each of two independent Gaussians.

Linear layers, convolutions, matrix products and elementwise products all have the form

    z_k = sum of x_i * w_j over the pairs (i, j) that belong to k,   plus b_k

so that one pair of formulas serves them all; a ``BilinearMap`` defines which pairs belong to k.

Source: Nguyen & Goulet, eqs. (8), (9), (11) and (14) with zero covariance.
Exact: mean and variance of each entry, if x and w are independent with independent entries.
Approximate: the entries of z are treated as independent of each other (eq. 9), and z as Gaussian.
"""

from __future__ import annotations

from torch import Tensor

Needs = tuple[bool, bool, bool]
BackwardParts = tuple[Tensor | None, Tensor | None, Tensor | None]


class BilinearMap:
    """A bilinear map: which entries of x and w are multiplied for each entry of z.

    A plain class and not a protocol, because rules ask often which map it is.
    """

    def apply(self, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
        """Return the sum of the products for each entry of z, plus ``b``."""
        raise NotImplementedError

    def pull(self, d: Tensor, x: Tensor, w: Tensor, needs: Needs) -> BackwardParts:
        """Return the transposes, from ``d`` in the shape of z back to x, w and b.

        Args:
            d: gradient or message in the shape of z.
            x: the first factor (or its square).
            w: the second factor (or its square).
            needs: which of the three results are needed; the others may be None.
        """
        raise NotImplementedError


def forward(
    map: BilinearMap,
    x: tuple[Tensor, Tensor | None],
    w: tuple[Tensor, Tensor | None],
    b: tuple[Tensor | None, Tensor | None],
) -> tuple[Tensor, Tensor]:
    """Return mean and variance of ``map(x, w) + b``.

    ``E[z] = sum mu_x mu_w`` and ``var z = sum (mu_x^2 v_w + v_x (mu_w^2 + v_w))``, which is
    eq. (14) with the last two terms combined into one product.

    Args:
        map: the bilinear map.
        x: mean and variance; a variance of None marks a constant.
        w: mean and variance.
        b: mean and variance, or None twice.
    """
    (mu_x, var_x), (mu_w, var_w), (mu_b, var_b) = x, w, b
    mean = map.apply(mu_x, mu_w, mu_b)
    if var_x is None and var_w is None:
        raise TypeError("x and w are both constants: at least one of them needs a variance")
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
    """Return the messages to the means and to the variances of ``(x, w, b)``.

    ``cov(z, w) = v_w mu_x`` and ``cov(z, x) = v_x mu_w``, so a message is multiplied by the mean
    of the other factor, and a variance message by its square.

    Args:
        map: the bilinear map.
        d_mu: message to the mean of z.
        d_var: message to the variance of z.
        mu_x: mean of x.
        mu_w: mean of w.
        needs_mu: which messages to means are needed.
        needs_var: which messages to variances are needed.
    """
    to_means = map.pull(d_mu, mu_x, mu_w, needs_mu)
    if not any(needs_var):
        return to_means, (None, None, None)
    squared_x = mu_x * mu_x if needs_var[1] else mu_x
    squared_w = mu_w * mu_w if needs_var[0] else mu_w
    return to_means, map.pull(d_var, squared_x, squared_w, needs_var)
