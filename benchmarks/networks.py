"""The timed networks, and one training step of each by TAGI and by plain PyTorch."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import tractable as tr


@dataclass(frozen=True)
class Case:
    """A network, the shape of its input and the size of a batch."""

    net: Callable[[], nn.Module]
    shape: tuple[int, ...]
    batch: int
    outputs: int

    def data(self) -> tuple[Tensor, Tensor]:
        """Return random inputs and targets."""
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(self.batch, *self.shape, generator=generator)
        return x, torch.randn(self.batch, self.outputs, generator=generator)


def mlp(*sizes: int) -> nn.Sequential:
    """Return linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(sizes):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def table_4() -> nn.Sequential:
    """Return the convolutional network of table 4."""
    from tractable_studies.images.run import mnist_cnn

    net = mnist_cnn()
    assert isinstance(net, nn.Sequential)
    return net


def resnet() -> nn.Sequential:
    """Return six batch-normalized residual blocks with 0.25 million parameters."""
    from tractable_studies.images.run import cifar_resnet

    net = cifar_resnet()
    assert isinstance(net, nn.Sequential)
    return net


CASES = {
    "mlp_small": Case(lambda: mlp(1, 64, 64, 1), (1,), 1, 1),
    "mlp_mnist": Case(lambda: mlp(784, 400, 400, 11), (784,), 128, 11),
    "cnn_mnist": Case(table_4, (1, 28, 28), 16, 11),
    "resnet_cifar": Case(resnet, (3, 32, 32), 32, 11),
}


def tagi_step(case: Case, **options: object) -> Callable[[], None]:
    """Return one update of a TAGI learner on fixed data."""
    x, y = case.data()
    model = tr.TAGI(case.net(), tr.likelihoods.Normal(1.0), **options)  # type: ignore[arg-type]
    y = model.likelihood.check_targets(y, y.shape)
    return lambda: model.learn_batch(x, y)


def sgd_step(case: Case) -> Callable[[], None]:
    """Return a forward, backward and update step of plain stochastic gradient descent."""
    x, y = case.data()
    net = case.net()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.mse_loss(net(x), y).backward()
        optimizer.step()

    return step
