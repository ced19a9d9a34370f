"""Ratio of the variance by moment rules to that by weight samples, for averaged positions.

    python -m benchmarks.positions

At the default settings and with ``moments="exact"``; means of three seeds, 300 draws each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tractable as tr

SEEDS, DRAWS = 3, 300


def ratio(net: nn.Module, x: Tensor, seed: int, **options: Any) -> float:
    """Return the ratio of the prior variance of all outputs by rules to that by samples."""
    model = tr.TAGI(net, tr.likelihoods.Normal(0.5), engine="torch", seed=seed, **options)
    posterior = model.posterior
    source = torch.Generator().manual_seed(seed)
    noise = torch.randn(DRAWS, posterior.loc.numel(), generator=source)

    def one(vector: Tensor) -> Tensor:
        named = dict(zip(posterior, posterior.split(vector), strict=True))
        found: Tensor = torch.func.functional_call(net, named, (x,))
        return found

    with torch.no_grad():
        drawn = torch.vmap(one, chunk_size=50)(posterior.loc + posterior.variance.sqrt() * noise)
    return (model.propagate(x).variance.sum() / drawn.var(0).sum()).item()


class Net(nn.Module):
    """Named layers, and a function that applies them."""

    def __init__(self, forward: Callable[[Any, Tensor], Tensor], **layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleDict(layers)
        self.function = forward

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs of the function."""
        return self.function(self.layers, x)


def convolutions() -> nn.Sequential:
    """Return two convolutions, global pooling and a head."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 3),
    )  # fmt: skip


def _image(join: Callable[[Tensor, Tensor], Tensor], width: int) -> nn.Module:
    def forward(m: Any, x: Tensor) -> Tensor:
        h = torch.relu(m["a"](x))
        found: Tensor = m["head"](join(h, torch.relu(m["b"](h))).mean((2, 3)))
        return found

    a, b = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
    return Net(forward, a=a, b=b, head=nn.Linear(width, 2))


def _steps(norm: bool) -> nn.Module:
    def forward(m: Any, x: Tensor) -> Tensor:
        h = torch.relu(m["norm"](m["a"](x)))
        found: Tensor = m["head"]((h + torch.relu(m["b"](h))).mean(1))
        return found

    between = nn.LayerNorm(24) if norm else nn.Identity()
    return Net(
        forward, a=nn.Linear(6, 24), norm=between, b=nn.Linear(24, 24), head=nn.Linear(24, 2)
    )


def _tied() -> nn.Module:
    def forward(m: Any, x: Tensor) -> Tensor:
        h = torch.tanh(F.linear(torch.tanh(m["a"](x)), m["a"].weight.t()))
        found: Tensor = m["head"](torch.tanh(m["a"](h)).mean(1))
        return found

    return Net(forward, a=nn.Linear(6, 8), head=nn.Linear(8, 1))


def _waves() -> nn.Module:
    def forward(m: Any, x: Tensor) -> Tensor:
        found: Tensor = m["head"](torch.sin(m["b"](torch.sin(30 * m["a"](x)))))
        return found

    return Net(forward, a=nn.Linear(6, 16), b=nn.Linear(16, 16), head=nn.Linear(16, 1))


def cases() -> dict[str, tuple[Callable[[], nn.Module], Tensor]]:
    """Return networks and inputs: smooth images, random walks."""
    source = torch.Generator().manual_seed(0)
    coarse = 1.3 * torch.randn(6, 1, 4, 4, generator=source)
    images = {s: F.interpolate(coarse, size=(s, s), mode="bilinear") for s in (4, 8, 16, 32)}
    walks = {t: torch.randn(6, t, 6, generator=source).cumsum(1) / t**0.5 for t in (20, 100)}
    return {
        **{f"convolutions, global pooling, {s}²": (convolutions, x) for s, x in images.items()},
        **{
            f"the same without a head, {s}²": (lambda: convolutions()[:-1], images[s])
            for s in (8, 32)
        },
        "residual block, global pooling, 8²": (lambda: _image(torch.add, 8), images[8]),
        "dense block, global pooling, 8²": (
            lambda: _image(lambda h, g: torch.cat([h, g], 1), 16),
            images[8],
        ),
        "mean over 20 steps": (lambda: _steps(norm=False), walks[20]),
        "mean over 100 steps": (lambda: _steps(norm=False), walks[100]),
        "LayerNorm, mean over 20 steps": (lambda: _steps(norm=True), walks[20]),
        "tied weights, mean over 20 steps": (_tied, walks[20]),
        "sin(30 z)": (_waves, walks[20][:, -1]),
    }


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    for name, (make, x) in cases().items():
        columns: list[dict[str, Any]] = [{}, {"moments": "exact"}]
        found = [sum(ratio(make(), x, s, **o) for s in range(SEEDS)) / SEEDS for o in columns]
        print(f"| {name} | " + " | ".join(f"{r:.2f}" for r in found) + " |", flush=True)


if __name__ == "__main__":
    main()
