"""Without variance, the messages to the means are the gradients, for every layer in training."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from tractable import Gaussian
from tractable.learners.network.functional import Network
from tractable.testing.gaussians import generator, normal


class Residual(nn.Module):
    """``x + f(x)``."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        """See the class."""
        return x + self.inner(x)


def _chain(*layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 6), *layers, nn.Linear(6, 2))


def _images(*layers: nn.Module) -> nn.Sequential:
    ends = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 2)
    return nn.Sequential(nn.Conv2d(2, 6, 3, padding=1), *layers, *ends)


ROWS: dict[str, Callable[[], nn.Module]] = {
    "linear": _chain,
    "batch norm": lambda: _chain(nn.BatchNorm1d(6), nn.ReLU()),
    "layer norm": lambda: _chain(nn.LayerNorm(6), nn.GELU()),
    "layer norm, twice": lambda: _chain(nn.LayerNorm(6), nn.Linear(6, 6), nn.LayerNorm(6)),
    "rms norm": lambda: _chain(nn.RMSNorm(6), nn.SiLU()),
    "group norm": lambda: _chain(nn.GroupNorm(2, 6), nn.Tanh()),
    "residual": lambda: _chain(Residual(nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 6)))),
}
IMAGES: dict[str, Callable[[], nn.Module]] = {
    "convolution": lambda: _images(nn.ReLU(), nn.Conv2d(6, 6, 2)),
    "batch norm": lambda: _images(nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 6, 3)),
    "group norm": lambda: _images(nn.GroupNorm(3, 6), nn.LeakyReLU(), nn.AvgPool2d(2)),
    "instance norm": lambda: _images(nn.InstanceNorm2d(6, affine=True), nn.MaxPool2d(2)),
    "residual": lambda: _images(
        Residual(nn.Sequential(nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 6, 3, padding=1)))
    ),
    "transposed": lambda: _images(nn.ConvTranspose2d(6, 6, 2), nn.BatchNorm2d(6), nn.ELU()),
}


def _cosine(net: nn.Module, x: Tensor) -> float:
    """Between the messages to all parameters and their gradients, some message being sent."""
    network = Network(net, torch.float64, torch.device("cpu"))
    parameters = {
        name: parameter.detach().clone().requires_grad_()
        for name, parameter in network.module.named_parameters()
    }
    leaves = list(parameters.values())
    plain = network({**parameters, **network.initial_buffers()}, x, train=True)
    d = normal(plain, generator("gradient"))
    gradient = torch.cat([g.flatten() for g in torch.autograd.grad(plain, leaves, d)])
    sure = {name: Gaussian.wrap(p, torch.zeros_like(p)) for name, p in parameters.items()}
    z = network({**sure, **network.initial_buffers()}, x, train=True)
    torch.testing.assert_close(z.loc, plain, rtol=1e-10, atol=1e-10)
    got = torch.autograd.grad([z.loc, z.variance], leaves, [d, torch.zeros_like(d)])
    message = torch.cat([g.flatten() for g in got])
    torch.testing.assert_close(message, gradient, rtol=1e-9, atol=1e-9)
    return float(torch.cosine_similarity(message, gradient, dim=0))


@pytest.mark.parametrize("name", ROWS)
def test_rows(name: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(5, 6, generator=generator("rows"), dtype=torch.float64)
    assert _cosine(ROWS[name](), x) > 1 - 1e-10


@pytest.mark.parametrize("name", IMAGES)
def test_images(name: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 2, 6, 6, generator=generator("images"), dtype=torch.float64)
    assert _cosine(IMAGES[name](), x) > 1 - 1e-10
