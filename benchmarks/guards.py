"""Cost of the outlier safeguards in an update with clean rows, for both engines.

A robust learner and one that is not learn the same clean rows in turns, each some updates at a
time, by processor time.  What counts is the median over the turns of their ratio: both meet the
same load of the machine.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from itertools import cycle
from typing import Any

TARGET = 1.03
"""Target: ratio of an update with the safeguards to one without."""
CASES = (
    ("native", (64, 64), 1, 100),
    ("native", (64, 64), 32, 50),
    ("torch", (64, 64), 1, 10),
    ("torch", (64, 64), 32, 10),
    ("torch", (400, 400), 32, 3),
)
"""Engine, hidden layers, rows per update, updates per turn."""
COLUMNS, ROWS = 10, 1_000


def steps_of(engine: str, hidden: tuple[int, ...], batch: int) -> dict[str, Callable[[], None]]:
    """Return an update with clean rows, with or without safeguards, after three epochs."""
    import torch
    from torch import nn

    import tractable as tr

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, COLUMNS, generator=generator)
    y = (2 * x[:, :1]).sin() + x[:, 1:2] * x[:, 2:3]
    y = y + 0.1 * torch.randn(ROWS, 1, generator=generator)
    steps = {}
    for name, robust in (("robust", True), ("plain", False)):
        layers, before = list[nn.Module](), COLUMNS
        for width in hidden:
            layers += [nn.Linear(before, width), nn.ReLU()]
            before = width
        net = nn.Sequential(*layers, nn.Linear(before, 1))
        model = tr.TAGI(net, tr.likelihoods.Normal(), robust=robust, engine=engine)  # type: ignore[arg-type]
        model.fit(x, y, epochs=3, distance_aware=False, progress=False)
        batches = cycle(list(zip(x.split(batch), y.split(batch), strict=True)))
        steps[name] = lambda model=model, batches=batches: model.learn_batch(*next(batches))
    return steps


def in_turns(
    steps: dict[str, Callable[[], None]], updates: int, turns: int
) -> dict[str, float | int]:
    """Return microseconds per update of each, and the median of their ratios."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(turns):
        for name in sorted(steps, reverse=bool(turn % 2)):
            step, started = steps[name], time.process_time()
            for _ in range(updates):
                step()
            times[name].append((time.process_time() - started) / updates)
    ratios = [a / b for a, b in zip(times["robust"], times["plain"], strict=True)]
    found = {name: round(1e6 * statistics.median(values), 1) for name, values in times.items()}
    return {**found, "ratio": round(statistics.median(ratios), 3), "turns": turns}


def main(turns: int = 100) -> dict[str, Any]:
    """Measure all cases at one thread and return the figures."""
    import torch

    torch.set_num_threads(1)
    figures = {}
    for engine, hidden, batch, updates in CASES:
        name = f"{engine}, {'-'.join(map(str, hidden))}, batch {batch}"
        figures[name] = in_turns(steps_of(engine, hidden, batch), updates, turns)
    return figures


def report(figures: dict[str, Any]) -> str:
    """Return the figures as lines of text."""
    return "\n".join(
        f"update, {name}: robust {row['robust']:.1f} µs, plain {row['plain']:.1f} µs of processor "
        f"time, ratio {row['ratio']:.3f} (target {TARGET})"
        for name, row in figures.items()
    )
