"""The compiled kernel against torch: time per update, two cores, memory over a million updates.

    python -m benchmarks native          all of it, by way of the common runner
    python -m benchmarks.native          the same, printed as JSON

One thread throughout, apart from the scaling.  Engines take turns within each case, and the best
of several turns counts, so that what other programs do in between matters little.
"""

from __future__ import annotations

import gc
import json
import resource
import time
from typing import Any

import torch
from torch import Tensor

import tractable as tr
from benchmarks.networks import mlp
from tractable import versions
from tractable.learners import fit_many

CASES: dict[str, tuple[tuple[int, ...], int]] = {
    "1-64-64-1 batch 1": ((1, 64, 64, 1), 1),
    "13-50-50-1 batch 1": ((13, 50, 50, 1), 1),
    "13-50-50-1 batch 8": ((13, 50, 50, 1), 8),
    "17-128-128-128-1 batch 16": ((17, 128, 128, 128, 1), 16),
    "784-400-400-11 batch 1": ((784, 400, 400, 11), 1),
    "784-400-400-11 batch 128": ((784, 400, 400, 11), 128),
}
TARGETS = {"1-64-64-1 batch 1": 10.0, "13-50-50-1 batch 1": 5.0}
"""Maximum microseconds per update of the kernel."""
OVER_COMPILED = {"17-128-128-128-1 batch 16": 3.0}
SCALING = 1.8
TURNS = 7


def data(sizes: tuple[int, ...], rows: int) -> tuple[Tensor, Tensor]:
    """Return random inputs and targets."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, sizes[0], generator=generator)
    return x, torch.randn(rows, sizes[-1], generator=generator)


def learner(sizes: tuple[int, ...], seed: int = 0, **options: Any) -> tr.TAGI:
    """Return a regression learner that infers its noise."""
    likelihood = tr.likelihoods.Normal(None, sizes[-1])
    return tr.TAGI(mlp(*sizes), likelihood, seed=seed, **options)


def updates(sizes: tuple[int, ...], batch: int) -> dict[str, float]:
    """Return microseconds per update within an epoch, for each engine."""
    models = {
        "native": (learner(sizes, engine="native"), 2_000 if batch == 1 else 200),
        "auto": (learner(sizes), 200),
        "eager": (learner(sizes, engine="torch"), 60),
        "compiled": (learner(sizes, engine="torch", compile=True), 60),
    }
    if sizes[0] > 100:
        models = {name: (model, 20) for name, (model, _) in models.items()}
    best: dict[str, float] = {}
    for turn in range(TURNS + 1):
        for name, (model, count) in models.items():
            x, y = data(sizes, batch * count)
            started = time.perf_counter()
            model.fit(x, y, epochs=1, batch_size=batch, progress=False, distance_aware=False)
            spent = 1e6 * (time.perf_counter() - started) / count
            if turn > 0:  # the first one compiles
                best[name] = min(best.get(name, spent), spent)
    return best


def single(sizes: tuple[int, ...] = (13, 50, 50, 1)) -> dict[str, float]:
    """Return microseconds of ``update`` and ``predict`` of one row, called from Python."""
    figures = {}
    x, y = data(sizes, 1)
    for engine in ("native", "torch"):
        model = learner(sizes, engine=engine)
        for name, call in (
            ("update", lambda model=model: model.update(x, y)),
            ("predict", lambda model=model: model.predict(x)),
        ):
            best = float("inf")
            for _ in range(TURNS):
                started = time.perf_counter()
                for _ in range(50):
                    call()
                best = min(best, (time.perf_counter() - started) / 50)
            figures[f"{name}/{engine}"] = 1e6 * best
    return figures


def scaling(threads: int = 2) -> dict[str, float]:
    """Return the speedup by two cores for several independent networks."""
    sizes = (13, 50, 50, 1)
    x, y = data(sizes, 60_000)  # long enough that starting the threads does not count
    best: dict[int, float] = {}
    for _ in range(TURNS):
        for count in (1, threads):
            jobs = [(learner(sizes, seed=seed, engine="native"), x, y) for seed in range(4)]
            started = time.perf_counter()
            fit_many(jobs, threads=count, epochs=2, batch_size=1, progress=False)
            spent = time.perf_counter() - started
            best[count] = min(best.get(count, spent), spent)
    return {"one": best[1], "two": best[threads], "times": best[1] / best[threads]}


def memory(total: int = 1_000_000) -> dict[str, float]:
    """Return the memory growth in kilobytes over a million updates, in epochs and single."""
    sizes = (13, 50, 50, 1)
    model = learner(sizes, engine="native")
    x, y = data(sizes, 10_000)

    def work(count: int) -> None:
        done = 0
        while done < count:
            model.fit(x, y, epochs=4, batch_size=1, progress=False, distance_aware=False)
            for k in range(100):
                model.update(x[k : k + 3], y[k : k + 3])
                model.predict(x[:9])
            model.history.clear()
            done += 4 * len(x)

    work(len(x))
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    work(total)
    gc.collect()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"updates": float(total), "kilobytes": float(grown)}


def main() -> dict[str, Any]:
    """Measure all cases and return the figures."""
    torch.set_num_threads(1)
    return {
        "machine": versions.describe(),
        "memory": memory(),
        "scaling": scaling(),
        "single": single(),
        "updates": {name: updates(*case) for name, case in CASES.items()},
    }


def report(figures: dict[str, Any]) -> str:
    """Return the figures as lines of text."""
    lines = [f"kernel {figures['machine']['kernel']}, {figures['machine']['instruction set']}"]
    lines.append(f"{'µs per update':28s} native     auto    eager  compiled  compiled / native")
    for name, row in figures["updates"].items():
        gain = row["compiled"] / row["native"]
        note = ""
        if name in TARGETS:
            note = f"  (target: native at most {TARGETS[name]:.0f})"
        if name in OVER_COMPILED:
            note = f"  (target: at least {OVER_COMPILED[name]:.0f})"
        lines.append(
            f"{name:28s} {row['native']:6.1f} {row['auto']:8.1f} {row['eager']:8.1f} "
            f"{row['compiled']:9.1f} {gain:8.1f}{note}"
        )
    one = figures["single"]
    lines.append(
        f"one row of 13-50-50-1, by itself: update {one['update/native']:.0f} µs (torch "
        f"{one['update/torch']:.0f}), predict {one['predict/native']:.0f} (torch "
        f"{one['predict/torch']:.0f})"
    )
    lines.append(
        f"four networks on two cores: {figures['scaling']['times']:.2f} times as fast as on one "
        f"(target {SCALING})"
    )
    lines.append(
        f"memory over {figures['memory']['updates']:.0f} updates: "
        f"+{figures['memory']['kilobytes']:.0f} kB"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    print(json.dumps(main(), indent=1))
