"""What a network is made of, as far as it decides where learning should begin.

The longest path is found in the graph of the module (``torch.fx``); a module that cannot be
traced, because what it does depends on numbers, counts all that it has.

>>> net = nn.Sequential(nn.Linear(1, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 1))
>>> NetworkStructure.of(net)
NetworkStructure(depth=2, sums=0, norms=True)
"""

from __future__ import annotations

import copy
import operator
from dataclasses import dataclass

import torch
from torch import fx, nn

from tractable import layer_iteration

_SUMS = {operator.add, operator.iadd, torch.add, "add", "add_"}


@dataclass(frozen=True)
class NetworkStructure:
    """Depth and kinds of the layers of a network.

    Attributes:
        depth: weight matrices (kernels of convolutions count as such) on the longest path.
        sums: places where two branches are added, as residual connections do.
        norms: whether there are normalization layers.
        batch_norms: whether any of them normalizes over the rows of a batch.
        attention: whether there is attention.
        recurrent: whether there are recurrent layers.
        convolutions: whether there are convolutions.
    """

    depth: int
    sums: int = 0
    norms: bool = False
    batch_norms: bool = False
    attention: bool = False
    recurrent: bool = False
    convolutions: bool = False

    def __repr__(self) -> str:
        """Return the depth and the kinds that are present."""
        flags = ("norms", "batch_norms", "attention", "recurrent", "convolutions")
        there = "".join(f", {name}=True" for name in flags if getattr(self, name))
        return f"NetworkStructure(depth={self.depth}, sums={self.sums}{there})"

    @classmethod
    def of(cls, net: nn.Module) -> NetworkStructure:
        """Return the structure of a network."""
        names = {type(module).__name__.lower() for module in net.modules()}
        depth, sums = _path(net)
        return cls(
            depth,
            sums,
            norms=any("norm" in name for name in names),
            batch_norms=any("batchnorm" in name for name in names),
            attention=any(_attends(type(module)) for module in net.modules()),
            recurrent=any(isinstance(module, nn.RNNBase) for module in net.modules()),
            convolutions=any(name.startswith("conv") for name in names),
        )


def _attends(kind: type[nn.Module]) -> bool:
    """Return whether a class implements attention, by its name or the functions it calls."""
    if "attention" in kind.__name__.lower():
        return True
    codes = [getattr(method, "__code__", None) for method in vars(kind).values()]
    return any("scaled_dot_product_attention" in code.co_names for code in codes if code)


def residual_branch_ends(net: nn.Module) -> tuple[str, ...]:
    """Return the last parameters of residual branches: the last matrix, or the scale after it.

    >>> residual_branch_ends(nn.TransformerEncoderLayer(4, 2))  # cannot be traced
    ()
    """
    graph = _traced(net)
    if graph is None:
        return ()
    depth, found = _depths(net, graph), dict[str, None]()
    for total in _sums(depth):
        short, long = sorted(total.all_input_nodes, key=depth.__getitem__)
        if depth[short] < depth[long]:
            found |= dict.fromkeys(_last(net, long, _before(short)))
    return tuple(found)


def _path(net: nn.Module) -> tuple[int, int]:
    """Return the number of matrices on the longest path, and of sums of branches."""
    layers = [layer.module for layer in layer_iteration.layers(net)]
    if all(_is_leaf(layer) for layer in layers):
        return sum(map(_matrices, layers)), 0
    graph = _traced(net)
    if graph is None:
        return _matrices(net), 0
    depth = _depths(net, graph)
    return max(depth.values()), len(_sums(depth))


def _traced(net: nn.Module) -> fx.Graph | None:
    """Return the graph of a module; None if it depends on values."""
    try:
        return fx.Tracer().trace(copy.deepcopy(net))
    except Exception:  # whatever a user's forward raises on proxies: it is not traced, then
        return None


def _is_leaf(module: nn.Module) -> bool:
    return type(module).__module__.startswith("torch.nn") and not isinstance(module, nn.Sequential)


def _matrices(module: nn.Module) -> int:
    """Return the number of matrices that a module applies one after the other."""
    if isinstance(module, nn.RNNBase):
        return module.num_layers
    if isinstance(module, nn.MultiheadAttention):
        return 2
    if isinstance(module, nn.Embedding | nn.EmbeddingBag):
        return 1
    own = sum(p.ndim > 1 for p in module.parameters(recurse=False))
    return own + sum(map(_matrices, module.children()))


def _depths(net: nn.Module, graph: fx.Graph) -> dict[fx.Node, int]:
    """Return the number of matrices on the longest path to each node."""
    depth: dict[fx.Node, int] = {}
    for node in graph.nodes:
        own = 0
        if node.op == "call_module":
            own = _matrices(net.get_submodule(str(node.target)))
        elif node.op in ("call_function", "call_method"):
            own = any(_is_matrix(net, other) for other in node.all_input_nodes)
        depth[node] = max((depth[n] for n in node.all_input_nodes), default=0) + int(own)
    return depth


def _sums(depth: dict[fx.Node, int]) -> list[fx.Node]:
    """Return the nodes that add two branches which both contain a matrix."""
    calls = [n for n in depth if n.op in ("call_function", "call_method") and n.target in _SUMS]
    return [
        n for n in calls if len(n.all_input_nodes) == 2 and all(depth[m] for m in n.all_input_nodes)
    ]


def _before(node: fx.Node) -> set[fx.Node]:
    """Return a node and all nodes that it depends on."""
    found, todo = {node}, [node]
    while todo:
        new = set(todo.pop().all_input_nodes) - found
        found |= new
        todo += new
    return found


def _last(net: nn.Module, node: fx.Node, stop: set[fx.Node]) -> list[str]:
    """Return the last parameters on the paths to a node that are not in ``stop``."""
    found, todo, seen = list[str](), [node], set(stop)
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        held = _held(net, node)
        if held is None:
            todo += node.all_input_nodes
        elif held:
            found.append(held)
    return found


def _held(net: nn.Module, node: fx.Node) -> str | None:
    """Return the matrix or scale of a node; empty for other parameters, None without any."""
    if node.op == "call_module":
        module = net.get_submodule(str(node.target))
        leaf = "out_proj.weight" if isinstance(module, nn.MultiheadAttention) else "weight"
        named = dict(module.named_parameters())
        if not named or isinstance(module, nn.PReLU):
            return None
        known = leaf in named and not isinstance(module, nn.Embedding | nn.EmbeddingBag)
        return f"{node.target}.{leaf}" if known else ""
    matrices = [str(other.target) for other in node.all_input_nodes if _is_matrix(net, other)]
    return matrices[-1] if matrices else None


def _is_matrix(net: nn.Module, node: fx.Node) -> bool:
    if node.op != "get_attr":
        return False
    held: object = net
    for name in str(node.target).split("."):
        held = getattr(held, name, None)
    return isinstance(held, nn.Parameter) and held.ndim > 1
