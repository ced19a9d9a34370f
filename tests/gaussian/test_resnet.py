"""A residual network of the shape of ResNet-18, as one writes it without thinking of Gaussians."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tractable import Gaussian
from tractable.rules import activation_moments
from tractable.testing.gaussians import generator, normal


class BasicBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample: nn.Module | None = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet18(nn.Module):
    """For 32x32 images: a 3x3 stem and no first pooling."""

    def __init__(self, width: int, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
        )
        blocks: list[nn.Module] = []
        inputs = width
        for stage in range(4):
            outputs = width * 2**stage
            blocks += [
                BasicBlock(inputs, outputs, stride=1 if stage == 0 else 2),
                BasicBlock(outputs, outputs, stride=1),
            ]
            inputs = outputs
        self.layers = nn.Sequential(*blocks)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layers(self.stem(x))
        return self.fc(torch.flatten(self.avgpool(x), 1))


@pytest.fixture(scope="module")
def net() -> ResNet18:
    net = ResNet18(width=3)
    source = generator("resnet")
    for module in net.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            fan_in = module.weight[0].numel()
            module.weight.data = normal(module.weight, source) * (2 / fan_in) ** 0.5
    return net


@pytest.fixture(scope="module")
def images() -> Tensor:
    return normal(torch.empty(2, 3, 32, 32), generator("images"))


def states(net: nn.Module, share: float) -> dict[str, Any]:
    """Return Gaussian parameters whose variance is proportional to their usual size."""
    made: dict[str, Any] = {}
    for name, parameter in net.named_parameters():
        loc = parameter.detach().clone()
        scale = 1 / loc[0].numel() if loc.dim() > 1 else 0.1
        made[name] = Gaussian(loc, share * scale)
    return made


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("mode", ["linear", "exact"])
def test_messages_reach_every_parameter(
    net: ResNet18, images: Tensor, mode: Any, training: bool
) -> None:
    net.train(training)
    parameters = states(net, share=0.1)
    leaves = [g.loc.requires_grad_() for g in parameters.values()]
    leaves += [g.variance.requires_grad_() for g in parameters.values()]
    with activation_moments(mode):
        z: Any = torch.func.functional_call(net, parameters, (images,))
    assert z.shape == (2, 10)
    assert bool(torch.isfinite(z.loc).all())
    assert bool((torch.isfinite(z.variance) & (z.variance > 0)).all())

    noise = 0.1
    d_mu = (1 - z.loc.detach()) / (z.variance.detach() + noise)
    d_var = -1 / (z.variance.detach() + noise)
    messages = torch.autograd.grad([z.loc, z.variance], leaves, [d_mu, d_var])
    names = list(parameters)
    for name, to_mean, to_variance in zip(
        names, messages[: len(names)], messages[len(names) :], strict=True
    ):
        assert bool(torch.isfinite(to_mean).all()), name
        assert bool(torch.isfinite(to_variance).all()), name
        assert bool((to_mean != 0).any()), name
        assert bool((to_variance <= 0).all()), name
        assert bool((to_variance < 0).any()), name


@pytest.mark.parametrize("mode", ["linear", "exact"])
def test_one_observed_value_removes_less_than_the_variance_of_a_parameter(
    net: ResNet18, images: Tensor, mode: Any
) -> None:
    """``-var * d_var <= var_z / (var_z + noise)``, on which ``moments.conditioning`` rests."""
    net.train()
    parameters, noise = states(net, share=1.0), 0.1
    leaves = [g.variance.requires_grad_() for g in parameters.values()]
    with activation_moments(mode):
        z: Any = torch.func.functional_call(net, parameters, (images,))
    share = z.variance[1, 4].item() / (z.variance[1, 4].item() + noise)
    d = torch.zeros_like(z.loc)
    d[1, 4] = -1 / (z.variance[1, 4].detach() + noise)
    messages = torch.autograd.grad([z.loc, z.variance], leaves, [d, d])
    taken = [-v.detach() * d_var for v, d_var in zip(leaves, messages, strict=True)]
    assert max(float(q.max()) for q in taken) <= share
    assert sum(float(q.sum()) for q in taken) <= share * (1 + 1e-4)  # and all of them together


def test_without_variance_outputs_equal_the_network(net: ResNet18, images: Tensor) -> None:
    net.eval()
    z: Any = torch.func.functional_call(net, states(net, share=0.0), (images,))
    torch.testing.assert_close(z.loc, net(images), rtol=1e-4, atol=1e-5)
    assert torch.equal(z.variance, torch.zeros(2, 10))


def test_training_moves_the_running_statistics_as_torch_does(net: ResNet18, images: Tensor) -> None:
    plain, ours = copy.deepcopy(net).train(), copy.deepcopy(net).train()
    plain(images)
    torch.func.functional_call(ours, states(ours, share=0.0), (images,))
    before, after, wanted = (dict(n.named_buffers()) for n in (net, ours, plain))
    assert not torch.equal(before["layers.7.bn2.running_mean"], after["layers.7.bn2.running_mean"])
    torch.testing.assert_close(after, wanted, rtol=1e-3, atol=1e-5)
