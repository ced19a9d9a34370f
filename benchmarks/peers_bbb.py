"""Compare the step time of Bayes by Backprop with bayesian-torch, torchbnn and blitz.

784-400-400-10, 128 rows, Adam; the peers as their documentation shows them, with one draw per step.
All run in turn in one process, so that what else the machine does falls on all alike; the figure is
the median, in wall time and in processor time, and the ratio to ``tractable`` with one draw.

    python benchmarks/peers_bbb.py [--out benchmarks/results/bench-bbb.json]

The peers are looked for in ``.venv-peers`` (``pip install --no-deps --target .venv-peers ...``), so
that none of them chooses the version of torch; a missing one is left out.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tractable as tr
from tractable.learners import BatchPosition

sys.path.append(str(Path(__file__).parent.parent / ".venv-peers"))
SIZES = ((784, 400), (400, 400), (400, 10))
ROWS, BATCHES = 128, 469
Step = Callable[[Tensor, Tensor], None]


def network(layer: Callable[[int, int], nn.Module]) -> nn.Sequential:
    """Return the network with the given kind of linear layer."""
    first, second, third = (layer(*size) for size in SIZES)
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), third)


def ours(**options: Any) -> Step:
    """Return a step of this library."""
    model = tr.BayesByBackprop(network(nn.Linear), tr.likelihoods.Softmax(10), **options)
    moment = BatchPosition(ROWS / 60_000, 0.0, 0, BATCHES)
    return lambda x, y: model.learn_batch(x, y, moment)


def bayesian_torch() -> Step:
    """Return a step of bayesian-torch, after its example."""
    from bayesian_torch.layers import LinearReparameterization

    layers = nn.ModuleList([LinearReparameterization(*size) for size in SIZES])
    optimizer = torch.optim.Adam(layers.parameters())

    def step(x: Tensor, y: Tensor) -> None:
        kl: Any = 0.0
        for i, layer in enumerate(layers):
            x, more = layer(x)
            x, kl = (F.relu(x) if i < 2 else x), kl + more
        optimizer.zero_grad()
        (F.cross_entropy(x, y) + kl / ROWS).backward()
        optimizer.step()

    return step


def torchbnn() -> Step:
    """Return a step of torchbnn, after its example."""
    import torchbnn as bnn

    net = network(lambda i, o: bnn.BayesLinear(0, 0.1, i, o))
    optimizer = torch.optim.Adam(net.parameters())
    divergence = bnn.BKLLoss(reduction="mean", last_layer_only=False)

    def step(x: Tensor, y: Tensor) -> None:
        optimizer.zero_grad()
        (F.cross_entropy(net(x), y) + 0.01 * divergence(net)).sum().backward()
        optimizer.step()

    return step


def blitz() -> Step:
    """Return a step of blitz, after its example."""
    from blitz.modules import BayesianLinear
    from blitz.utils import variational_estimator

    net = variational_estimator(type("Net", (nn.Sequential,), {}))(
        *network(lambda i, o: BayesianLinear(i, o))
    )
    optimizer = torch.optim.Adam(net.parameters())

    def step(x: Tensor, y: Tensor) -> None:
        optimizer.zero_grad()
        net.sample_elbo(
            inputs=x, labels=y, criterion=F.cross_entropy, sample_nbr=1,
            complexity_cost_weight=1 / 60_000,
        ).backward()  # fmt: skip
        optimizer.step()

    return step


def subjects() -> dict[str, Step]:
    """Return all steps by name; the first is the reference."""
    mixture = tr.priors.ScaleMixture(0.5, 1.0, 0.0025)
    found = {
        "tractable, weights, 1 draw": ours(),
        "tractable, weights, 1 draw, mixture prior": ours(prior=mixture),
        "tractable, weights, 2 draws": ours(n_train_samples=2),
        "tractable, weights, 2 draws, mixture prior": ours(n_train_samples=2, prior=mixture),
        "tractable, local": ours(estimator="local"),
        "tractable, local, mixture prior": ours(estimator="local", prior=mixture),
    }
    for name, make in (
        ("bayesian-torch", bayesian_torch),
        ("torchbnn", torchbnn),
        ("blitz", blitz),
    ):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found[name] = make()
        except ImportError as error:
            print(f"{name} is left out: {error}")
    return found


def main() -> None:
    """Time the steps in alternation and print the medians."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    x, y = torch.rand(ROWS, 784), torch.randint(10, (ROWS,))
    steps = subjects()
    wall: dict[str, list[float]] = {name: [] for name in steps}
    busy: dict[str, list[float]] = {name: [] for name in steps}
    for i in range(args.rounds + 3):
        for name, step in steps.items():
            before = time.perf_counter(), time.process_time()
            step(x, y)
            if i >= 3:  # the first rounds fill caches
                wall[name].append(1e3 * (time.perf_counter() - before[0]))
                busy[name].append(1e3 * (time.process_time() - before[1]))
    reference = next(iter(steps))
    result = {}
    print(f"{'one step of 128 rows':45s} wall ms  cpu ms  cpu / reference")
    for name in steps:
        w, b = statistics.median(wall[name]), statistics.median(busy[name])
        ratio = b / statistics.median(busy[reference])
        result[name] = {"wall_ms": round(w, 2), "cpu_ms": round(b, 2), "ratio": round(ratio, 3)}
        print(f"{name:45s} {w:7.1f} {b:7.1f} {ratio:8.2f}")
    saved = (
        1 - result["tractable, local"]["cpu_ms"] / result["tractable, weights, 2 draws"]["cpu_ms"]
    )
    print(f"local against two weight draws: {saved:.0%} less time")
    if args.out is not None:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps({"torch": torch.__version__, "steps": result}, indent=1))


if __name__ == "__main__":
    main()
