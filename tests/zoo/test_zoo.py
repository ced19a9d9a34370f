"""Unchanged modules: an update, a prediction, and torch's own result without variance."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

import tractable as tr
from tests.zoo.layers import LAYERS, REFUSED, build
from tests.zoo.models import MODELS
from tractable import Gaussian

CASES: dict[str, Any] = {name: lambda name=name: build(name) for name in LAYERS} | MODELS
STATISTICS = ("Norm", "Transformer", "residual_network", "vision_transformer", "decoder_block")
"""Layers that normalize by statistics of uncertain states, or whose messages skip them."""
NOT_LAYERS = """Module Sequential ModuleList ModuleDict ParameterList ParameterDict Container
    DataParallel SyncBatchNorm Embedding EmbeddingBag TransformerEncoder TransformerDecoder Buffer
    Parameter RNNBase RNNCellBase UninitializedBuffer UninitializedParameter""".split()
"""Containers, wrappers, layers of integers (tested with their rules), and composed layers."""


def test_every_layer_class_is_covered() -> None:
    names = {
        name
        for name, kind in vars(nn).items()
        if isinstance(kind, type) and issubclass(kind, nn.Module)
        if not name.startswith("Lazy") and "Loss" not in name
    }
    assert not names - set(LAYERS) - set(NOT_LAYERS) - REFUSED


@pytest.mark.parametrize("name", CASES)
def test_updates_and_predicts(name: str) -> None:
    net, x = CASES[name]()
    with torch.no_grad():
        y = torch.randn_like(copy.deepcopy(net).train()(x))
    model = tr.TAGI(net, tr.likelihoods.Normal(1.0), engine="torch").update(x, y)
    prediction = model.predict(x)
    assert bool(torch.isfinite(prediction.mean).all())
    assert bool((torch.isfinite(prediction.std) & (prediction.std > 0)).all())


@pytest.mark.parametrize("name", CASES)
def test_without_variance_outputs_and_gradients_equal_the_module(name: str) -> None:
    net, x = CASES[name]()
    net.eval()
    leaves = {n: p.detach().clone().requires_grad_() for n, p in net.named_parameters()}
    plain = torch.func.functional_call(net, leaves, (x,))
    states = {n: Gaussian.wrap(p, torch.zeros_like(p)) for n, p in leaves.items()}
    z: Any = torch.func.functional_call(net, states, (x,))
    torch.testing.assert_close(z.loc, plain, rtol=1e-4, atol=1e-5)
    assert not z.variance.any()
    if any(word in name for word in STATISTICS):
        return
    d = torch.randn(plain.shape, generator=torch.Generator().manual_seed(0))
    values = list(leaves.values())
    spreads = {n: torch.zeros_like(p).requires_grad_() for n, p in leaves.items()}
    states = {n: Gaussian.wrap(p, spreads[n]) for n, p in leaves.items()}
    z = torch.func.functional_call(net, states, (x,))
    got = torch.autograd.grad([z.loc, z.variance], values, [d, -d.abs()], allow_unused=True)
    wanted = torch.autograd.grad(plain, values, d, allow_unused=True)
    for message, gradient, leaf in zip(got, wanted, values, strict=True):
        zero = torch.zeros_like(leaf)
        torch.testing.assert_close(
            zero if message is None else message,
            zero if gradient is None else gradient,
            rtol=1e-3,
            atol=1e-4,
        )


GRADIENT = {
    "weights": tr.BayesByBackprop,
    "local": partial(tr.BayesByBackprop, estimator="local"),
    "backprop": partial(tr.Backprop, init="net"),
}


@pytest.mark.parametrize("name", [*CASES, "CrossMapLRN2d"])
def test_gradient_learners_support_every_model(name: str) -> None:
    if name in CASES:
        net, x = CASES[name]()
    else:
        net, x = nn.Sequential(nn.Linear(8, 8), nn.CrossMapLRN2d(2)), torch.randn(2, 4, 8, 8)
    with torch.no_grad():
        y = torch.randn_like(copy.deepcopy(net).train()(x))
        plain = copy.deepcopy(net).eval()(x)
    for kind, make in GRADIENT.items():
        model = make(net, tr.likelihoods.Normal(1.0))
        if kind == "backprop":
            torch.testing.assert_close(model.predict(x).mean.reshape(plain.shape), plain)
        before = model.posterior.loc.clone()
        prediction = model.update(x, y).predict(x)
        assert bool((torch.isfinite(prediction.mean) & torch.isfinite(prediction.std)).all())
        assert not torch.equal(model.posterior.loc, before), kind


def test_a_layer_with_a_custom_backward_raises() -> None:
    net = nn.Sequential(nn.Linear(8, 8), nn.CrossMapLRN2d(2))
    model = tr.TAGI(net, tr.likelihoods.Normal(1.0), engine="torch")
    with pytest.raises(tr.NoMomentRule, match=r"autograd\.Function 'CrossMapLRN2d'"):
        model.update(torch.randn(2, 4, 8, 8), torch.randn(2, 4, 8, 8))
