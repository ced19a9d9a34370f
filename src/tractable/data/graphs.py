"""Graphs: citations between scientific papers (Cora, Citeseer), and molecules (MUTAG).

References: Z. Yang, W. Cohen and R. Salakhutdinov, "Revisiting semi-supervised learning with graph
embeddings" (2016), Cora and Citeseer with the public split; A. Debnath et al., "Structure-activity
relationship of mutagenic aromatic and heteroaromatic nitro compounds" (1991), MUTAG, with the folds
of K. Xu et al., "How powerful are graph neural networks?" (2019).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from tractable.data.download import locate
from tractable.graphs.graph import Graph

__all__ = ["CitationData", "MoleculeData", "mutag", "planetoid"]


@dataclass(frozen=True, eq=False)
class CitationData:
    """A citation graph and the subjects of its papers.

    Attributes:
        name: name of the data set.
        graph: papers and citations; features are word counts, divided by their sum.
        y: subject of each paper, -1 if it is unknown, ``[nodes]``.
        classes: number of subjects.
        train: nodes of the training set, 20 of each subject.
        validation: nodes of the validation set, 500.
        test: nodes of the test set, 1,000.
    """

    name: str
    graph: Graph
    y: Tensor = field(repr=False)
    classes: int
    train: Tensor = field(repr=False)
    validation: Tensor = field(repr=False)
    test: Tensor = field(repr=False)


@dataclass(frozen=True, eq=False)
class MoleculeData:
    """Molecules, and whether they are mutagenic.

    Attributes:
        graphs: molecules; features are the kinds of atoms, one-hot.
        y: 0 or 1, ``[molecules]``.
        folds: numbers of the molecules of the test set of each of ten folds.
    """

    graphs: list[Graph] = field(repr=False)
    y: Tensor = field(repr=False)
    folds: list[Tensor] = field(repr=False)


def planetoid(name: Literal["cora", "citeseer"]) -> CitationData:
    """Return Cora (2,708 papers, 7 subjects) or Citeseer (3,327 papers, 6 subjects).

    Args:
        name: ``"cora"`` or ``"citeseer"``.
    """
    if name not in ("cora", "citeseer"):
        raise ValueError(f"name must be cora or citeseer, got {name!r}")
    with np.load(locate(f"graphs/{name}.npz"), allow_pickle=False) as held:
        parts = {key: held[key] for key in held.files}
    x = torch.zeros(*parts["shape"].tolist())
    at = (torch.from_numpy(parts[f"feature_{key}"].astype(np.int64)) for key in ("rows", "columns"))
    x[tuple(at)] = torch.from_numpy(parts["feature_values"].astype(np.float32))
    x = x / x.sum(1, keepdim=True).clamp_min(1e-12)
    y = torch.from_numpy(parts["labels"].astype(np.int64))
    rows = {key: torch.from_numpy(parts[key].astype(np.int64)) for key in _SPLIT}
    graph = Graph(parts["edges"].astype(np.int64), x, y=y)
    return CitationData(name, graph, y, int(y.max()) + 1, **rows)


_SPLIT = ("train", "validation", "test")


_DAMAGED = 9
"""Number of lines of the first molecule that are wrong in the published file: they begin with the
number of the atom and lack the last neighbor, which the lines of the neighbors contain."""


def mutag() -> MoleculeData:
    """Return MUTAG: 188 molecules with seven kinds of atoms."""
    with locate("graphs/mutag/MUTAG.txt").open() as stream:
        lines = [list(map(int, line.split())) for line in stream]
    for row in range(2, 2 + _DAMAGED):
        _, kind, _, neighbor = lines[row]
        lines[row] = [kind, 1, neighbor]
    found, at = [], 1
    for _ in range(lines[0][0]):
        nodes, label = lines[at]
        found.append((lines[at + 1 : at + 1 + nodes], label))
        at += 1 + nodes
    kinds = 1 + max(line[0] for atoms, _ in found for line in atoms)
    graphs = []
    for atoms, _ in found:
        x = torch.nn.functional.one_hot(torch.tensor([line[0] for line in atoms]), kinds).float()
        bonds = {(min(i, j), max(i, j)) for i, line in enumerate(atoms) for j in line[2:]}
        graphs.append(Graph(sorted(bonds), x))
    folds = []
    for fold in range(1, 11):
        with locate(f"graphs/mutag/test_idx-{fold}.txt").open() as stream:
            folds.append(torch.tensor([int(line) for line in stream]))
    return MoleculeData(graphs, torch.tensor([label // 2 for _, label in found]), folds)
