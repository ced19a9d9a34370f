import math

import pytest
import torch
from torch import nn

import tractable as tr
from tests.infer.models import F64, mlp, regressor, set_posterior
from tractable.infer import UnsupportedLayer, derivatives, infer_optimum, optimize
from tractable_studies.optimize1d import run as optimize1d


@pytest.fixture(scope="module")
def cubic() -> tr.TAGI:
    """Return a model of the paper's toy problem: x^3 - 3 x, maximum at -1, minimum at +1."""
    return optimize1d.learn(*optimize1d.data(20_000, seed=0), epochs=20, seed=0)


@pytest.fixture(scope="module")
def bowl() -> tr.TAGI:
    """Return a model with a minimum at (0.3, -0.2) in the plane."""
    generator = torch.Generator().manual_seed(0)
    x = 2 * torch.rand(1000, 2, generator=generator) - 1
    y = ((x - torch.tensor([0.3, -0.2])) ** 2).sum(1)
    net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))
    return tr.TAGI(net, tr.likelihoods.Normal(0.05)).fit(x, y, epochs=40, progress=False)


@pytest.mark.parametrize(
    ("maximize", "wanted"), [(True, (-1, -1)), (False, (1, 1)), (None, (1, -1))]
)
def test_the_six_rows_of_table_2(cubic, maximize, wanted):
    found = optimize(
        cubic, [[0.25], [-0.25]], input_std=0.01, maximize=maximize, steps=300, bounds=(-2, 2)
    )
    assert (found.location.loc[:, 0] - torch.tensor(wanted)).abs().max() < 0.03
    assert (found.location.variance > 0).all()


def test_without_max_step_equation_3_leaves_the_initial_region(cubic):
    """Newton's step from 0.25 is 1.9, that is 190 standard deviations."""
    start = torch.tensor([[0.25]])
    one = optimize(cubic, start, input_std=0.01, maximize=None, steps=1, max_step=math.inf)
    assert one.location.loc.item() > 1.5
    bounded = optimize(cubic, start, input_std=0.01, maximize=None, steps=1, max_step=2.0)
    assert bounded.location.loc.item() == pytest.approx(0.27, abs=1e-6)


@pytest.mark.parametrize("maximize", [None, True, False])
def test_max_step_is_equivalent_to_larger_observation_noise(maximize):
    """Mean and variance follow eqs. 3 and 4 with one larger V."""
    model = mlp(nn.Tanh, nn.ReLU, inputs=2)
    x = tr.Gaussian(torch.tensor([[0.4, -0.3]], dtype=F64), 1e-3)
    found = derivatives(model, x)
    c, v, g = (t[0, 0] for t in (found.covariance, found.variance, found.mean))
    longest = 0.5 * ((c * g / v).abs() / x.stddev[0]).min().item()
    new = optimize(model, x, maximize=maximize, steps=1, min_step=0.0, max_step=longest)
    larger = (c * g).abs() / (longest * x.stddev[0])
    assert (larger > v).all()
    step = -c * g / larger
    if maximize is not None:
        step = (1 if maximize else -1) * g.sign() * step.abs()
    assert torch.allclose(new.location.loc[0], x.loc[0] + step, atol=1e-12)
    assert torch.allclose(new.location.variance[0], x.variance[0] - c * c / larger, atol=1e-12)


def test_one_step_is_equation_3_and_equation_4():
    model = mlp(nn.Tanh, nn.ReLU, inputs=2)
    x = tr.Gaussian(torch.tensor([[0.4, -0.3]], dtype=F64), 1e-3)
    found = derivatives(model, x)
    c, v, g = (t[0, 0] for t in (found.covariance, found.variance, found.mean))
    free = infer_optimum(model, x, None)
    assert torch.allclose(free.loc[0], x.loc[0] - c * g / v, atol=1e-12)
    assert torch.allclose(free.variance[0], x.variance[0] - c * c / v, atol=1e-12)
    for maximize, alpha in ((True, 1), (False, -1)):
        bound = infer_optimum(model, x, maximize)
        wanted = x.loc[0] + alpha * g.sign() * (c * g / v).abs()
        assert torch.allclose(bound.loc[0], wanted, atol=1e-12)
        assert torch.equal(bound.variance, free.variance)


def test_known_weights_give_newtons_step_and_a_positive_variance():
    """V lacks covariances of branches, so C^2 / V would pass the prior variance."""
    model = mlp(nn.Tanh, nn.ReLU, inputs=1, width=30)
    model.posterior.variance.zero_()
    x = tr.Gaussian(torch.tensor([[0.2]], dtype=F64), 1e-8)
    found = derivatives(model, x, order=2)
    new = infer_optimum(model, x, None)
    newton = x.loc - found.mean[0] / found.hessian[0, :, 0]
    assert found.covariance**2 / found.variance > x.variance
    assert new.loc.item() == pytest.approx(newton.item(), rel=1e-3)
    assert 0 < new.variance.item() < 1e-8


def test_algorithm_1_alternates_learning_and_optimization():
    generator = torch.Generator().manual_seed(0)
    net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
    model = tr.TAGI(net, tr.likelihoods.Normal(0.1), robust=False)  # the published algorithm
    location = tr.Gaussian(torch.tensor([[0.9]]), 0.01)
    for _ in range(400):
        x = 2 * torch.rand(1, 1, generator=generator) - 1
        model.update(x, -4 * (x - 0.2) ** 2)
        location = infer_optimum(model, location, True)
    assert abs(location.loc.item() - 0.2) < 0.15


def test_several_dimensions_and_starts(bowl):
    starts = 2 * torch.rand(20, 2, generator=torch.Generator().manual_seed(1)) - 1
    found = optimize(bowl, starts, input_std=0.1, maximize=False, bounds=[(-1, 1), (-1, 1)])
    assert found.trace.shape[1:] == (20, 2)
    assert torch.equal(found.trace[0], starts)
    assert torch.equal(found.trace[-1], found.location.loc)
    near = (found.location.loc - torch.tensor([0.3, -0.2])).abs().amax(1) < 0.15
    assert near.float().mean() > 0.8
    assert found.value.mean.shape[0] == 20
    assert len(found.reason) == 20
    assert set(found.reason) <= {"converged", "stalled", "bound", "steps"}


def test_bounds_hold_and_are_the_reason_for_stopping(bowl):
    found = optimize(
        bowl, [[-0.5, 0.5]], input_std=0.2, maximize=False, bounds=[(-0.6, 0), (0.4, 1)]
    )
    assert found.location.loc[0, 0] <= 0
    assert found.location.loc[0, 1] >= 0.4
    assert found.reason == ["bound"]
    early = optimize(bowl, [[-0.9, 0.9]], input_std=0.01, maximize=False, steps=1)
    assert early.reason == ["steps"]


def test_gaussian_starts_and_selection_of_an_output():
    model = regressor(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 3), outputs=3)
    x = tr.Gaussian(torch.zeros(1, 2, dtype=F64), torch.tensor([[0.01, 0.0]]))
    found = optimize(model, x, output=2, steps=5)
    assert found.location.loc[0, 1] == 0  # known exactly, so it stays
    with pytest.raises(ValueError, match=r"output must lie in 0..2, got 3"):
        optimize(model, x, output=3)


def test_bad_input(bowl):
    x = torch.zeros(1, 2)
    with pytest.raises(ValueError, match=r"low < high; input 1 has \[1.0, -1.0\]"):
        optimize(bowl, x, 0.1, bounds=[(-1, 1), (1, -1)])
    with pytest.raises(ValueError, match="one such pair for each of 2 inputs"):
        optimize(bowl, x, 0.1, bounds=[(-1, 1)] * 3)
    with pytest.raises(ValueError, match="input_std must be a positive number, got -1"):
        optimize(bowl, x, -1.0)
    with pytest.raises(ValueError, match="x0 is a tensor without a variance"):
        optimize(bowl, x)
    with pytest.raises(ValueError, match=r"shape \[starts, 2\]"):
        optimize(bowl, torch.zeros(1, 3), 0.1)
    with pytest.raises(ValueError, match="steps must be at least 1"):
        optimize(bowl, x, 0.1, steps=0)
    with pytest.raises(ValueError, match=r"max_step must be positive .*, got 0"):
        optimize(bowl, x, 0.1, max_step=0)
    with pytest.raises(UnsupportedLayer, match=r"first activation is piecewise linear.*Tanh"):
        optimize(mlp(nn.ReLU, nn.Tanh), x, 0.1)
    with pytest.raises(UnsupportedLayer, match="'1' is a GELU"):
        optimize(regressor(nn.Linear(2, 2), nn.GELU(), nn.Linear(2, 1)), x, 0.1)
    with pytest.raises(tr.learners.NotFitted):
        optimize(tr.TAGI(nn.Linear(2, 1), tr.likelihoods.Normal(0.1)), x, 0.1)


def test_known_parameters_are_used_as_constants():
    net = nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 1))
    net[0].weight.requires_grad_(False)
    model = tr.TAGI(net, tr.likelihoods.Normal(0.1), dtype=F64).update([[0.0]], [[0.0]])
    set_posterior(model, {"2.bias": (0.0, 0.0)})
    found = derivatives(model, torch.zeros(1, 1))
    assert torch.isfinite(found.mean).all()
