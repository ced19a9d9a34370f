"""The number of hops on which outputs depend is measured, so that batches are complete."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tractable as tr
from tests.graphs.test_networks import large
from tractable import graphs as G
from tractable.errors import InvalidInput
from tractable.graphs import networks
from tractable.graphs.graph import Graph

NODES = torch.tensor([11, 4, 60])


def averaged(x: Any, edge_index: Tensor) -> Any:
    """The mean over a node and its neighbors."""
    source, target = edge_index
    total = x.new_zeros(x.shape).index_add(0, target, x[source]) + x
    count = torch.ones(len(x), 1, dtype=x.dtype).index_add(
        0, target, torch.ones(len(source), 1, dtype=x.dtype)
    )
    return total / count


class Hops(nn.Module):
    """Passes messages K times in one module."""

    def __init__(self, inputs: int, outputs: int, k: int) -> None:
        super().__init__()
        self.linear, self.k = nn.Linear(inputs, outputs), k

    def forward(self, x: Any, edge_index: Tensor) -> Any:
        x = self.linear(x)
        for _ in range(self.k):
            x = averaged(x, edge_index)
        return x


class Gated(nn.Module):
    """A second step whose weight is zero at first."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.gate = nn.Linear(4, 3), nn.Parameter(torch.zeros(()))

    def forward(self, x: Any, edge_index: Tensor) -> Any:
        x = averaged(self.linear(x), edge_index)
        return x + self.gate * averaged(averaged(x, edge_index), edge_index)


class Mixed(nn.Module):
    """Powers 0 and 3 in parallel: outputs do not change between one hop and two."""

    def __init__(self) -> None:
        super().__init__()
        self.near, self.far = Hops(4, 3, 0), Hops(4, 3, 3)

    def forward(self, x: Any, edge_index: Tensor) -> Any:
        return self.near(x, edge_index) + self.far(x, edge_index)


class OverAll(nn.Module):
    """Normalized over all nodes."""

    def forward(self, x: Any) -> Any:
        return x - x.mean(0, keepdim=True)


class Choosy(nn.Module):
    """Runs on one graph only."""

    def __init__(self, nodes: int) -> None:
        super().__init__()
        self.linear, self.nodes = nn.Linear(4, 3), nodes

    def forward(self, x: Any, edge_index: Tensor) -> Any:
        if len(x) != self.nodes:
            raise RuntimeError("another graph")
        return averaged(self.linear(x), edge_index)


def compared(net: nn.Module, graph: Graph, **options: Any) -> int | None:
    """Compare outputs of a batch with those of the whole graph, for given and redrawn weights."""
    part = G.NodeNetwork(net, graph).double().eval()
    whole = G.NodeNetwork(net, graph, n_hops=99).double().eval()
    for seed in range(3):
        with torch.no_grad():
            every = torch.arange(graph.n_nodes)
            torch.testing.assert_close(part(NODES), whole(every)[NODES], rtol=1e-9, atol=1e-9)
            torch.manual_seed(seed)
            for parameter in net.parameters():
                parameter.add_(torch.randn_like(parameter))
    reach: int | None = part._neighborhoods.n_hops
    return reach


@pytest.mark.parametrize("k", [0, 1, 2, 3, 7])
def test_steps_within_a_module_are_counted(k: int) -> None:
    torch.manual_seed(0)
    assert compared(Hops(4, 3, k), large(degree=2)) == k


def test_steps_of_several_modules_add_up() -> None:
    net = nn.Sequential(Hops(4, 5, 2), nn.ReLU(), Hops(5, 3, 3))
    assert compared(net, large(degree=2)) == 5
    assert compared(nn.Sequential(G.GraphConv(4, 5), nn.ReLU(), G.GraphConv(5, 3)), large()) == 2


def test_weights_that_are_initially_zero_count() -> None:
    assert compared(Gated(), large(degree=2)) == 3


def test_a_gap_does_not_end_the_reach() -> None:
    assert compared(Mixed(), large(degree=2)) == 3


def test_normalization_over_all_nodes_needs_the_whole_graph() -> None:
    assert compared(nn.Sequential(G.GraphConv(4, 3), OverAll()), large()) is None
    assert compared(nn.Sequential(nn.Linear(4, 3), OverAll()), large()) is None
    assert compared(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), large()) == 0


def test_networks_that_cannot_be_measured_need_the_whole_graph() -> None:
    assert compared(Choosy(200), large()) is None
    assert compared(Hops(4, 3, 40), large(degree=2)) is None


def test_messages_of_a_directed_graph() -> None:
    for seed in range(3):
        undirected = large(degree=2, seed=seed)
        graph = Graph(undirected.edges, undirected.x, directed=True)
        assert compared(Hops(4, 3, 3), graph) == 3


def test_measuring_does_not_change_the_network() -> None:
    net = nn.Sequential(Hops(4, 5, 2), nn.BatchNorm1d(5), nn.Dropout())
    before = {name: t.clone() for name, t in net.state_dict().items()}
    state = torch.random.get_rng_state()
    G.NodeNetwork(net, large())
    assert torch.equal(torch.random.get_rng_state(), state)
    assert net.training
    assert all(torch.equal(t, before[name]) for name, t in net.state_dict().items())


def test_a_learner_sees_as_far() -> None:
    graph = large(degree=2)
    net = G.NodeNetwork(Hops(4, 3, 3), graph)
    model = tr.TAGI(net, tr.likelihoods.Categorical(4), seed=0, dtype=torch.float64)
    every = model.outputs(torch.arange(200), batch_size=None).moments()
    some = model.outputs(NODES, batch_size=None).moments()
    for a, b in zip(some, every, strict=True):
        torch.testing.assert_close(a, b[NODES], rtol=1e-9, atol=1e-9)


def test_graphs_of_a_batch_must_not_mix() -> None:
    graphs = [large(nodes, 2, nodes) for nodes in (5, 9)]
    with pytest.raises(InvalidInput, match="depends on the other graphs"):
        G.GraphNetwork(nn.Sequential(G.GraphConv(4, 3), OverAll()), graphs)
    assert G.GraphNetwork(nn.Sequential(Hops(4, 3, 5), nn.LayerNorm(3)), graphs).n_rows == 2


# --- torch_geometric ---------------------------------------------------------------------------

PYG = {
    "ChebConv": (lambda p: p.ChebConv(4, 3, K=4), 4),
    "TAGConv": (lambda p: p.TAGConv(4, 3, K=3), 4),
    "APPNP": (lambda p: p.APPNP(5, 0.1), 6),
    "SGConv": (lambda p: p.SGConv(4, 3, K=3), 4),
    "SSGConv": (lambda p: p.SSGConv(4, 3, 0.1, K=4), 5),
    "MixHopConv": (lambda p: p.MixHopConv(4, 3, [0, 3]), 4),
    "GatedGraphConv": (lambda p: p.GatedGraphConv(4, 4), 4),
    "ARMAConv": (lambda p: p.ARMAConv(4, 3, num_layers=4), 5),
    "AntiSymmetricConv": (lambda p: p.AntiSymmetricConv(4, num_iters=3), 4),
    "GCN": (lambda p: p.GCN(4, 8, 3, 3), 4),
    "GraphNorm": (lambda p: p.GraphNorm(4), None),
    "PairNorm": (lambda p: p.PairNorm(), None),
    "InstanceNorm": (lambda p: p.InstanceNorm(4), None),
    "GPSConv": (lambda p: p.GPSConv(4, p.GCNConv(4, 4), heads=2), None),
}


@pytest.mark.parametrize("name", PYG)
def test_modules_of_pyg(name: str) -> None:
    pyg = pytest.importorskip("torch_geometric.nn")
    make, wanted = PYG[name]
    torch.manual_seed(0)
    graph, net = large(degree=2), make(pyg).eval()
    edge_index = torch.stack([graph.sources, graph.targets])
    taken = "edge_index" in networks._arguments(net)
    found = net.double()(graph.x.double(), *([edge_index] if taken else []))
    part = G.NodeNetwork(net, graph).eval()
    assert part._neighborhoods.n_hops == wanted
    torch.testing.assert_close(part(NODES).double(), found[NODES], rtol=1e-5, atol=1e-6)


# --- memory ------------------------------------------------------------------------------------


def test_cached_neighborhoods_take_no_more_memory_than_their_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A neighborhood of one node of a large graph once held a table of all of its nodes."""
    n = 50_000
    edges = torch.stack([torch.arange(n - 1), torch.arange(1, n)], 1)
    graph = Graph(edges, torch.randn(n, 4))
    net = G.NodeNetwork(nn.Sequential(G.GraphConv(4, 3), nn.ReLU(), G.GraphConv(3, 2)), graph)
    for i in range(100):
        net(torch.tensor([i * 7]))
    neighborhoods = net._neighborhoods._cached
    assert len(neighborhoods) == networks._MAX_CACHED
    held = [
        t
        for neighborhood in neighborhoods.values()
        for t in vars(neighborhood).values()
        if isinstance(t, Tensor)
    ]
    assert sum(t.numel() for t in held) < 64 * 100
    assert sum(neighborhood.n_stored_values for neighborhood in neighborhoods.values()) < 64 * 200
    monkeypatch.setattr(networks, "_MAX_CACHED_VALUES", 30_000)
    for start in range(0, 3_000, 500):
        net(torch.arange(start, start + 500))
    sizes = [neighborhood.n_stored_values for neighborhood in neighborhoods.values()]
    assert 0 < sum(sizes[:-1]) <= 30_000
    assert len(neighborhoods) < 10
    net(torch.arange(20_000))  # more than all that may be kept: it is the only one
    assert len(neighborhoods) == 1
