"""The kernel's derivatives compared with those of torch."""

import pytest
import torch
from torch import nn

import tractable as tr
from tractable.infer.derivatives import chain, input_slopes, run

NETS = {
    "linear": nn.Sequential(nn.Linear(3, 1)),
    "tanh-relu-relu": nn.Sequential(
        nn.Linear(3, 20), nn.Tanh(), nn.Linear(20, 33), nn.ReLU(), nn.Linear(33, 7), nn.ReLU(),
        nn.Linear(7, 1),
    ),
    "relu-sigmoid-leaky": nn.Sequential(
        nn.Linear(3, 9, bias=False), nn.ReLU(), nn.Linear(9, 16), nn.Sigmoid(), nn.Linear(16, 5),
        nn.LeakyReLU(0.2), nn.Linear(5, 1),
    ),
    "no activation": nn.Sequential(nn.Linear(3, 8), nn.Linear(8, 1)),
}  # fmt: skip


def _model(net, **options):
    model = tr.TAGI(net, tr.likelihoods.Normal(0.1), gain=1.0, **options)
    x = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    return model.update(x, x.sum(1, keepdim=True))


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("rows", [1, 40])
def test_agrees_with_torch(name, rows):
    model = _model(NETS[name], engine="native")
    draw = torch.Generator().manual_seed(1)
    x = tr.Gaussian(torch.randn(rows, 3, generator=draw), 0.3 * torch.rand(rows, 3, generator=draw))
    assert model.slopes(x) is not None
    expected = run(chain(model), x)
    for found, wanted in zip(
        input_slopes(model, x),
        (expected.mean, expected.variance, expected.curvature),
        strict=True,
    ):
        assert torch.allclose(found, wanted[:, 0], rtol=2e-4, atol=2e-5)


def test_unsupported_networks_fall_back_to_torch():
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
    model = _model(net, engine="native")
    x = tr.Gaussian(torch.zeros(2, 3), 0.1)
    assert model.slopes(x) is None
    assert torch.equal(input_slopes(model, x)[0], run(chain(model), x).mean[:, 0])
