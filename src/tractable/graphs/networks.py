"""Networks on graphs as modules whose inputs are indices of nodes, node pairs or graphs.

Therefore ``fit``, ``predict``, validation, calibration, ensembles and model files work as they do
for tables.  A batch computes only the neighborhood that its outputs depend on.

The network may be a ``torch.nn.Sequential`` of layers of ``tractable.graphs`` and of any modules
that work row by row; a module of PyG, whose ``forward`` has an argument ``edge_index``; or a module
whose ``forward`` has an argument ``neighborhood``.
"""

from __future__ import annotations

import copy
import inspect
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn

from tractable.errors import InvalidInput
from tractable.graphs.graph import Graph, batch_graphs
from tractable.graphs.layers import GraphLayer, sum_messages
from tractable.graphs.neighborhood import Neighborhood, NodeFeatures

Pooling = Literal["mean", "sum", "max"]
_MAX_CACHED = 64  # neighborhoods in the cache of a network
_MAX_CACHED_VALUES = 20_000_000  # values in it, about 100 MB
_MAX_HOPS = 24  # largest number that is tested; beyond it the whole graph is computed
_PYG_ARGUMENT = "edge_index"


class _NeighborhoodCache:
    """The neighborhoods of recent batches, kept for the next epoch; a copy starts empty."""

    def __init__(self, graph: Graph, n_hops: int | None) -> None:
        self.graph, self.n_hops = graph, n_hops
        self._features: dict[tuple[torch.dtype, torch.device], NodeFeatures] = {}
        self._cached: OrderedDict[tuple[Any, ...], Neighborhood] = OrderedDict()

    def __deepcopy__(self, memo: Any) -> Self:
        return type(self)(self.graph, self.n_hops)

    def __getstate__(self) -> dict[str, Any]:
        return {
            "graph": self.graph,
            "n_hops": self.n_hops,
            "_features": {},
            "_cached": OrderedDict(),
        }

    def neighborhood(self, nodes: Tensor, dtype: torch.dtype, device: torch.device) -> Neighborhood:
        """Return the neighborhood of distinct nodes."""
        key = (nodes.numpy().tobytes(), dtype, device)
        neighborhood = self._cached.pop(key, None)
        if neighborhood is None:
            here = (dtype, device)
            if here not in self._features:
                self._features[here] = NodeFeatures(self.graph, dtype, device)
            batch = nodes
            if self.n_hops is None:  # the whole graph, with the requested nodes first
                others = torch.ones(self.graph.n_nodes, dtype=torch.bool)
                others[nodes] = False
                batch = torch.cat([nodes, others.nonzero().squeeze(1)])
            neighborhood = Neighborhood(self.graph, batch, self.n_hops or 0, self._features[here])
        self._cached[key] = neighborhood
        self._evict()
        return neighborhood

    def _evict(self) -> None:
        """Drop the least recently used neighborhoods; the newest is kept."""
        sizes = [neighborhood.n_stored_values for neighborhood in self._cached.values()]
        while len(sizes) > 1 and (len(sizes) > _MAX_CACHED or sum(sizes) > _MAX_CACHED_VALUES):
            self._cached.popitem(last=False)
            del sizes[0]


class _GraphRows(nn.Module):
    """Base class of networks on a graph whose inputs are indices."""

    integer_inputs = True
    row_name = "node"

    def __init__(self, net: nn.Module, graph: Graph, n_hops: int | None) -> None:
        super().__init__()
        if not isinstance(graph, Graph):
            raise TypeError(f"expected a tractable.graphs.Graph, got {type(graph).__name__}")
        self.net, self.graph = net, graph
        self._neighborhoods = _NeighborhoodCache(graph, n_hops)

    @property
    def n_rows(self) -> int:
        """The number of valid indices."""
        return self.graph.n_nodes

    def check_rows(self, indices: Any) -> None:
        """Raise InvalidInput if an index is out of range; learners call this before they learn."""
        indices = _as_indices(indices, self.row_name)
        wrong = ((indices < 0) | (indices >= self.n_rows)).reshape(len(indices), -1).any(1)
        if bool(wrong.any()):
            row = int(wrong.nonzero()[0])
            found = indices[row].reshape(-1).tolist()
            raise InvalidInput(
                f"row {row} has the {self.row_name} index {', '.join(map(str, found))}, expected "
                f"0 to {self.n_rows - 1}"
            )

    def node_outputs(self, indices: Tensor) -> Any:
        """Return the outputs of the network at nodes, ``[indices, features]``."""
        nodes, rows = torch.unique(indices.cpu(), return_inverse=True)
        neighborhood = self._neighborhoods.neighborhood(nodes, *self._dtype_and_device())
        z = run(self.net, neighborhood.x, neighborhood)
        return z.index_select(0, rows.to(neighborhood.device))

    def _dtype_and_device(self) -> tuple[torch.dtype, torch.device]:
        for parameter in self.parameters():
            if parameter.is_floating_point():
                return parameter.dtype, parameter.device
        return torch.get_default_dtype(), torch.device("cpu")


class NodeNetwork(_GraphRows):
    """A network on a graph, for node prediction: inputs are node indices.

    Args:
        net: the network, see the module.
        graph: the graph.
        n_hops: number of edges between a node and the farthest node that its output depends on.
            Default: measured by running the network with random weights on small graphs.  The whole
            graph is computed for each batch if there is no such number (a network that normalizes
            over all nodes) or it cannot be measured.

    >>> from tractable import graphs as G
    >>> graph = G.Graph([[0, 1], [1, 2]], x=torch.eye(3))
    >>> net = nn.Sequential(G.GraphConv(3, 4), nn.ReLU(), G.GraphConv(4, 2))
    >>> G.NodeNetwork(net, graph)(torch.tensor([2, 0])).shape
    torch.Size([2, 2])
    """

    def __init__(self, net: nn.Module, graph: Graph, *, n_hops: int | None = None) -> None:
        super().__init__(net, graph, receptive_hops(net, graph) if n_hops is None else n_hops)

    def forward(self, indices: Tensor) -> Any:
        """Return the outputs at nodes, ``[rows, outputs]``.

        Args:
            indices: node indices, ``[rows]`` or ``[rows, 1]``.
        """
        indices = _as_indices(indices, self.row_name)
        if indices.ndim != 1 and indices.shape[1:] != (1,):
            raise InvalidInput(f"node indices must be a vector, got shape {tuple(indices.shape)}")
        self.check_rows(indices)
        return self.node_outputs(indices.reshape(-1))


class LinkNetwork(_GraphRows):
    """A network on a graph, for link prediction: inputs are pairs of node indices.

    The elementwise product of the outputs at both nodes is summed, or passed to ``head``.  It does
    not depend on the order of the pair.

    Args:
        net: the network, which computes a vector for each node; see ``NodeNetwork``.
        graph: the graph, without the edges that are to be predicted.
        head: module from the product to the outputs.  Default: the sum, a single output.
        n_hops: see ``NodeNetwork``.
    """

    def __init__(
        self,
        net: nn.Module,
        graph: Graph,
        *,
        head: nn.Module | None = None,
        n_hops: int | None = None,
    ) -> None:
        super().__init__(net, graph, receptive_hops(net, graph) if n_hops is None else n_hops)
        self.head = head

    def forward(self, pairs: Tensor) -> Any:
        """Return the outputs for pairs of nodes, ``[rows, outputs]``.

        Args:
            pairs: pairs of node indices, ``[rows, 2]``.
        """
        pairs = _as_indices(pairs, self.row_name)
        if pairs.ndim != 2 or pairs.shape[1] != 2:
            raise InvalidInput(f"pairs must have the shape [rows, 2], got {tuple(pairs.shape)}")
        self.check_rows(pairs)
        ends = self.node_outputs(pairs.reshape(-1)).reshape(len(pairs), 2, -1)
        both = ends[:, 0] * ends[:, 1]
        return both.sum(1, keepdim=True) if self.head is None else self.head(both)


class GraphNetwork(_GraphRows):
    """A network on several graphs, for graph prediction: inputs are graph indices.

    Args:
        net: the network, which computes a vector for each node; see ``NodeNetwork``.
        graphs: the graphs, all with the same features.
        pool: how the vectors of the nodes of a graph are combined: ``mean``, ``sum`` or ``max``.
        head: module from the combined vector to the outputs.  Default: the identity.

    Raises:
        InvalidInput: the outputs for a graph depend on the other graphs of a batch.
    """

    row_name = "graph"

    def __init__(
        self,
        net: nn.Module,
        graphs: Sequence[Graph],
        *,
        pool: Pooling = "mean",
        head: nn.Module | None = None,
    ) -> None:
        union, _ = batch_graphs(list(graphs))
        super().__init__(net, union, 0)
        if pool not in ("mean", "sum", "max"):
            raise ValueError(f"pool must be mean, sum or max, got {pool!r}")
        if _depends_on_batch(net, union):
            raise InvalidInput(
                "the output for a graph depends on the other graphs of a batch, for example "
                "because of a normalization over all nodes: use modules that work node by node, "
                "such as torch.nn.LayerNorm"
            )
        self.pool, self.head = pool, head
        self.sizes = [graph.n_nodes for graph in graphs]
        self.starts = [0, *torch.tensor(self.sizes).cumsum(0).tolist()]

    @property
    def n_rows(self) -> int:
        """The number of graphs."""
        return len(self.sizes)

    def forward(self, indices: Tensor) -> Any:
        """Return the outputs for graphs, ``[rows, outputs]``.

        Args:
            indices: graph indices, ``[rows]`` or ``[rows, 1]``.
        """
        indices = _as_indices(indices, self.row_name)
        self.check_rows(indices)
        graphs = indices.reshape(-1).tolist()
        nodes = torch.cat([torch.arange(self.starts[n], self.starts[n + 1]) for n in graphs])
        lengths = torch.tensor([self.sizes[n] for n in graphs])
        z = self.node_outputs(nodes)
        graph_of_node = torch.arange(len(graphs)).repeat_interleave(lengths).to(z.device)
        if self.pool == "max":
            at = graph_of_node.unsqueeze(1).expand(-1, z.shape[1])
            empty = z.new_zeros((len(graphs), z.shape[1]))
            pooled = empty.scatter_reduce(0, at, z, "amax", include_self=False)
        else:
            pooled = sum_messages(z, graph_of_node, len(graphs))
            if self.pool == "mean":
                pooled = pooled * (1 / lengths.to(z.device, z.dtype)).unsqueeze(1)
        return pooled if self.head is None else self.head(pooled)


def run(net: nn.Module, x: Any, neighborhood: Neighborhood) -> Any:
    """Return the outputs of a network of any supported kind on a neighborhood."""
    if isinstance(net, GraphLayer):
        return net(x, neighborhood)
    if isinstance(net, nn.Sequential):
        for part in net:
            x = run(part, x, neighborhood)
        return x
    arguments = _arguments(net)
    if "neighborhood" in arguments:
        return net(x, neighborhood)
    if _PYG_ARGUMENT in arguments:
        return net(x, neighborhood.edge_index(len(x)))
    return net(x)


def receptive_hops(net: nn.Module, graph: Graph) -> int | None:
    """Return the number of edges to the farthest node that an output depends on.

    One module may pass messages several times (Chebyshev polynomials) or use all nodes
    (normalization over the graph), so the layers cannot be counted.  The network is run on a path
    with branches: on the whole path, and on the nodes within 0, 1, ... edges of its end.  The
    result is the smallest number for which the outputs at the end are equal, None if there is none.

    PyG modules normalize by the degrees they find, so the outermost nodes need all their edges
    too: one hop more.
    """
    if not isinstance(graph, Graph) or graph.x is None:
        return None  # the caller raises
    min_hops = sum(isinstance(part, GraphLayer) for part in net.modules())
    passing = sum(_passes_messages(part) for part in net.modules())
    min_hops += passing + (passing > 0)
    for seed in range(_N_TRIALS):
        try:
            with _seeded_rng(net, seed):
                found = _measure_hops(net, _probe(graph), min_hops)
        except Exception:  # a network of the user may raise anything on another graph
            return None
        if found is None:
            return None
        min_hops = found
    return min_hops


_N_TRIALS = 3
"""Draws of weights and features: an inactive ReLU unit hides its inputs."""


@contextmanager
def _seeded_rng(net: nn.Module, seed: int) -> Iterator[None]:
    """Within this block gradients are off and the global generator has this seed."""
    devices = list({p.device for p in net.parameters() if p.is_cuda})
    with torch.random.fork_rng(devices=devices), torch.no_grad():
        torch.manual_seed(seed)
        yield


def _measure_hops(net: nn.Module, probe: Graph, min_hops: int) -> int | None:
    """Return the number of hops beyond which the outputs at node 0 are constant."""
    perturbed, features = _perturbed(net, probe), _features_of(net, probe)
    everything = Neighborhood(probe, torch.arange(probe.n_nodes), 0, features)
    expected = run(perturbed, everything.x, everything)[0]
    for n_hops in range(min_hops, _MAX_HOPS + 1):
        part = Neighborhood(probe, torch.zeros(1, dtype=torch.int64), n_hops, features)
        if _close(run(perturbed, part.x, part)[0], expected):
            return n_hops
    return None


def _depends_on_batch(net: nn.Module, graph: Graph) -> bool:
    """Return whether the outputs for a graph depend on another graph in the same batch."""
    if graph.x is None:
        return False  # running the network raises
    try:
        with _seeded_rng(net, 0):
            one = _probe(graph)
            both, _ = batch_graphs([one, _probe(graph)])
            perturbed = _perturbed(net, one)
            alone, batched = (
                Neighborhood(g, torch.arange(g.n_nodes), 0, _features_of(net, g))
                for g in (one, both)
            )
            outputs = [run(perturbed, part.x, part)[: one.n_nodes] for part in (alone, batched)]
    except Exception:  # a network of the user may raise anything on another graph
        return False
    return not _close(outputs[1], outputs[0])


def _perturbed(net: nn.Module, probe: Graph) -> nn.Module:
    """Return a copy in double precision without zero weights, which hide what they multiply."""
    perturbed = copy.deepcopy(net).double().eval()
    neighborhood = Neighborhood(probe, torch.arange(probe.n_nodes), 0, _features_of(net, probe))
    run(perturbed, neighborhood.x, neighborhood)  # initializes lazy parameters
    for parameter in perturbed.parameters():
        parameter.add_(0.1 * torch.randn_like(parameter))
    return perturbed


def _features_of(net: nn.Module, probe: Graph) -> NodeFeatures:
    device = next((p.device for p in net.parameters()), torch.device("cpu"))
    return NodeFeatures(probe, torch.float64, device)


def _close(found: Tensor, expected: Tensor) -> bool:
    return torch.allclose(found, expected, rtol=1e-9, atol=1e-9 * float(expected.abs().max()))


def _probe(graph: Graph) -> Graph:
    """Return a path from node 0 with branches, longer than any tested number of hops."""
    spine = [(i + 1, i) for i in range(_MAX_HOPS + 2)]
    nodes = len(spine) + 1
    branches: list[tuple[int, int]] = []
    for i in range(nodes):
        for k in range(6 if i == nodes - 1 else i % 3):  # node 0 is far from the largest degree
            leaf = nodes + len(branches)
            branches.append((leaf, i) if k % 2 == 0 else (i, leaf))
    edges = torch.tensor(spine + branches)
    assert graph.x is not None
    edge_features = None
    if graph.edge_features is not None:
        edge_features = torch.randn(len(edges), *graph.edge_features.shape[1:])
    x = torch.randn(nodes + len(branches), *graph.x.shape[1:])
    return Graph(edges, x, edge_features=edge_features, directed=graph.directed)


def _passes_messages(part: nn.Module) -> bool:
    return hasattr(part, "propagate") and hasattr(part, "message") and hasattr(part, "aggregate")


def _arguments(net: nn.Module) -> tuple[str, ...]:
    return tuple(inspect.signature(net.forward).parameters)


def _as_indices(indices: Any, row_name: str) -> Tensor:
    found = torch.as_tensor(indices)
    if found.is_floating_point() or found.dtype == torch.bool:
        raise InvalidInput(f"{row_name} indices must be integers, got {found.dtype}")
    return found.long()
