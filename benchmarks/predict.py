"""Cost of distances to the training rows in a prediction.

Ratios of median CPU times of ``predict`` with ``distance_aware`` and without, in alternation in one
process at one thread: at rows like those of training, and at rows most of which are outside.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import nn

import tractable as tr

NETWORKS = ((8, 50, 50, 1), (4, 50, 1), (20, 64, 64, 1), (60, 128, 128, 1))
ROWS = (1, 1_000)
TARGET = 2.0
"""Maximum ratio of a prediction with distances to one without, for 8-50-50-1."""
_TURNS = 40


def ratio(one: Callable[[], object], other: Callable[[], object], calls: int) -> float:
    """Return the ratio of the median CPU times of ``calls`` calls of two functions."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(_TURNS):
        for function, spent in zip((one, other), times, strict=True):
            start = time.process_time()
            for _ in range(calls):
                function()
            spent.append(time.process_time() - start)
    return statistics.median(times[0]) / statistics.median(times[1])


def measured(widths: tuple[int, ...], rows: int, scale: float) -> float:
    """Return the ratio of one network for rows like the training rows, scaled by ``scale``."""
    layers = [part for a, b in pairwise(widths) for part in (nn.Linear(a, b), nn.ReLU())]
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2_000, widths[0], generator=generator)
    y = x.sum(1) / widths[0] ** 0.5
    model = tr.TAGI(nn.Sequential(*layers[:-1]), tr.likelihoods.Normal())
    model.fit(x, y, epochs=2)
    plain = model.clone()
    plain.off_data.support = None
    at = scale * torch.randn(rows, widths[0], generator=generator)
    model.predict(at), plain.predict(at)
    return ratio(lambda: model.predict(at), lambda: plain.predict(at), 100 if rows == 1 else 5)


def main() -> dict[str, Any]:
    """Measure all networks and return the figures."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return {
            f"{'-'.join(map(str, widths))}, {rows} rows {place}": measured(widths, rows, scale)
            for widths in NETWORKS
            for rows in ROWS
            for place, scale in (("inside", 1.0), ("outside", 3.0))
        }
    finally:
        torch.set_num_threads(before)


def report(figures: dict[str, Any]) -> str:
    """Return the figures as lines of text."""
    lines = [f"{name:32} {value:5.2f}" for name, value in figures.items()]
    first = figures["8-50-50-1, 1000 rows inside"]
    verdict = "kept" if first <= TARGET else "MISSED"
    return "\n".join([*lines, f"target {TARGET} at 8-50-50-1 and 1000 rows inside: {verdict}"])


if __name__ == "__main__":
    print(report(main()))
