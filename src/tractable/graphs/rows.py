"""Networks of graphs as networks of rows: rows are numbers of nodes, of pairs, or of graphs.

So ``fit``, ``predict``, validation, calibration, ensembles and files work as they do for tables.  A
batch computes only the neighbourhood that it sees.

The network may be a ``torch.nn.Sequential`` of layers of ``tractable.graphs`` and of any modules
that work row by row; a module of PyG, whose ``forward`` takes ``edge_index``; or one of the user's
own with an argument ``view``.
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
from tractable.graphs.aggregate import summed
from tractable.graphs.graph import Graph, joined
from tractable.graphs.layers import GraphLayer
from tractable.graphs.view import Features, View

Pool = Literal["mean", "sum", "max"]
_MAX_VIEWS = 64  # that are kept
_MAX_NUMBERS = 20_000_000  # that all of them hold together: about 100 MB
_MAX_REACH = 24
"""Steps that a network is tried with; what sees farther computes the whole graph."""
_BY_EDGES = "edge_index"  # what PyG calls its messages


class _Views:
    """Neighbourhoods of batches, kept for the next epoch; a copy of a network has its own."""

    def __init__(self, graph: Graph, hops: int | None) -> None:
        self.graph, self.hops = graph, hops
        self._features: dict[tuple[torch.dtype, torch.device], Features] = {}
        self._kept: OrderedDict[tuple[Any, ...], View] = OrderedDict()

    def __deepcopy__(self, memo: Any) -> Self:
        return type(self)(self.graph, self.hops)

    def __getstate__(self) -> dict[str, Any]:
        return {"graph": self.graph, "hops": self.hops, "_features": {}, "_kept": OrderedDict()}

    def around(self, nodes: Tensor, dtype: torch.dtype, device: torch.device) -> View:
        """The view of some nodes, each once."""
        key = (nodes.numpy().tobytes(), dtype, device)
        view = self._kept.pop(key, None)
        if view is None:
            here = (dtype, device)
            if here not in self._features:
                self._features[here] = Features(self.graph, dtype, device)
            batch = nodes
            if self.hops is None:  # all of the graph, the wanted nodes first
                others = torch.ones(self.graph.nodes, dtype=torch.bool)
                others[nodes] = False
                batch = torch.cat([nodes, others.nonzero().squeeze(1)])
            view = View(self.graph, batch, self.hops or 0, self._features[here])
        self._kept[key] = view
        self._forget()
        return view

    def _forget(self) -> None:
        """Drop the views that were not used for longest; the newest stays."""
        numbers = [view.kept_numbers for view in self._kept.values()]
        while len(numbers) > 1 and (len(numbers) > _MAX_VIEWS or sum(numbers) > _MAX_NUMBERS):
            self._kept.popitem(last=False)
            del numbers[0]


class _OnGraph(nn.Module):
    """A network on a graph, asked by whole numbers."""

    integer_inputs = True
    what = "node"

    def __init__(self, net: nn.Module, graph: Graph, hops: int | None) -> None:
        super().__init__()
        if not isinstance(graph, Graph):
            raise TypeError(f"expected a tractable.graphs.Graph, got {type(graph).__name__}")
        self.net, self.graph = net, graph
        self._views = _Views(graph, hops)

    @property
    def count(self) -> int:
        """How many there are to ask for."""
        return self.graph.nodes

    def check_rows(self, numbers: Any) -> None:
        """Refuse rows that name nothing, before anything is learnt."""
        numbers = _whole(numbers, self.what)
        wrong = ((numbers < 0) | (numbers >= self.count)).reshape(len(numbers), -1).any(1)
        if bool(wrong.any()):
            row = int(wrong.nonzero()[0])
            found = numbers[row].reshape(-1).tolist()
            raise InvalidInput(
                f"row {row} asks for {self.what} {', '.join(map(str, found))}, and there are "
                f"{self.count}, numbered from 0"
            )

    def values(self, numbers: Tensor) -> Any:
        """What the network says at nodes, row by row as asked for."""
        nodes, rows = torch.unique(numbers.cpu(), return_inverse=True)
        view = self._views.around(nodes, *self._computes())
        z = run(self.net, view.x, view)
        return z.index_select(0, rows.to(view.device))

    def _computes(self) -> tuple[torch.dtype, torch.device]:
        for parameter in self.parameters():
            if parameter.is_floating_point():
                return parameter.dtype, parameter.device
        return torch.get_default_dtype(), torch.device("cpu")


class Nodes(_OnGraph):
    """The outputs of a network at nodes of a graph: rows are node numbers.

    Args:
        net: see the module.
        graph: the graph.
        hops: how many steps away a node sees.  By default it is measured: the network is run on
            small graphs, with random weights, and the steps are counted beyond which nothing
            changes its outputs.  The whole graph is computed for each batch where there is no such
            number (a network that normalizes over all nodes) or it cannot be measured.

    >>> from tractable import graphs as G
    >>> graph = G.Graph([[0, 1], [1, 2]], x=torch.eye(3))
    >>> net = nn.Sequential(G.Conv(3, 4), nn.ReLU(), G.Conv(4, 2))
    >>> G.Nodes(net, graph)(torch.tensor([2, 0])).shape
    torch.Size([2, 2])
    """

    def __init__(self, net: nn.Module, graph: Graph, *, hops: int | None = None) -> None:
        super().__init__(net, graph, seen_by(net, graph) if hops is None else hops)

    def forward(self, numbers: Tensor) -> Any:
        """Rows of outputs for node numbers, ``[rows]`` or ``[rows, 1]``."""
        numbers = _whole(numbers, self.what)
        if numbers.ndim != 1 and numbers.shape[1:] != (1,):
            raise InvalidInput(f"node numbers must be a vector, got shape {tuple(numbers.shape)}")
        self.check_rows(numbers)
        return self.values(numbers.reshape(-1))


class Edges(_OnGraph):
    """What a network says of pairs of nodes: rows are pairs of node numbers.

    The score of a pair is the product of what the network says at its ends: summed, or handed to
    ``head``.  It is the same both ways round.

    Args:
        net: as for ``Nodes``: it gives each node a vector.
        graph: the graph, without the edges that are to be predicted.
        head: from that product to the outputs; by default their sum is the only one.
        hops: as for ``Nodes``.
    """

    def __init__(
        self,
        net: nn.Module,
        graph: Graph,
        *,
        head: nn.Module | None = None,
        hops: int | None = None,
    ) -> None:
        super().__init__(net, graph, seen_by(net, graph) if hops is None else hops)
        self.head = head

    def forward(self, pairs: Tensor) -> Any:
        """Rows of outputs for pairs of nodes, ``[rows, 2]``."""
        pairs = _whole(pairs, self.what)
        if pairs.ndim != 2 or pairs.shape[1] != 2:
            raise InvalidInput(f"pairs must have the shape [rows, 2], got {tuple(pairs.shape)}")
        self.check_rows(pairs)
        ends = self.values(pairs.reshape(-1)).reshape(len(pairs), 2, -1)
        both = ends[:, 0] * ends[:, 1]
        return both.sum(1, keepdim=True) if self.head is None else self.head(both)


class Graphs(_OnGraph):
    """What a network says of whole graphs: rows are numbers of graphs.

    Args:
        net: as for ``Nodes``: it gives each node a vector.
        graphs: the graphs, all with features of the same kind.
        pool: how the nodes of a graph are put together: ``mean``, ``sum`` or ``max``.
        head: from that to the outputs; by default nothing.
    """

    what = "graph"

    def __init__(
        self,
        net: nn.Module,
        graphs: Sequence[Graph],
        *,
        pool: Pool = "mean",
        head: nn.Module | None = None,
    ) -> None:
        whole, of = joined(list(graphs))
        super().__init__(net, whole, 0)
        if pool not in ("mean", "sum", "max"):
            raise ValueError(f"pool must be mean, sum or max, got {pool!r}")
        if _mixes_graphs(net, whole):
            raise InvalidInput(
                "what the network gives for a graph depends on the graphs beside it, as with a "
                "normalization over all nodes: such a module cannot run on a batch of graphs; use "
                "one that works node by node, as torch.nn.LayerNorm"
            )
        self.pool, self.head = pool, head
        self.sizes = [graph.nodes for graph in graphs]
        self.starts = [0, *torch.tensor(self.sizes).cumsum(0).tolist()]
        self.of = of.tolist()

    @property
    def count(self) -> int:
        """How many graphs there are."""
        return len(self.sizes)

    def forward(self, numbers: Tensor) -> Any:
        """Rows of outputs for numbers of graphs."""
        numbers = _whole(numbers, self.what)
        self.check_rows(numbers)
        wanted = numbers.reshape(-1).tolist()
        nodes = torch.cat([torch.arange(self.starts[n], self.starts[n + 1]) for n in wanted])
        lengths = torch.tensor([self.sizes[n] for n in wanted])
        z = self.values(nodes)
        of = torch.arange(len(wanted)).repeat_interleave(lengths).to(z.device)
        if self.pool == "max":
            at = of.unsqueeze(1).expand(-1, z.shape[1])
            empty = z.new_zeros((len(wanted), z.shape[1]))
            pooled = empty.scatter_reduce(0, at, z, "amax", include_self=False)
        else:
            pooled = summed(z, of, len(wanted))
            if self.pool == "mean":
                pooled = pooled * (1 / lengths.to(z.device, z.dtype)).unsqueeze(1)
        return pooled if self.head is None else self.head(pooled)


def run(net: nn.Module, x: Any, view: View) -> Any:
    """The network on a view, whatever kind of module it is."""
    if isinstance(net, GraphLayer):
        return net(x, view)
    if isinstance(net, nn.Sequential):
        for part in net:
            x = run(part, x, view)
        return x
    taken = _arguments(net)
    if "view" in taken:
        return net(x, view)
    if _BY_EDGES in taken:
        return net(x, view.edge_index(len(x)))
    return net(x)


def seen_by(net: nn.Module, graph: Graph) -> int | None:
    """How many steps away a network sees; None for all of the graph.

    One module may pass messages any number of times (Chebyshev polynomials), or look at all nodes
    (normalization over the graph), so layers cannot be counted.  The network is run on a path with
    branches, on all of it and on the nodes within 0, 1, ... steps of its end: the number of steps
    is the first for which the outputs there are the same.

    Modules of PyG normalize by the degrees they find, so the nodes at the rim of what is computed
    need all their edges too: one step more.
    """
    if not isinstance(graph, Graph) or graph.x is None:
        return None  # refused by the caller
    least = sum(isinstance(part, GraphLayer) for part in net.modules())
    passing = sum(_passes_messages(part) for part in net.modules())
    least += passing + (passing > 0)
    for seed in range(_TRIALS):
        try:
            with _seeded(net, seed):
                found = _measured(net, _probe(graph), least)
        except Exception:  # whatever a network of the user may raise on another graph
            return None
        if found is None:
            return None
        least = found
    return least


_TRIALS = 3
"""Draws of weights and features: a unit that is off hides what it sees."""


@contextmanager
def _seeded(net: nn.Module, seed: int) -> Iterator[None]:
    """Within this block nothing is recorded, and the numbers drawn are of this seed."""
    devices = list({p.device for p in net.parameters() if p.is_cuda})
    with torch.random.fork_rng(devices=devices), torch.no_grad():
        torch.manual_seed(seed)
        yield


def _measured(net: nn.Module, probe: Graph, least: int) -> int | None:
    """The steps after which the outputs at node 0 change no more, ``least`` or more."""
    twin, features = _perturbed(net, probe), _features_of(net, probe)
    whole = View(probe, torch.arange(probe.nodes), 0, features)
    wanted = run(twin, whole.x, whole)[0]
    for hops in range(least, _MAX_REACH + 1):
        near = View(probe, torch.zeros(1, dtype=torch.int64), hops, features)
        if _same(run(twin, near.x, near)[0], wanted):
            return hops
    return None


def _mixes_graphs(net: nn.Module, graph: Graph) -> bool:
    """Whether the outputs at a graph depend on another that is computed in the same batch."""
    if graph.x is None:
        return False  # refused when it is run
    try:
        with _seeded(net, 0):
            one = _probe(graph)
            both, _ = joined([one, _probe(graph)])
            twin = _perturbed(net, one)
            views = [View(g, torch.arange(g.nodes), 0, _features_of(net, g)) for g in (one, both)]
            alone, beside = (run(twin, view.x, view)[: one.nodes] for view in views)
    except Exception:  # whatever a network of the user may raise on another graph
        return False
    return not _same(beside, alone)


def _perturbed(net: nn.Module, probe: Graph) -> nn.Module:
    """A copy in double precision without weights of zero, which would hide what they multiply."""
    twin = copy.deepcopy(net).double().eval()
    view = View(probe, torch.arange(probe.nodes), 0, _features_of(net, probe))
    run(twin, view.x, view)  # which makes parameters whose shapes were open
    for parameter in twin.parameters():
        parameter.add_(0.1 * torch.randn_like(parameter))
    return twin


def _features_of(net: nn.Module, probe: Graph) -> Features:
    device = next((p.device for p in net.parameters()), torch.device("cpu"))
    return Features(probe, torch.float64, device)


def _same(found: Tensor, wanted: Tensor) -> bool:
    return torch.allclose(found, wanted, rtol=1e-9, atol=1e-9 * float(wanted.abs().max()))


def _probe(graph: Graph) -> Graph:
    """A path from node 0, longer than any reach that is tried, with branches on the way."""
    spine = [(i + 1, i) for i in range(_MAX_REACH + 2)]
    nodes = len(spine) + 1
    branches: list[tuple[int, int]] = []
    for i in range(nodes):
        for k in range(6 if i == nodes - 1 else i % 3):  # the largest degree is at the far end
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


def _whole(numbers: Any, what: str) -> Tensor:
    found = torch.as_tensor(numbers)
    if found.is_floating_point() or found.dtype == torch.bool:
        raise InvalidInput(f"{what}s are asked for by whole numbers, got {found.dtype}")
    return found.long()
