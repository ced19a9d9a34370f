"""Chapter 11, residual networks and batch normalization: RES cases."""

import math

import pytest
import torch
from torch import nn

import tractable as tr

DOUBLE = torch.float64


class Residual(nn.Module):
    def __init__(self, block: nn.Module, scale: float = 1.0) -> None:
        super().__init__()
        self.block, self.scale = block, scale

    def forward(self, x):
        return (x + self.block(x)) * self.scale


@pytest.mark.parametrize("blocks", [3, 5])
def test_res_01_paths_by_length(blocks):
    """Blocks w x: the output is a polynomial in w whose coefficients count the paths."""
    w = torch.linspace(-1, 1, blocks + 1, dtype=DOUBLE)
    outputs = []
    for value in w:
        layers = [nn.Linear(1, 1, bias=False).double() for _ in range(blocks)]
        with torch.no_grad():
            for layer in layers:
                layer.weight.fill_(value)
        net = nn.Sequential(*(Residual(layer) for layer in layers))
        model = tr.Backprop(net, tr.likelihoods.Normal(1.0), init="net", dtype=DOUBLE)
        outputs.append(float(model.predict(torch.ones(1, 1, dtype=DOUBLE)).mean))
    powers = torch.stack([w**k for k in range(blocks + 1)], 1)
    counts = torch.linalg.solve(powers, torch.tensor(outputs, dtype=DOUBLE))
    assert counts.tolist() == pytest.approx([math.comb(blocks, k) for k in range(blocks + 1)])
    assert float(counts.sum()) == pytest.approx(2**blocks)


def test_res_02_derivative_of_later_blocks():
    layers = [nn.Linear(1, 1, bias=False).double() for _ in range(4)]
    with torch.no_grad():
        for layer, w in zip(layers, (0.5, 0.2, -0.3, 0.1), strict=True):
            layer.weight.fill_(w)
    net = nn.Sequential(*(Residual(layer) for layer in layers))
    found = tr.diagnostics.summary(net, torch.tensor([[1.0], [2.0], [-1.5]], dtype=DOUBLE), seed=1)
    inside = [layer.output_gradient_std for layer in found.layers]
    assert len(inside) == 4
    # The gradient at the first block's output, over that at the last one's: 1.2 * 0.7 * 1.1.
    assert inside[0] / inside[3] == pytest.approx(0.924)


@pytest.fixture
def batch_norm():
    layer = nn.BatchNorm1d(1, eps=1e-5).double()
    with torch.no_grad():
        layer.weight.fill_(1.5)
        layer.bias.fill_(0.3)
    return layer, torch.tensor([[1.0], [2.0], [4.0], [-1.0]], dtype=DOUBLE, requires_grad=True)


def test_res_04_batch_norm_forwards_and_backwards(batch_norm):
    layer, z = batch_norm
    out = layer(z)
    wanted = [-0.116024507, 0.716024507, 2.380122536, -1.780122536]
    assert out.flatten().tolist() == pytest.approx(wanted, abs=1e-8)
    upstream = torch.tensor([[0.1], [-0.2], [0.3], [0.4]], dtype=DOUBLE)
    found = torch.autograd.grad(out, [z, layer.weight, layer.bias], upstream)
    assert found[0].flatten().tolist() == pytest.approx(
        [-0.054403165, -0.27841644, 0.188810926, 0.14400868], abs=1e-8
    )
    assert float(found[1]) == pytest.approx(-0.221879737, abs=1e-8)
    assert float(found[2]) == pytest.approx(0.6, abs=1e-8)
    gaussian = nn.functional.batch_norm(
        tr.Gaussian(z.detach(), 0.0), None, None, layer.weight.detach(), layer.bias.detach(), True
    )
    torch.testing.assert_close(gaussian.loc, out.detach())


def test_res_05_jacobian_of_batch_norm_is_full(batch_norm):
    layer, z = batch_norm
    jacobian = torch.autograd.functional.jacobian(layer, z.detach()).reshape(4, 4)
    wanted = [0.608035867, -0.19201136, -0.128007787, -0.28801672]
    assert jacobian[0].tolist() == pytest.approx(wanted, abs=1e-8)
    assert jacobian.sum(1).abs().max() < 1e-12
    n, centred = 4, z.detach().flatten() - z.detach().mean()
    s = (centred.square().mean() + 1e-5).sqrt()
    hat = centred / s
    formula = 1.5 / s * (torch.eye(n, dtype=DOUBLE) - 1 / n - hat[:, None] * hat[None] / n)
    torch.testing.assert_close(jacobian, formula)


def test_res_07_parameters_with_batch_norm():
    def net(normalized):
        layers: list[nn.Module] = []
        for a, b in zip([1] + [20] * 9, [20] * 10, strict=True):
            layers += [nn.Linear(a, b), *([nn.BatchNorm1d(b)] if normalized else []), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(20, 1))

    x = torch.zeros(4, 1)
    assert tr.diagnostics.summary(net(False), x).n_parameters == 3841
    assert tr.diagnostics.summary(net(True), x).n_parameters == 4241


def test_res_08_a_bottleneck():
    def block(a, b, k):
        return [nn.BatchNorm2d(a), nn.ReLU(), nn.Conv2d(a, b, k, padding=k // 2)]

    wide = nn.Sequential(*block(512, 512, 3))
    narrow = nn.Sequential(*block(512, 128, 1), *block(128, 128, 3), *block(128, 512, 1))
    x = torch.zeros(1, 512, 3, 3)
    assert tr.diagnostics.summary(wide, x).n_parameters == 2_360_832
    assert tr.diagnostics.summary(narrow, x).n_parameters == 280_832


@pytest.mark.parametrize(("scale", "wanted"), [(1.0, 32.0), (1 / math.sqrt(2), 1.0)])
def test_res_09_blocks_double_the_variance(scale, wanted):
    """With He's weights, ReLU before the linear map; mean over draws of the weights."""
    found = []
    for seed in range(12):
        generator = torch.Generator().manual_seed(seed)
        blocks = []
        for _ in range(5):
            layer = nn.Linear(256, 256)
            with torch.no_grad():
                w = torch.randn(256, 256, generator=generator) * math.sqrt(2 / 256)
                layer.weight.copy_(w)
                layer.bias.zero_()
            blocks.append(Residual(nn.Sequential(nn.ReLU(), layer), scale))
        x = torch.randn(16, 256, generator=generator)
        z = nn.Sequential(*blocks)(x).detach()
        found.append(float(z.square().mean() / x.square().mean()))
    values = torch.tensor(found)
    assert abs(float(values.mean()) - wanted) < 4 * float(values.std()) / math.sqrt(len(found))
