"""What a batch of nodes can see: their neighbourhood, ordered so that layers narrow it down.

After K layers a node depends on nodes up to K steps away, so a batch needs no others.  The nodes of
a view stand in the order of their distance from the batch: the first ``sizes[0]`` are the batch,
the first ``sizes[1]`` lie within one step, and so on.  A layer that gets the values of the first
``sizes[k]`` gives those of the first ``sizes[k - 1]``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from tractable.errors import InvalidInput
from tractable.graphs.graph import Graph, Weights


@dataclass(frozen=True)
class Messages:
    """Messages into the first rows of a view.

    Attributes:
        rows: how many nodes get messages.
        sources: row that each comes from.
        targets: row that each goes to.
        numbers: which messages of the graph these are.
    """

    rows: int
    sources: Tensor
    targets: Tensor
    numbers: Tensor


class Features:
    """Features of all nodes, and what neighbours say of them: constants, computed once.

    Args:
        graph: the graph.
        dtype: precision that the network computes in.
        device: where it computes.
    """

    def __init__(self, graph: Graph, dtype: torch.dtype, device: torch.device) -> None:
        self.graph, self.dtype, self.device = graph, dtype, device
        self._heard: dict[tuple[str, bool], Tensor] = {}

    @cached_property
    def x(self) -> Tensor:
        """The features."""
        if self.graph.x is None:
            raise InvalidInput("the graph has no features of nodes: give x")
        return self.graph.x.to(self.device, self.dtype)

    def heard(self, kind: str, loop: bool) -> Tensor:
        """The sum, mean or symmetric average over the neighbours of each node."""
        if (kind, loop) not in self._heard:
            graph, x = self.graph, self.x
            weights = graph.weights(kind, loop=loop)
            matrix = torch.sparse_coo_tensor(
                torch.stack([graph.targets, graph.sources]).to(self.device),
                weights.messages.to(self.device, x.dtype),
                (graph.nodes, graph.nodes),
                check_invariants=False,
            )
            found = torch.sparse.mm(matrix, x)
            if weights.own is not None:
                found = found + weights.own.to(self.device, x.dtype).unsqueeze(1) * x
            self._heard[kind, loop] = found
        return self._heard[kind, loop]


class View:
    """The neighbourhood of some nodes of a graph.

    Args:
        graph: the graph.
        batch: node numbers, each once.
        hops: steps away that are seen.
        features: features of all nodes, as the network computes.
    """

    def __init__(self, graph: Graph, batch: Tensor, hops: int, features: Features) -> None:
        self.graph, self.features, self.device = graph, features, features.device
        place = torch.full((graph.nodes,), -1, dtype=torch.int64)
        place[batch] = torch.arange(len(batch))
        order, sizes, edge = [batch], [len(batch)], batch
        for _ in range(hops):
            edge = torch.unique(graph.sources[_incoming(graph, edge)])
            edge = edge[place[edge] < 0]
            place[edge] = sizes[-1] + torch.arange(len(edge))
            order.append(edge)
            sizes.append(sizes[-1] + len(edge))
        self.nodes, self.sizes = torch.cat(order), sizes
        self._sorted, self._order = self.nodes.sort()
        self._messages: dict[int, Messages] = {}
        self._weights: dict[tuple[int, str, bool, torch.dtype], Weights] = {}

    @cached_property
    def x(self) -> Tensor:
        """Features of its nodes."""
        return self.features.x[self.nodes.to(self.device)]

    @property
    def kept_numbers(self) -> int:
        """How many numbers this view holds in memory, features and messages included."""
        tensors = [self.nodes, self._sorted, self._order]
        if "x" in self.__dict__:
            tensors.append(self.x)
        for passed in self._messages.values():
            tensors += [passed.sources, passed.targets, passed.numbers]
        for weights in self._weights.values():
            tensors += [part for part in weights if part is not None]
        return sum(tensor.numel() for tensor in tensors)

    def _rows_of(self, nodes: Tensor) -> Tensor:
        """The row of each node; -1 where it is not seen.

        By bisection, because a table of all nodes of the graph for each view took more memory
        than all else.
        """
        at = torch.searchsorted(self._sorted, nodes).clamp_max(len(self._sorted) - 1)
        return torch.where(self._sorted[at] == nodes, self._order[at], -1)

    def of_features(self, kind: str, *, loop: bool) -> Tensor | None:
        """What neighbours say of their features, computed once for the whole graph.

        None where that does not serve: for the largest.
        """
        if kind == "max":
            return None
        rows = self.nodes[: self.sizes[max(len(self.sizes) - 2, 0)]]
        return self.features.heard(kind, loop)[rows.to(self.device)]

    def messages(self, given: int) -> Messages:
        """The messages that a layer passes which gets so many rows."""
        if given not in self._messages:
            levels = [k for k, size in enumerate(self.sizes) if size == given]
            if not levels:
                raise InvalidInput(
                    f"a layer of the graph got {given} rows, and there are {self.sizes} nodes "
                    f"within 0, 1, ... steps: rows must stay in their order"
                )
            rows = self.sizes[max(levels[-1] - 1, 0)]
            numbers = _incoming(self.graph, self.nodes[:rows])
            sources = self._rows_of(self.graph.sources[numbers])
            if bool(((sources < 0) | (sources >= given)).any()):
                raise InvalidInput(
                    f"the network has more layers of the graph than the {len(self.sizes) - 1} "
                    f"steps that are seen: say hops="
                )
            targets = self._rows_of(self.graph.targets[numbers])
            here = self.device
            self._messages[given] = Messages(rows, sources.to(here), targets.to(here), numbers)
        return self._messages[given]

    def weights(self, given: int, aggregate: str, *, loop: bool, dtype: torch.dtype) -> Weights:
        """What these messages count, and the own values of the nodes that get them."""
        key = (given, aggregate, loop, dtype)
        if key not in self._weights:
            found, passed = self.graph.weights(aggregate, loop=loop), self.messages(given)
            own = None if found.own is None else found.own[self.nodes[: passed.rows]]
            parts = (found.messages[passed.numbers], own)
            moved = (None if part is None else part.to(self.device, dtype) for part in parts)
            self._weights[key] = Weights(*moved)  # type: ignore[arg-type]
        return self._weights[key]

    def edge_index(self, given: int) -> Tensor:
        """All messages among the first rows, as PyG has them: sources above targets."""
        numbers = _incoming(self.graph, self.nodes[:given])
        sources = self._rows_of(self.graph.sources[numbers])
        inside = (sources >= 0) & (sources < given)
        targets = self._rows_of(self.graph.targets[numbers])
        return torch.stack([sources[inside], targets[inside]]).to(self.device)

    def edge_features(self, passed: Messages, dtype: torch.dtype) -> Tensor:
        """Features of the edges that messages run along."""
        if self.graph.edge_features is None:
            raise InvalidInput("the layer takes features of edges, and the graph has none")
        found = self.graph.edge_features[self.graph.message_edges[passed.numbers]]
        return found.to(self.device, dtype)


def _incoming(graph: Graph, nodes: Tensor) -> Tensor:
    """Numbers of all messages into some nodes."""
    start, count = graph.offsets[nodes], graph.degrees[nodes]
    first = (count.cumsum(0) - count).repeat_interleave(count)
    within = torch.arange(int(count.sum())) - first
    return start.repeat_interleave(count) + within
