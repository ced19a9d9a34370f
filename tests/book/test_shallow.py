"""Chapter 3, shallow networks: SHN cases, through ``regions`` and ``summary``."""

import pytest
import torch
from torch import nn

import tractable as tr

PHI = (-0.23, -1.3, 1.3, 0.66)
THETA = ((-0.2, 0.4), (-0.9, 0.9), (1.1, -0.7))


class Heaviside(nn.Module):
    def forward(self, z):
        return (z >= 0).to(z.dtype)


class Rect(nn.Module):
    """Return one between 0 and 1, else 0."""

    def forward(self, z):
        return ((z >= 0) & (z <= 1)).to(z.dtype)


class Affine(nn.Module):
    def forward(self, z):
        return 0.4 - 1.7 * z


def p38(activation: nn.Module) -> nn.Sequential:
    net = nn.Sequential(nn.Linear(1, 3), activation, nn.Linear(3, 1)).double()
    with torch.no_grad():
        double = torch.float64
        net[0].bias.copy_(torch.tensor([t[0] for t in THETA], dtype=double))
        net[0].weight.copy_(torch.tensor([[t[1]] for t in THETA], dtype=double))
        net[2].bias.copy_(torch.tensor(PHI[:1], dtype=double))
        net[2].weight.copy_(torch.tensor([PHI[1:]], dtype=double))
    return net


def test_shn_01_joints_and_slopes():
    found = tr.diagnostics.regions(p38(nn.ReLU()), (-10, 10))
    assert found.breakpoints == pytest.approx((0.5, 1.0, 11 / 7))
    assert found.slopes == pytest.approx((-0.462, -0.982, 0.188, 0.65))
    assert (found.n_regions, found.n_pieces, found.upper_bound) == (4, 4, 4)


def test_shn_02_slopes_add_up():
    slopes = tr.diagnostics.regions(p38(nn.ReLU()), (-10, 10)).slopes
    assert slopes[2] == pytest.approx(slopes[0] + slopes[3])


@pytest.mark.parametrize(
    ("activation", "values"),
    [
        (nn.ReLU(), [0.496, 0.3805, 0.0195, -0.179, 0.16, 0.485]),
        (Heaviside(), [0.43, 0.43, -0.87, 0.43, -0.23, -0.23]),
        (Rect(), [-0.23, 0.43, -0.87, 0.43, -0.23, -1.53]),
        (
            nn.Tanh(),
            [-0.376269961, -0.384520864, -0.304675991, -0.175000599, -0.18924353, -0.334280705],
        ),
    ],
)
def test_shn_03_values(activation, values):
    """Values are those that a learner computes."""
    net = p38(activation)
    model = tr.Backprop(net, tr.likelihoods.Normal(1.0), init="net", dtype=torch.float64)
    x = torch.tensor([0, 0.25, 0.75, 1.25, 2, 2.5], dtype=torch.float64)[:, None]
    assert model.predict(x).mean.flatten().tolist() == pytest.approx(values, abs=1e-8)


def test_shn_04_hardswish_of_a_certain_gaussian():
    z = torch.tensor([-4, -3, -1.5, -1, 0, 1, 3, 4], dtype=torch.float64)
    found = nn.functional.hardswish(tr.Gaussian(z, 0.0))
    assert found.loc.tolist() == pytest.approx([0, 0, -0.375, -1 / 3, 0, 2 / 3, 3, 4])


@pytest.mark.parametrize(("sizes", "count"), [((1, 4, 2), 18), ((2, 3, 1), 13), ((3, 3, 2), 20)])
def test_shn_05_parameters(sizes, count):
    inputs, hidden, outputs = sizes
    net = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))
    assert tr.diagnostics.summary(net, torch.zeros(2, inputs)).n_parameters == count
    assert count == (inputs + 1) * hidden + (hidden + 1) * outputs


def test_shn_06_most_regions():
    cases = {(3, 2): 7, (5, 2): 16, (3, 3): 8, (95, 1): 96}
    assert {case: tr.diagnostics.max_regions(case[1], [case[0]]) for case in cases} == cases


@pytest.mark.parametrize("units", [3, 5])
def test_shn_06_lines_in_general_position_reach_the_maximum(units):
    net = nn.Sequential(nn.Linear(2, units), nn.ReLU(), nn.Linear(units, 1))
    with torch.no_grad():
        net[0].weight.copy_(torch.randn(units, 2, generator=torch.Generator().manual_seed(1)))
        net[0].bias.copy_(torch.randn(units, generator=torch.Generator().manual_seed(2)))
    found = tr.diagnostics.regions(net, [(-1000, 1000), (-1000, 1000)])
    assert found.n_regions == found.upper_bound == tr.diagnostics.max_regions(2, [units])


def test_shn_08_relu_is_homogeneous_for_positive_factors_only():
    z = torch.randn(50, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for a in (0.3, 4.0):
        both = [nn.functional.relu(tr.Gaussian(a * z, 0.0)), a * nn.functional.relu(z)]
        torch.testing.assert_close(both[0].loc, both[1])
    assert float(nn.functional.relu(tr.Gaussian(torch.tensor(-2.0), 0.0)).loc) == 0
    assert -2 * float(torch.relu(torch.tensor(1.0))) == -2


def test_shn_10_rect_activation_gives_six_joints():
    kinks = {Rect: (0.0, 1.0)}
    found = tr.diagnostics.regions(p38(Rect()), (-10, 10), kinks=kinks)
    assert found.breakpoints == pytest.approx((1 / 7, 0.5, 1, 11 / 7, 19 / 9, 3))
    assert found.n_pieces == 7
    assert found.slopes == pytest.approx((0,) * 7)


def test_shn_11_affine_units_make_an_affine_network():
    for unit in (Affine(), nn.Identity()):
        kinks = {Affine: ()}
        assert tr.diagnostics.regions(p38(unit), (-5, 5), kinks=kinks).n_pieces == 1
