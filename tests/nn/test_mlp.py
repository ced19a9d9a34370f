"""Networks of linear layers: sizes, activations, and the order in which weights are drawn."""

import numpy as np
import pytest
import torch
from torch import nn

from tractable.nn import mlp
from tractable.nn.mlp import ACTIVATIONS


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_activation_is_between_the_layers(name):
    net = mlp(3, (5, 4), 2, name)
    kinds = [type(layer) for layer in net]
    assert kinds == [nn.Linear, ACTIVATIONS[name], nn.Linear, ACTIVATIONS[name], nn.Linear]
    assert net(torch.zeros(7, 3)).shape == (7, 2)


def test_the_first_activation_may_differ():
    net = mlp(3, (5, 4), 2, first_activation="tanh")
    assert isinstance(net[1], nn.Tanh)
    assert isinstance(net[3], nn.ReLU)


@pytest.mark.parametrize("sizes", [5, (5,), [5], np.array([5]), np.int64(5)])
def test_one_hidden_layer(sizes):
    net = mlp(3, sizes, 2)
    assert [layer.out_features for layer in net if isinstance(layer, nn.Linear)] == [5, 2]


def test_no_hidden_layer_is_a_linear_model():
    assert [type(layer) for layer in mlp(3, (), 2)] == [nn.Linear]


def test_weights_are_drawn_in_the_order_of_the_layers():
    torch.manual_seed(0)
    found = mlp(3, (5,), 2)
    torch.manual_seed(0)
    expected = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2))
    for a, b in zip(found.parameters(), expected.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("sizes", [(8, 0), "wide", 2.5, -1])
def test_invalid_sizes_raise(sizes):
    with pytest.raises(ValueError, match="hidden_layer_sizes must be positive integers"):
        mlp(1, sizes, 1)


def test_an_unknown_activation_raises():
    with pytest.raises(ValueError, match="activation must be one of relu"):
        mlp(1, (2,), 1, "swish")
    with pytest.raises(ValueError, match="got 'swish'"):
        mlp(1, (2,), 1, first_activation="swish")
