"""Node indices as rows: batches give the results of the whole graph; learners and files work."""

import pytest
import torch
from torch import nn

import tractable as tr
from tests.graphs.conftest import A1, graph_of
from tractable import graphs as G
from tractable.errors import InvalidInput, InvalidTarget

D = torch.float64


def large(nodes=200, degree=3, seed=0, features=4):
    generator = torch.Generator().manual_seed(seed)
    near = (torch.rand(nodes, nodes, generator=generator) < degree / nodes).triu(1)
    return G.Graph(near.nonzero(), torch.randn(nodes, features, generator=generator))


NETS = {
    "conv": lambda: nn.Sequential(G.GraphConv(4, 8), nn.ReLU(), G.GraphConv(8, 3)),
    "deep": lambda: nn.Sequential(
        G.GraphConv(4, 8, self_features="separate"),
        nn.ReLU(),
        G.GraphConv(8, 8, aggregate="max"),
        G.GraphConv(8, 3),
    ),
    "attention": lambda: nn.Sequential(
        G.GraphAttention(4, 4, n_heads=2), nn.ELU(), G.GraphAttention(8, 3)
    ),
}


@pytest.mark.parametrize("name", NETS)
def test_a_batch_has_the_outputs_of_the_whole_graph(name):
    graph, net = large(), NETS[name]().double()
    nodes = torch.tensor([7, 150, 3, 7])
    part = G.NodeNetwork(net, graph)
    whole = G.NodeNetwork(net, graph, n_hops=12)
    neighborhood = part._neighborhoods.neighborhood(
        torch.tensor([3, 7, 150]), D, torch.device("cpu")
    )
    assert len(neighborhood.nodes) < 150 < graph.n_nodes
    assert torch.allclose(part(nodes), whole(torch.arange(200))[nodes], atol=1e-12)
    assert torch.equal(part(nodes)[0], part(nodes)[3])


@pytest.mark.parametrize("name", NETS)
def test_moments_of_a_batch_are_those_of_the_whole_graph(name):
    graph, net = large(), NETS[name]()
    nodes = torch.tensor([7, 150, 3])
    model = tr.TAGI(G.NodeNetwork(net, graph), tr.likelihoods.Categorical(4), seed=0, dtype=D)
    every = model.outputs(torch.arange(200), batch_size=None).moments()
    some = model.outputs(nodes, batch_size=None).moments()
    for a, b in zip(some, every, strict=True):
        assert torch.allclose(a, b[nodes], atol=1e-10)


def test_distant_nodes_have_no_influence():
    path = G.Graph([[i, i + 1] for i in range(9)], torch.zeros(10, 1))
    net = nn.Sequential(G.GraphConv(1, 4), nn.Tanh(), G.GraphConv(4, 1)).double()
    x = torch.zeros(10, 1, dtype=D, requires_grad=True)
    neighborhood = G.Neighborhood(path, torch.tensor([4]), 2, _features(path))
    z = net[2](net[1](net[0](x[neighborhood.nodes], neighborhood)), neighborhood)
    (slope,) = torch.autograd.grad(z.sum(), x)
    assert (slope.squeeze(1) != 0).nonzero().squeeze(1).tolist() == [2, 3, 4, 5, 6]


def _features(graph):
    from tractable.graphs.neighborhood import NodeFeatures

    return NodeFeatures(graph, D, torch.device("cpu"))


def test_edges_are_predicted_from_both_ends():
    graph = large()
    net = nn.Sequential(G.GraphConv(4, 8), nn.ReLU(), G.GraphConv(8, 3))
    pairs = torch.tensor([[3, 50], [50, 3], [9, 9]])
    z = G.NodeNetwork(net, graph)(torch.arange(200))
    score = G.LinkNetwork(net, graph)(pairs)
    assert torch.allclose(score[:, 0], (z[pairs[:, 0]] * z[pairs[:, 1]]).sum(1), atol=1e-5)
    assert torch.equal(score[0], score[1])
    headed = G.LinkNetwork(net, graph, head=nn.Linear(3, 2))
    assert headed(pairs).shape == (3, 2)
    model = tr.TAGI(G.LinkNetwork(net, graph), tr.likelihoods.Bernoulli(), seed=0)
    both = torch.cat([graph.edges[:50], graph.negative_edges(50)])
    p = model.fit(both, torch.arange(100) < 50, epochs=2).predict(both)
    assert p.probs.shape == (100, 2)


def test_graphs_are_pooled():
    graphs = [large(nodes, 2, nodes) for nodes in (5, 9, 1)]
    net = nn.Sequential(G.GraphConv(4, 8), nn.ReLU(), G.GraphConv(8, 3))
    for pool in ("mean", "sum", "max"):
        module = G.GraphNetwork(net, graphs, pool=pool)
        got = module(torch.tensor([2, 0, 2]))
        assert torch.equal(got[0], got[2])
        z = G.NodeNetwork(net, graphs[0])(torch.arange(5))
        wanted = z.amax(0) if pool == "max" else getattr(z, pool)(0)
        assert torch.allclose(got[1], wanted, atol=1e-6)
    model = tr.TAGI(
        G.GraphNetwork(net, graphs, head=nn.Linear(3, 1)), tr.likelihoods.Normal(), seed=0
    )
    assert model.fit([0, 1, 2], [0.0, 1.0, 2.0], epochs=2).predict([1, 0]).mean.shape == (2,)


def test_validation_calibration_ensembles_and_files(tmp_path):
    graph = large()
    y = (graph.x[:, 0] > 0).long() + (graph.x[:, 1] > 0).long()
    nodes = torch.arange(200)
    net = G.NodeNetwork(nn.Sequential(G.GraphConv(4, 8), nn.ReLU(), G.GraphConv(8, 2)), graph)
    likelihood = tr.likelihoods.Categorical(3, link="probit")
    model = tr.Ensemble(net, likelihood, n_estimators=2, learner=tr.TAGI, seed=0)
    model.fit(nodes[:100], y[:100], epochs=5, validation=(nodes[100:150], y[100:150]))
    assert "validation_nll" in model.history[-1]
    p = model.predict(nodes[150:])
    assert p.novelty is None  # numbers of nodes have no distance
    model.save(tmp_path / "model")
    again = tr.Ensemble.load(tmp_path / "model", net=net)
    assert torch.equal(again.predict(nodes[150:]).probs, p.probs)
    single = tr.TAGI(net, likelihood, seed=0).fit(nodes[:100], y[:100], epochs=3, calibrate=True)
    assert float(single.likelihood.noise_scale) != 1.0


def test_modules_that_take_edge_index_or_the_neighborhood():
    graph = large()

    class ByEdges(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 3)

        def forward(self, x, edge_index):
            source, target = edge_index
            return torch.zeros(len(x), 3).index_add(0, target, self.linear(x)[source])

    class ByView(nn.Module):
        def __init__(self, linear):
            super().__init__()
            self.linear = linear

        def forward(self, x, neighborhood):
            return self.linear(G.aggregate_neighbors(x, neighborhood, "sum", self_loop=False))

    one = ByEdges()
    nodes = torch.tensor([5, 8])
    dense = graph.adjacency() @ one.linear(graph.x)
    assert torch.allclose(G.NodeNetwork(one, graph)(nodes), dense[nodes], atol=1e-5)
    two = ByView(nn.Linear(4, 3))
    dense = two.linear(graph.adjacency() @ graph.x)
    assert torch.allclose(G.NodeNetwork(two, graph, n_hops=1)(nodes), dense[nodes], atol=1e-5)


def test_pyg_layers_with_our_weights():
    pyg = pytest.importorskip("torch_geometric.nn")
    graph = large()
    edge_index = torch.stack([graph.sources, graph.targets])
    nodes = torch.tensor([11, 4, 60])
    ours, theirs = G.GraphConv(4, 3), pyg.GCNConv(4, 3)
    theirs.lin.weight.data.copy_(ours.linear.weight)
    theirs.bias.data.copy_(ours.linear.bias)
    wanted = theirs(graph.x, edge_index)
    assert torch.allclose(G.NodeNetwork(ours, graph)(torch.arange(200)), wanted, atol=1e-5)
    assert torch.allclose(G.NodeNetwork(theirs, graph)(nodes), wanted[nodes], atol=1e-5)
    ours, theirs = G.GraphAttention(4, 3, n_heads=2), pyg.GATConv(4, 3, heads=2)
    theirs.lin.weight.data.copy_(ours.values.weight)
    theirs.att_src.data.copy_(ours.to_source.unsqueeze(0))
    theirs.att_dst.data.copy_(ours.to_target.unsqueeze(0))
    wanted = theirs(graph.x, edge_index)
    assert torch.allclose(G.NodeNetwork(ours, graph)(torch.arange(200)), wanted, atol=1e-5)
    model = tr.TAGI(G.NodeNetwork(theirs, graph), tr.likelihoods.Categorical(7), seed=0)
    model.fit(nodes, torch.tensor([0, 1, 2]), epochs=2)
    assert bool(torch.isfinite(model.predict(nodes).probs).all())


# --- bad input ---------------------------------------------------------------------------------


def test_invalid_indices_raise():
    graph = graph_of(A1)
    net = G.NodeNetwork(nn.Sequential(G.GraphConv(1, 4), nn.ReLU(), G.GraphConv(4, 1)), graph)
    model = tr.TAGI(net, tr.likelihoods.Normal(), seed=0)
    for rows, said in (
        ([0, 7], "row 1 has the node index 7, expected 0 to 6"),
        ([-1, 2], "row 0 has the node index -1"),
        ([0.5, 1.0], "node indices must be integers"),
    ):
        with pytest.raises(InvalidInput, match=said):
            model.fit(rows, [0.0, 1.0])
    assert not model.fitted
    with pytest.raises(InvalidInput, match=r"pairs must have the shape \[rows, 2\]"):
        G.LinkNetwork(net.net, graph)(torch.tensor([1, 2]))
    with pytest.raises(InvalidInput, match="has the graph index 1, expected 0 to 0"):
        G.GraphNetwork(net.net, [graph])(torch.tensor([1]))
    with pytest.raises(InvalidInput, match="at least one graph"):
        G.GraphNetwork(net.net, [])
    with pytest.raises(TypeError, match=r"expected a tractable\.graphs\.Graph, got Tensor"):
        G.NodeNetwork(net.net, graph.adjacency())


@pytest.mark.parametrize("learner", [tr.TAGI, tr.BayesByBackprop, tr.Backprop])
def test_a_class_absent_from_training_keeps_some_probability(learner):
    """A missing class is valid, since its nodes may follow later; an invalid label is not."""
    graph, nodes = large(), torch.arange(200)
    y = (graph.x[:, 0] > 0).long()
    net = G.NodeNetwork(nn.Sequential(G.GraphConv(4, 8), nn.ReLU(), G.GraphConv(8, 3)), graph)
    options = {} if learner is tr.TAGI else {"lr": 0.03}
    model = learner(net, tr.likelihoods.Softmax(3), seed=0, **options)
    with pytest.raises(InvalidTarget, match="the first bad one is in row 1"):
        model.fit(nodes[:2], torch.tensor([0, 3]))
    model.fit(nodes, y, epochs=10, batch_size=20, distance_aware=False)
    absent = model.predict(nodes).probs[:, 2]
    assert bool(((absent > 0) & (absent < 1 / 3)).all())


def test_more_layers_than_steps_and_rows_out_of_order():
    graph = large()
    net = nn.Sequential(G.GraphConv(4, 8), G.GraphConv(8, 3))
    with pytest.raises(InvalidInput, match="more graph layers than the 1 hops"):
        G.NodeNetwork(net, graph, n_hops=1)(torch.tensor([0]))
    with pytest.raises(InvalidInput, match="must keep the number and the order of the rows"):
        G.NodeNetwork(nn.Sequential(Cut(), G.GraphConv(4, 3)), graph)(torch.tensor([0]))


class Cut(nn.Module):
    def forward(self, x):
        return x[:-1]


def test_unknown_options_are_named():
    with pytest.raises(ValueError, match="aggregate must be one of"):
        G.GraphConv(1, 1, aggregate="median")
    with pytest.raises(ValueError, match="self_features must be one of"):
        G.GraphConv(1, 1, self_features="self")
    with pytest.raises(ValueError, match="scoring must be additive or dot"):
        G.GraphAttention(1, 1, scoring="cosine")
    with pytest.raises(ValueError, match="pool must be"):
        G.GraphNetwork(nn.Identity(), [graph_of(A1)], pool="median")
