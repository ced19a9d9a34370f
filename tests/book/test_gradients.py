"""Chapter 7, gradients and initialization: GRD cases."""

import math

import pytest
import torch
from torch import nn

import tractable as tr


def slopes(loss, at):
    """Return the gradient as the change by one step of gradient descent of length 1."""
    found = tr.diagnostics.descent(loss, at, lr=1.0, n_steps=1).points
    return [a - b for a, b in zip(found[0], found[1], strict=True)]


def test_grd_01_a_chain_of_functions():
    def loss(p):
        b, w = p[:4], p[4:]
        f = b[3] + w[3] * torch.cos(
            b[2] + w[2] * torch.exp(b[1] + w[1] * torch.sin(b[0] + w[0] * 1.2))
        )
        return (f - 0.3) ** 2

    at = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5, -0.6, 0.7, 0.8], dtype=torch.float64)
    assert float(loss(at)) == pytest.approx(0.371095565, abs=1e-8)
    wanted = [0.200400522, -0.436692529, -0.75177337, 1.218352273, 0.240480626, -0.281325051,
              -0.62384647, 0.775444879]  # fmt: skip
    assert slopes(loss, at) == pytest.approx(wanted, abs=1e-8)


def test_grd_02_two_hidden_layers():
    def output(p):
        phi, psi1, psi2, theta1, theta2 = p[:3], p[3:6], p[6:9], p[9:11], p[11:]
        h = torch.stack([theta1[0] + theta1[1], theta2[0] + theta2[1]]).clamp_min(0)
        g = torch.stack([s[0] + s[1] * h[0] + s[2] * h[1] for s in (psi1, psi2)]).clamp_min(0)
        return phi[0] + phi[1] * g[0] + phi[2] * g[1]

    at = torch.tensor(
        [0.1, 0.5, -0.7, 0.2, 0.3, -0.4, -0.1, 0.6, 0.8, 0.3, -0.2, 0.1, 0.9], dtype=torch.float64
    )
    assert float(output(at)) == pytest.approx(-0.432)
    wanted = [1, 0, 0.76, 0, 0, 0, -0.7, -0.07, -0.7, -0.42, -0.42, -0.56, -0.56]
    assert slopes(output, at) == pytest.approx(wanted)


@pytest.mark.parametrize("kind", ["squares", "logit"])
def test_grd_04_slope_of_the_loss_in_the_output(kind):
    generator = torch.Generator().manual_seed(0)
    f = torch.randn(12, 1, generator=generator, dtype=torch.float64, requires_grad=True)
    if kind == "squares":
        y = torch.randn(12, 1, generator=generator, dtype=torch.float64)
        likelihood, wanted = tr.likelihoods.Normal(math.sqrt(0.5)), 2 * (f - y)
    else:
        y = (torch.arange(12) % 2).double()[:, None]
        likelihood, wanted = tr.likelihoods.Bernoulli(link="logit"), torch.sigmoid(f) - y
        y = y.long()
    targets = likelihood.check_targets(y, f.shape)
    (found,) = torch.autograd.grad(-likelihood.log_prob(targets, f).sum(), f)
    torch.testing.assert_close(found, wanted.detach(), rtol=1e-6, atol=1e-7)


def test_grd_05_slope_of_the_sigmoid():
    values = {0.0: 0.25, 10.0: 4.539580774e-05, -10.0: 4.539580774e-05, 1000.0: 0.0, -1000.0: 0.0}
    for z, wanted in values.items():
        at = torch.tensor([z], dtype=torch.float64)
        found = slopes(lambda p: torch.sigmoid(p).sum(), at)
        assert found == pytest.approx([wanted], abs=1e-12), z


def test_grd_06_leaky_relu_backwards():
    """As in torch, the slope at exactly zero is the negative slope."""
    net = nn.Sequential(nn.Linear(1, 1), nn.LeakyReLU(0.1)).double()
    with torch.no_grad():
        net[0].weight.fill_(1.0)
        net[0].bias.zero_()
    for x, wanted in ((2.0, 1.0), (-2.0, 0.1), (0.0, 0.1)):
        leaf = torch.tensor([[x]], dtype=torch.float64, requires_grad=True)
        (found,) = torch.autograd.grad(net(leaf).sum(), leaf)
        assert float(found) == pytest.approx(wanted)
        moved = nn.functional.leaky_relu(
            tr.Gaussian(torch.tensor(x, dtype=torch.float64), 1.0), 0.1
        )
        assert float(moved.variance) == pytest.approx(wanted**2)


def test_grd_07_forward_and_reverse_mode():
    def y(x):
        inner = torch.exp(x) + torch.exp(x) ** 2
        return torch.exp(inner) + torch.sin(inner)

    for x, wanted in ((0.0, 20.918727787), (-0.5, 4.310440671)):
        at = torch.tensor([x], dtype=torch.float64)
        _, forward = torch.func.jvp(y, (at,), (torch.ones_like(at),))
        assert forward.tolist() == pytest.approx([wanted], abs=1e-8)
        assert slopes(lambda p: y(p).sum(), at) == pytest.approx([wanted], abs=1e-8)


@pytest.mark.parametrize("kind", ["normal", "uniform", "laplace"])
def test_grd_10_half_of_the_square_survives_relu(kind):
    generator = torch.Generator().manual_seed(0)
    n = 400_000
    u = torch.rand(n, generator=generator, dtype=torch.float64)
    drawn = {
        "normal": 3 * torch.randn(n, generator=generator, dtype=torch.float64),
        "uniform": 3 * math.sqrt(3) * (2 * u - 1),
        "laplace": -(u - 0.5).sign() * (1 - 2 * (u - 0.5).abs()).log() * 3 / math.sqrt(2),
    }[kind]
    found = drawn.clamp_min(0).square()
    assert abs(float(found.mean()) - 4.5) < 4 * float(found.std()) / math.sqrt(n)
    if kind == "normal":  # and the library's exact moments: E[h^2] = mean^2 + variance
        with tr.activation_moments("exact"):
            h = nn.functional.relu(tr.Gaussian(torch.tensor(0.0, dtype=torch.float64), 9.0))
        assert float(h.loc**2 + h.variance) == pytest.approx(4.5)


def deep(scale: float, width: int, depth: int = 50) -> nn.Sequential:
    generator = torch.Generator().manual_seed(0)
    layers: list[nn.Module] = []
    for _ in range(depth):
        layer = nn.Linear(width, width)
        with torch.no_grad():
            size = math.sqrt(scale / width)
            layer.weight.copy_(size * torch.randn(width, width, generator=generator))
            layer.bias.zero_()
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def test_grd_11_activations_stay_vanish_or_explode():
    ratios = {c: (c / 2) ** 50 for c in (2.0, 1.0, 4.0, 1 / 3)}
    assert ratios[2.0] == 1
    assert ratios[1.0] == pytest.approx(8.881784197e-16)
    assert ratios[4.0] == pytest.approx(1.1259e15, rel=1e-4)
    assert ratios[1 / 3] == pytest.approx(1.237e-39, rel=1e-3)
    x = torch.randn(8, 300, generator=torch.Generator().manual_seed(1))
    found = {c: tr.diagnostics.summary(deep(c, 300), x) for c in (2.0, 1.0)}
    sizes = {c: (s.layers[0].output_std, s.layers[-1].output_std) for c, s in found.items()}
    assert 1 / 5 < sizes[2.0][1] / sizes[2.0][0] < 5
    assert (sizes[1.0][1] / sizes[1.0][0]) ** 2 == pytest.approx(ratios[1.0] * 2, rel=10)
    assert found[2.0].recommendation() == "Signals pass through all layers, forwards and backwards."
    assert "fade forwards" in found[1.0].recommendation()
    assert "fade backwards" in found[1.0].recommendation()


def test_grd_12_and_15_initial_variances():
    """Prior variances of TAGI: 2 / (9 C) for convolutions, 4 / (in + out), twice that of Xavier."""
    noise = tr.likelihoods.Normal(1.0)
    he = tr.TAGI(
        nn.Sequential(nn.Conv2d(5, 7, 3), nn.Flatten(), nn.Linear(7, 1)), noise, init="he", gain=1.0
    )
    assert he.posterior.prior_variance["0.weight"] == pytest.approx(2 / (9 * 5))
    net = nn.Sequential(nn.Linear(30, 50), nn.ReLU(), nn.Linear(50, 1))
    average = tr.TAGI(net, noise, init="xavier", gain=2.0)
    assert average.posterior.prior_variance["0.weight"] == pytest.approx(4 / 80)
    theirs = nn.init.xavier_normal_(torch.empty(2000, 1200), gain=math.sqrt(2))
    assert float(theirs.var()) == pytest.approx(4 / 3200, rel=0.01)


class Heaviside(nn.Module):
    def forward(self, z):
        return (z >= 0).to(z.dtype)


def test_grd_14_no_gradient_passes_a_step_function():
    net = nn.Sequential(nn.Linear(2, 4), Heaviside(), nn.Linear(4, 1))
    found = tr.diagnostics.summary(
        net, torch.randn(10, 2, generator=torch.Generator().manual_seed(0))
    )
    assert found.layers[0].output_gradient_std == 0
    assert "no gradient reaches 0" in found.recommendation().lower()
