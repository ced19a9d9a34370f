"""Layers against their dense formulas, Monte Carlo over the weights, and the book's numbers."""

import pytest
import torch
from torch import nn

import tractable as tr
from tests.graphs.conftest import A1, A2, graph_of, matrix
from tractable import graphs as G
from tractable.gaussian import Gaussian
from tractable.graphs.layers import edge_softmax
from tractable.graphs.neighborhood import Neighborhood, NodeFeatures

D = torch.float64


def everything(graph, hops=0, dtype=D):
    """A neighborhood of all nodes, in their order."""
    features = NodeFeatures(graph, dtype, torch.device("cpu"))
    return Neighborhood(graph, torch.arange(graph.n_nodes), hops, features)


def plain(layer):
    """The same layer with the identity for its weights."""
    layer = layer.double()
    with torch.no_grad():
        layer.linear.weight.copy_(torch.eye(*layer.linear.weight.shape))
        if layer.linear.bias is not None:
            layer.linear.bias.zero_()
    return layer


ROOT = [1.931851653, 5.00807169, 4.741581624, 4.910683603, 3.564844814, 2.910683603, 4.374574786]
BOOK = [
    ({"aggregate": "sum", "self_features": "loop"}, [6, 18, 17, 19, 14, 15, 19]),
    ({"aggregate": "sum", "self_features": "add"}, [6, 18, 17, 19, 14, 15, 19]),
    ({"aggregate": "mean", "self_features": "none"}, [2.5, 4, 14 / 3, 5, 4.5, 3, 4]),
    ({"aggregate": "symmetric", "self_features": "none"}, ROOT),
    ({"aggregate": "max", "self_features": "none"}, [3, 6, 7, 7, 7, 4, 5]),
    ({"aggregate": "mean", "self_features": "loop"}, [2, 3.6, 4.25, 4.75, 14 / 3, 3.75, 4.75]),
    (
        {"aggregate": "sum", "self_features": "epsilon", "epsilon": 0.5},
        [6.5, 19, 18.5, 21, 16.5, 18, 22.5],
    ),
]


@pytest.mark.parametrize(("options", "wanted"), BOOK, ids=lambda v: str(v)[:40])
def test_the_books_numbers(first, options, wanted):
    """GNN-04: H = (1, ..., 7) on the first graph."""
    neighborhood = everything(first)
    layer = plain(G.GraphConv(1, 1, **options))
    for x in (
        neighborhood.x,
        neighborhood.x.clone(),
    ):  # the features themselves, and values that equal them
        assert layer(x, neighborhood).squeeze(1).tolist() == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("self_features", ["loop", "add", "epsilon", "separate", "concat", "none"])
@pytest.mark.parametrize("aggregate", ["symmetric", "mean", "sum"])
@pytest.mark.parametrize("text", [A1, A2])
def test_layers_are_their_dense_formulas(text, aggregate, self_features):
    a = matrix(text).double()
    a[3] = a[:, 3] = 0  # a node without neighbors
    x = torch.randn(7, 3, generator=torch.Generator().manual_seed(0), dtype=D)
    graph = G.Graph(a.triu().nonzero(), x)
    neighborhood = everything(graph)
    layer = G.GraphConv(
        3, 2, aggregate=aggregate, self_features=self_features, epsilon=0.3
    ).double()
    eye = torch.eye(7, dtype=D)
    b = a + eye if self_features == "loop" else a
    degree = b.sum(1).clamp_min(1)
    if aggregate == "mean":
        b = b / degree[:, None]
    elif aggregate == "symmetric":
        b = b / (degree[:, None] * degree[None]).sqrt()
    b = b + {"add": 1.0, "epsilon": 1.3}.get(self_features, 0.0) * eye
    h = b @ x
    h = torch.cat([h, x], 1) if self_features == "separate" else h
    wanted = layer.linear(h)
    wanted = torch.cat([wanted, x], 1) if self_features == "concat" else wanted
    for value in (neighborhood.x, x.clone()):
        assert torch.allclose(layer(value, neighborhood), wanted, atol=1e-7)


def test_separate_weights_are_the_block_form(first):
    """GNN-11: Omega H A + Psi H = [Omega Psi] [H A; H]."""
    neighborhood = everything(first)
    both = G.GraphConv(1, 2, aggregate="sum", self_features="separate").double()
    omega, psi = (nn.Linear(1, 2).double() for _ in range(2))
    with torch.no_grad():
        both.linear.weight.copy_(torch.cat([omega.weight, psi.weight], 1))
        both.linear.bias.copy_(omega.bias + psi.bias)
    a, x = first.adjacency().double(), first.x.double()
    assert torch.allclose(both(neighborhood.x, neighborhood), omega(a @ x) + psi(x))


@pytest.mark.parametrize(
    "make",
    [
        lambda: G.GraphConv(2, 3, self_features="separate", aggregate="sum"),
        lambda: G.GraphConv(2, 3, self_features="concat"),
        lambda: G.GraphConv(2, 3, aggregate="max"),
        lambda: G.GraphAttention(2, 3, n_heads=2),
        lambda: G.GraphAttention(2, 3, scoring="dot", concat=False),
    ],
)
def test_a_layer_does_not_depend_on_the_order_of_nodes(make):
    """GNN-05: Layer(H, A) P = Layer(H P, P^T A P)."""
    generator = torch.Generator().manual_seed(1)
    graph = graph_of(A1, x=torch.randn(7, 2, generator=generator, dtype=D))
    order = torch.randperm(7, generator=generator)
    layer, other = make().double(), graph.permute(order)
    here, there = everything(graph), everything(other)
    assert torch.allclose(layer(here.x, here)[order], layer(there.x, there))


@pytest.mark.parametrize("pool", ["sum", "mean", "max"])
def test_a_graph_output_does_not_depend_on_the_order_of_nodes(pool):
    """GNN-07."""
    graph = graph_of(A2, x=torch.randn(7, 2, generator=torch.Generator().manual_seed(2)))
    order = torch.randperm(7, generator=torch.Generator().manual_seed(3))
    net = G.GraphNetwork(
        nn.Sequential(G.GraphConv(2, 4), nn.ReLU(), G.GraphConv(4, 3)),
        [graph, graph.permute(order)],
        pool=pool,
        head=nn.Linear(3, 1),
    )
    one, two = net(torch.tensor([0, 1])).tolist()
    assert one == pytest.approx(two, abs=1e-5)


def test_attention_is_the_masked_softmax(first):
    """E 13.22 to 13.24, with dense matrices."""
    x = torch.randn(7, 2, generator=torch.Generator().manual_seed(0), dtype=D)
    graph = graph_of(A1, x=x)
    neighborhood, layer = everything(graph), G.GraphAttention(2, 3).double()
    h = x @ layer.values.weight.T
    scores = (h @ layer.to_target[0])[:, None] + (h @ layer.to_source[0])[None]
    scores = nn.functional.leaky_relu(scores, 0.2)
    mask = graph.adjacency().double() + torch.eye(7, dtype=D)
    share = torch.softmax(scores.masked_fill(mask == 0, -torch.inf), 1)
    assert torch.allclose(layer(neighborhood.x, neighborhood), share @ h + layer.bias)


def test_attention_drops_neighbors_in_training_with_unchanged_mean(first):
    x = torch.randn(7, 2, generator=torch.Generator().manual_seed(0), dtype=D)
    graph = graph_of(A1, x=x)
    neighborhood, layer = everything(graph), G.GraphAttention(2, 3, n_heads=2, dropout=0.5).double()
    sure = layer.eval()(neighborhood.x, neighborhood).detach()
    layer.train()
    torch.manual_seed(0)
    drawn = torch.stack([layer(neighborhood.x, neighborhood).detach() for _ in range(4000)])
    error = drawn.std(0) / len(drawn) ** 0.5
    assert float(error.min()) > 0
    assert bool(((drawn.mean(0) - sure).abs() < 5 * error).all())


def test_edge_features_are_put_together_like_messages(first):
    """B 13.14: the features of the edges that meet in a node, through separate weights."""
    features = torch.randn(10, 2, generator=torch.Generator().manual_seed(0), dtype=D)
    graph = graph_of(A1, edge_features=features)
    neighborhood = everything(graph)
    layer = G.GraphConv(1, 3, aggregate="sum", self_features="loop", n_edge_features=2).double()
    a, x = graph.adjacency().double(), graph.x.double()
    h = torch.cat([(a + torch.eye(7, dtype=D)) @ x, graph.incidence().double() @ features], 1)
    assert torch.allclose(layer(neighborhood.x, neighborhood), layer.linear(h))


# --- moments -----------------------------------------------------------------------------------


def moments(graph, net, rows, draws=20_000):
    """Mean and variance of the outputs: in closed form, and by drawing all weights."""
    model = tr.TAGI(G.NodeNetwork(net, graph), tr.likelihoods.Normal(0.1), seed=0, dtype=D)
    mean, variance = model.outputs(rows).moments()
    drawn = model.sample(rows, draws, generator=torch.Generator().manual_seed(0))
    return mean, variance, drawn.mean(0), drawn.var(0)


def random_graph(seed=0, draw=torch.randn):
    generator = torch.Generator().manual_seed(seed)
    near = torch.rand(30, 30, generator=generator).triu(1) > 0.85
    return G.Graph(near.nonzero(), draw(30, 5, generator=generator, dtype=D))


@pytest.mark.parametrize("self_features", ["loop", "separate"])
def test_the_variance_of_a_layer_that_aggregates_first_is_exact(self_features):
    graph, rows = random_graph(), torch.arange(30)
    net = G.GraphConv(5, 4, aggregate="sum", self_features=self_features)
    mean, variance, drawn_mean, drawn = moments(graph, net, rows)
    error = (drawn / 20_000).sqrt()
    assert bool(((mean - drawn_mean).abs() < 5 * error).all())
    assert bool(((variance / drawn - 1).abs() < 5 * (2 / 20_000) ** 0.5).all())


def test_transforming_first_underestimates_the_variance():
    """A (X W) with independent entries of X W, where neighbors are alike: what is avoided here."""
    graph, rows = random_graph(draw=torch.rand), torch.arange(30)

    class After(G.GraphLayer):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(5, 4)

        def forward(self, x, neighborhood):
            return G.aggregate_neighbors(self.linear(x), neighborhood, "sum", self_loop=True)

    _, variance, _, drawn = moments(graph, After(), rows)
    ratio = variance / drawn
    assert float(ratio.mean()) < 0.9
    assert float(ratio.amin()) < 0.6


def test_two_layers_keep_most_of_the_variance():
    graph, rows = random_graph(), torch.arange(30)
    net = nn.Sequential(G.GraphConv(5, 16), nn.ReLU(), G.GraphConv(16, 3))
    _, variance, _, drawn = moments(graph, net, rows, 4_000)
    assert 0.6 < float((variance / drawn).mean()) < 1.1


def test_edge_softmax_is_a_softmax_and_its_message_the_transpose():
    generator = torch.Generator().manual_seed(0)
    mean = torch.randn(6, 2, generator=generator, dtype=D, requires_grad=True)
    spread = 0.01 * torch.rand(6, 2, generator=generator, dtype=D)
    spread.requires_grad_()
    targets = torch.tensor([0, 0, 0, 1, 1, 1])
    z = edge_softmax(Gaussian.wrap(mean, spread), targets, 2)
    whole = torch.softmax(mean.reshape(2, 3, 2), 1).reshape(6, 2)
    assert torch.allclose(z.loc, whole)
    jacobian = torch.autograd.functional.jacobian(
        lambda m: torch.softmax(m.reshape(2, 3, 2), 1).reshape(6, 2), mean
    ).reshape(12, 12)
    wanted = jacobian.square() @ spread.detach().flatten()
    assert torch.allclose(z.variance.flatten(), wanted)
    d = torch.randn(6, 2, generator=generator, dtype=D)
    (message,) = torch.autograd.grad(z.variance, spread, d)
    assert torch.allclose(message.flatten(), jacobian.square().T @ d.flatten())


def test_every_layer_runs_under_every_learner(first):
    y = torch.tensor([0, 1, 0, 1, 0, 1, 0])
    for layer in (
        G.GraphConv(1, 4),
        G.GraphConv(1, 4, aggregate="max", self_features="separate"),
        G.GraphAttention(1, 2, n_heads=2),
        G.GraphAttention(1, 4, scoring="dot"),
    ):
        net = G.NodeNetwork(nn.Sequential(layer, nn.ReLU(), G.GraphConv(4, 1)), first)
        for learner in (tr.TAGI, tr.BayesByBackprop, tr.Backprop):
            model = learner(net, tr.likelihoods.Bernoulli("logit"), seed=0)
            before = model.predict(torch.arange(7)).probs
            p = model.fit(torch.arange(7), y, epochs=3, batch_size=4).predict(torch.arange(7))
            assert bool(torch.isfinite(p.probs).all())
            assert not torch.equal(p.probs, before)
