"""A step traced into one graph and compiled, once per shape of its inputs.

``make_fx`` runs the step with proxies: moment rules, autograd and the batch rule all end up in
one flat graph of tensor operations, whatever Python the user's module contains.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten


class CompiledStep:
    """Call a pure function of tensors through a graph compiled for the shapes at hand."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.graphs: dict[tuple[Any, ...], Callable[..., Any]] = {}

    def __call__(self, *args: Any) -> Any:
        """Run, tracing and compiling first if these shapes are new."""
        leaves, structure = tree_flatten(args)
        key = (structure, *((leaf.shape, leaf.dtype) for leaf in leaves if leaf is not None))
        if key not in self.graphs:
            graph = make_fx(lambda *inputs: self.function(*inputs))(*args)
            self.graphs[key] = torch.compile(graph, fullgraph=True)
        with torch.no_grad():
            return self.graphs[key](*args)
