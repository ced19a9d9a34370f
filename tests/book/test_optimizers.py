"""Chapter 6, optimizers: OPT cases, through ``descent``, ``curvature`` and learners."""

import math

import pytest
import torch
from torch import nn

import tractable as tr
from tests.book.test_linear import loss as least_squares
from tests.book.test_shallow import PHI, THETA, p38
from tractable.diagnostics.curvature import HessianProducts

START = torch.tensor([1.0, 1.0], dtype=torch.float64)


def valley(phi):
    return phi[0] ** 2 + 10 * phi[1] ** 2


def trace(method, **options):
    return tr.diagnostics.descent(valley, START, method, lr=0.02, n_steps=3, **options).points[1:]


def test_opt_01_hessian_of_the_linear_model():
    found = tr.diagnostics.curvature(least_squares, torch.tensor([0.5, 0.25], dtype=torch.float64))
    assert found.eigenvalues == pytest.approx((2.379500648, 33.620499352))
    assert found.largest * found.smallest == pytest.approx(80)
    assert found.trace == pytest.approx(8 + 28)
    assert found.rank == 2
    assert found.is_convex
    product = HessianProducts(least_squares, torch.zeros(2))
    assert torch.stack([product(e) for e in torch.eye(2)]).tolist() == [[8, 12], [12, 28]]


def test_opt_02_equal_inputs_give_a_singular_hessian():
    def loss(phi):
        return ((phi[0] + 2 * phi[1] - torch.tensor([1.0, 3.0])) ** 2).sum()

    found = tr.diagnostics.curvature(loss, torch.zeros(2, dtype=torch.float64))
    assert (found.rank, found.n_parameters) == (1, 2)
    assert "rank 1 of 2" in found.recommendation()
    assert found.condition_number == math.inf


def test_opt_03_gabor_model():
    def loss(phi, x=1.5, y=0.3):
        inner = phi[0] + 0.06 * phi[1] * x
        return (torch.sin(inner) * torch.exp(-(inner**2) / 32) - y) ** 2

    at = torch.tensor([0.5, 10.0], dtype=torch.float64)
    found = tr.diagnostics.descent(loss, at, lr=1.0, n_steps=1)
    assert found.losses[0] == pytest.approx(0.393006435, abs=1e-8)
    step = [float(at[i]) - found.points[1][i] for i in (0, 1)]
    assert step == pytest.approx([0.098756061, 0.008888045], abs=1e-8)


def test_opt_04_logistic_regression_through_a_learner():
    x = torch.tensor([-2.0, -1.0, 0.5, 1.0], dtype=torch.float64)[:, None]
    y = torch.tensor([0, 0, 1, 1])
    net = nn.Linear(1, 1).double()
    with torch.no_grad():
        net.bias.fill_(0.2)
        net.weight.fill_(-0.3)
    model = tr.Backprop(
        net, tr.likelihoods.Bernoulli(link="logit"), init="net", dtype=torch.float64
    )
    found = tr.diagnostics.curvature(model, x, y)  # means over four rows
    assert 4 * found.loss == pytest.approx(3.558033958)
    assert 4 * found.gradient_norm == pytest.approx(math.hypot(0.299952021, -2.771138783))
    values = [4 * value for value in found.eigenvalues]
    assert values == pytest.approx([0.80808112, 1.542531636])


def test_opt_05_gradient_of_a_shallow_network():
    net = p38(nn.ReLU())
    x, y = torch.tensor([[1.25]], dtype=torch.float64), torch.tensor([[0.5]], dtype=torch.float64)
    model = tr.Backprop(
        net, tr.likelihoods.Normal(math.sqrt(0.5)), init="net", lr=1.0, optimizer="SGD",
        schedule="constant", dtype=torch.float64,
    )  # fmt: skip
    before = {n: m.clone() for n, m in model.posterior.means().items()}
    model.update(x, y)  # the loss is (f - y)^2, with a noise variance of one half
    slope = {n: before[n] - m for n, m in model.posterior.means().items()}
    wanted = [-1.358, -0.4074, -0.30555, -0.30555, 1.7654, 2.20675, -1.7654, -2.20675, -0.89628,
              -1.12035]  # fmt: skip
    thetas = torch.stack([slope["0.bias"], slope["0.weight"][:, 0]], 1).flatten()
    got = torch.cat([slope["2.bias"], slope["2.weight"][0], thetas])
    assert got.tolist() == pytest.approx(wanted, abs=1e-6)
    assert len(PHI) + 2 * len(THETA) == len(wanted)


def test_opt_06_to_10_traces():
    flat = {
        "gradient": [(0.96, 0.6), (0.9216, 0.36), (0.884736, 0.216)],
        "momentum": [(0.996, 0.96), (0.988416, 0.8856), (0.977636736, 0.783216)],
        "nesterov": [(0.996, 0.96), (0.9884304, 0.88704), (0.97769128896, 0.78852096)],
        "normalized": [(0.98, 0.98), (0.96, 0.96), (0.94, 0.94)],
    }
    for method, points in flat.items():
        for ours, wanted in zip(trace(method), points, strict=True):
            assert ours == pytest.approx(wanted, abs=1e-8), method
    adam = [(0.98, 0.98), (0.960010638, 0.960010638), (0.940039288, 0.940039288)]
    for ours, wanted in zip(trace("adam", betas=(0.9, 0.99)), adam, strict=True):
        assert ours == pytest.approx(wanted, abs=1e-8)


def test_opt_07_momentum_in_torch_has_another_definition():
    points = trace(torch.optim.SGD, momentum=0.9, dampening=0.9)
    wanted = [(0.96, 0.6), (0.92016, 0.216), (0.88062336, -0.13824)]
    for ours, theirs in zip(points, wanted, strict=True):
        assert ours == pytest.approx(theirs)


def test_opt_12_large_hessian_is_not_materialized():
    rows, batch = 100, 20
    assert 1000 * batch / rows == 200
    assert 100_000 * 100 / 4000 == 2500
    size = 1_000_000
    scales = torch.linspace(1, 50, size)
    found = tr.diagnostics.curvature(
        lambda w: 0.5 * (scales * w * w).sum(), torch.zeros(size), max_products=12
    )
    assert found.n_parameters == size
    assert found.largest == pytest.approx(50, rel=0.05)


def test_opt_14_the_largest_stable_step():
    found = tr.diagnostics.curvature(valley, START)
    assert found.max_stable_lr == pytest.approx(2 / 20)
    assert not tr.diagnostics.descent(valley, START, lr=0.099, n_steps=500).diverged
    assert tr.diagnostics.descent(valley, START, lr=0.101, n_steps=500).diverged
