"""Multilayer perceptrons: the networks that estimators, forecasters and agents build themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from numbers import Integral
from typing import Any

from torch import nn

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "leaky_relu": nn.LeakyReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "softplus": nn.Softplus,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "elu": nn.ELU,
}
"""Names of activation functions, and their modules."""


def mlp(
    n_inputs: int,
    hidden_layer_sizes: int | Sequence[int],
    n_outputs: int,
    activation: str = "relu",
    *,
    first_activation: str | None = None,
) -> nn.Sequential:
    """Return linear layers with an activation function after each but the last.

    Args:
        n_inputs: number of input features.
        hidden_layer_sizes: number of units of each hidden layer; one number stands for a single
            layer, an empty sequence for a linear model.
        n_outputs: number of outputs.
        activation: a key of ``ACTIVATIONS``.
        first_activation: activation after the first layer. Default: ``activation``.

    Raises:
        ValueError: a layer size is not a positive integer, or an activation is unknown.

    >>> mlp(3, (8,), 1, "tanh")
    Sequential(
      (0): Linear(in_features=3, out_features=8, bias=True)
      (1): Tanh()
      (2): Linear(in_features=8, out_features=1, bias=True)
    )
    """
    for name in (activation, first_activation or activation):
        if name not in ACTIVATIONS:
            raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}; got {name!r}")
    layers: list[nn.Module] = []
    name = first_activation or activation
    for n_before, n_after in pairwise([n_inputs, *layer_sizes(hidden_layer_sizes), n_outputs]):
        layers += [nn.Linear(n_before, n_after), ACTIVATIONS[name]()]
        name = activation
    return nn.Sequential(*layers[:-1])


def layer_sizes(hidden_layer_sizes: Any) -> list[int]:
    """Return the sizes of the hidden layers as a list; one number stands for a single layer.

    Raises:
        ValueError: one of them is not a positive integer.

    >>> layer_sizes(64), layer_sizes((64, 32))
    ([64], [64, 32])
    """
    given = hidden_layer_sizes
    sizes = list(given) if isinstance(given, Iterable) else [given]
    if not all(isinstance(size, Integral) and int(size) >= 1 for size in sizes):
        raise ValueError(
            f"hidden_layer_sizes must be positive integers, for example (64, 64); got "
            f"{hidden_layer_sizes!r}"
        )
    return [int(size) for size in sizes]
