"""Nodes of a graph as rows: two groups of friends, four members whose side is known.

The network sees who is whose friend, and nothing else.

python examples/10_graph.py
"""

import torch
from torch import nn

import tractable as tr
from tractable import graphs as G

SIZE = 40


def friends(seed: int) -> tuple[list[tuple[int, int]], torch.Tensor]:
    """Two groups: friends with probability 0.25 inside, 0.08 across."""
    generator = torch.Generator().manual_seed(seed)
    side = torch.arange(SIZE) % 2
    pairs = torch.combinations(torch.arange(SIZE))
    chance = torch.where(side[pairs[:, 0]] == side[pairs[:, 1]], 0.25, 0.08)
    met = torch.rand(len(pairs), generator=generator) < chance
    return [(int(i), int(j)) for i, j in pairs[met]], side


def main() -> None:
    """Infer everybody's side from four, and say where it is unsure."""
    torch.set_num_threads(1)
    edges, side = friends(0)
    graph = G.Graph(edges, x=SIZE**0.5 * torch.eye(SIZE))
    net = nn.Sequential(G.Conv(SIZE, 16), nn.ReLU(), G.Conv(16, 1))
    likelihood = tr.likelihoods.Bernoulli()
    model = tr.Ensemble(G.Nodes(net, graph), likelihood, n=5, learner=tr.TAGI, gain=1.0, seed=0)
    told = torch.arange(4)
    model.fit(told, side[told], epochs=40, batch_size=4)

    others = torch.arange(4, SIZE)
    p = model.predict(others)
    right = p.labels == side[others]
    sure = p.entropy < p.entropy.median()
    print(graph)
    print(f"{int(right.sum())} of {len(others)} told right, chance {len(others) / 2:.0f}")
    print(f"of the surer half {right[sure].float().mean():.0%}, ", end="")
    print(f"of the other {right[~sure].float().mean():.0%}")

    assert right.float().mean() > 0.75
    assert right[sure].float().mean() >= right[~sure].float().mean()


if __name__ == "__main__":
    main()
