"""Layers of graph networks: what neighbours say is put together first, and transformed after.

A sum over neighbours commutes with a linear map, and the order matters for the variance: the
weights are the same for all neighbours, so (A X) W has the right variance with independent weights,
and A (X W), which forgets that the products share W, is too sure (on Cora's first layer by 1.5
times on average, by 14 at worst).  Numbers of equations are those of "Understanding Deep Learning"
(Prince, 2023).

Without Gaussians both orders are the same, and the cheaper one is taken.

Exact: the moments of a layer whose inputs are known.  Approximate: inputs that come out of the same
weights at neighbouring nodes are taken as independent.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal

import torch
from torch import nn

from tractable.gaussian import Gaussian
from tractable.graphs.aggregate import KINDS, aggregated, shares, summed
from tractable.graphs.view import View

Own = Literal["loop", "add", "epsilon", "separate", "beside", "none"]
OWN = ("loop", "add", "epsilon", "separate", "beside", "none")


class GraphLayer(nn.Module):
    """A layer that hears the neighbours of a node."""

    @abstractmethod
    def forward(self, x: Any, view: View) -> Any:
        """Values of the nodes of ``view`` into those of the nodes one step nearer to the batch."""


class Conv(GraphLayer):
    """A linear map of what the neighbours say, and of a node's own value.

    How a node's own value counts:

    * ``loop``: as that of one more neighbour (the usual graph convolution: A + I is normalised;
      E 13.30 for the mean, 13.10 for the sum);
    * ``add``: it is added to what the neighbours say, with the same weights (E 13.18, 13.20);
    * ``epsilon``: the same, times 1 + epsilon (E 13.14, 13.26);
    * ``separate``: with weights of its own (E 13.15, 13.28);
    * ``beside``: it is handed on beside the result, ``outputs + inputs`` in all (E 13.16);
    * ``none``: not at all.

    Args:
        inputs: number of features.
        outputs: number of features of the result.
        aggregate: ``symmetric`` (E 13.19), ``mean`` (E 13.17), ``sum`` (E 13.8) or ``max``
            (E 13.21).
        own: see above.
        epsilon: what is added to 1 for ``own="epsilon"``.
        edge_inputs: number of features of edges, which are put together in the same way.
        bias: whether to add a constant.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        aggregate: str = "symmetric",
        own: Own = "loop",
        epsilon: float = 0.0,
        edge_inputs: int = 0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if aggregate not in KINDS:
            raise ValueError(f"aggregate must be one of {', '.join(KINDS)}, got {aggregate!r}")
        if own not in OWN:
            raise ValueError(f"own must be one of {', '.join(OWN)}, got {own!r}")
        if edge_inputs and aggregate == "max":
            raise ValueError("features of edges have no largest: use sum, mean or symmetric")
        self.aggregate, self.own, self.epsilon, self.edge_inputs = (
            aggregate,
            own,
            epsilon,
            edge_inputs,
        )
        width = inputs * (2 if own == "separate" else 1) + edge_inputs
        self.linear = nn.Linear(width, outputs, bias=bias)

    def forward(self, x: Any, view: View) -> Any:
        """See ``GraphLayer``."""
        loop, known = self.own == "loop", x is view.x
        if not known and self._commutes(x):
            z = self._with_own(nn.functional.linear(x, self.linear.weight), view, loop)
            return z if self.linear.bias is None else z + self.linear.bias
        heard = view.of_features(self.aggregate, loop=loop) if known else None
        heard = self._with_own(x, view, loop, heard)
        mine = x[: len(heard)]
        parts = [heard, mine] if self.own == "separate" else [heard]
        if self.edge_inputs:
            parts.append(self._along_edges(len(x), view, heard.dtype))
        z = self.linear(torch.cat(parts, 1) if len(parts) > 1 else heard)
        return torch.cat([z, mine], 1) if self.own == "beside" else z

    def _commutes(self, x: Any) -> bool:
        """Whether the linear map may come first, and is cheaper so: never for Gaussians."""
        if isinstance(x, Gaussian) or isinstance(self.linear.weight, Gaussian):
            return False
        alone = self.own in ("loop", "add", "epsilon", "none") and not self.edge_inputs
        return alone and self.aggregate != "max" and self.linear.out_features < x.shape[1]

    def _with_own(self, x: Any, view: View, loop: bool, heard: Any = None) -> Any:
        """What neighbours say, and a node's own value where it is added to that."""
        heard = aggregated(x, view, self.aggregate, loop=loop) if heard is None else heard
        if self.own == "add":
            return heard + x[: len(heard)]
        if self.own == "epsilon":
            return heard + (1 + self.epsilon) * x[: len(heard)]
        return heard

    def _along_edges(self, given: int, view: View, dtype: torch.dtype) -> Any:
        passed = view.messages(given)
        features = view.edge_features(passed, dtype)
        weights = view.weights(given, self.aggregate, loop=self.own == "loop", dtype=dtype)
        return summed(features * weights.messages.unsqueeze(1), passed.targets, passed.rows)

    def extra_repr(self) -> str:
        """How it hears."""
        return f"aggregate={self.aggregate!r}, own={self.own!r}"


class Attention(GraphLayer):
    """Neighbours, and the node itself, count by how well they fit (E 13.22 to 13.24).

    ``additive``: the score of a message is ``leaky_relu(phi . [h_m, h_n])``, as published by
    Velickovic et al. (2018); ``dot``: the product of a query and a key over the root of their
    length, as in transformers.

    Exact: nothing but the linear map.  Approximate: scores and values, which come out of the same
    weights, are taken as independent.

    Args:
        inputs: number of features.
        outputs: number of features of each head.
        heads: how many look side by side.
        kind: ``additive`` or ``dot``.
        concat: whether the heads stand beside each other in the result; else it is their mean.
        slope: slope of a score below zero.
        dropout: probability with which a neighbour is passed over while learning, as published.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        heads: int = 1,
        kind: Literal["additive", "dot"] = "additive",
        concat: bool = True,
        slope: float = 0.2,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if kind not in ("additive", "dot"):
            raise ValueError(f"kind must be additive or dot, got {kind!r}")
        self.heads, self.outputs, self.kind = heads, outputs, kind
        self.concat, self.slope = concat, slope
        self.passed_over = nn.Dropout(dropout)
        self.values = nn.Linear(inputs, heads * outputs, bias=False)
        if kind == "additive":
            self.to_source = nn.Parameter(torch.empty(heads, outputs))
            self.to_target = nn.Parameter(torch.empty(heads, outputs))
        else:
            self.queries = nn.Linear(inputs, heads * outputs)
            self.keys = nn.Linear(inputs, heads * outputs)
        self.bias = nn.Parameter(torch.zeros(heads * outputs if concat else outputs))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot's, as published."""
        nn.init.xavier_uniform_(self.values.weight)
        if self.kind == "additive":
            nn.init.xavier_uniform_(self.to_source)
            nn.init.xavier_uniform_(self.to_target)

    def forward(self, x: Any, view: View) -> Any:
        """See ``GraphLayer``."""
        passed = view.messages(len(x))
        itself = torch.arange(passed.rows, device=passed.targets.device)
        sources = torch.cat([passed.sources, itself])
        targets = torch.cat([passed.targets, itself])
        values = self.values(x).reshape(len(x), self.heads, self.outputs)
        share = shares(self._scores(x, values, sources, targets), targets, passed.rows)
        said = values.index_select(0, sources) * self.passed_over(share).unsqueeze(2)
        heard = summed(said, targets, passed.rows)
        return (heard.flatten(1) if self.concat else heard.mean(1)) + self.bias

    def _scores(self, x: Any, values: Any, sources: Any, targets: Any) -> Any:
        if self.kind == "additive":
            # phi . [h_m, h_n] is the sum of a part of the source and one of the target.
            of_source = (values * self.to_source).sum(2).index_select(0, sources)
            of_target = (values * self.to_target).sum(2).index_select(0, targets)
            return nn.functional.leaky_relu(of_source + of_target, self.slope)
        shape = (len(x), self.heads, self.outputs)
        query = self.queries(x).reshape(shape).index_select(0, targets)
        key = self.keys(x).reshape(shape).index_select(0, sources)
        return (query * key).sum(2) / self.outputs**0.5
