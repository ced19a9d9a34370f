"""Network architectures of tables 7 and 8."""

from __future__ import annotations

from torch import nn

from tractable.nn import mlp


def policy_net(inputs: int, hidden: tuple[int, ...], outputs: int) -> nn.Sequential:
    """Return the network of table 7, with a linear output."""
    return mlp(inputs, hidden, outputs)


def value_net(inputs: int, hidden: tuple[int, ...]) -> nn.Sequential:
    """Return the network of table 8, from states and actions to one value.

    The first activation is tanh, so that the derivatives have a curvature.
    """
    return mlp(inputs, hidden, 1, first_activation="tanh")
