"""Fixed points: recurrent backpropagation of the slides, gradients by unrolling, samples."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tractable as tr
from tractable.errors import ConvergenceError
from tractable.nn import DeepEquilibrium
from tractable.nn.equilibrium import solve_fixed_point
from tractable.testing.gaussians import generator, normal

D = torch.float64
W = torch.tensor([[0.2, -0.4, 0.1], [0.3, 0.1, -0.2], [-0.1, 0.5, 0.2]], dtype=D)
B = torch.tensor([[0.1, -0.2, 0.3]], dtype=D)
C = torch.tensor([1.0, -2.0, 0.5], dtype=D)


class Slides(nn.Module):
    """``f(W z + b)``, with the input as ``b``."""

    def __init__(self, weight: Tensor = W) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight.clone())

    def forward(self, z: Tensor, b: Tensor) -> Tensor:
        return torch.tanh(nn.functional.linear(z, self.weight) + b)


def solved() -> tuple[DeepEquilibrium, Tensor, Tensor]:
    layer, b = DeepEquilibrium(Slides()), B.clone().requires_grad_()
    return layer, b, layer(b)


def close(got: Tensor, wanted: Any, atol: float = 1e-9) -> None:
    torch.testing.assert_close(got, torch.tensor(wanted, dtype=D), atol=atol, rtol=0)


def test_rec_01_the_weight_update_of_the_slides() -> None:
    layer, b, z = solved()
    close(z[0].detach(), [0.24107706, -0.188701075, 0.222214756])
    d_w, s = torch.autograd.grad((z @ C).sum(), [layer.cell.weight, b])
    close(s[0], [0.427040038, -1.756904575, 1.049463955])
    close(
        d_w,
        [
            [0.102949557, -0.080582914, 0.094894598],
            [-0.42354939, 0.331529781, -0.390410122],
            [0.253001685, -0.198034976, 0.233206377],
        ],
    )
    layer, b, z = solved()
    reward = -0.5 * (z - torch.tensor([0.5, -0.5, 0.25], dtype=D)).square().sum()
    close(torch.autograd.grad(reward, b)[0][0], [0.168840759, -0.334457611, 0.130948504])


def test_rec_02_sensitivity_lemma() -> None:
    layer, b, z = solved()
    d_w, s = torch.autograd.grad((z @ C).sum(), [layer.cell.weight, b])
    torch.testing.assert_close(d_w, s.mT @ z.detach(), rtol=1e-10, atol=1e-12)
    slopes = 1 - z.detach()[0].square()
    left = torch.diag(1 / slopes) - W.mT
    torch.testing.assert_close(torch.linalg.solve(left, C), s[0], rtol=1e-10, atol=1e-12)


def test_rec_03_input_as_a_function_of_the_output() -> None:
    _, b, z = solved()
    jacobian = torch.stack(
        [torch.autograd.grad(z[0, i], b, retain_graph=True)[0][0] for i in range(3)]
    )
    slopes = 1 - z.detach()[0].square()
    wanted = torch.diag(1 / slopes) - W
    torch.testing.assert_close(torch.linalg.inv(jacobian), wanted, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(torch.atanh(z.detach()) - z.detach() @ W.mT, B)


def test_rec_06_unfolded_gradients_approach_it() -> None:
    _, b, z = solved()
    (s,) = torch.autograd.grad((z @ C).sum(), b)
    cell = Slides()
    for steps, wanted in ((5, 5.5507e-2), (10, 1.4275e-3), (20, 8.3237e-7)):
        given, state = B.clone().requires_grad_(), torch.tensor([[0.5, -0.5, 0.2]], dtype=D)
        for _ in range(steps):
            state = cell(state, given)
        (unfolded,) = torch.autograd.grad((state @ C).sum(), given)
        found = float((unfolded - s).abs().max())
        assert found < 1.2 * wanted, (steps, found)  # the start is not stated in the case
    slopes = 1 - z.detach()[0].square()
    radius = torch.linalg.eigvals(torch.diag(slopes) @ W).abs().max()
    assert abs(float(radius) - 0.475515491) < 1e-8


@pytest.mark.parametrize(
    ("start", "state", "slope"),
    [(-0.5, -0.945963582, 0.133156481), (0.0, 0.966253709, 0.076506798)],
)
def test_rec_07_the_gradient_belongs_to_the_fixed_point_it_converged_to(
    start: float, state: float, slope: float
) -> None:
    layer = DeepEquilibrium(Slides(torch.tensor([[2.0]], dtype=D)))
    b = torch.tensor([[0.1]], dtype=D, requires_grad=True)
    z = layer(b, torch.tensor([[start]], dtype=D))
    assert abs(float(z.detach()) - state) < 1e-9
    (found,) = torch.autograd.grad(z.sum(), b)
    assert abs(float(found) - slope) < 1e-9
    assert abs(float(torch.atanh(z.detach()) - 2 * z.detach()) - 0.1) < 1e-9


def test_rec_07_an_unstable_fixed_point_is_not_reached_and_its_gradient_raises() -> None:
    layer = DeepEquilibrium(Slides(torch.tensor([[2.0]], dtype=D)), tolerance=1e-8)
    b = torch.tensor([[0.1]], dtype=D, requires_grad=True)
    at = torch.tensor([[-0.10033878137]], dtype=D)
    assert abs(float(layer(b, at + 1e-4).detach()) - 0.966253709) < 1e-6
    z = layer(b, at)  # it is the fixed point
    assert abs(float(z.detach()) + 0.100338781) < 1e-8
    with pytest.raises(ConvergenceError, match="the adjoint did not converge"):
        torch.autograd.grad(z.sum(), b)
    at.requires_grad_()
    d_at, d_b = torch.autograd.grad(layer.cell(at, b).sum(), (at, b))
    assert abs(float(d_b / (1 - d_at)) + 1.010274761) < 1e-7  # the exact value


def test_rec_11_a_small_step_along_the_update_raises_the_reward() -> None:
    layer, _, z = solved()
    (d_w,) = torch.autograd.grad((z @ C).sum(), layer.cell.weight)
    higher = DeepEquilibrium(Slides(W + 1e-3 * d_w))(B)
    gained = float((higher @ C - z @ C).detach())
    assert gained == pytest.approx(1e-3 * float(d_w.square().sum()), rel=0.01)


def test_rec_11_a_learner_flips_the_sign_once() -> None:
    """A step of gradient descent on the negative log-likelihood raises the likelihood."""
    layer = DeepEquilibrium(Slides(W.float()))
    x, y = B.float().repeat(4, 1), torch.full((4, 3), 0.4)
    model = tr.Backprop(layer, tr.likelihoods.Normal(0.5), lr=1e-2)
    before = float(model.predict(x).log_prob(y).sum())
    model.update(x, y)
    assert float(model.predict(x).log_prob(y).sum()) > before


@pytest.mark.parametrize("size", [0.3, 0.7, 0.9])
def test_gradients_are_those_of_unrolling(size: float) -> None:
    torch.manual_seed(0)
    cell = nn.RNNCell(2, 6).double()
    with torch.no_grad():
        cell.weight_hh.mul_(size / torch.linalg.matrix_norm(cell.weight_hh, 2))
    x = normal(torch.zeros(5, 2, dtype=D), generator("x")).requires_grad_()
    layer = DeepEquilibrium(cell)
    ends = [x, *cell.parameters()]
    d = normal(torch.zeros(5, 6, dtype=D), generator("d"))
    implicit = torch.autograd.grad(layer(x), ends, d)
    z = torch.zeros(5, 6, dtype=D)
    for _ in range(400):
        z = cell(x, z)
    unrolled = torch.autograd.grad(z, ends, d)
    for got, wanted in zip(implicit, unrolled, strict=True):
        assert float((got - wanted).abs().max()) < 1e-10
    assert layer.solve_info is not None
    assert layer.solve_info.n_steps < (25 if size < 0.9 else 60)  # plain: 30 to 300


def test_messages_to_means_are_those_of_unrolling() -> None:
    """Without variance a Gaussian's messages are gradients."""
    torch.manual_seed(0)
    cell = nn.RNNCell(2, 4).double()
    layer = DeepEquilibrium(cell)
    x = normal(torch.zeros(3, 2, dtype=D), generator("x"))
    leaves = {n: p.detach().clone().requires_grad_() for n, p in layer.named_parameters()}
    sure = {n: tr.Gaussian.wrap(p, torch.zeros_like(p)) for n, p in leaves.items()}
    z: Any = torch.func.functional_call(layer, sure, (x,))
    d = normal(z.loc.detach(), generator("d"))
    got = torch.autograd.grad([z.loc, z.variance], list(leaves.values()), [d, -d.abs()])
    plain = torch.func.functional_call(layer, leaves, (x,))
    torch.testing.assert_close(z.loc.detach(), plain.detach(), rtol=1e-10, atol=1e-12)
    wanted = torch.autograd.grad(plain, list(leaves.values()), d)
    torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("size", [0.3, 0.7, 0.9])
@pytest.mark.parametrize(("variance", "within"), [(1e-4, 0.06), (1e-3, 0.1)])
def test_variance_is_that_of_drawn_networks(size: float, variance: float, within: float) -> None:
    """Weights and inputs are uncertain; iterated rules would count a weight repeatedly."""
    torch.manual_seed(1)
    cell, units = nn.RNNCell(2, 6, bias=False).double(), 6
    with torch.no_grad():
        cell.weight_hh.mul_(size / torch.linalg.matrix_norm(cell.weight_hh, 2))
    weights = {n: tr.Gaussian(p.detach(), variance) for n, p in cell.named_parameters()}
    x = tr.Gaussian(normal(torch.zeros(1, 2, dtype=D), generator("x")), variance)
    named: Any = {f"cell.{n}": w for n, w in weights.items()}
    z: Any = torch.func.functional_call(DeepEquilibrium(cell), named, (x,))
    source, n = generator("draws"), 8000
    drawn = {
        name: w.loc + w.stddev * torch.randn(n, *w.shape, generator=source, dtype=D)
        for name, w in (*weights.items(), ("x", x))
    }
    inputs = drawn["x"] @ drawn["weight_ih"].mT
    state = torch.zeros(n, 1, units, dtype=D)
    for _ in range(150):
        state = torch.tanh(inputs + state @ drawn["weight_hh"].mT)
    ratio = z.variance.detach()[0] / state[:, 0].var(0)
    assert abs(float(ratio.mean()) - 1) < within, ratio
    assert float(ratio.min()) > 0.85
    assert float(ratio.max()) < 1.15


class Net(nn.Module):
    """A deep equilibrium layer and a linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.state = DeepEquilibrium(nn.RNNCell(1, 8))
        self.head = nn.Linear(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.head(self.state(x))
        return z


@pytest.mark.parametrize(
    "make",
    [
        lambda net, noise: tr.TAGI(net, noise, seed=0),
        lambda net, noise: tr.Backprop(net, noise, lr=1e-2, seed=0),
        lambda net, noise: tr.BayesByBackprop(net, noise, lr=1e-2, seed=0, estimator="weights"),
    ],
    ids=["TAGI", "Backprop", "BayesByBackprop"],
)
def test_every_learner_learns_through_it(make: Any) -> None:
    torch.manual_seed(0)
    x = torch.linspace(-1, 1, 32).unsqueeze(1)
    y = 0.8 * torch.sin(2 * x)
    model = make(Net(), tr.likelihoods.Normal(0.1))
    model.fit(x, y, epochs=12, batch_size=4, distance_aware=False)
    assert tr.metrics.rmse(model.predict(x), y) < 0.3  # a constant has 0.54


def test_a_cell_that_does_not_converge_raises() -> None:
    oscillating = Slides(torch.tensor([[-3.0]], dtype=D))
    x = torch.full((1, 1), 0.1, dtype=D)
    with pytest.raises(ConvergenceError, match="did not converge in 50 steps"):
        DeepEquilibrium(oscillating, max_steps=50)(x)
    with pytest.warns(RuntimeWarning, match="weights are so large"):
        DeepEquilibrium(oscillating, max_steps=50, on_failure="warn")(x)


def test_invalid_arguments_raise() -> None:
    with pytest.raises(ValueError, match="got 2 rows for inputs of 1"):
        DeepEquilibrium(Slides())(B, torch.zeros(2, 3, dtype=D))
    with pytest.raises(ValueError, match="'raise' or 'warn'"):
        DeepEquilibrium(Slides(), on_failure="maybe")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="two states"):
        DeepEquilibrium(nn.LSTMCell(2, 3))


def test_a_large_state_does_not_hide_the_change_of_others() -> None:
    """``z = r z + x`` converges to ``x / (1 - r)``, each row at its own rate."""
    rate, x = torch.tensor([[0.5], [0.99]]), torch.tensor([[1e8], [1.0]])
    found = solve_fixed_point(
        lambda z: rate * z + x, torch.zeros(2, 1), tolerance=1e-5, max_steps=5_000
    )
    assert found.converged
    torch.testing.assert_close(found.value, x / (1 - rate), rtol=2e-3, atol=0)
