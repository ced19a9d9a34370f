"""Network architectures of tables 7 and 8."""

from __future__ import annotations

from torch import nn


def policy_net(inputs: int, hidden: tuple[int, ...], outputs: int) -> nn.Sequential:
    """Return the network of table 7, with a linear output."""
    layers: list[nn.Module] = []
    for units in hidden:
        layers += [nn.Linear(inputs, units), nn.ReLU()]
        inputs = units
    return nn.Sequential(*layers, nn.Linear(inputs, outputs))


def value_net(inputs: int, hidden: tuple[int, ...]) -> nn.Sequential:
    """Return the network of table 8, from states and actions to one value.

    The first activation is tanh, so that the derivatives have a curvature.
    """
    net = policy_net(inputs, hidden, 1)
    net[1] = nn.Tanh()
    return net
