"""Updates of recurrent and attention networks by TAGI and by Adam, at one thread.

Medians of CPU time, measured in alternation, to reduce the effect of other processes.

    python -m benchmarks sequences

Target: an update of an LSTM in at most four times the time of Adam's with torch's own kernel, one
of an encoder in at most three times.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import tractable as tr

CLASSES = 10
SIZES = {"lstm/1x13x32": (1, 13, 1, 32), "lstm/16x36x32": (16, 36, 1, 32),
         "lstm/16x28x64": (16, 28, 28, 64), "lstm/32x96x64": (32, 96, 1, 64)}  # fmt: skip
"""Batch size, time steps, inputs per step, hidden units."""
LIMITS = {"lstm": 4.0, "gru": 4.0, "encoder": 3.0}


class Recurrent(nn.Module):
    """A recurrent layer and a head on its last state."""

    def __init__(self, kind: Callable[..., nn.RNNBase], inputs: int, hidden: int) -> None:
        super().__init__()
        self.layer = kind(inputs, hidden, batch_first=True)
        self.head = nn.Linear(hidden, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs of the head."""
        head: Tensor = self.head(self.layer(x)[0][:, -1])
        return head


class Encoder(nn.Module):
    """Pre-norm encoder layers, and a head on the first position or the mean."""

    def __init__(
        self, inputs: int, width: int = 64, layers: int = 2, steps: int = 28, mean: bool = False
    ) -> None:
        super().__init__()
        self.mean = mean
        self.embed = nn.Linear(inputs, width)
        self.place = nn.Parameter(0.1 * torch.randn(steps, width))
        layer = nn.TransformerEncoderLayer(
            width, 4, 2 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs of the head."""
        z = self.layers(self.embed(x) + self.place)
        head: Tensor = self.head(z.mean(1) if self.mean else z[:, 0])
        return head


def tagi(net: nn.Module, x: Tensor, y: Tensor) -> Callable[[], None]:
    """Return an update by TAGI."""
    model = tr.TAGI(net, tr.likelihoods.Normal(0.5), engine="torch")
    return lambda: model.learn_batch(x, y)


def adam(net: nn.Module, x: Tensor, y: Tensor) -> Callable[[], None]:
    """Return a step of Adam on the mean squared error."""
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.mse_loss(net(x), y).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def cases() -> dict[str, tuple[nn.Module, Tensor]]:
    """Return networks, each with a batch."""
    torch.manual_seed(0)
    found: dict[str, tuple[nn.Module, Tensor]] = {}
    for name, (rows, steps, inputs, hidden) in SIZES.items():
        found[name] = Recurrent(nn.LSTM, inputs, hidden), torch.randn(rows, steps, inputs)
    found["gru/16x28x64"] = Recurrent(nn.GRU, 28, 64), torch.randn(16, 28, 28)
    found["encoder/16x28x64"] = Encoder(28), torch.randn(16, 28, 28)
    found["encoder/16x64x64"] = Encoder(28, steps=64), torch.randn(16, 64, 28)
    found["encoder/16x28x64, mean"] = Encoder(28, mean=True), torch.randn(16, 28, 28)
    return found


def medians(steps: dict[str, Callable[[], None]], times: int = 40) -> dict[str, float]:
    """Return median milliseconds of CPU time of each step."""
    found: dict[str, list[float]] = {name: [] for name in steps}
    for i in range(times + 3):
        for name, step in steps.items():
            started = time.process_time()
            step()
            if i >= 3:
                found[name].append(time.process_time() - started)
    return {name: 1e3 * statistics.median(values) for name, values in found.items()}


def main() -> dict[str, Any]:
    """Measure all cases and return the figures."""
    torch.set_num_threads(1)
    figures: dict[str, Any] = {}
    for name, (net, x) in cases().items():
        y = torch.randn(len(x), CLASSES)
        figures[name] = medians({"tagi": tagi(net, x, y), "adam": adam(net, x, y)})
    return figures


def report(figures: dict[str, Any]) -> str:
    """Return the figures as lines of text."""
    lines = []
    for name, times in figures.items():
        ratio, limit = times["tagi"] / times["adam"], LIMITS[name.partition("/")[0]]
        lines.append(
            f"{name:23} TAGI {times['tagi']:6.2f} ms, Adam {times['adam']:6.2f} ms: "
            f"{ratio:4.1f} times{'' if ratio <= limit else f', above {limit:g}'}"
        )
    return "\n".join(lines)
