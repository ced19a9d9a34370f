"""Layers as called by modules: options, batches and refused arguments."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tractable import Gaussian
from tractable.testing.gaussians import gaussian, generator

LAYERS: list[tuple[nn.Module, tuple[int, ...]]] = [
    (nn.Linear(3, 2), (3,)),
    (nn.Conv1d(2, 4, 3, padding="same", groups=2), (2, 5)),
    (nn.Conv2d(2, 2, 3, stride=2, padding=1, padding_mode="circular"), (2, 4, 5)),
    (nn.Conv2d(2, 2, 3, padding=1, padding_mode="reflect"), (2, 4, 5)),
    (nn.ConvTranspose2d(2, 3, 3, stride=2, output_padding=1), (2, 2, 3)),
    (nn.AvgPool2d(2, padding=1, count_include_pad=False), (2, 4, 5)),
    (nn.MaxPool2d(2), (2, 4, 4)),
    (nn.AdaptiveAvgPool2d((2, None)), (2, 3, 5)),
    (nn.LayerNorm(4), (3, 4)),
    (nn.GroupNorm(2, 4), (4, 3)),
    (nn.Flatten(), (2, 3)),
    (nn.Dropout(0.5), (4,)),
    (nn.Identity(), (4,)),
    (nn.LeakyReLU(0.2, inplace=True), (4,)),
    (nn.GELU("tanh"), (4,)),
    (nn.SiLU(inplace=True), (4,)),
    (nn.ELU(0.7), (4,)),
    (nn.Softplus(2.0), (4,)),
    (nn.Sequential(nn.Tanh(), nn.Sigmoid()), (4,)),
]


def uncertain(layer: nn.Module) -> dict[str, Any]:
    source = generator("parameters", str(layer))
    return {
        name: gaussian(tuple(parameter.shape), "moderate", source)
        for name, parameter in layer.named_parameters()
    }


@pytest.mark.parametrize(("layer", "shape"), LAYERS, ids=lambda v: str(v).replace(" ", ""))
def test_a_batch_is_its_samples(layer: nn.Module, shape: tuple[int, ...]) -> None:
    parameters = uncertain(layer)
    x: Any = gaussian((3, *shape), "skewed", generator("batch"))

    def run(rows: Any) -> Any:
        return torch.func.functional_call(layer, parameters, (rows,))

    z = run(x)
    one_by_one = [run(x[i : i + 1]) for i in range(3)]
    for moment in ("loc", "variance"):
        parts = torch.cat([getattr(part, moment) for part in one_by_one])
        torch.testing.assert_close(getattr(z, moment), parts, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("layer", "shape"), LAYERS, ids=lambda v: str(v).replace(" ", ""))
def test_without_variance_outputs_equal_the_layer(layer: nn.Module, shape: tuple[int, ...]) -> None:
    means = {name: g.loc for name, g in uncertain(layer).items()}
    certain: dict[str, Any] = {name: Gaussian(loc, 0.0) for name, loc in means.items()}
    x = gaussian((3, *shape), "skewed", generator("batch")).loc
    layer.eval()  # dropout is the identity for Gaussians
    z: Any = torch.func.functional_call(layer, certain, (Gaussian(x, 0.0),))
    plain = torch.func.functional_call(layer, means, (x.clone(),))
    torch.testing.assert_close(z.loc, plain, rtol=1e-12, atol=1e-14)
    if not isinstance(layer, nn.LayerNorm | nn.GroupNorm):
        assert torch.equal(z.variance, torch.zeros_like(plain))
    layer.train()


def test_messages_to_an_embedding_add_up_and_skip_the_padding() -> None:
    weight = torch.ones(4, 2, requires_grad=True)
    variance = torch.ones(4, 2, requires_grad=True)
    rows = torch.tensor([[1, 1, 0], [3, 1, 0]])
    z: Any = F.embedding(rows, Gaussian.wrap(weight, variance), padding_idx=0)
    d = torch.ones_like(z.loc)
    to_mean, to_variance = torch.autograd.grad([z.loc, z.variance], [weight, variance], [d, -2 * d])
    times = torch.tensor([0.0, 3.0, 0.0, 1.0]).unsqueeze(1).expand(4, 2)
    assert torch.equal(to_mean, times)
    assert torch.equal(to_variance, -2 * times)


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda w: F.embedding(torch.tensor([0]), w, max_norm=1.0), TypeError, "max_norm"),
        (
            lambda w: F.embedding(torch.tensor([0]), w, scale_grad_by_freq=True),
            TypeError,
            "scale_grad_by_freq",
        ),
        (
            lambda w: F.conv1d(torch.ones(1, 1, 4), w.unsqueeze(1), stride=2, padding="same"),
            ValueError,
            "stride 1, got 2",
        ),
    ],
)
def test_refusals(function: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        function(Gaussian(torch.ones(3, 2), 1.0))


def test_shapes_of_a_gaussian_and_a_constant() -> None:
    """``view_as`` and similar functions take the shape of a Gaussian without becoming one."""
    g = Gaussian(torch.ones(2, 3), 1.0)
    plain = torch.arange(6.0)
    assert type(plain.view_as(g)) is torch.Tensor
    assert torch.equal(plain.view_as(g), plain.view(2, 3))
    assert torch.ones(1, 3).expand_as(g).shape == (2, 3)
    flat: Any = Gaussian(plain, 2.0)
    assert torch.equal(flat.view_as(g).loc, plain.view(2, 3))
    assert torch.equal(flat.reshape_as(torch.ones(3, 2)).variance, torch.full((3, 2), 2.0))


def test_a_joined_constant_has_no_variance() -> None:
    g = Gaussian(torch.ones(2), 1.0)
    for z, wanted in [
        (torch.cat([torch.zeros(1), g]), [0, 1, 1]),
        (torch.cat([g, torch.zeros(1)]), [1, 1, 0]),
        (torch.stack([g, torch.zeros(2)]), [[1, 1], [0, 0]]),
    ]:
        assert isinstance(z, Gaussian)
        assert z.variance.tolist() == wanted
