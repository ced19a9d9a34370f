"""Steps of a spline flow: Backprop and Bayes by Backprop compared with loops of zuko.

Medians of CPU time at one thread, measured in alternation to reduce the effect of other processes.

    python -m benchmarks flows

Target: Bayes by Backprop over a flow in at most 1.2 times zuko's Bayesian loop.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import zuko
from torch import Tensor
from zuko.bayesian import BayesianModel

import tractable as tr
from tractable.generative import DensityModule, neural_spline_flow

ROWS, COLUMNS, BATCH, REPEATS, LIMIT = 4_096, 8, 128, 15, 1.2
_PRIOR_VARIANCE = 1.0


def theirs(bayesian: bool) -> Callable[[Tensor], None]:
    """Return a step of the loop in zuko's documentation."""
    net = zuko.flows.NSF(COLUMNS, transforms=3, hidden_features=(64, 64))
    if not bayesian:
        optimizer = torch.optim.Adam(net.parameters(), 1e-3)

        def plain(x: Tensor) -> None:
            loss = -net().log_prob(x).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        return plain
    model = BayesianModel(net)
    moved = torch.optim.Adam(model.parameters(), 1e-3)

    def step(x: Tensor) -> None:
        with model.reparameterize() as drawn:
            loss = -drawn().log_prob(x).mean() + model.kl_divergence(_PRIOR_VARIANCE) / ROWS
            moved.zero_grad()
            loss.backward()
            moved.step()

    return step


def ours(kind: Any) -> Callable[[Tensor], None]:
    """Return a step of one of our learners."""
    learner = kind(DensityModule(neural_spline_flow(COLUMNS)), tr.likelihoods.LogDensity(), seed=0)
    empty = torch.zeros(BATCH, 1)

    def step(x: Tensor) -> None:
        learner.learn_batch(x, empty)

    return step


def main() -> dict[str, Any]:
    """Return milliseconds per step, and ratios."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rows = torch.randn(ROWS, COLUMNS)
    steps = {
        "Backprop": ours(tr.Backprop),
        "zuko": theirs(bayesian=False),
        "BayesByBackprop": ours(tr.BayesByBackprop),
        "zuko, Bayesian": theirs(bayesian=True),
    }
    taken: dict[str, list[float]] = {name: [] for name in steps}
    batches = rows.split(BATCH)
    for k in range(REPEATS + 3):
        for name, step in steps.items():
            began = time.thread_time()
            for batch in batches[:4]:
                step(batch)
            if k >= 3:
                taken[name].append((time.thread_time() - began) / 4)
    found: dict[str, Any] = {n: {"ms": 1e3 * statistics.median(t)} for n, t in taken.items()}
    for name, other in (("Backprop", "zuko"), ("BayesByBackprop", "zuko, Bayesian")):
        pairs = zip(taken[name], taken[other], strict=True)
        found[name]["ratio"] = statistics.median(a / b for a, b in pairs)
    return found


def report(found: dict[str, Any]) -> str:
    """Return the table."""
    lines = [f"{'a step of a spline flow':28}{'ms':>8}{'to zuko':>10}"]
    for name, scores in found.items():
        ratio = f"{scores['ratio']:.2f}" if "ratio" in scores else ""
        lines.append(f"{name:28}{scores['ms']:8.2f}{ratio:>10}")
    lines.append(f"target: Bayes by Backprop at most {LIMIT} times zuko's loop")
    return "\n".join(lines)
