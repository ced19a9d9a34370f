"""Chapter 4, deep networks: DNN cases."""

from itertools import pairwise

import pytest
import torch
from torch import nn

import tractable as tr


def mlp(*sizes: int, bias: bool = True) -> nn.Sequential:
    layers: list[nn.Module] = []
    for a, b in pairwise(sizes):
        layers += [nn.Linear(a, b, bias=bias), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def count(net: nn.Module, inputs: int) -> int:
    return tr.diagnostics.summary(net, torch.zeros(2, inputs)).n_parameters


def test_dnn_01_shapes_and_parameters():
    found = tr.diagnostics.summary(mlp(5, 20, 10, 7, 4), torch.zeros(2, 5))
    own = [layer.n_parameters for layer in found.layers if layer.n_parameters]
    assert own == [20 * 6, 10 * 21, 7 * 11, 4 * 8]
    assert found.n_parameters == 439
    assert [layer.shape for layer in found.layers[::2]] == [(20,), (10,), (7,), (4,)]


def test_dnn_02_parameters_of_a_deep_network():
    assert count(mlp(5, *[30] * 20, 1), 5) == 17_881


def test_dnn_03_one_more_layer_or_unit():
    for bias, wanted in ((False, (920, 1020, 1111)), (True, (1021, 1131, 1222))):
        nets = (mlp(1, *[10] * 10, 1, bias=bias), mlp(1, *[10] * 11, 1, bias=bias),
                mlp(1, *[11] * 10, 1, bias=bias))  # fmt: skip
        assert tuple(count(net, 1) for net in nets) == wanted


def test_dnn_04_output_of_a_zigzag_function():
    net = nn.Sequential(nn.Linear(1, 3), nn.ReLU(), nn.Linear(3, 1)).double()
    breakpoints = torch.tensor([1 / 6, 2 / 6, 4 / 6], dtype=torch.float64)
    slopes = torch.tensor([1.0, 1.0, -1.0], dtype=torch.float64)
    with torch.no_grad():
        net[0].weight.copy_(slopes[:, None])
        net[0].bias.copy_(-slopes * breakpoints)
        net[2].bias.fill_(4.0)
        net[2].weight.copy_(torch.tensor([[-12.0, 9.0, -6.0]]))
    model = tr.Backprop(net, tr.likelihoods.Normal(1.0), init="net", dtype=torch.float64)
    x = torch.tensor([0, 1 / 6, 2 / 6, 4 / 6, 1], dtype=torch.float64)[:, None]
    assert model.predict(x).mean.flatten().tolist() == pytest.approx([0, 1, 0, 1, 0], abs=1e-9)
    found = tr.diagnostics.regions(net, (0, 1))
    assert found.breakpoints == pytest.approx(breakpoints.tolist())
    assert found.slopes == pytest.approx((6, -6, 3, -3))


def test_dnn_07_parameters_and_regions():
    def formula(d, k):
        return 3 * d + 1 + (k - 1) * d * (d + 1)

    for d, k, wanted in ((95, 1, 286), (5, 10, 286), (20, 10, 3841)):
        assert formula(d, k) == wanted == count(mlp(1, *[d] * k, 1), 1)
    assert tr.diagnostics.max_regions(1, [95]) == 96
    assert tr.diagnostics.max_regions(1, [5] * 10) == 60_466_176


def test_composed_folds_multiply_their_regions():
    """Three copies of a map with three pieces, each onto [0, 1], have 3^3 of them."""
    chain: list[nn.Module] = []
    for _ in range(3):
        part = nn.Sequential(nn.Linear(1, 3), nn.ReLU(), nn.Linear(3, 1)).double()
        with torch.no_grad():
            part[0].weight.fill_(1.0)
            part[0].bias.copy_(-torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64) / 3)
            part[2].weight.copy_(torch.tensor([[3.0, -6.0, 6.0]], dtype=torch.float64))
            part[2].bias.zero_()
        chain += [*part]
    for copies in (1, 2, 3):
        assert (
            tr.diagnostics.regions(nn.Sequential(*chain[: 3 * copies]), (0, 1)).n_pieces
            == 3**copies
        )


def test_dnn_08_rescaling_leaves_the_function():
    generator = torch.Generator().manual_seed(0)
    net = mlp(3, 8, 8, 2).double()
    other = mlp(3, 8, 8, 2).double()
    first, second = 0.37, 4.2
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
        other.load_state_dict(net.state_dict())
        other[0].weight.mul_(first)
        other[0].bias.mul_(first)
        other[2].weight.mul_(second / first)
        other[2].bias.mul_(second)
        other[4].weight.div_(second)
    x = torch.randn(20, 3, generator=generator, dtype=torch.float64)
    noise = tr.likelihoods.Normal(1.0, outputs=2)
    ours = [
        tr.Backprop(n, noise, init="net", dtype=torch.float64).predict(x).mean for n in (net, other)
    ]
    torch.testing.assert_close(*ours, rtol=1e-12, atol=1e-12)
    assert float((net[1](net[0](x)) > 0).double().mean()) > 0.1


@pytest.mark.parametrize("depth", range(1, 7))
def test_dnn_09_nested_and_layer_by_layer(depth):
    generator = torch.Generator().manual_seed(depth)
    net = mlp(2, *[4] * depth, 1).double()
    x = torch.randn(6, 2, generator=generator, dtype=torch.float64)
    model = tr.Backprop(net, tr.likelihoods.Normal(1.0), init="net", dtype=torch.float64)
    linear = [layer for layer in net if isinstance(layer, nn.Linear)]

    def nested(h, left):
        if len(left) == 1:
            return h @ left[0].weight.T + left[0].bias
        return nested((h @ left[0].weight.T + left[0].bias).clamp_min(0), left[1:])

    ours = model.predict(x).mean.reshape(6, 1)
    torch.testing.assert_close(ours, nested(x, linear).detach(), rtol=0, atol=1e-12)
