import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import tractable as tr
from tests.infer.branches import four_layers
from tests.infer.models import F64, mlp, regressor
from tractable.infer import UnsupportedLayer, derivatives

DEPTHS = [
    (),
    (nn.Tanh,),
    (nn.Sigmoid,),
    (nn.Tanh, nn.ReLU),
    (nn.Tanh, nn.Sigmoid, nn.Tanh),
    (nn.LeakyReLU, nn.Tanh, nn.ReLU, nn.Tanh),
]


def names(activations):
    return "-".join(a.__name__ for a in activations) or "linear"


def monte_carlo(model, x, n, generator):
    """Return derivatives of networks drawn from the posterior, at inputs drawn from x."""

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=F64)

    drawn = iter(
        [p.loc + p.stddev * normal(n, *p.shape) for p in model.posterior.gaussians().values()]
    )
    inputs = (x.loc + x.stddev * normal(n, x.shape[1])).requires_grad_()
    a = inputs
    for layer in model.net:
        if isinstance(layer, nn.Linear):
            weight, bias = next(drawn), next(drawn)
            a = torch.einsum("noi,ni->no", weight, a) + bias
        else:
            a = layer(a)
    (slopes,) = torch.autograd.grad(a.sum(), inputs)
    return slopes, inputs.detach()


@pytest.mark.parametrize("activations", DEPTHS, ids=names)
def test_without_variances_derivatives_equal_autograd(activations):
    model = mlp(*activations, inputs=3, outputs=2)
    model.posterior.variance.zero_()
    net = model.mean_module()
    x = torch.randn(6, 3, dtype=F64, generator=torch.Generator().manual_seed(1))
    found = derivatives(model, x, order=2)
    for row, mean, hessian in zip(x, found.mean, found.hessian, strict=True):
        wanted = torch.autograd.functional.jacobian(net, row)
        assert (mean - wanted).abs().max() < 1e-10
        for k in range(2):
            second = torch.autograd.functional.hessian(lambda t, k=k: net(t)[k], row)
            assert (hessian[k] - second).abs().max() < 1e-10
    assert not found.variance.any()
    assert not found.covariance.any()


def test_curvature_is_the_second_derivative_when_only_the_first_layer_bends():
    model = mlp(nn.Tanh, nn.ReLU, inputs=3)
    model.posterior.variance.zero_()
    found = derivatives(model, torch.randn(5, 3, dtype=F64), order=2)
    diagonal = torch.diagonal(found.hessian, dim1=2, dim2=3)
    assert (found.curvature - diagonal).abs().max() < 1e-10


@pytest.mark.parametrize(
    "kinds", [["tanh"] * 4, ["sigmoid"] * 4, ["tanh", "sigmoid", "tanh", "sigmoid"]], ids="-".join
)
def test_four_layers_equal_the_branch_by_branch_formulas(kinds):
    modules = {"tanh": nn.Tanh, "sigmoid": nn.Sigmoid}
    acts = [modules[kind] for kind in kinds]
    model = regressor(
        acts[0](), nn.Linear(2, 3), acts[1](), nn.Linear(3, 2), acts[2](), nn.Linear(2, 2),
        acts[3](), outputs=2,
    )  # fmt: skip
    x = tr.Gaussian(torch.tensor([[0.3, -0.8]], dtype=F64), torch.tensor([[0.2, 0.05]]))
    pairs = {
        name: torch.stack([p.loc, p.variance], -1).tolist() for name, p in model.posterior.items()
    }
    wanted = four_layers(
        list(zip(x.loc[0].tolist(), x.variance[0].tolist(), strict=True)),
        [pairs[f"{i}.weight"] for i in (1, 3, 5)],
        [pairs[f"{i}.bias"] for i in (1, 3, 5)],
        kinds,
    )
    found = derivatives(model, x, sums="branches")
    nodes = derivatives(model, x, sums="nodes")
    for (k, j), (mean, variance, covariance) in wanted.items():
        assert abs(found.mean[0, k, j].item() - mean) < 1e-10
        assert abs(found.variance[0, k, j].item() - variance) < 1e-10
        assert abs(found.covariance[0, k, j].item() - covariance) < 1e-10
        assert abs(nodes.mean[0, k, j].item() - mean) < 1e-10
        assert abs(nodes.covariance[0, k, j].item() - covariance) < 1e-10


@pytest.mark.parametrize("activations", DEPTHS[:5], ids=names)
def test_small_variances_agree_with_monte_carlo(activations):
    model = mlp(*activations, inputs=2, width=20, seed=3)
    model.posterior.variance.mul_(1e-5)
    x = tr.Gaussian(torch.tensor([[0.4, -0.7]], dtype=F64), 1e-7)
    n = 20_000
    slopes, _ = monte_carlo(model, x, n, torch.Generator().manual_seed(0))
    found = derivatives(model, x)
    error = (found.mean[0, 0] - slopes.mean(0)).abs()
    assert (error < 5 * slopes.std(0) / math.sqrt(n)).all()
    ratio = found.variance[0, 0] / slopes.var(0)
    # Covariances between branches are dropped: a third too small or large at most, here.
    assert ((ratio > 0.65) & (ratio < 1.5)).all()


def test_linear_networks_are_exact():
    model = mlp(inputs=2, outputs=1)
    x = tr.Gaussian(torch.zeros(1, 2, dtype=F64), 1.0)
    found = derivatives(model, x)
    weight = model.posterior["0.weight"]
    assert torch.equal(found.mean[0], weight.loc)
    assert torch.equal(found.variance[0], weight.variance)
    assert not found.covariance.any()


def test_error_of_the_mean_is_first_order_in_the_variances():
    """Tenfold variances, tenfold error, against the mean by Gauss-Hermite quadrature.

    One weight varies: z = w2 tanh(w1 x), dz/dx = w1 w2 (1 - tanh^2(w1 x)).
    """
    nodes, weights = (torch.from_numpy(part) for part in np.polynomial.hermite_e.hermegauss(60))
    model = regressor(nn.Linear(1, 1, bias=False), nn.Tanh(), nn.Linear(1, 1, bias=False))
    x = torch.tensor([[0.8]], dtype=F64)
    errors = []
    for variance in (1e-4, 1e-3, 1e-2):
        model.posterior.loc.copy_(torch.tensor([0.9, 1.0]))
        model.posterior.variance.copy_(torch.tensor([variance, 0.0]))
        w = 0.9 + math.sqrt(variance) * nodes
        truth = (w * (1 - torch.tanh(w * x[0]) ** 2) * weights).sum() / weights.sum()
        errors.append((derivatives(model, x).mean.item() - truth.item()) / variance)
    assert errors[0] != pytest.approx(0, abs=1e-3)
    assert errors[1] == pytest.approx(errors[0], rel=0.05)
    assert errors[2] == pytest.approx(errors[0], rel=0.3)


def test_covariance_with_the_input_agrees_with_monte_carlo():
    model = mlp(nn.Tanh, nn.ReLU, inputs=1, width=20, seed=1)
    model.posterior.variance.mul_(1e-6)
    x = tr.Gaussian(torch.tensor([[0.3]], dtype=F64), 1e-4)
    slopes, inputs = monte_carlo(model, x, 50_000, torch.Generator().manual_seed(0))
    sampled = ((slopes - slopes.mean()) * (inputs - inputs.mean())).mean().item()
    assert derivatives(model, x).covariance.item() == pytest.approx(sampled, rel=0.1)


def test_rows_are_independent_and_variances_not_negative():
    model = mlp(nn.Tanh, nn.Tanh, inputs=2, width=8)
    x = torch.randn(5, 2, dtype=F64, generator=torch.Generator().manual_seed(0))
    together = derivatives(model, x, input_std=0.5)
    alone = derivatives(model, x[3:4], input_std=0.5)
    assert torch.allclose(together.variance[3:4], alone.variance)
    assert (together.variance >= 0).all()


@pytest.mark.parametrize("sums", ["nodes", "branches"])
def test_derivatives_of_several_outputs_equal_those_of_each(sums):
    model = mlp(nn.Tanh, nn.Sigmoid, nn.Tanh, inputs=3, width=6, outputs=3)
    x = tr.Gaussian(torch.randn(4, 3, dtype=F64), 0.2)
    together = derivatives(model, x, sums=sums)
    last = model.posterior["6.weight"], model.posterior["6.bias"]
    for k in range(3):
        alone = mlp(nn.Tanh, nn.Sigmoid, nn.Tanh, inputs=3, width=6)
        for name in alone.posterior:
            if not name.startswith("6"):
                own, whole = alone.posterior[name], model.posterior[name]
                own.loc.copy_(whole.loc)
                own.variance.copy_(whole.variance)
        for name, whole in zip(("6.weight", "6.bias"), last, strict=True):
            alone.posterior[name].loc.copy_(whole.loc[k : k + 1])
            alone.posterior[name].variance.copy_(whole.variance[k : k + 1])
        found = derivatives(alone, x, sums=sums)
        for field in ("mean", "variance", "covariance"):
            wanted = getattr(found, field)[:, 0]
            assert (getattr(together, field)[:, k] - wanted).abs().max() < 1e-12


class Passes(TorchDispatchMode):
    """Counts products with square matrices, and other operations on equally many numbers."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.rows, self.width = rows, width
        self.products = self.others = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        if isinstance(found, torch.Tensor) and found.numel() >= self.rows * self.width:
            name = function.overloadpacket._qualified_op_name
            if name in ("aten::mm", "aten::addmm", "aten::addmm_"):
                left = args[0] if name == "aten::mm" else args[1]
                self.products += left.shape[1] == self.width
            elif not function.is_view:
                self.others += 1
        return found


@pytest.mark.parametrize(
    ("activations", "products", "others"),
    [((nn.Tanh,) * 3, 16, 60), ((nn.Tanh, nn.ReLU, nn.ReLU), 4, 25)],
    ids=["smooth", "mixed"],
)
def test_the_cost_of_a_layer_is_bounded(activations, products, others):
    """Count operations per hidden layer beyond a forward pass, since times are not reproducible."""
    model = mlp(*activations, inputs=3, width=32)
    x = tr.Gaussian(torch.randn(64, 3, dtype=F64), 0.01)
    with torch.no_grad(), Passes(64, 32) as forward:
        model.propagate(x)
    with Passes(64, 32) as all_of_it:
        derivatives(model, x)
    hidden = 2  # matrices of 32 x 32
    assert forward.products == 3 * hidden
    assert all_of_it.products - forward.products == hidden * products
    assert all_of_it.others - forward.others <= hidden * others


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ((nn.Linear(2, 2), nn.GELU(), nn.Linear(2, 1)), r"layer '1' is a GELU.*Tanh"),
        ((nn.Linear(2, 2), nn.Sequential(nn.LayerNorm(2)), nn.Linear(2, 1)), "'1.0'.*LayerNorm"),
        ((nn.Linear(2, 2), nn.Tanh(), nn.ReLU(), nn.Linear(2, 1)), "'2' is a second activation"),
    ],
    ids=["gelu", "nested", "two"],
)
def test_unsupported_layers_are_named(layers, message):
    with pytest.raises(UnsupportedLayer, match=message):
        derivatives(regressor(*layers), torch.zeros(1, 2))


def test_bad_arguments():
    model = mlp(nn.Tanh)
    x = torch.zeros(1, 2)
    with pytest.raises(ValueError, match="order must be 1, or 2"):
        derivatives(model, x, order=3)
    with pytest.raises(ValueError, match="sums must be one of"):
        derivatives(model, x, sums="paths")
    with pytest.raises(ValueError, match="input_std must be a positive number, got 0"):
        derivatives(model, x, input_std=0.0)
    with pytest.raises(tr.learners.NotFitted):
        derivatives(tr.TAGI(nn.Linear(2, 1), tr.likelihoods.Normal(0.1)), x)
    with pytest.raises(TypeError, match="model must be a TAGI learner"):
        derivatives(nn.Linear(2, 1), x)


def test_reused_activations_equal_separate_ones():
    """Compare a network that reuses one Tanh with one that has two."""
    act = nn.Tanh()
    x = torch.linspace(-1, 1, 12, dtype=F64).reshape(6, 2)
    found = []
    for first, second in ((act, act), (nn.Tanh(), nn.Tanh())):
        net = nn.Sequential(nn.Linear(2, 5), first, nn.Linear(5, 5), second, nn.Linear(5, 1))
        model = tr.TAGI(net, tr.likelihoods.Normal(0.1), dtype=F64, seed=3)
        found.append(derivatives(model.fit(x, x.sum(1), epochs=2), x, input_std=0.1))
    assert torch.equal(found[0].mean, found[1].mean)
    assert torch.equal(found[0].variance, found[1].variance)


def test_reused_linear_layers_give_autograd_derivatives():
    """Without variances the mean is autograd's derivative, at both uses."""
    same = nn.Linear(2, 2)
    model = tr.TAGI(
        nn.Sequential(same, nn.Tanh(), same, nn.Linear(2, 1)),
        tr.likelihoods.Normal(0.1), dtype=F64, seed=3,
    )  # fmt: skip
    x = torch.linspace(-1, 1, 12, dtype=F64).reshape(6, 2)
    model.fit(x, x.sum(1), epochs=2)
    model.posterior.variance.zero_()
    leaf = x.clone().requires_grad_()
    output = model.mean_module()(leaf)
    (truth,) = torch.autograd.grad(output.sum(), leaf)
    assert torch.allclose(derivatives(model, x).mean[:, 0], truth, atol=1e-12)
