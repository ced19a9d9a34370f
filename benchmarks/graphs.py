"""Epochs of graph convolutions on Cora: Backprop, TAGI, and PyG's own loop, in one run.

One epoch is one step by the 140 labelled papers.  PyG computes the whole graph, as its examples do,
with the normalized adjacency cached; it is left out where it is not installed.  Figures are medians
of CPU time, measured in alternation.

    python -m benchmarks.graphs
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from benchmarks.sequences import medians

WIDTH, DROP = 16, 0.5
TARGETS = {"Backprop": 1.0, "TAGI": 4.0}
"""Maximum ratio to PyG's epoch."""


def pyg_step(data: Any) -> Callable[[], None] | None:
    """Return one epoch of PyG's example of a graph convolution."""
    try:
        from torch_geometric.nn import GCNConv
    except ImportError:
        return None
    graph = data.graph
    edge_index = torch.stack([graph.sources, graph.targets])
    first = GCNConv(graph.x.shape[1], WIDTH, cached=True)
    second = GCNConv(WIDTH, data.classes, cached=True)
    both = [*first.parameters(), *second.parameters()]
    optimizer = torch.optim.Adam(both, lr=0.01, weight_decay=5e-4)

    def step() -> None:
        optimizer.zero_grad()
        h = nn.functional.dropout(graph.x, DROP)
        h = nn.functional.dropout(first(h, edge_index).relu(), DROP)
        z = second(h, edge_index)
        nn.functional.cross_entropy(z[data.train], data.y[data.train]).backward()
        optimizer.step()

    return step


def main(times: int = 60) -> dict[str, Any]:
    """Return milliseconds per epoch of each implementation."""
    import tractable as tr
    from tractable import graphs as G
    from tractable.data import planetoid

    torch.set_num_threads(1)
    data = planetoid("cora")
    inputs, y = data.graph.x.shape[1], data.y[data.train]
    steps: dict[str, Callable[[], None]] = {}
    theirs = pyg_step(data)
    if theirs is not None:
        steps["PyG"] = theirs

    def nodes(outputs: int, drop: float) -> nn.Module:
        layers: list[nn.Module] = [
            G.GraphConv(inputs, WIDTH),
            nn.ReLU(),
            G.GraphConv(WIDTH, outputs),
        ]
        if drop:
            layers.insert(2, nn.Dropout(drop))
            layers.insert(0, nn.Dropout(drop))
        return G.NodeNetwork(nn.Sequential(*layers), data.graph)

    adam = partial(torch.optim.Adam, weight_decay=5e-4)
    learners = {
        "Backprop": tr.Backprop(nodes(7, DROP), tr.likelihoods.Softmax(7), lr=0.01, optimizer=adam),
        "TAGI": tr.TAGI(nodes(6, 0.0), tr.likelihoods.Categorical(7)),
        "TAGI, dropout": tr.TAGI(nodes(6, DROP), tr.likelihoods.Categorical(7)),
    }
    for name, learner in learners.items():
        rows, targets = learner.checks.data(data.train, y)
        steps[name] = partial(learner.learn_batch, rows, targets)
    return {"milliseconds": medians(steps, times)}


def report(figures: dict[str, Any]) -> str:
    """Return the figures as lines of text."""
    times = figures["milliseconds"]
    base = times.get("PyG")
    lines = []
    for name, value in times.items():
        ratio = "" if base is None else f", {value / base:.2f} of PyG's"
        target = f" (target {TARGETS[name]:g})" if name in TARGETS else ""
        lines.append(f"Cora, one epoch, {name}: {value:.2f} ms{ratio}{target}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(report(main()))
