"""Time a TAGI training step in the peer library pytagi, and print JSON.

Run it in an environment of its own (pytagi 0.1.12 is the last release that
imports on a machine without MPI and NCCL), from the root of the repository::

    python -m venv pytagi-venv
    pytagi-venv/bin/pip install pytagi==0.1.12 numpy==2.4.6
    pytagi-venv/bin/python benchmarks/peer_pytagi.py --threads 1 2

A step is what a pytagi user writes: forward, output update, backward, step,
on inputs that are ready as float32 arrays. Of every case and number of threads
it reports the median over the repeats, in milliseconds, and which number of
threads was best.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from itertools import pairwise

import numpy as np
import pytagi
from pytagi import nn

SECONDS_PER_RUN = 15.0  # a slow case stops here, with at least MINIMUM repeats
MINIMUM = 5
WARMUP = 2
NODES = 11  # the tree of ten classes


@dataclass(frozen=True)
class Case:
    """A network and its batch."""

    layers: Callable[[], list[nn.BaseLayer]]
    inputs: int
    outputs: int
    batch_size: int
    sigma_v: float


def mlp(*widths: int) -> list[nn.BaseLayer]:
    """Return linear layers with ReLU between them."""
    layers: list[nn.BaseLayer] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return layers[:-1]


def cnn() -> list[nn.BaseLayer]:
    """Return the MNIST convolutional network of the TAGI paper's table 4."""
    return [
        nn.Conv2d(1, 32, 4, padding=1, in_width=28, in_height=28),
        nn.ReLU(),
        nn.AvgPool2d(3, 2),
        nn.Conv2d(32, 64, 5),
        nn.ReLU(),
        nn.AvgPool2d(3, 2),
        *mlp(64 * 4 * 4, 150, NODES),
    ]


CASES = {
    "mlp_small": Case(lambda: mlp(1, 64, 64, 1), 1, 1, 1, 0.1),
    "mlp_mnist": Case(lambda: mlp(784, 400, 400, NODES), 784, NODES, 128, 1.0),
    "cnn_mnist": Case(cnn, 784, NODES, 16, 1.0),
}


def training_step(case: Case, threads: int) -> Callable[[], None]:
    """Return a function that runs one training step of the case."""
    pytagi.manual_seed(0)
    rng = np.random.default_rng(0)
    x = rng.standard_normal(case.batch_size * case.inputs, dtype=np.float32)
    y = rng.choice(np.float32([-1, 1]), case.batch_size * case.outputs)
    variance = np.full(y.size, case.sigma_v**2, np.float32)
    net = nn.Sequential(*case.layers())
    net.set_threads(threads)
    updater = nn.OutputUpdater(net.device)

    def step() -> None:
        net(x)
        updater.update(net.output_z_buffer, y, variance, net.input_delta_z_buffer)
        net.backward()
        net.step()

    return step


def median_milliseconds(step: Callable[[], None], repeats: int) -> float:
    """Return the median time of a step, after a warm-up."""
    for _ in range(WARMUP):
        step()
    times: list[float] = []
    start = time.perf_counter()
    while len(times) < repeats and (
        len(times) < MINIMUM or time.perf_counter() - start < SECONDS_PER_RUN
    ):
        before = time.perf_counter()
        step()
        times.append(time.perf_counter() - before)
    return 1000 * statistics.median(times)


def measure(case: Case, threads: list[int], repeats: int) -> dict[str, object]:
    """Return median milliseconds by number of threads, and the best number of threads."""
    medians = {n: median_milliseconds(training_step(case, n), repeats) for n in threads}
    best = min(medians, key=medians.__getitem__)
    return {
        "batch_size": case.batch_size,
        "milliseconds": {str(n): round(median, 4) for n, median in medians.items()},
        "best_threads": best,
        "best_milliseconds": round(medians[best], 4),
    }


def main() -> None:
    """Measure the chosen cases and print them as JSON."""
    parser = argparse.ArgumentParser(description="Time a training step in pytagi.")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=200, help="maximum number of repeats")
    parser.add_argument("--case", nargs="+", choices=CASES, default=list(CASES))
    arguments = parser.parse_args()
    report = {
        "library": f"pytagi {version('pytagi')}",
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cases": {
            name: measure(CASES[name], arguments.threads, arguments.repeats)
            for name in arguments.case
        },
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
