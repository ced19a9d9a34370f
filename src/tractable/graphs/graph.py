"""Graphs: nodes with features, edges between them, and the weights of messages along the edges."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from tractable.errors import InvalidInput


class EdgeWeights(NamedTuple):
    """Weights for aggregation: of the neighbors' features and of each node's own features.

    Attributes:
        messages: weight of each message, ``[messages]``.
        self_loops: weight of each node's own features, ``[nodes]``; None if they are not used.
    """

    messages: Tensor
    self_loops: Tensor | None


class Graph:
    """A graph with features of its nodes and edges.

    An undirected edge is passed once or in both directions, a directed edge from its source to its
    target.  Self-loops are not allowed: a layer has an option for the use of a node's own features.

    Args:
        edges: pairs of node indices, ``[edges, 2]``.
        x: features of the nodes, ``[nodes, features]``.
        n_nodes: number of nodes.  Default: the number of rows of ``x``.
        y: labels or values of the nodes, -1 or NaN where they are unknown.
        edge_features: features of the edges, ``[edges, features]``.
        directed: whether messages pass along an edge from source to target only.

    Attributes:
        sources: source node of each message, ordered by target; an undirected edge has two
            messages.
        targets: target node of each message.
        message_edges: edge of each message.

    >>> graph = Graph([[0, 1], [1, 2]], x=torch.eye(3))
    >>> graph.degrees.tolist(), graph.adjacency()[1].tolist()
    ([1, 2, 1], [1.0, 0.0, 1.0])
    """

    def __init__(
        self,
        edges: Any,
        x: Any = None,
        *,
        n_nodes: int | None = None,
        y: Any = None,
        edge_features: Any = None,
        directed: bool = False,
    ) -> None:
        pairs = _pairs(edges)
        self.x = None if x is None else _features(x, "x")
        if n_nodes is None:
            if self.x is None:
                raise InvalidInput("a graph needs x, the features of its nodes, or n_nodes=")
            n_nodes = len(self.x)
        self.n_nodes, self.directed = int(n_nodes), directed
        if self.n_nodes < 1:
            raise InvalidInput("a graph needs at least one node")
        if self.x is not None and len(self.x) != self.n_nodes:
            raise InvalidInput(f"x has {len(self.x)} rows for {self.n_nodes} nodes")
        _check_edges(pairs, self.n_nodes)
        self.edges, kept = (pairs, None) if directed else _once(pairs)
        self.y = None if y is None else torch.as_tensor(np.asarray(y))
        if self.y is not None and len(self.y) != self.n_nodes:
            raise InvalidInput(f"y has {len(self.y)} rows for {self.n_nodes} nodes")
        self.edge_features = None
        if edge_features is not None:
            given = _features(edge_features, "edge_features")
            if len(given) != len(pairs):
                raise InvalidInput(f"edge_features has {len(given)} rows for {len(pairs)} edges")
            self.edge_features = given if kept is None else given[kept]
        self._route()

    def _route(self) -> None:
        one, two = self.edges.unbind(1)
        number = torch.arange(len(self.edges))
        if not self.directed:
            one, two, number = torch.cat([one, two]), torch.cat([two, one]), number.repeat(2)
        order = (two * self.n_nodes + one).argsort()
        self.sources, self.targets, self.message_edges = one[order], two[order], number[order]
        counts = torch.bincount(self.targets, minlength=self.n_nodes)
        self.offsets = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])

    def __deepcopy__(self, memo: Any) -> Self:
        """Return the graph itself, which is immutable."""
        return self

    def __repr__(self) -> str:
        """Return the numbers of nodes, edges and features."""
        width = 0 if self.x is None else self.x.shape[1]
        kind = "directed" if self.directed else "undirected"
        return f"Graph({self.n_nodes} nodes, {len(self.edges)} {kind} edges, {width} features)"

    @classmethod
    def from_data(cls, data: Any, **options: Any) -> Graph:
        """Return a graph from a networkx graph or a PyG ``Data`` object.

        Nodes of networkx are numbered in their order, and their attribute ``x`` is used as features
        if all nodes have it.  Of PyG objects, ``x``, ``edge_index``, ``y`` and ``edge_attr`` are
        used.

        Args:
            data: the graph.
            options: arguments of ``Graph``, which replace those that were found.

        Raises:
            TypeError: ``data`` is neither of the two.
        """
        if hasattr(data, "edge_index"):
            return cls(**(_from_pyg(data) | options))
        if hasattr(data, "number_of_nodes"):
            return cls(**(_from_networkx(data) | options))
        raise TypeError(f"expected a networkx graph or a PyG Data, got {type(data).__name__}")

    # --- matrices and derived graphs -------------------------------------------------------

    @cached_property
    def degrees(self) -> Tensor:
        """The number of messages to each node."""
        return torch.bincount(self.targets, minlength=self.n_nodes)

    def adjacency(self) -> Tensor:
        """Return the dense matrix with ones at [target, source] of each message."""
        found = torch.zeros(self.n_nodes, self.n_nodes)
        found[self.targets, self.sources] = 1.0
        return found

    def incidence(self) -> Tensor:
        """Return the dense matrix ``[nodes, edges]`` with ones at both ends of each edge."""
        found = torch.zeros(self.n_nodes, len(self.edges))
        for end in self.edges.unbind(1):
            found[end, torch.arange(len(self.edges))] = 1.0
        return found

    def line_graph(self) -> Graph:
        """Return the graph whose nodes are the edges of this one; edges that meet are neighbors.

        Its node features are the edge features of this graph.  With the incidence matrix B its
        adjacency matrix is B^T B - 2 I.

        Raises:
            TypeError: the graph is directed.
        """
        if self.directed:
            raise TypeError("the line graph is defined for undirected graphs only")
        pairs = []
        for node in range(self.n_nodes):
            meeting = self.message_edges[self.offsets[node] : self.offsets[node + 1]]
            pairs.append(torch.combinations(meeting.sort().values, 2))
        edges = torch.cat(pairs) if pairs else torch.zeros(0, 2, dtype=torch.int64)
        return Graph(edges, self.edge_features, n_nodes=len(self.edges))

    def permute(self, order: Any) -> Graph:
        """Return the same graph with other indices: its node i is node ``order[i]`` of this one.

        Args:
            order: a permutation of the node indices, ``[nodes]``.
        """
        order = torch.as_tensor(np.asarray(order))
        place = torch.empty_like(order)
        place[order] = torch.arange(self.n_nodes)
        return Graph(
            place[self.edges],
            None if self.x is None else self.x[order],
            n_nodes=self.n_nodes,
            y=None if self.y is None else self.y[order],
            edge_features=self.edge_features,
            directed=self.directed,
        )

    def remove_edges(self, pairs: Any) -> Graph:
        """Return the graph without some of its edges, for example those that are to be predicted.

        Args:
            pairs: edges, ``[removed, 2]``.

        Raises:
            InvalidInput: one of them is not an edge of the graph.
        """
        gone = self._keys(_pairs(pairs))
        here = self._keys(self.edges)
        missing = (~torch.isin(gone, here)).nonzero()
        if len(missing):
            at = int(missing[0])
            raise InvalidInput(
                f"{_pairs(pairs)[at].tolist()}, row {at}, is not an edge of the graph"
            )
        kept = ~torch.isin(here, gone)
        return Graph(
            self.edges[kept],
            self.x,
            n_nodes=self.n_nodes,
            y=self.y,
            edge_features=None if self.edge_features is None else self.edge_features[kept],
            directed=self.directed,
        )

    def negative_edges(self, n_samples: int, *, generator: torch.Generator | None = None) -> Tensor:
        """Return different pairs of nodes without an edge, sampled uniformly, ``[n_samples, 2]``.

        Args:
            n_samples: number of pairs.
            generator: random number generator.  Default: a new one with seed 0.

        Raises:
            ValueError: the graph has fewer such pairs.
        """
        n_pairs = self.n_nodes * (self.n_nodes - 1) // (1 if self.directed else 2)
        n_negative = n_pairs - len(self.edges)
        if not 0 < n_samples <= n_negative:
            raise ValueError(
                f"n_samples must be between 1 and {n_negative}, the number of pairs without an "
                f"edge; got {n_samples}"
            )
        generator = torch.Generator().manual_seed(0) if generator is None else generator
        here, found = self._keys(self.edges), torch.zeros(0, 2, dtype=torch.int64)
        while len(found) < n_samples:
            drawn = torch.randint(self.n_nodes, (2 * n_samples, 2), generator=generator)
            drawn = drawn[drawn[:, 0] != drawn[:, 1]]
            drawn = drawn if self.directed else drawn.sort(1).values
            both = torch.cat([found, drawn[~torch.isin(self._keys(drawn), here)]])
            keys = self._keys(both)
            order = keys.argsort(stable=True)
            first = torch.ones(len(keys), dtype=torch.bool)
            first[order[1:]] = keys[order[1:]] != keys[order[:-1]]
            found = both[first]
        return found[:n_samples]

    def _keys(self, pairs: Tensor) -> Tensor:
        """Return one number per pair; the same for both directions if edges are undirected."""
        pairs = pairs if self.directed else pairs.sort(1).values
        return pairs[:, 0] * self.n_nodes + pairs[:, 1]

    # --- weights of messages ---------------------------------------------------------------

    def weights(self, aggregate: str, *, self_loop: bool) -> EdgeWeights:
        """Return the weights of messages in an aggregation.

        * ``sum``: 1 (E 13.8).
        * ``mean``: 1 / (neighbors of the target) (E 13.17).
        * ``symmetric``: 1 / sqrt(neighbors of the source * neighbors of the target) (E 13.19).

        Args:
            aggregate: one of these.
            self_loop: whether each node counts as one of its own neighbors (E 13.30 for the mean,
                the usual graph convolution for the symmetric weights).
        """
        degree = (self.degrees + int(self_loop)).double().clamp_min(1)
        if aggregate == "sum":
            messages, own = (
                torch.ones(len(self.targets), dtype=torch.float64),
                torch.ones_like(degree),
            )
        elif aggregate == "mean":
            messages, own = 1 / degree[self.targets], 1 / degree
        elif aggregate == "symmetric":
            out = degree if not self.directed else _degrees(self.sources, self.n_nodes, self_loop)
            messages = (degree[self.targets] * out[self.sources]).rsqrt()
            own = (degree * out).rsqrt()
        else:
            raise ValueError(f"aggregate must be sum, mean or symmetric, got {aggregate!r}")
        return EdgeWeights(messages, own if self_loop else None)


def batch_graphs(graphs: list[Graph]) -> tuple[Graph, Tensor]:
    """Return the disjoint union of several graphs, and the graph index of each of its nodes.

    Raises:
        InvalidInput: ``graphs`` is empty.
    """
    if not graphs:
        raise InvalidInput("at least one graph is needed, got an empty list")
    starts = np.cumsum([0, *(g.n_nodes for g in graphs)])
    features = [g.x for g in graphs]
    edge_features = [g.edge_features for g in graphs]
    whole = Graph(
        torch.cat([g.edges + int(s) for g, s in zip(graphs, starts, strict=False)]),
        torch.cat([x for x in features if x is not None]) if features[0] is not None else None,
        n_nodes=int(starts[-1]),
        edge_features=(
            torch.cat([e for e in edge_features if e is not None])
            if edge_features[0] is not None
            else None
        ),
        directed=graphs[0].directed,
    )
    of = torch.arange(len(graphs)).repeat_interleave(torch.tensor([g.n_nodes for g in graphs]))
    return whole, of


def _degrees(ends: Tensor, n_nodes: int, self_loop: bool) -> Tensor:
    return (torch.bincount(ends, minlength=n_nodes) + int(self_loop)).double().clamp_min(1)


def _pairs(edges: Any) -> Tensor:
    pairs = torch.as_tensor(np.asarray(edges))
    if pairs.numel() == 0:
        return torch.zeros(0, 2, dtype=torch.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        hint = ": PyG's edge_index is the transpose" if pairs.shape[0] == 2 else ""
        raise InvalidInput(f"edges must have the shape [edges, 2], got {tuple(pairs.shape)}{hint}")
    if pairs.is_floating_point() or pairs.dtype == torch.bool:
        raise InvalidInput(f"node indices must be integers, got {pairs.dtype}")
    return pairs.long()


def _features(given: Any, name: str) -> Tensor:
    found = torch.as_tensor(np.asarray(given)) if not isinstance(given, Tensor) else given.detach()
    if found.ndim != 2:
        raise InvalidInput(f"{name} must have the shape [rows, features], got {tuple(found.shape)}")
    found = found.to(torch.float64 if found.dtype == torch.float64 else torch.float32)
    if not bool(torch.isfinite(found).all()):
        row = int((~torch.isfinite(found)).any(1).nonzero()[0])
        raise InvalidInput(f"{name} has NaN or infinite values, first in row {row}")
    return found


def _check_edges(pairs: Tensor, n_nodes: int) -> None:
    wrong = ((pairs < 0) | (pairs >= n_nodes)).any(1).nonzero()
    if len(wrong):
        at = int(wrong[0])
        raise InvalidInput(
            f"edge {at} joins {pairs[at].tolist()}, but node indices are 0 to {n_nodes - 1}"
        )
    loops = (pairs[:, 0] == pairs[:, 1]).nonzero()
    if len(loops):
        at = int(loops[0])
        raise InvalidInput(
            f"edge {at} joins node {int(pairs[at, 0])} to itself ({len(loops)} such edges): remove "
            f"self-loops; layers add them with self_features='loop'"
        )
    keys = pairs[:, 0] * n_nodes + pairs[:, 1]
    ordered = keys.sort()
    twice = (ordered.values[1:] == ordered.values[:-1]).nonzero()
    if len(twice):
        at = int(ordered.indices[int(twice[0]) + 1])
        raise InvalidInput(f"the edge {pairs[at].tolist()} occurs twice, the second time at {at}")


def _once(pairs: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return undirected edges once, and which of the given ones are kept (None if all are)."""
    back = _has_reverse(pairs)
    if not bool(back.any()):
        return pairs, None
    if not bool(back.all()):
        at = int((~back).nonzero()[0])
        raise InvalidInput(
            f"some edges are passed in both directions, but {pairs[at].tolist()} in one only: pass "
            f"undirected edges once, or all in both directions; or pass directed=True"
        )
    kept = (pairs[:, 0] < pairs[:, 1]).nonzero().squeeze(1)
    return pairs[kept], kept


def _has_reverse(pairs: Tensor) -> Tensor:
    """Return whether each edge is also present in the opposite direction."""
    size = int(pairs.max()) + 1 if len(pairs) else 1
    return torch.isin(pairs[:, 1] * size + pairs[:, 0], pairs[:, 0] * size + pairs[:, 1])


def _from_pyg(data: Any) -> dict[str, Any]:
    edges = data.edge_index.T.cpu()
    found: dict[str, Any] = {"edges": edges, "n_nodes": int(data.num_nodes)}
    for name, key in (("x", "x"), ("y", "y"), ("edge_attr", "edge_features")):
        value = getattr(data, name, None)
        if value is not None:
            found[key] = value.cpu()
    if found.get("y") is not None and len(found["y"]) != found["n_nodes"]:
        del found["y"]  # a label of the graph, not of its nodes
    found["directed"] = not bool(_has_reverse(edges).all())
    return found


def _from_networkx(graph: Any) -> dict[str, Any]:
    number = {node: i for i, node in enumerate(graph.nodes)}
    edges = [[number[a], number[b]] for a, b in graph.edges()]
    features = [values.get("x") for _, values in graph.nodes(data=True)]
    known = bool(features) and all(value is not None for value in features)
    return {
        "edges": edges,
        "n_nodes": len(number),
        "x": np.array(features, dtype=np.float32).reshape(len(number), -1) if known else None,
        "directed": bool(graph.is_directed()),
    }
