"""Every layer class of ``torch.nn`` with the shape of a row, after a linear map."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

Builder = Callable[[], nn.Module]
SHAPES: dict[int, tuple[int, ...]] = {1: (4, 8), 2: (4, 8, 8), 3: (4, 4, 4, 4)}


class Behind(nn.Module):
    """A layer whose input is uncertain, because it follows a linear map."""

    def __init__(self, layer: nn.Module, width: int, call: Any = None) -> None:
        super().__init__()
        self.front, self.layer, self.call = nn.Linear(width, width), layer, call

    def forward(self, x: Tensor) -> Any:
        x = self.front(x)
        return self.layer(x) if self.call is None else self.call(self.layer, x)


class Unpool(nn.Module):
    """Max pooling with indices, and its inverse."""

    def __init__(self, dims: int) -> None:
        super().__init__()
        self.pool = getattr(nn, f"MaxPool{dims}d")(2, return_indices=True)
        self.unpool = getattr(nn, f"MaxUnpool{dims}d")(2)

    def forward(self, x: Tensor) -> Any:
        return self.unpool(*self.pool(x))


def _by_dimension() -> dict[str, tuple[Builder, tuple[int, ...], Any]]:
    found: dict[str, tuple[Builder, tuple[int, ...], Any]] = {}
    options: dict[str, tuple[Any, ...]] = {
        "Conv": (4, 3, 3),
        "ConvTranspose": (4, 3, 3),
        "BatchNorm": (4,),
        "InstanceNorm": (4,),
        "MaxPool": (2,),
        "AvgPool": (2,),
        "AdaptiveMaxPool": (3,),
        "AdaptiveAvgPool": (3,),
        "LPPool": (2, 2),
        "CircularPad": (1,),
        "ConstantPad": (1, 0.5),
        "ReflectionPad": (1,),
        "ReplicationPad": (1,),
        "ZeroPad": (1,),
        "Dropout": (),
    }
    for d, shape in SHAPES.items():
        for kind, args in options.items():
            layer = getattr(nn, f"{kind}{d}d")
            found[layer.__name__] = (lambda m=layer, a=args: m(*a)), shape, None
        found[f"MaxUnpool{d}d"] = (lambda d=d: Unpool(d)), shape, None
    for d in (2, 3):
        layer = getattr(nn, f"FractionalMaxPool{d}d")
        found[layer.__name__] = (lambda m=layer: m(2, 3)), (2, *[6] * d), None
    return found


_CURVES = """CELU ELU GELU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid Mish PReLU
    RReLU ReLU ReLU6 SELU SiLU Sigmoid Softplus Softshrink Softsign Tanh Tanhshrink Identity Dropout
    AlphaDropout FeatureAlphaDropout Flatten GLU"""
_IMAGE, _ROWS = SHAPES[2], (4, 8)
_BLOCK: dict[str, Any] = {"d_model": 8, "nhead": 2, "dim_feedforward": 16, "batch_first": True}


def _self(layer: Any, x: Any) -> Any:
    return layer(x, x)


def _first(layer: Any, x: Any) -> Any:
    return layer(x)[0]


def _attend(layer: Any, x: Any) -> Any:
    return layer(x, x, x)[0]


def _half(layer: Any, x: Any) -> Any:
    z = layer(x, 0.5 * x + 0.1)
    return z if z.dim() > 1 else z.unsqueeze(1)


def _log_prob(layer: Any, x: Any) -> Any:
    return layer.log_prob(x)


LAYERS: dict[str, tuple[Builder, tuple[int, ...], Any]] = {
    **_by_dimension(),
    **{name: (getattr(nn, name), _ROWS, None) for name in _CURVES.split()},
    "Threshold": (lambda: nn.Threshold(0.1, 0.0), _ROWS, None),
    "Softmax": (lambda: nn.Softmax(-1), _ROWS, None),
    "LogSoftmax": (lambda: nn.LogSoftmax(-1), _ROWS, None),
    "Softmin": (lambda: nn.Softmin(-1), _ROWS, None),
    "Softmax2d": (nn.Softmax2d, _IMAGE, None),
    "LayerNorm": (lambda: nn.LayerNorm(8), _ROWS, None),
    "RMSNorm": (lambda: nn.RMSNorm(8), _ROWS, None),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), _IMAGE, None),
    "LocalResponseNorm": (lambda: nn.LocalResponseNorm(2), _IMAGE, None),
    "ChannelShuffle": (lambda: nn.ChannelShuffle(2), _IMAGE, None),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), _IMAGE, None),
    "PixelUnshuffle": (lambda: nn.PixelUnshuffle(2), _IMAGE, None),
    "Upsample": (lambda: nn.Upsample(scale_factor=2, mode="bicubic"), _IMAGE, None),
    "UpsamplingNearest2d": (lambda: nn.UpsamplingNearest2d(scale_factor=2), _IMAGE, None),
    "UpsamplingBilinear2d": (lambda: nn.UpsamplingBilinear2d(scale_factor=2), _IMAGE, None),
    "Unfold": (lambda: nn.Unfold(3), _IMAGE, None),
    "Fold": (lambda: nn.Fold((4, 4), 2), (8, 9), None),
    "Unflatten": (lambda: nn.Unflatten(1, (2, 2)), _ROWS, None),
    "Linear": (lambda: nn.Linear(8, 3), _ROWS, None),
    "Bilinear": (lambda: nn.Bilinear(8, 8, 3), (8,), _half),
    "CosineSimilarity": (nn.CosineSimilarity, (8,), _half),
    "PairwiseDistance": (nn.PairwiseDistance, (8,), _half),
    "RNN": (lambda: nn.RNN(8, 6, batch_first=True), (5, 8), _first),
    "LSTM": (lambda: nn.LSTM(8, 6, batch_first=True), (5, 8), _first),
    "GRU": (lambda: nn.GRU(8, 6, batch_first=True), (5, 8), _first),
    "RNNCell": (lambda: nn.RNNCell(8, 6), (8,), None),
    "GRUCell": (lambda: nn.GRUCell(8, 6), (8,), None),
    "LSTMCell": (lambda: nn.LSTMCell(8, 6), (8,), _first),
    "MultiheadAttention": (lambda: nn.MultiheadAttention(8, 2, batch_first=True), (5, 8), _attend),
    "TransformerEncoderLayer": (lambda: nn.TransformerEncoderLayer(**_BLOCK), (5, 8), None),
    "TransformerDecoderLayer": (lambda: nn.TransformerDecoderLayer(**_BLOCK), (5, 8), _self),
    "Transformer": (lambda: nn.Transformer(8, 2, 1, 1, 16, batch_first=True), (5, 8), _self),
    "AdaptiveLogSoftmaxWithLoss": (
        lambda: nn.AdaptiveLogSoftmaxWithLoss(8, 10, [4]),
        (8,),
        _log_prob,
    ),
}
REFUSED = {"CrossMapLRN2d"}
"""Layers with a custom backward in Python; ``LocalResponseNorm`` is the same function."""


def build(name: str) -> tuple[nn.Module, Tensor]:
    """Return a network with this layer, and two rows for it."""
    torch.manual_seed(0)
    make, shape, call = LAYERS[name]
    return Behind(make(), shape[-1], call), torch.randn(2, *shape)
