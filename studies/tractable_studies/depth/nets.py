"""Networks by family, kind and depth, with names such as ``conv-batch+residual``."""

from __future__ import annotations

from torch import Tensor, nn

FAMILIES = ("mlp", "conv")
KINDS = ("plain", "plain+residual", "batch", "batch+residual", "group", "layer", "layer+residual")
NAMES = tuple(f"{family}-{kind}" for family in FAMILIES for kind in KINDS)
_UNITS, _CHANNELS, _GROUPS = 64, 16, 4


class Residual(nn.Module):
    """A residual block, ``x + scale f(x)``."""

    def __init__(self, inner: nn.Module, scale: float) -> None:
        super().__init__()
        self.inner, self.scale = inner, scale

    def forward(self, x: Tensor) -> Tensor:
        """See the class."""
        return x + self.scale * self.inner(x)


def network(name: str, depth: int, size: int, outputs: int) -> nn.Sequential:
    """Return a network for images of one channel.

    Args:
        name: one of ``NAMES``.
        depth: hidden layers; each is a linear layer or a 3 x 3 convolution, a normalisation if
            the kind has one, and a ReLU; residual ones from the second on.
        size: height and width of an image.
        outputs: of the head, which follows global average pooling in a convolutional network.
    """
    family, kind = name.split("-")
    norm, _, residual = kind.partition("+")
    conv = family == "conv"
    width = _CHANNELS if conv else _UNITS
    layers: list[nn.Module] = [] if conv else [nn.Flatten()]
    inputs = 1 if conv else size * size
    for k in range(depth):
        linear = nn.Conv2d(inputs, width, 3, padding=1) if conv else nn.Linear(inputs, width)
        block = [linear, *_norm(norm, width, conv), nn.ReLU()]
        if residual and k:
            # Residual branches without a norm are halved: sums over twenty layers overflow.
            layers.append(Residual(nn.Sequential(*block), 0.5 if norm == "plain" else 1.0))
        else:
            layers += block
        inputs = width
    pool = [nn.AdaptiveAvgPool2d(1), nn.Flatten()] if conv else []
    return nn.Sequential(*layers, *pool, nn.Linear(width, outputs))


def _norm(kind: str, width: int, conv: bool) -> list[nn.Module]:
    if kind == "batch":
        return [nn.BatchNorm2d(width) if conv else nn.BatchNorm1d(width)]
    if kind == "group":
        return [nn.GroupNorm(_GROUPS, width)]
    if kind == "layer":
        return [nn.GroupNorm(1, width) if conv else nn.LayerNorm(width)]
    return []
