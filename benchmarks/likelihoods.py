"""Cost of likelihoods: steps of TAGI as ratios to the step with the normal likelihood.

The same network but for its outputs, the same rows, the same engine; the shortest of many steps,
measured in turns by the time that the thread itself computes, as far as a busy machine lets it.
The mixture has fifteen outputs, and the normal likelihood it is compared with has one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

COLUMNS, WIDTH, BATCH = 10, 64, 32
TARGETS = {"Poisson": 1.3, "Mixture(5)": 2.0}
"""Maximum ratio to the normal step, on every engine that supports the likelihood."""


def steps(engine: str) -> dict[str, Callable[[], None]]:
    """Return one update by likelihood, without those that the engine does not support."""
    import torch
    from torch import nn

    import tractable as tr
    from tractable import likelihoods as likes
    from tractable.errors import UnsupportedByKernel

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(BATCH, COLUMNS, generator=generator)
    number = 0.3 * x[:, :1] + 0.1 * torch.randn(BATCH, 1, generator=generator)
    count = torch.poisson(torch.exp(1 + number), generator=generator)
    kinds: dict[str, tuple[likes.Likelihood, torch.Tensor]] = {
        "Normal": (likes.Normal(), number),
        "HeteroscedasticNormal": (likes.HeteroscedasticNormal(), number),
        "Poisson": (likes.Poisson(), count),
        "Bernoulli, logit": (likes.Bernoulli("logit"), (number > 0).long()),
        "NegativeBinomial": (likes.NegativeBinomial(), count),
        "StudentT": (likes.StudentT(), number),
        "Mixture(5)": (likes.Mixture(likes.HeteroscedasticNormal(), 5), number),
    }
    found: dict[str, Callable[[], None]] = {}
    for name, (likelihood, target) in kinds.items():
        outputs = likelihood.outputs_needed
        net = nn.Sequential(
            nn.Linear(COLUMNS, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(),
            nn.Linear(WIDTH, outputs),
        )  # fmt: skip
        try:
            model = tr.TAGI(net, likelihood, engine=engine)  # type: ignore[arg-type]
        except UnsupportedByKernel:
            continue
        rows = model.checks.data(x, target)
        found[name] = lambda model=model, rows=rows: model.learn_batch(*rows)
    return found


def shortest(steps: dict[str, Callable[[], None]], seconds: float) -> dict[str, float]:
    """Return the shortest step in milliseconds of thread time, measured in alternation."""
    for step in steps.values():
        for _ in range(5):
            step()
    best = dict.fromkeys(steps, float("inf"))
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, step in steps.items():
            for _ in range(5):
                started = time.thread_time()
                step()
                best[name] = min(best[name], time.thread_time() - started)
    return {name: 1e3 * value for name, value in best.items()}


def main(seconds: float = 20.0) -> dict[str, Any]:
    """Measure both engines and return milliseconds."""
    import torch

    torch.set_num_threads(1)
    return {engine: shortest(steps(engine), seconds) for engine in ("torch", "native")}


def report(figures: dict[str, Any]) -> str:
    """Return the figures as lines of text."""
    lines = []
    for engine, found in figures.items():
        for name, value in found.items():
            ratio, target = value / found["Normal"], TARGETS.get(name)
            verdict = "" if target is None else f"  (target {target}: {ratio <= target})"
            lines.append(f"{engine:7} {name:22} {value:7.3f} ms  {ratio:.2f}{verdict}")
    return "\n".join(lines)
