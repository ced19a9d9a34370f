"""Citation graphs and molecules: parsing, and errors in the published files."""

import numpy as np
import pytest
import torch

from tractable import data


def test_a_small_citation_graph(make_folder, tmp_path):
    path = tmp_path / "cora.npz"
    np.savez(
        path,
        feature_rows=[0, 0, 1],
        feature_columns=[0, 2, 1],
        feature_values=[1.0, 1.0, 2.0],
        shape=[3, 3],
        edges=[[0, 1], [1, 2]],
        labels=[0, 1, -1],
        train=[0],
        validation=[1],
        test=[2],
    )
    make_folder({"graphs/cora.npz": path.read_bytes()})
    found = data.planetoid("cora")
    assert found.graph.x.tolist() == [[0.5, 0, 0.5], [0, 1, 0], [0, 0, 0]]
    assert found.graph.degrees.tolist() == [1, 2, 1]
    assert (found.classes, found.train.tolist(), found.y.tolist()) == (2, [0], [0, 1, -1])
    with pytest.raises(ValueError, match="name must be cora or citeseer, got 'pubmed'"):
        data.planetoid("pubmed")


@pytest.mark.parametrize(
    ("name", "nodes", "edges", "features", "classes", "train"),
    [("cora", 2708, 5278, 1433, 7, 140), ("citeseer", 3327, 4552, 3703, 6, 120)],
)
def test_the_published_graphs(real_data, name, nodes, edges, features, classes, train):
    found = data.planetoid(name)
    assert (found.graph.n_nodes, len(found.graph.edges)) == (nodes, edges)
    assert found.graph.x.shape == (nodes, features)
    assert found.classes == classes
    assert (len(found.train), len(found.validation), len(found.test)) == (train, 500, 1000)
    assert torch.bincount(found.y[found.train]).tolist() == [20] * classes


def test_the_published_molecules(real_data):
    found = data.mutag()
    assert len(found.graphs) == len(found.y) == 188
    assert torch.bincount(found.y).tolist() == [63, 125]
    assert {graph.x.shape[1] for graph in found.graphs} == {7}
    assert all(bool((graph.degrees > 0).all()) for graph in found.graphs)
    first = found.graphs[0]  # rings of carbon, and a nitro group: atoms 20 to 22
    assert first.degrees.tolist() == [
        2,
        2,
        3,
        2,
        2,
        3,
        3,
        2,
        2,
        3,
        3,
        3,
        3,
        2,
        3,
        3,
        *[2] * 4,
        3,
        1,
        1,
    ]
    assert first.x[:20, 2].sum() == 20
    tested = torch.cat(found.folds).tolist()
    assert len(tested) == len(set(tested)) == 180  # eight are in no fold
    assert 0 <= min(tested) <= max(tested) < 188
