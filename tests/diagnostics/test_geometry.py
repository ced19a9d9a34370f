"""Curvature against dense Hessians, regions against grids, optimizer paths, and bad input."""

import json
import math
from itertools import pairwise

import pytest
import torch
from torch import nn

import tractable as tr
from tractable.diagnostics.curvature import MAX_DENSE_PARAMETERS, lanczos


def net_of(*sizes, seed=0, act=nn.ReLU):
    layers: list[nn.Module] = []
    for a, b in pairwise(sizes):
        layers += [nn.Linear(a, b), act()]
    net = nn.Sequential(*layers[:-1]).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.randn(p.shape, generator=generator, dtype=torch.float64))
    return net


@pytest.fixture(scope="module")
def model():
    net = net_of(2, 6, 1, act=nn.Tanh)
    x = torch.randn(30, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    y = x[:, :1] * x[:, 1:]
    noise = tr.likelihoods.Normal(0.7)
    return tr.Backprop(net, noise, init="net", dtype=torch.float64), x, y


def dense_hessian(model, x, y):
    """Return the Hessian by torch.func, from the likelihood's formula."""
    learner = model
    names = list(learner.posterior.shapes)
    shapes = learner.posterior.shapes

    def loss(flat):
        parts, at = {}, 0
        for name in names:
            parts[name] = flat[at : at + shapes[name].numel()].view(shapes[name])
            at += shapes[name].numel()
        z = torch.func.functional_call(learner.net, parts, (x,))
        return (0.5 * ((y - z) / 0.7) ** 2 + math.log(0.7) + 0.5 * math.log(2 * math.pi)).mean()

    return torch.func.hessian(loss)(learner.posterior.loc)


def test_eigenvalues_are_those_of_the_dense_hessian(model):
    found = tr.diagnostics.curvature(*model)
    values = torch.linalg.eigvalsh(dense_hessian(*model))
    assert found.eigenvalues == pytest.approx(values.tolist(), abs=1e-8)
    assert found.residual == 0
    assert found.trace == pytest.approx(float(values.sum()))


def test_lanczos_finds_the_ends_and_bounds_its_error(model):
    matrix = dense_hessian(*model)
    values = torch.linalg.eigvalsh(matrix)
    for steps in (8, 20):
        found, residual = lanczos(lambda v: matrix @ v, len(matrix), steps, 0, matrix)
        for ours, theirs in ((found[0], values[0]), (found[-1], values[-1])):
            assert abs(float(ours - theirs)) <= residual + 1e-10
    assert residual < 1e-3 * float(values[-1])


def test_large_models_use_hessian_vector_products_only():
    x = torch.randn(64, 20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    net = net_of(20, 30, 1, act=nn.Tanh)
    model = tr.Backprop(net, tr.likelihoods.Normal(1.0), init="net", dtype=torch.float64)
    found = tr.diagnostics.curvature(model, x, x[:, :1])
    assert found.n_parameters == 661 > MAX_DENSE_PARAMETERS
    assert found.rank is None
    assert found.residual < 0.01 * found.largest
    assert "stable here for steps below" in found.recommendation()
    assert not found.is_convex
    held = json.loads(found.to_json())
    assert held["largest"] == found.largest
    assert len(found.plot().lines) == 2


def test_a_failing_closure_restores_the_weights():
    w = torch.ones(2, requires_grad=True)
    optimizer = tr.diagnostics.Momentum([w], lr=0.1, nesterov=True)

    def closure():
        loss = (w**2).sum()
        loss.backward()
        return float(loss.detach())

    def failing():
        raise ArithmeticError("no loss here")

    optimizer.step(closure)
    before = w.detach().clone()
    with pytest.raises(ArithmeticError, match="no loss here"):
        optimizer.step(failing)
    assert torch.equal(w, before)


def test_bad_curvature(model):
    learner, x, _ = model
    with pytest.raises(ValueError, match="needs targets"):
        tr.diagnostics.implicit_regularization(learner, x, lr=0.1)
    with pytest.raises(ValueError, match="needs targets"):
        tr.diagnostics.curvature(learner, x)
    with pytest.raises(ValueError, match="no targets"):
        tr.diagnostics.curvature(torch.sum, torch.ones(2), torch.ones(2))
    with pytest.raises(ValueError, match="a vector of numbers"):
        tr.diagnostics.curvature(torch.sum, torch.ones(2, 2))
    with pytest.raises(ValueError, match="one number"):
        tr.diagnostics.curvature(lambda w: w * 2, torch.ones(2))
    with pytest.raises(ValueError, match="not finite there"):
        tr.diagnostics.curvature(lambda w: w.sqrt().sum(), torch.zeros(2))
    flat = tr.diagnostics.curvature(torch.sum, torch.ones(2))
    assert flat.max_stable_lr == math.inf


@pytest.mark.parametrize("act", [nn.ReLU, nn.LeakyReLU, nn.Hardtanh])
@pytest.mark.parametrize("seed", range(4))
def test_regions_in_one_dimension_are_where_the_slope_changes(seed, act):
    """Second differences on a fine grid find the same joints."""
    net = net_of(1, 5, 4, 1, seed=seed, act=act)
    found = tr.diagnostics.regions(net, (-3, 3))
    grid = torch.linspace(-3, 3, 60_001, dtype=torch.float64)
    values = net(grid[:, None])[:, 0].detach()
    bent = (values[2:] - 2 * values[1:-1] + values[:-2]).abs() > 1e-9
    places = grid[1:-1][bent]
    steps = [p for i, p in enumerate(places) if i == 0 or p - places[i - 1] > 1.5e-4]
    assert len(steps) == len(found.breakpoints) == found.n_pieces - 1
    for ours, theirs in zip(found.breakpoints, steps, strict=True):
        assert abs(ours - float(theirs)) < 2.1e-4
    middles = [
        (a + b) / 2 for a, b in zip([-3, *found.breakpoints], [*found.breakpoints, 3], strict=True)
    ]
    x = torch.tensor(middles, dtype=torch.float64)[:, None].requires_grad_()
    (slopes,) = torch.autograd.grad(net(x).sum(), x)
    assert found.slopes == pytest.approx(slopes.flatten().tolist())
    assert sum(found.sizes) == pytest.approx(6)


@pytest.mark.parametrize("seed", range(3))
def test_regions_in_two_dimensions_are_the_patterns_of_a_grid(seed):
    net = net_of(2, 5, 4, 1, seed=seed)
    found = tr.diagnostics.regions(net, [(-2, 2), (-1, 3)])
    x = torch.linspace(-2, 2, 400, dtype=torch.float64)
    y = torch.linspace(-1, 3, 400, dtype=torch.float64)
    grid = torch.stack(torch.meshgrid(x, y, indexing="ij"), -1).reshape(-1, 2)
    first = net[0](grid)
    patterns = torch.cat([first > 0, net[2](first.relu()) > 0], 1)
    unique, counts = patterns.unique(dim=0, return_counts=True)
    large = [size for size in found.sizes if size > 16 * 4e-4]
    # Every cell with many grid points has a pattern (two cells may share one).
    assert int((counts > 80).sum()) <= len(large) <= found.n_regions
    assert len(unique) <= found.n_regions
    assert sum(found.sizes) == pytest.approx(16)
    assert len(found.plot().collections[0].get_paths()) == found.n_regions


def test_bad_regions():
    with pytest.raises(ValueError, match="one or two inputs, not 3"):
        tr.diagnostics.regions(net_of(3, 2, 1), [(0, 1)] * 3)
    with pytest.raises(ValueError, match=r"Tanh .* is not known to be piecewise linear"):
        tr.diagnostics.regions(net_of(1, 2, 1, act=nn.Tanh), (0, 1))
    with pytest.raises(ValueError, match="low < high"):
        tr.diagnostics.regions(net_of(1, 2, 1), (1, 0))
    with pytest.raises(ValueError, match="2 inputs, and the box 1"):
        tr.diagnostics.regions(net_of(2, 2, 1), (0, 1))
    with pytest.raises(ValueError, match="no linear layer"):
        tr.diagnostics.regions(nn.ReLU(), (0, 1))
    with pytest.raises(ValueError, match="1 or more"):
        tr.diagnostics.max_regions(0, [3])


def test_an_optimizer_path_is_plotted_and_serialized():
    def loss(p):
        return p[0] ** 2 + 10 * p[1] ** 2

    found = tr.diagnostics.descent(loss, [1.0, 1.0], "momentum", lr=0.02, n_steps=25)
    assert len(found.points) == 26
    assert found.losses[-1] < found.losses[0]
    assert "decreased" in found.recommendation()
    assert "function" not in json.loads(found.to_json())
    ax = found.plot()
    tr.diagnostics.descent(loss, [1.0, 1.0], "adam", lr=0.02, n_steps=25).plot(ax)
    assert len(ax.lines) == 2
    assert found.table().splitlines()[0].split() == ["step", "loss", "w0", "w1"]
    far = tr.diagnostics.descent(lambda p: (p**4).sum(), [100.0], lr=1.0, n_steps=50)
    assert far.diverged
    assert "too long" in far.recommendation()


def test_momentum_as_in_the_book_trains_a_learner():
    x = torch.linspace(-1, 1, 40)[:, None]
    for optimizer in (tr.diagnostics.Momentum, tr.diagnostics.NormalizedStep):
        model = tr.Backprop(
            nn.Linear(1, 1), tr.likelihoods.Normal(0.3), lr=0.05, optimizer=optimizer
        ).fit(x, 2 * x, epochs=40)
        assert float(model.posterior["weight"].loc) == pytest.approx(2, abs=0.1)


def test_bad_optimisers():
    w = torch.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match=r"beta must lie in \[0, 1\)"):
        tr.diagnostics.Momentum([w], beta=1.0)
    with pytest.raises(ValueError, match="needs a closure"):
        tr.diagnostics.Momentum([w], nesterov=True).step()
    with pytest.raises(ValueError, match="lr must be a positive"):
        tr.diagnostics.NormalizedStep([w], lr=-1.0)
    with pytest.raises(ValueError, match="method must be one of"):
        tr.diagnostics.descent(torch.sum, w, "newton", lr=0.1)
    with pytest.raises(ValueError, match="start must be a vector"):
        tr.diagnostics.descent(torch.sum, torch.ones(2, 2), lr=0.1)
    with pytest.raises(ValueError, match="n_steps must be"):
        tr.diagnostics.descent(torch.sum, w, lr=0.1, n_steps=0)
