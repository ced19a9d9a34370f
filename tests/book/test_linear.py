"""Chapter 2, the linear model: LIN cases, through learners and studies."""

import pytest
import torch
from torch import nn

import tractable as tr

X = torch.tensor([0.0, 1.0, 2.0, 3.0], dtype=torch.float64)
Y = torch.tensor([1.0, 3.0, 2.0, 5.0], dtype=torch.float64)


def loss(phi):
    """Return the least squares loss, eq. 2.5: summed over the rows."""
    return (phi[0] + phi[1] * X - Y).square().sum()


def test_lin_01_loss_and_gradient():
    found = tr.diagnostics.implicit_regularization(
        [loss], torch.tensor([0.5, 0.25], dtype=torch.float64), lr=4.0
    )
    assert found.loss == pytest.approx(20.375)
    assert found.step_penalty == pytest.approx(15**2 + 31**2)  # alpha / 4 = 1
    step = tr.diagnostics.descent(loss, [0.5, 0.25], lr=1.0, n_steps=1).points[1]
    assert step == pytest.approx((0.5 + 15, 0.25 + 31))


def test_lin_02_the_minimum_is_found_by_descent_and_by_a_learner():
    start = torch.zeros(2, dtype=torch.float64)
    found = tr.diagnostics.descent(loss, start, lr=0.05, n_steps=400)
    assert found.points[-1] == pytest.approx((1.1, 1.1), abs=1e-6)
    assert found.losses[-1] == pytest.approx(2.7)
    model = tr.Laplace(
        nn.Linear(1, 1), tr.likelihoods.Normal(1.0), structure="last_layer",
        prior_precision=1e-9, dtype=torch.float64,
    ).fit(X[:, None], Y, epochs=1, distance_aware=False)  # fmt: skip
    means = model.posterior.means()
    assert float(means["bias"]) == pytest.approx(1.1, abs=1e-6)
    assert float(means["weight"]) == pytest.approx(1.1, abs=1e-6)
