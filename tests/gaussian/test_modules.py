"""Plain modules on Gaussian parameters, by ``functional_call`` and by ``parametrize``."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from tractable import Gaussian
from tractable.testing.gaussians import generator, normal


def net() -> Any:
    """A small network whose weights do not depend on the global seed."""
    layers = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    source = generator("net")
    for parameter in layers.parameters():
        parameter.data = normal(parameter, source)
    return layers


def gaussian_parameters(module: nn.Module) -> dict[str, Any]:
    return {
        name: Gaussian(parameter.detach(), 0.05) for name, parameter in module.named_parameters()
    }


def test_functional_call() -> None:
    layers, x = net(), normal(torch.empty(5, 3).double(), generator("x"))
    names = dict(layers.named_parameters())
    z: Any = torch.func.functional_call(layers, gaussian_parameters(layers), (x,))
    torch.testing.assert_close(z.loc, layers(x))
    assert bool((z.variance > 0).all())
    assert dict(layers.named_parameters()).keys() == names.keys()
    assert all(a is b for a, b in zip(layers.parameters(), names.values(), strict=True))


def test_gaussian_input_through_a_plain_module() -> None:
    layers = net()
    z: Any = layers(Gaussian(torch.ones(2, 3).double(), 0.1))
    torch.testing.assert_close(z.loc, layers(torch.ones(2, 3).double()))
    # The tangents, layer by layer, entries taken as independent (eq. 9).
    weight, slope = layers[0].weight, 1 - torch.tanh(layers[0](torch.ones(3).double())) ** 2
    hidden = slope**2 * (weight**2).sum(1) * 0.1
    torch.testing.assert_close(z.variance[0], layers[2].weight ** 2 @ hidden)


def test_shared_parameters_add_their_messages() -> None:
    """A weight that is used twice receives the messages of both uses."""
    layer = nn.Linear(2, 2, bias=False).double()
    weight = normal(torch.empty(2, 2).double(), generator("shared")).requires_grad_()
    variance = torch.full_like(weight, 0.1).requires_grad_()
    inputs = [normal(torch.empty(1, 2).double(), generator("row", i)) for i in range(2)]

    def messages(*rows: Tensor) -> list[Tensor]:
        w: Any = Gaussian.wrap(weight, variance)
        z: Any = sum(torch.func.functional_call(layer, {"weight": w}, (row,)) for row in rows)
        d = torch.ones_like(z.loc)
        return list(torch.autograd.grad([z.loc, z.variance], [weight, variance], [d, -d]))

    each = [messages(row) for row in inputs]
    both = [a + b for a, b in zip(*each, strict=True)]
    torch.testing.assert_close(messages(*inputs), both)


class Uncertain(nn.Module):
    """A parametrization that gives a parameter a variance."""

    def __init__(self, shape: torch.Size) -> None:
        super().__init__()
        self.variance = nn.Parameter(torch.full(shape, 0.05, dtype=torch.float64))

    def forward(self, loc: Tensor) -> Tensor:
        return Gaussian.wrap(loc, self.variance)


def test_parametrize() -> None:
    layers, x = net(), normal(torch.empty(5, 3).double(), generator("x"))
    wanted: Any = torch.func.functional_call(layers, gaussian_parameters(layers), (x,))
    for layer in (layers[0], layers[2]):
        for name in ("weight", "bias"):
            parametrize.register_parametrization(
                layer, name, Uncertain(layer.get_parameter(name).shape)
            )
    z = layers(x)
    torch.testing.assert_close((z.loc, z.variance), (wanted.loc, wanted.variance))
    d = torch.ones_like(z.loc)
    torch.autograd.backward([z.loc, z.variance], [d, -d])
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in layers.parameters())


@pytest.mark.parametrize(("sent", "missing"), [("loc", "variance"), ("variance", "mean")])
def test_a_single_message_raises(sent: str, missing: str) -> None:
    """Otherwise the messages would silently be zero."""
    layers = net()
    parameters = gaussian_parameters(layers)
    leaves = [g.loc.requires_grad_() for g in parameters.values()]
    leaves += [g.variance.requires_grad_() for g in parameters.values()]
    z = torch.func.functional_call(layers, parameters, (torch.ones(1, 3).double(),))
    with pytest.raises(RuntimeError, match=f"no {missing} message.*send both"):
        torch.autograd.grad(getattr(z, sent).sum(), leaves)


def test_a_single_message_through_an_activation_raises() -> None:
    loc = torch.zeros(2, requires_grad=True)
    z: Any = torch.tanh(Gaussian(loc, 1.0))
    with pytest.raises(RuntimeError, match="no variance message"):
        z.loc.sum().backward()


def test_messages_to_a_sum_stay_apart_from_those_to_its_parts() -> None:
    """``x + 1`` is a separate state: its variance receives only its own messages."""
    x: Any = Gaussian(torch.zeros(3, requires_grad=True), torch.ones(3, requires_grad=True))
    for shifted in (x + 1, -x, x - torch.ones(3), 2 - x):
        other = x * 3
        outputs = [shifted.loc, shifted.variance, other.loc, other.variance]
        d = [torch.ones(3)] * 4
        to_mean, to_variance = torch.autograd.grad(outputs, [shifted.loc, shifted.variance], d)
        assert torch.equal(to_mean, torch.ones(3))
        assert torch.equal(to_variance, torch.ones(3))
