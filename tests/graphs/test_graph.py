"""Graphs: the book's cases, conversion from other libraries, and invalid graphs."""

import networkx as nx
import numpy as np
import pytest
import torch

from tests.graphs.conftest import A1, A2, matrix
from tractable.errors import InvalidInput
from tractable.graphs import Graph


@pytest.mark.parametrize(
    ("name", "text", "degrees", "edges", "triangles", "walks"),
    [
        ("first", A1, [2, 4, 3, 3, 2, 3, 3], 10, 1, (6, 321)),
        ("second", A2, [3, 3, 2, 5, 3, 2, 4], 11, 4, (3, 573)),
    ],
)
def test_degrees_triangles_and_walks(request, name, text, degrees, edges, triangles, walks):
    """GNN-01, GNN-02, GNN-03."""
    graph = request.getfixturevalue(name)
    a = graph.adjacency()
    assert torch.equal(a, matrix(text))
    assert graph.degrees.tolist() == degrees
    assert len(graph.edges) == edges
    assert float(torch.linalg.matrix_power(a, 3).trace()) / 6 == triangles
    assert tuple(int(torch.linalg.matrix_power(a, k)[0, 1]) for k in (3, 7)) == walks
    assert torch.linalg.matrix_power(a, 2).diagonal().tolist() == degrees


@pytest.mark.parametrize(("name", "nodes", "edges"), [("first", 10, 20), ("second", 11, 27)])
def test_the_edge_graph(request, name, nodes, edges):
    """GNN-08: B B^T = A + D, and the edge graph is B^T B - 2 I."""
    graph = request.getfixturevalue(name)
    b = graph.incidence()
    assert torch.equal(b @ b.T, graph.adjacency() + torch.diag(graph.degrees.float()))
    dual = graph.line_graph()
    assert (dual.n_nodes, len(dual.edges)) == (nodes, edges)
    assert torch.equal(dual.adjacency(), b.T @ b - 2 * torch.eye(nodes))


def test_edges_may_be_given_once_or_both_ways(first):
    both = torch.cat([first.edges, first.edges.flip(1)])
    features = torch.arange(20.0).unsqueeze(1)
    again = Graph(both, first.x, edge_features=features)
    assert torch.equal(again.adjacency(), first.adjacency())
    assert torch.equal(again.edges, first.edges)
    assert again.edge_features.squeeze(1).tolist() == list(range(10))


def test_a_directed_graph_passes_messages_one_way():
    graph = Graph([[0, 1], [2, 1]], n_nodes=3, directed=True)
    assert graph.adjacency().tolist() == [[0, 0, 0], [1, 0, 1], [0, 0, 0]]
    assert graph.degrees.tolist() == [0, 2, 0]


def test_networkx(second):
    given = nx.Graph()
    given.add_nodes_from((f"n{i}", {"x": [float(i), 1.0]}) for i in range(7))
    given.add_edges_from((f"n{a}", f"n{b}") for a, b in second.edges.tolist())
    graph = Graph.from_data(given)
    assert torch.equal(graph.adjacency(), second.adjacency())
    assert graph.x[:, 0].tolist() == list(range(7))
    assert Graph.from_data(nx.path_graph(3, create_using=nx.DiGraph)).directed


def test_pyg_data_without_pyg():
    class Data:
        edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        x, y, num_nodes = torch.eye(3), torch.tensor([0, 1, 0]), 3
        edge_attr = None

    graph = Graph.from_data(Data())
    assert graph.edges.tolist() == [[0, 1], [1, 2]]
    assert graph.y.tolist() == [0, 1, 0]
    assert not graph.directed
    with pytest.raises(TypeError, match="networkx graph or a PyG Data, got int"):
        Graph.from_data(3)


def test_leaving_edges_out_and_pairs_without_one(first):
    less = first.remove_edges([[1, 0], [2, 5]])
    assert len(less.edges) == 8
    assert less.adjacency()[0, 1] == less.adjacency()[5, 2] == 0
    with pytest.raises(InvalidInput, match=r"\[0, 3\], row 1, is not an edge"):
        first.remove_edges([[0, 1], [0, 3]])
    pairs = first.negative_edges(11, generator=torch.Generator().manual_seed(1))
    assert len({tuple(pair) for pair in pairs.tolist()}) == 11
    assert first.adjacency()[pairs[:, 0], pairs[:, 1]].sum() == 0
    assert torch.equal(pairs, first.negative_edges(11, generator=torch.Generator().manual_seed(1)))
    with pytest.raises(
        ValueError, match="between 1 and 11, the number of pairs without an edge; got 12"
    ):
        first.negative_edges(12)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (([[0, 3]], np.eye(3)), r"edge 0 joins \[0, 3\], but node indices are 0 to 2"),
        (([[0.0, 1.0]], np.eye(3)), "node indices must be integers, got torch.float64"),
        (([[0, 1], [1, 1], [2, 2]], np.eye(3)), r"edge 1 joins node 1 to itself \(2 such edges\)"),
        (([[0, 1], [0, 1]], np.eye(3)), r"the edge \[0, 1\] occurs twice, the second time at 1"),
        (
            ([[0, 1], [1, 0], [1, 2]], np.eye(3)),
            r"\[1, 2\] in one only: pass undirected edges once",
        ),
        (([[0, 1, 2], [1, 2, 0]], np.eye(3)), "PyG's edge_index is the transpose"),
        (([[0, 1]], [[1.0], [np.nan]]), "x has NaN or infinite values, first in row 1"),
        (([[0, 1]], np.ones(2)), r"x must have the shape \[rows, features\]"),
        (([],), "needs x, the features of its nodes, or n_nodes="),
        (([], np.zeros((0, 2))), "at least one node"),
    ],
)
def test_invalid_graphs_raise(given, said):
    with pytest.raises(InvalidInput, match=said):
        Graph(*given)


def test_rows_that_do_not_match():
    with pytest.raises(InvalidInput, match="x has 3 rows for 4 nodes"):
        Graph([], np.eye(3), n_nodes=4)
    with pytest.raises(InvalidInput, match="y has 2 rows for 3 nodes"):
        Graph([], np.eye(3), y=[0, 1])
    with pytest.raises(InvalidInput, match="edge_features has 2 rows for 1 edges"):
        Graph([[0, 1]], np.eye(3), edge_features=np.eye(2))
