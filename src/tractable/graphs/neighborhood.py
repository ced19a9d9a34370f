"""The part of a graph that the outputs for a batch of nodes depend on.

After K layers the output at a node depends on nodes at most K edges away, so a batch needs no
others.  The nodes of a neighborhood are ordered by their distance from the batch: the first
``sizes[0]`` are the batch, the first ``sizes[1]`` are within one edge, and so on.  A layer that
receives features of the first ``sizes[k]`` nodes returns those of the first ``sizes[k - 1]``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from tractable.errors import InvalidInput
from tractable.graphs.graph import EdgeWeights, Graph


@dataclass(frozen=True)
class MessageIndex:
    """Sources and targets of the messages to the first nodes of a neighborhood.

    Attributes:
        n_targets: number of nodes that receive messages.
        sources: position in the neighborhood of the source of each message.
        targets: position in the neighborhood of the target of each message.
        numbers: number of each message in the graph.
    """

    n_targets: int
    sources: Tensor
    targets: Tensor
    numbers: Tensor


class NodeFeatures:
    """The features of all nodes and their aggregates over neighbors, which are computed once.

    Args:
        graph: the graph.
        dtype: dtype of the network.
        device: device of the network.
    """

    def __init__(self, graph: Graph, dtype: torch.dtype, device: torch.device) -> None:
        self.graph, self.dtype, self.device = graph, dtype, device
        self._aggregates: dict[tuple[str, bool], Tensor] = {}

    @cached_property
    def x(self) -> Tensor:
        """The features, ``[nodes, features]``."""
        if self.graph.x is None:
            raise InvalidInput("the graph has no node features: pass x to Graph")
        return self.graph.x.to(self.device, self.dtype)

    def aggregated(self, kind: str, self_loop: bool) -> Tensor:
        """Return the sum, mean or symmetric average over the neighbors of each node.

        Args:
            kind: ``sum``, ``mean`` or ``symmetric``.
            self_loop: whether each node counts as one of its own neighbors.
        """
        if (kind, self_loop) not in self._aggregates:
            graph, x = self.graph, self.x
            weights = graph.weights(kind, self_loop=self_loop)
            matrix = torch.sparse_coo_tensor(
                torch.stack([graph.targets, graph.sources]).to(self.device),
                weights.messages.to(self.device, x.dtype),
                (graph.n_nodes, graph.n_nodes),
                check_invariants=False,
            )
            found = torch.sparse.mm(matrix, x)
            if weights.self_loops is not None:
                found = found + weights.self_loops.to(self.device, x.dtype).unsqueeze(1) * x
            self._aggregates[kind, self_loop] = found
        return self._aggregates[kind, self_loop]


class Neighborhood:
    """The nodes within a number of edges of a batch of nodes, and the messages between them.

    Args:
        graph: the graph.
        batch: distinct node indices, ``[batch]``.
        n_hops: number of edges.
        features: features of all nodes.

    Attributes:
        nodes: node indices, ordered by distance from the batch.
        sizes: number of nodes within 0, 1, ... edges of the batch.
    """

    def __init__(self, graph: Graph, batch: Tensor, n_hops: int, features: NodeFeatures) -> None:
        self.graph, self.features, self.device = graph, features, features.device
        place = torch.full((graph.n_nodes,), -1, dtype=torch.int64)
        place[batch] = torch.arange(len(batch))
        order, sizes, frontier = [batch], [len(batch)], batch
        for _ in range(n_hops):
            frontier = torch.unique(graph.sources[_incoming(graph, frontier)])
            frontier = frontier[place[frontier] < 0]
            place[frontier] = sizes[-1] + torch.arange(len(frontier))
            order.append(frontier)
            sizes.append(sizes[-1] + len(frontier))
        self.nodes, self.sizes = torch.cat(order), sizes
        self._sorted, self._order = self.nodes.sort()
        self._messages: dict[int, MessageIndex] = {}
        self._weights: dict[tuple[int, str, bool, torch.dtype], EdgeWeights] = {}

    @cached_property
    def x(self) -> Tensor:
        """The features of the nodes, ``[nodes, features]``."""
        return self.features.x[self.nodes.to(self.device)]

    @property
    def n_stored_values(self) -> int:
        """The number of values in memory, features and messages included."""
        tensors = [self.nodes, self._sorted, self._order]
        if "x" in self.__dict__:
            tensors.append(self.x)
        for index in self._messages.values():
            tensors += [index.sources, index.targets, index.numbers]
        for weights in self._weights.values():
            tensors += [part for part in weights if part is not None]
        return sum(tensor.numel() for tensor in tensors)

    def _positions(self, nodes: Tensor) -> Tensor:
        """Return the position of each node in the neighborhood; -1 if it is not contained.

        By bisection, because a table of all nodes of the graph for each neighborhood took more
        memory than everything else.
        """
        at = torch.searchsorted(self._sorted, nodes).clamp_max(len(self._sorted) - 1)
        return torch.where(self._sorted[at] == nodes, self._order[at], -1)

    def aggregated_features(self, kind: str, *, self_loop: bool) -> Tensor | None:
        """Return the aggregated node features, which are computed once for the whole graph.

        Args:
            kind: one of ``tractable.graphs.layers.AGGREGATIONS``.
            self_loop: whether each node counts as one of its own neighbors.

        Returns:
            ``[target nodes, features]``, or None for ``max``, which is not cached.
        """
        if kind == "max":
            return None
        targets = self.nodes[: self.sizes[max(len(self.sizes) - 2, 0)]]
        return self.features.aggregated(kind, self_loop)[targets.to(self.device)]

    def messages(self, n_nodes: int) -> MessageIndex:
        """Return the messages that a layer passes which receives features of ``n_nodes`` nodes.

        Raises:
            InvalidInput: the number of rows or of layers does not match the neighborhood.
        """
        if n_nodes not in self._messages:
            levels = [k for k, size in enumerate(self.sizes) if size == n_nodes]
            if not levels:
                raise InvalidInput(
                    f"a graph layer received {n_nodes} rows, but there are {self.sizes} nodes "
                    f"within 0, 1, ... edges of the batch: a module before it must keep the "
                    f"number and the order of the rows"
                )
            n_targets = self.sizes[max(levels[-1] - 1, 0)]
            numbers = _incoming(self.graph, self.nodes[:n_targets])
            sources = self._positions(self.graph.sources[numbers])
            if bool(((sources < 0) | (sources >= n_nodes)).any()):
                raise InvalidInput(
                    f"the network has more graph layers than the {len(self.sizes) - 1} hops of "
                    f"the neighborhood: pass n_hops="
                )
            targets = self._positions(self.graph.targets[numbers])
            self._messages[n_nodes] = MessageIndex(
                n_targets, sources.to(self.device), targets.to(self.device), numbers
            )
        return self._messages[n_nodes]

    def weights(
        self, n_nodes: int, aggregate: str, *, self_loop: bool, dtype: torch.dtype
    ) -> EdgeWeights:
        """Return the weights of these messages, and of the receiving nodes' own features.

        Args:
            n_nodes: number of nodes whose features the layer receives.
            aggregate: ``sum``, ``mean`` or ``symmetric``.
            self_loop: whether each node counts as one of its own neighbors.
            dtype: dtype of the weights.
        """
        key = (n_nodes, aggregate, self_loop, dtype)
        if key not in self._weights:
            found = self.graph.weights(aggregate, self_loop=self_loop)
            index = self.messages(n_nodes)
            itself = found.self_loops
            itself = None if itself is None else itself[self.nodes[: index.n_targets]]
            parts = (found.messages[index.numbers], itself)
            moved = (None if part is None else part.to(self.device, dtype) for part in parts)
            self._weights[key] = EdgeWeights(*moved)  # type: ignore[arg-type]
        return self._weights[key]

    def edge_index(self, n_nodes: int) -> Tensor:
        """Return the messages among the first nodes as PyG represents them, ``[2, messages]``.

        Args:
            n_nodes: number of nodes.
        """
        numbers = _incoming(self.graph, self.nodes[:n_nodes])
        sources = self._positions(self.graph.sources[numbers])
        inside = (sources >= 0) & (sources < n_nodes)
        targets = self._positions(self.graph.targets[numbers])
        return torch.stack([sources[inside], targets[inside]]).to(self.device)

    def edge_features(self, index: MessageIndex, dtype: torch.dtype) -> Tensor:
        """Return the features of the edge of each message, ``[messages, features]``.

        Args:
            index: the messages.
            dtype: dtype of the result.
        """
        if self.graph.edge_features is None:
            raise InvalidInput("the layer uses edge features, but the graph has none")
        found = self.graph.edge_features[self.graph.message_edges[index.numbers]]
        return found.to(self.device, dtype)


def _incoming(graph: Graph, nodes: Tensor) -> Tensor:
    """Return the numbers of all messages to some nodes."""
    start, count = graph.offsets[nodes], graph.degrees[nodes]
    first = (count.cumsum(0) - count).repeat_interleave(count)
    within = torch.arange(int(count.sum())) - first
    return start.repeat_interleave(count) + within
