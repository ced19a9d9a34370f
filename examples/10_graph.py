"""Semi-supervised node classification: two communities, four labeled nodes.

The only input of the network is the graph.

    python examples/10_graph.py
"""

import torch
from torch import nn

import tractable as tr
from tractable import graphs as G

SIZE = 40


def friends(seed: int) -> tuple[list[tuple[int, int]], torch.Tensor]:
    """Return edges with probability 0.25 within and 0.08 between two groups, and the labels."""
    generator = torch.Generator().manual_seed(seed)
    side = torch.arange(SIZE) % 2
    pairs = torch.combinations(torch.arange(SIZE))
    chance = torch.where(side[pairs[:, 0]] == side[pairs[:, 1]], 0.25, 0.08)
    met = torch.rand(len(pairs), generator=generator) < chance
    return [(int(i), int(j)) for i, j in pairs[met]], side


def main() -> None:
    """Infer the group of all nodes and compare confident with uncertain predictions."""
    torch.set_num_threads(1)
    edges, side = friends(0)
    graph = G.Graph(edges, x=SIZE**0.5 * torch.eye(SIZE))
    net = nn.Sequential(G.GraphConv(SIZE, 16), nn.ReLU(), G.GraphConv(16, 1))
    likelihood = tr.likelihoods.Bernoulli()
    model = tr.Ensemble(
        G.NodeNetwork(net, graph), likelihood, n_estimators=5, learner=tr.TAGI, gain=1.0, seed=0
    )
    labeled = torch.arange(4)
    model.fit(labeled, side[labeled], epochs=40, batch_size=4)

    others = torch.arange(4, SIZE)
    p = model.predict(others)
    correct = p.labels == side[others]
    sure = p.entropy < p.entropy.median()
    print(graph)
    print(
        f"{int(correct.sum())} of {len(others)} correct, expected by chance {len(others) / 2:.0f}"
    )
    print(f"accuracy of the more confident half {correct[sure].float().mean():.0%}, ", end="")
    print(f"of the other half {correct[~sure].float().mean():.0%}")

    assert correct.float().mean() > 0.75
    assert correct[sure].float().mean() >= correct[~sure].float().mean()


if __name__ == "__main__":
    main()
