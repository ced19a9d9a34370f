"""PyG's modules unchanged: equal to ours at zero variance, and usable with every learner."""

import pytest
import torch
from torch import nn

import tractable as tr
from tests.graphs.test_networks import large
from tractable import graphs as G

pyg = pytest.importorskip("torch_geometric.nn")

D = torch.float64


def convolution():
    ours, theirs = G.GraphConv(4, 3), pyg.GCNConv(4, 3)
    return ours, theirs, {"lin.weight": ours.linear.weight, "bias": ours.linear.bias}


def mean():
    ours, theirs = G.GraphConv(4, 3, aggregate="mean", self_features="separate"), pyg.SAGEConv(4, 3)
    received, itself = ours.linear.weight.split(4, 1)
    weights = {"lin_l.weight": received, "lin_l.bias": ours.linear.bias, "lin_r.weight": itself}
    return ours, theirs, weights


def isomorphism():
    ours = nn.Sequential(
        G.GraphConv(4, 8, aggregate="sum", self_features="epsilon", epsilon=0.25),
        nn.ReLU(),
        nn.Linear(8, 3),
    )
    inner = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    weights = {
        "nn.0.weight": ours[0].linear.weight,
        "nn.0.bias": ours[0].linear.bias,
        "nn.2.weight": ours[2].weight,
        "nn.2.bias": ours[2].bias,
    }
    return ours, pyg.GINConv(inner, eps=0.25), weights


def attention():
    ours, theirs = G.GraphAttention(4, 3, n_heads=2), pyg.GATConv(4, 3, heads=2)
    weights = {
        "lin.weight": ours.values.weight,
        "att_src": ours.to_source.unsqueeze(0),
        "att_dst": ours.to_target.unsqueeze(0),
        "bias": ours.bias,
    }
    return ours, theirs, weights


@pytest.mark.parametrize("make", [convolution, mean, isomorphism, attention])
def test_pyg_layers_are_ours_at_zero_variance(make):
    torch.manual_seed(0)
    ours, theirs, weights = make()
    assert set(weights) == {name for name, _ in theirs.named_parameters()}
    graph, nodes = large(), torch.arange(200)
    mine, other = G.NodeNetwork(ours, graph).double(), G.NodeNetwork(theirs, graph).double()
    wanted = mine(nodes)
    sure = {f"net.{name}": tr.Gaussian(w.detach().double(), 0.0) for name, w in weights.items()}
    z = torch.func.functional_call(other, sure, (nodes,))
    torch.testing.assert_close(z.loc, wanted.detach(), rtol=1e-12, atol=1e-12)
    assert not z.variance.any()
    same = {f"net.{n}": tr.Gaussian(p.detach(), 0.0) for n, p in ours.double().named_parameters()}
    z = torch.func.functional_call(mine, same, (nodes,))
    torch.testing.assert_close(z.loc, wanted.detach(), rtol=1e-12, atol=1e-12)


def inner():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


@pytest.mark.parametrize(
    "make",
    [
        lambda: pyg.GCNConv(4, 3),
        lambda: pyg.SAGEConv(4, 3),
        lambda: pyg.GINConv(inner(), train_eps=True),
        lambda: pyg.GATConv(4, 3),
        lambda: pyg.TransformerConv(4, 3, heads=2, concat=False),
    ],
    ids=["GCN", "SAGE", "GIN", "GAT", "Transformer"],
)
@pytest.mark.parametrize("learner", [tr.TAGI, tr.BayesByBackprop, tr.Backprop])
def test_every_learner_learns_pyg_layers(make, learner):
    """The label is the majority among the neighbors, which an untrained network cannot predict."""
    graph, nodes = large(), torch.arange(200)
    y = (graph.adjacency() @ graph.x[:, 0] + graph.x[:, 0] > 0).long()
    torch.manual_seed(0)
    options = {} if learner is tr.TAGI else {"lr": 0.03}
    model = learner(G.NodeNetwork(make(), graph), tr.likelihoods.Softmax(3), seed=0, **options)
    before = tr.metrics.nll(model.predict(nodes), y)
    model.fit(nodes, y, epochs=8, batch_size=50, distance_aware=False, progress=False)
    assert tr.metrics.nll(model.predict(nodes), y) < min(0.9 * before, 0.9)


@pytest.mark.parametrize("name", ["global_add_pool", "global_mean_pool", "global_max_pool"])
def test_pyg_pools_take_gaussians(name):
    pool, of = getattr(pyg, name), torch.tensor([0, 0, 1, 1, 1])
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=D)
    sure = pool(tr.Gaussian(x, 0.0), of)
    torch.testing.assert_close(sure.loc, pool(x, of), rtol=1e-12, atol=1e-12)
    if name != "global_max_pool":
        z = pool(tr.Gaussian(x, 0.5), of)
        counts = torch.tensor([[2.0], [3.0]], dtype=D)
        wanted = 0.5 * (counts if name == "global_add_pool" else 1 / counts)
        torch.testing.assert_close(z.variance, wanted.expand(2, 3))
