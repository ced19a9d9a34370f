"""Summaries of layers: receptive fields against gradients, scales, dead units, SNR."""

import json

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import tractable as tr


def random_stack(seed: int, dims: int) -> nn.Sequential:
    """Return convolutions and average pools with positive weights, so that nothing cancels."""
    generator = torch.Generator().manual_seed(seed)

    def pick(low, high):
        return int(torch.randint(low, high + 1, (1,), generator=generator))

    conv, pool = ((nn.Conv1d, nn.AvgPool1d), (nn.Conv2d, nn.AvgPool2d))[dims - 1]
    layers: list[nn.Module] = []
    for _ in range(pick(2, 4)):
        if pick(0, 3) == 0:
            layers.append(pool(pick(2, 3), stride=pick(1, 2)))
        else:
            kernel = [pick(1, 3) for _ in range(dims)]
            layers.append(
                conv(
                    1, 1, kernel if dims > 1 else kernel[0], stride=pick(1, 2), dilation=pick(1, 2)
                )
            )
        layers.append(nn.ReLU())
    net = nn.Sequential(*layers)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.fill_(0.1)
    return net


@pytest.mark.parametrize("dims", [1, 2])
@pytest.mark.parametrize("seed", range(12))
def test_the_field_is_the_support_of_the_gradient(seed, dims):
    net = random_stack(seed, dims)
    x = torch.ones(1, 1, *[80 // dims] * dims, requires_grad=True)
    z = net(x)
    middle = z[(0, 0, *(size // 2 for size in z.shape[2:]))]
    (slope,) = torch.autograd.grad(middle, x)
    places = slope[0, 0].nonzero()
    support = (places.amax(0) - places.amin(0) + 1).tolist()
    found = tr.diagnostics.summary(net, x.detach()).layers[-1].receptive_field
    assert list(found) == support


class Branches(nn.Module):
    """A sum and a concatenation of branches with different windows."""

    def __init__(self) -> None:
        super().__init__()
        self.short, self.long = nn.Conv1d(1, 2, 3, padding=1), nn.Conv1d(1, 2, 7, padding=3)
        self.last = nn.Conv1d(4, 1, 3, padding=1)

    def forward(self, x):
        both = F.relu(self.short(x)) + self.long(x)
        return self.last(torch.cat([both, self.short(x)], 1))


def test_branches_have_the_widest_receptive_field():
    found = {
        la.name: la.receptive_field
        for la in tr.diagnostics.summary(Branches(), torch.ones(1, 1, 30)).layers
    }
    assert found == {"short": (3,), "long": (7,), "last": (9,)}


def test_other_functions_have_no_receptive_field():
    net = nn.Sequential(nn.Conv1d(1, 1, 3), nn.Flatten(), nn.Linear(8, 2))
    layers = tr.diagnostics.summary(net, torch.ones(2, 1, 10)).layers
    assert [la.receptive_field for la in layers] == [(3,), None, None]


def test_scales_and_dead_units():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
    with torch.no_grad():
        net[0].bias[:3] = -100.0
    x = torch.randn(50, 2, generator=torch.Generator().manual_seed(0))
    found = tr.diagnostics.summary(net, x)
    assert found.layers[1].dead_fraction == 0.75
    assert "75 % of the units of 1 are dead" in found.recommendation()
    z = net[0](x)
    assert found.layers[0].output_std == pytest.approx(
        float(z.detach().std(correction=0)), rel=1e-5
    )
    assert net.training


def test_the_summary_of_a_learner_uses_its_means_and_its_signal_to_noise_ratio():
    x = torch.randn(40, 2, generator=torch.Generator().manual_seed(0))
    y = x[:, :1]
    net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
    model = tr.TAGI(net, tr.likelihoods.Normal(0.1)).fit(x, y, epochs=2)
    found = tr.diagnostics.summary(model, x, y)
    ratio = torch.cat([model.posterior.snr()[n].flatten() for n in ("0.weight", "0.bias")])
    assert found.layers[0].snr == pytest.approx(float(ratio.median()))
    assert found.layers[0].pruned_fraction == 0
    assert found.layers[0].output_gradient_std > 0
    pruned = tr.diagnostics.summary(model.prune(0.5), x, y)
    share = sum(la.pruned_fraction * la.n_parameters for la in pruned.layers if la.n_parameters)
    assert share / pruned.n_parameters == pytest.approx(0.5, abs=0.02)
    assert len(found.table().splitlines()) == 5
    assert json.loads(found.to_json())["n_parameters"] == 33
    assert len(found.plot().lines) == 2
    point = tr.diagnostics.summary(tr.Backprop(net, tr.likelihoods.Normal(0.1)), x)
    assert point.layers[0].snr is None
    with pytest.raises(TypeError, match="a learner or a module, got str"):
        tr.diagnostics.summary("net", x)


def test_a_layer_called_net_has_its_own_signal_to_noise_ratio():
    class Around(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(2, 1)

        def forward(self, x):
            return self.net(x)

    x = torch.randn(20, 2, generator=torch.Generator().manual_seed(0))
    for module in (Around(), nn.Linear(2, 1)):
        (layer,) = tr.diagnostics.summary(tr.TAGI(module, tr.likelihoods.Normal(0.1)), x).layers
        assert layer.name == "net"
        assert layer.snr is not None
