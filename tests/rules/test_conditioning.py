"""One noisy observation of one entry: messages give the conditional of the joint Gaussian.

The joint covariance of all inputs and the entry is written out by eq. (12),
``cov(w_j, x_i w_j) = mu_x var_w``, and conditioned as one dense matrix.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.rules import dense
from tests.rules.cases import BILINEAR, LINEAR, Case, label
from tractable import Gaussian
from tractable.moments.conditioning import condition
from tractable.testing.gaussians import REGIMES, leaves, wrapped

NOISE = 0.3
pytestmark = pytest.mark.parametrize("regime", REGIMES)


def by_messages(case: Case, inputs: list[Tensor], entry: int, y: float) -> tuple[Tensor, Tensor]:
    """Return the posterior moments of all inputs, from the messages of autograd."""
    z = case.function(*wrapped(inputs))
    assert isinstance(z, Gaussian)
    d_mu, d_var = torch.zeros(2, *z.shape, dtype=z.dtype)
    total = z.variance.detach().reshape(-1)[entry] + NOISE
    d_mu.view(-1)[entry] = (y - z.loc.detach().reshape(-1)[entry]) / total
    d_var.view(-1)[entry] = -1 / total
    messages = torch.autograd.grad([z.loc, z.variance], inputs, [d_mu, d_var])
    half = len(inputs) // 2
    prior = dense.flat(inputs[:half]).detach(), dense.flat(inputs[half:]).detach()
    return condition(*prior, dense.flat(messages[:half]), dense.flat(messages[half:]))


def by_joint(
    mu: Tensor, var: Tensor, cross: Tensor, mean: Tensor, total: Tensor, y: float
) -> tuple[Tensor, Tensor]:
    """The same from the dense joint of the inputs and the entry."""
    n = mu.numel()
    joint = torch.zeros(n + 1, n + 1, dtype=mu.dtype)
    joint[:n, :n] = var.diag()
    joint[n, :n] = joint[:n, n] = cross
    joint[n, n] = total
    assert torch.linalg.eigvalsh(joint).min() > -1e-12  # a covariance matrix
    gain = joint[:, n] / (joint[n, n] + NOISE)
    posterior = joint - torch.outer(gain, joint[n])
    return mu + gain[:n] * (y - mean), posterior.diagonal()[:n]


@pytest.mark.parametrize("case", BILINEAR, ids=label)
def test_bilinear(case: Case, regime: str) -> None:
    given = case.inputs(regime)
    mu, var = dense.flat([g.loc for g in given]), dense.flat([g.variance for g in given])
    x, w = given[0], given[1]
    table, bias = dense.table(case), dense.bias(case)
    z = case.function(*given)
    assert isinstance(z, Gaussian)
    for entry in range(0, z.numel(), 2):
        t = table[entry]
        partner = dense.flat([t @ w.loc.reshape(-1), t.T @ x.loc.reshape(-1), bias[entry]])
        mean, total = z.loc.reshape(-1)[entry], z.variance.reshape(-1)[entry]
        y = float(mean) + 1.7
        want = by_joint(mu, var, var * partner, mean, total, y)
        got = by_messages(case, leaves(given), entry, y)
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("case", LINEAR, ids=label)
def test_linear(case: Case, regime: str) -> None:
    given = case.inputs(regime)
    mu, var = dense.flat([g.loc for g in given]), dense.flat([g.variance for g in given])
    z = case.function(*given)
    assert isinstance(z, Gaussian)
    row = dense.matrix(case)[-1]
    mean = z.loc.reshape(-1)[-1]
    y = float(mean) - 0.8
    want = by_joint(mu, var, var * row, mean, row**2 @ var, y)
    got = by_messages(case, leaves(given), z.numel() - 1, y)
    torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)
