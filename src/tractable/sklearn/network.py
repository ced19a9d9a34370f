"""The dense network of an estimator, from the two words that describe it."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import Any

from torch import nn

from tractable.nn import mlp
from tractable.sklearn.values import plain


def dense(inputs: int, hidden_layer_sizes: Any, outputs: int, activation: str) -> nn.Sequential:
    """A chain of linear layers with an activation after each but the last.

    Args:
        inputs: number of features.
        hidden_layer_sizes: width of each hidden layer, or one number for a single one; empty for a
            linear model.
        outputs: number of outputs.
        activation: one of ``tractable.nn.mlp.ACTIVATIONS``.

    >>> dense(3, (8,), 1, "tanh")
    Sequential(
      (0): Linear(in_features=3, out_features=8, bias=True)
      (1): Tanh()
      (2): Linear(in_features=8, out_features=1, bias=True)
    )
    """
    return mlp(inputs, widths(hidden_layer_sizes), outputs, activation)


def widths(hidden_layer_sizes: Any) -> list[int]:
    """Return the widths of the hidden layers; one number stands for a single layer.

    Raises:
        ValueError: one of them is not a positive integer.
    """
    values = plain(hidden_layer_sizes)
    given = list(values) if isinstance(values, Iterable) else [values]
    if not all(isinstance(width, Integral) and int(width) >= 1 for width in given):
        raise ValueError(
            f"hidden_layer_sizes must be the positive widths of the hidden layers, for example "
            f"(64, 64); got {hidden_layer_sizes!r}"
        )
    return [int(width) for width in given]
