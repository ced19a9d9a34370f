"""Chapter 10, convolutions: CNV cases, through ``diagnostics.summary`` and Gaussian weights."""

import pytest
import torch
from torch import nn

import tractable as tr

DOUBLE = torch.float64


def certain(values) -> tr.Gaussian:
    return tr.Gaussian(torch.as_tensor(values, dtype=DOUBLE), 0.0)


@pytest.mark.parametrize("dilation", [1, 2, 3])
def test_cnv_01_circular_convolution_commutes_with_shifts(dilation):
    generator = torch.Generator().manual_seed(dilation)
    layer = nn.Conv1d(2, 3, 3, padding=dilation, dilation=dilation, padding_mode="circular")
    x = torch.randn(4, 2, 12, generator=generator)
    net = nn.Sequential(layer, nn.Flatten())
    model = tr.TAGI(net, tr.likelihoods.Normal(1.0, outputs=36))
    for shift in (1, 5):
        ours = [model.predict(part) for part in (x, x.roll(shift, -1))]
        for kind in ("mean", "epistemic"):
            first, second = (getattr(p, kind).reshape(4, 3, 12) for p in ours)
            torch.testing.assert_close(first.roll(shift, -1), second, rtol=1e-4, atol=1e-5)


def test_cnv_02_strides_and_dilations():
    x, kernel = torch.arange(1.0, 10, dtype=DOUBLE)[None, None], certain([[[1.0, 2.0, 3.0]]])
    two = nn.functional.conv1d(x, kernel, stride=2)
    assert two.loc.flatten().tolist() == [14, 26, 38, 50]
    wide = nn.functional.conv1d(x, kernel, dilation=2)
    assert wide.loc.flatten().tolist() == [22, 28, 34, 40, 46]
    x, kernel = torch.arange(1.0, 26, dtype=DOUBLE)[None, None], torch.arange(1.0, 8)[None, None]
    both = nn.functional.conv1d(x, certain(kernel), stride=3, dilation=3)
    assert both.loc.flatten().tolist() == [364, 448, 532]


def test_cnv_03_parameters():
    net = nn.Sequential(nn.Conv1d(3, 4, 3), nn.Conv1d(4, 10, 5))
    layers = tr.diagnostics.summary(net, torch.zeros(2, 3, 12)).layers
    assert [layer.n_parameters for layer in layers] == [36 + 4, 200 + 10]
    image = tr.diagnostics.summary(nn.Sequential(nn.Conv2d(3, 10, 5)), torch.zeros(2, 3, 8, 8))
    assert image.n_parameters == 750 + 10


@pytest.mark.parametrize(
    ("layers", "fields"),
    [
        ([{"kernel_size": 3}] * 3, [3, 5, 7]),
        ([{"kernel_size": 7}] * 3, [7, 13, 19]),
        (
            [
                {"kernel_size": 5, "stride": 2},
                {"kernel_size": 3},
                {"kernel_size": 5, "dilation": 2},
            ],
            [5, 9, 25],
        ),
    ],
)
def test_cnv_04_receptive_fields(layers, fields):
    net = nn.Sequential(*(nn.Conv1d(1, 1, **layer) for layer in layers))
    found = tr.diagnostics.summary(net, torch.randn(1, 1, 64)).layers
    assert [layer.receptive_field for layer in found] == [(size,) for size in fields]


def alexnet() -> nn.Sequential:
    """The ungrouped network of eight layers, B 10.16."""
    return nn.Sequential(
        nn.Conv2d(3, 96, 11, 4, 2), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.Conv2d(96, 256, 5, 1, 2), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.Conv2d(256, 384, 3, 1, 1), nn.ReLU(), nn.Conv2d(384, 384, 3, 1, 1), nn.ReLU(),
        nn.Conv2d(384, 256, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Flatten(),
        nn.Linear(9216, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000),
    )  # fmt: skip


def test_cnv_05_and_06_a_large_network():
    """The meta device avoids the allocation of its 62 million weights."""
    with torch.device("meta"):
        net, x = alexnet(), torch.empty(1, 3, 224, 224)
    found = [layer for layer in tr.diagnostics.summary(net, x).layers if layer.n_parameters]
    weights = [34848, 614400, 884736, 1327104, 884736, 37748736, 16777216, 4096000]
    biases = [96, 256, 384, 384, 256, 4096, 4096, 1000]
    assert [layer.n_parameters for layer in found] == [
        w + b for w, b in zip(weights, biases, strict=True)
    ]
    assert sum(biases) == 10_568
    assert sum(layer.n_parameters for layer in found) == 62_378_344
    assert [layer.receptive_field for layer in found[:3]] == [(11, 11), (51, 51), (99, 99)]
    sizes = [
        layer.shape[1:] for layer in tr.diagnostics.summary(net, x).layers if len(layer.shape) == 3
    ]
    seen = list(dict.fromkeys(size[0] for size in sizes))
    assert seen == [55, 27, 13, 6]


def matrix(layer: nn.Conv1d, positions: int) -> torch.Tensor:
    """A convolution without bias as a matrix, one column for each input."""
    inputs = layer.in_channels * positions
    rows = torch.eye(inputs).reshape(inputs, layer.in_channels, positions)
    out = nn.functional.conv1d(rows, layer.weight, None, layer.stride, layer.padding)
    return out.flatten(1).T.detach()


@pytest.mark.parametrize(("channels", "shape"), [((1, 2), (12, 6)), ((2, 1), (6, 12))])
def test_cnv_07_a_convolution_is_a_matrix(channels, shape):
    layer = nn.Conv1d(*channels, 3, padding=1, bias=False)
    found = matrix(layer, 6)
    assert found.shape == shape
    assert int((found != 0).sum()) == 32
    x = torch.randn(5, channels[0], 6, generator=torch.Generator().manual_seed(0))
    gaussian = tr.Gaussian(x, torch.rand(x.shape, generator=torch.Generator().manual_seed(1)))
    z = nn.functional.conv1d(gaussian, layer.weight.detach(), padding=1)
    torch.testing.assert_close(z.loc.flatten(1), x.flatten(1) @ found.T)
    torch.testing.assert_close(z.variance.flatten(1), gaussian.variance.flatten(1) @ found.T**2)


def test_cnv_08_a_stride_picks_rows():
    layer = nn.Conv1d(1, 1, 3, padding=1, bias=False)
    strided = nn.Conv1d(1, 1, 3, stride=2, padding=1, bias=False)
    strided.weight = layer.weight
    torch.testing.assert_close(matrix(strided, 8), matrix(layer, 8)[::2])
