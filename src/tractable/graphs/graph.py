"""A graph: nodes with features, edges between them, and what layers need to know of it."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from tractable.errors import InvalidInput


class Weights(NamedTuple):
    """What each message counts, and what each node's own value counts."""

    messages: Tensor
    own: Tensor | None


class Graph:
    """Nodes, edges, and features of both.

    An undirected edge is given once or in both directions, a directed one from its source to its
    target.  No edge joins a node to itself: layers say themselves how a node's own value counts.

    Args:
        edges: pairs of node numbers, ``[edges, 2]``.
        x: features of the nodes, ``[nodes, features]``.
        nodes: how many there are, where there are no features to tell.
        y: labels or values of the nodes, if there are any; -1 and NaN stand for none.
        edge_features: features of the edges as given, ``[edges, features]``.
        directed: whether messages run along edges only from source to target.

    Attributes:
        sources: node that each message comes from, ordered by target; both ways along an
            undirected edge.
        targets: node that each message goes to.
        message_edges: edge that each message runs along.

    >>> graph = Graph([[0, 1], [1, 2]], x=torch.eye(3))
    >>> graph.degrees.tolist(), graph.adjacency()[1].tolist()
    ([1, 2, 1], [1.0, 0.0, 1.0])
    """

    def __init__(
        self,
        edges: Any,
        x: Any = None,
        *,
        nodes: int | None = None,
        y: Any = None,
        edge_features: Any = None,
        directed: bool = False,
    ) -> None:
        pairs = _pairs(edges)
        self.x = None if x is None else _features(x, "x")
        if nodes is None:
            if self.x is None:
                raise InvalidInput("a graph needs x, the features of its nodes, or nodes=")
            nodes = len(self.x)
        self.nodes, self.directed = int(nodes), directed
        if self.nodes < 1:
            raise InvalidInput("a graph needs at least one node")
        if self.x is not None and len(self.x) != self.nodes:
            raise InvalidInput(f"x has {len(self.x)} rows for {self.nodes} nodes")
        _check_edges(pairs, self.nodes)
        self.edges, kept = (pairs, None) if directed else _once(pairs)
        self.y = None if y is None else torch.as_tensor(np.asarray(y))
        if self.y is not None and len(self.y) != self.nodes:
            raise InvalidInput(f"y has {len(self.y)} rows for {self.nodes} nodes")
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
        order = (two * self.nodes + one).argsort()
        self.sources, self.targets, self.message_edges = one[order], two[order], number[order]
        counts = torch.bincount(self.targets, minlength=self.nodes)
        self.offsets = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])

    def __deepcopy__(self, memo: Any) -> Self:
        """Itself: nothing changes a graph."""
        return self

    def __repr__(self) -> str:
        """Sizes."""
        width = 0 if self.x is None else self.x.shape[1]
        kind = "directed" if self.directed else "undirected"
        return f"Graph({self.nodes} nodes, {len(self.edges)} {kind} edges, {width} features)"

    @classmethod
    def of(cls, given: Any, **options: Any) -> Graph:
        """A graph from networkx or from a PyG ``Data``.

        Nodes of networkx are numbered in its order; their attribute ``x`` is taken for features, if
        all have it.  Of PyG are taken ``x``, ``edge_index``, ``y`` and ``edge_attr``.

        Args:
            given: the graph.
            options: arguments of ``Graph``, in place of what is found.
        """
        if hasattr(given, "edge_index"):
            return cls(**(_of_pyg(given) | options))
        if hasattr(given, "number_of_nodes"):
            return cls(**(_of_networkx(given) | options))
        raise TypeError(f"expected a networkx graph or a PyG Data, got {type(given).__name__}")

    # --- what it looks like ----------------------------------------------------------------

    @cached_property
    def degrees(self) -> Tensor:
        """How many messages each node gets."""
        return torch.bincount(self.targets, minlength=self.nodes)

    def adjacency(self) -> Tensor:
        """The dense matrix with a one at [target, source] of each message."""
        found = torch.zeros(self.nodes, self.nodes)
        found[self.targets, self.sources] = 1.0
        return found

    def incidence(self) -> Tensor:
        """The dense matrix [nodes, edges] with ones at the ends of each edge."""
        found = torch.zeros(self.nodes, len(self.edges))
        for end in self.edges.unbind(1):
            found[end, torch.arange(len(self.edges))] = 1.0
        return found

    def edge_graph(self) -> Graph:
        """The graph whose nodes are the edges of this one; neighbours are those that meet.

        Its features are those of the edges.  With the incidence matrix B its adjacency is
        B^T B - 2 I.
        """
        if self.directed:
            raise TypeError("the edge graph is that of an undirected graph")
        pairs = []
        for node in range(self.nodes):
            meeting = self.message_edges[self.offsets[node] : self.offsets[node + 1]]
            pairs.append(torch.combinations(meeting.sort().values, 2))
        edges = torch.cat(pairs) if pairs else torch.zeros(0, 2, dtype=torch.int64)
        return Graph(edges, self.edge_features, nodes=len(self.edges))

    def renumbered(self, order: Any) -> Graph:
        """The same graph, whose node i is node ``order[i]`` of this one."""
        order = torch.as_tensor(np.asarray(order))
        place = torch.empty_like(order)
        place[order] = torch.arange(self.nodes)
        return Graph(
            place[self.edges],
            None if self.x is None else self.x[order],
            nodes=self.nodes,
            y=None if self.y is None else self.y[order],
            edge_features=self.edge_features,
            directed=self.directed,
        )

    def without(self, pairs: Any) -> Graph:
        """The same graph without some of its edges, for instance those that are to be predicted.

        Raises:
            InvalidInput: one of them is no edge.
        """
        gone = self._keys(_pairs(pairs))
        here = self._keys(self.edges)
        missing = (~torch.isin(gone, here)).nonzero()
        if len(missing):
            at = int(missing[0])
            raise InvalidInput(f"{_pairs(pairs)[at].tolist()}, row {at}, is no edge of the graph")
        kept = ~torch.isin(here, gone)
        return Graph(
            self.edges[kept],
            self.x,
            nodes=self.nodes,
            y=self.y,
            edge_features=None if self.edge_features is None else self.edge_features[kept],
            directed=self.directed,
        )

    def strangers(self, n: int, seed: int = 0) -> Tensor:
        """``n`` different pairs of nodes without an edge, drawn evenly: ``[n, 2]``."""
        room = self.nodes * (self.nodes - 1) // (1 if self.directed else 2) - len(self.edges)
        if not 0 < n <= room:
            raise ValueError(f"there are {room} pairs without an edge, and {n} are wanted")
        generator, here = torch.Generator().manual_seed(seed), self._keys(self.edges)
        found = torch.zeros(0, 2, dtype=torch.int64)
        while len(found) < n:
            drawn = torch.randint(self.nodes, (2 * n, 2), generator=generator)
            drawn = drawn[drawn[:, 0] != drawn[:, 1]]
            drawn = drawn if self.directed else drawn.sort(1).values
            both = torch.cat([found, drawn[~torch.isin(self._keys(drawn), here)]])
            keys = self._keys(both)
            order = keys.argsort(stable=True)
            first = torch.ones(len(keys), dtype=torch.bool)
            first[order[1:]] = keys[order[1:]] != keys[order[:-1]]
            found = both[first]
        return found[:n]

    def _keys(self, pairs: Tensor) -> Tensor:
        """One number for each pair; the same both ways round, if edges are undirected."""
        pairs = pairs if self.directed else pairs.sort(1).values
        return pairs[:, 0] * self.nodes + pairs[:, 1]

    # --- what layers ask for ---------------------------------------------------------------

    def weights(self, aggregate: str, *, loop: bool) -> Weights:
        """What messages count in an average; a node without neighbours gets none.

        * ``sum``: 1 (E 13.8).
        * ``mean``: 1 / (neighbours of the target) (E 13.17).
        * ``symmetric``: 1 / root of the product of both ends' neighbours (E 13.19).

        Args:
            aggregate: one of these.
            loop: whether a node counts as one of its own neighbours (E 13.30 for the mean, the
                usual graph convolution for the symmetric one).
        """
        degree = (self.degrees + int(loop)).double().clamp_min(1)
        if aggregate == "sum":
            messages, own = (
                torch.ones(len(self.targets), dtype=torch.float64),
                torch.ones_like(degree),
            )
        elif aggregate == "mean":
            messages, own = 1 / degree[self.targets], 1 / degree
        elif aggregate == "symmetric":
            out = degree if not self.directed else _degrees(self.sources, self.nodes, loop)
            messages = (degree[self.targets] * out[self.sources]).rsqrt()
            own = (degree * out).rsqrt()
        else:
            raise ValueError(f"aggregate must be sum, mean or symmetric, got {aggregate!r}")
        return Weights(messages, own if loop else None)


def joined(graphs: list[Graph]) -> tuple[Graph, Tensor]:
    """Several graphs as one without edges between them, and which graph each node is of."""
    if not graphs:
        raise InvalidInput("there is no graph")
    starts = np.cumsum([0, *(g.nodes for g in graphs)])
    features = [g.x for g in graphs]
    edge_features = [g.edge_features for g in graphs]
    whole = Graph(
        torch.cat([g.edges + int(s) for g, s in zip(graphs, starts, strict=False)]),
        torch.cat([x for x in features if x is not None]) if features[0] is not None else None,
        nodes=int(starts[-1]),
        edge_features=(
            torch.cat([e for e in edge_features if e is not None])
            if edge_features[0] is not None
            else None
        ),
        directed=graphs[0].directed,
    )
    of = torch.arange(len(graphs)).repeat_interleave(torch.tensor([g.nodes for g in graphs]))
    return whole, of


def _degrees(ends: Tensor, nodes: int, loop: bool) -> Tensor:
    return (torch.bincount(ends, minlength=nodes) + int(loop)).double().clamp_min(1)


def _pairs(edges: Any) -> Tensor:
    pairs = torch.as_tensor(np.asarray(edges))
    if pairs.numel() == 0:
        return torch.zeros(0, 2, dtype=torch.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        hint = ": PyG's edge_index is the transpose" if pairs.shape[0] == 2 else ""
        raise InvalidInput(f"edges must have the shape [edges, 2], got {tuple(pairs.shape)}{hint}")
    if pairs.is_floating_point() or pairs.dtype == torch.bool:
        raise InvalidInput(f"node numbers are whole numbers, got {pairs.dtype}")
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


def _check_edges(pairs: Tensor, nodes: int) -> None:
    wrong = ((pairs < 0) | (pairs >= nodes)).any(1).nonzero()
    if len(wrong):
        at = int(wrong[0])
        raise InvalidInput(
            f"edge {at} joins {pairs[at].tolist()}, and nodes are numbered from 0 to {nodes - 1}"
        )
    loops = (pairs[:, 0] == pairs[:, 1]).nonzero()
    if len(loops):
        at = int(loops[0])
        raise InvalidInput(
            f"edge {at} joins node {int(pairs[at, 0])} to itself, and {len(loops)} edges do: leave "
            f"these out, layers add them where they are wanted (own='loop')"
        )
    keys = pairs[:, 0] * nodes + pairs[:, 1]
    ordered = keys.sort()
    twice = (ordered.values[1:] == ordered.values[:-1]).nonzero()
    if len(twice):
        at = int(ordered.indices[int(twice[0]) + 1])
        raise InvalidInput(f"the edge {pairs[at].tolist()} is there twice, again as edge {at}")


def _once(pairs: Tensor) -> tuple[Tensor, Tensor | None]:
    """Undirected edges once, and which of the given ones these are; given once or both ways."""
    back = _both_ways(pairs)
    if not bool(back.any()):
        return pairs, None
    if not bool(back.all()):
        at = int((~back).nonzero()[0])
        raise InvalidInput(
            f"some edges are given in both directions, and {pairs[at].tolist()} in one only: give "
            f"undirected edges once, or all both ways; or say directed=True"
        )
    kept = (pairs[:, 0] < pairs[:, 1]).nonzero().squeeze(1)
    return pairs[kept], kept


def _both_ways(pairs: Tensor) -> Tensor:
    """Whether each edge is there in the other direction as well."""
    size = int(pairs.max()) + 1 if len(pairs) else 1
    return torch.isin(pairs[:, 1] * size + pairs[:, 0], pairs[:, 0] * size + pairs[:, 1])


def _of_pyg(data: Any) -> dict[str, Any]:
    edges = data.edge_index.T.cpu()
    found: dict[str, Any] = {"edges": edges, "nodes": int(data.num_nodes)}
    for name, key in (("x", "x"), ("y", "y"), ("edge_attr", "edge_features")):
        value = getattr(data, name, None)
        if value is not None:
            found[key] = value.cpu()
    if found.get("y") is not None and len(found["y"]) != found["nodes"]:
        del found["y"]  # of the graph, not of its nodes
    found["directed"] = not bool(_both_ways(edges).all())
    return found


def _of_networkx(graph: Any) -> dict[str, Any]:
    number = {node: i for i, node in enumerate(graph.nodes)}
    edges = [[number[a], number[b]] for a, b in graph.edges()]
    features = [values.get("x") for _, values in graph.nodes(data=True)]
    known = bool(features) and all(value is not None for value in features)
    return {
        "edges": edges,
        "nodes": len(number),
        "x": np.array(features, dtype=np.float32).reshape(len(number), -1) if known else None,
        "directed": bool(graph.is_directed()),
    }
