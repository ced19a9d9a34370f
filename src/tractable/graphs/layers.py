"""Layers of graph networks: the features of the neighbors are aggregated first, then transformed.

Aggregation commutes with a linear map, but the order matters for the variance: all neighbors share
the weights W, so ``(A X) W`` has the correct variance with independent weights, whereas ``A (X W)``
ignores that the products share W and is too small (on the first layer for Cora 1.5 times on
average, at most 14 times).  Without Gaussians both orders are equal, and the cheaper one is used.

Equation numbers (E) are those of "Understanding Deep Learning" (Prince, 2023).

Exact: the moments of a layer whose inputs are constants; sums of independent values.
Approximate: inputs that were computed with the same weights at neighboring nodes are treated as
independent; the maximum over neighbors is the maximum of the means.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal

import torch
from torch import Tensor, nn
from typing_extensions import override

from tractable.gaussian import Gaussian
from tractable.graphs.neighborhood import Neighborhood

AGGREGATIONS = ("symmetric", "mean", "sum", "max")
SelfFeatures = Literal["loop", "add", "epsilon", "separate", "concat", "none"]
SELF_FEATURES = ("loop", "add", "epsilon", "separate", "concat", "none")


# --- aggregation over neighbors ----------------------------------------------------------------


def aggregate_neighbors(x: Any, neighborhood: Neighborhood, kind: str, *, self_loop: bool) -> Any:
    """Return the aggregated features of the neighbors of each node, ``[target nodes, features]``.

    Args:
        x: features of the nodes, a tensor or a Gaussian, ``[nodes, features]``.
        neighborhood: nodes and the messages between them.
        kind: one of ``AGGREGATIONS``.
        self_loop: whether each node counts as one of its own neighbors.
    """
    index = neighborhood.messages(len(x))
    sent = x.index_select(0, index.sources)
    if kind == "max":
        return _maximum(x, sent, index.targets, index.n_targets, self_loop)
    weights = neighborhood.weights(len(x), kind, self_loop=self_loop, dtype=x.dtype)
    sent = sent if kind == "sum" else sent * weights.messages.unsqueeze(1)
    received = sum_messages(sent, index.targets, index.n_targets)
    if weights.self_loops is None:
        return received
    itself = x[: index.n_targets]
    return received + (itself if kind == "sum" else itself * weights.self_loops.unsqueeze(1))


def sum_messages(sent: Any, targets: Tensor, n_targets: int) -> Any:
    """Return the sum of the messages to each node.

    Args:
        sent: value of each message, ``[messages, ...]``.
        targets: index of the node that receives each message.
        n_targets: number of receiving nodes.
    """
    return sent.new_zeros((n_targets, *sent.shape[1:])).index_add(0, targets, sent)


def _maximum(x: Any, sent: Any, targets: Tensor, n_targets: int, self_loop: bool) -> Any:
    """Return the largest message to each node (E 13.21); 0 for a node without messages."""
    if self_loop:
        sent = torch.cat([sent, x[:n_targets]])
        targets = torch.cat([targets, torch.arange(n_targets, device=targets.device)])
    at = targets.unsqueeze(1).expand(-1, sent.shape[1])
    zeros = sent.new_zeros((n_targets, sent.shape[1]))
    return zeros.scatter_reduce(0, at, sent, "amax", include_self=False)


def edge_softmax(scores: Any, targets: Tensor, n_targets: int) -> Any:
    """Return the softmax of the scores over the messages to each node (E 13.24).

    With the probabilities p of the messages to one node and the variances v of their scores,

        var_i = p_i^2 ((1 - 2 p_i) v_i + sum_j p_j^2 v_j),

    linearized at the means.  The map from v to var is its own transpose, so the gradient that
    autograd computes for the variance is the message.

    Args:
        scores: score of each message, ``[messages, heads]``.
        targets: index of the node that receives each message.
        n_targets: number of receiving nodes.
    """
    mean = scores.loc if isinstance(scores, Gaussian) else scores
    p = _softmax(mean, targets, n_targets)
    if not isinstance(scores, Gaussian):
        return p
    v, square = scores.variance, p.detach().square()
    total = sum_messages(square * v, targets, n_targets).index_select(0, targets)
    return Gaussian.wrap(p, square * ((1 - 2 * p.detach()) * v + total).clamp_min(0))


def _softmax(scores: Tensor, targets: Tensor, n_targets: int) -> Tensor:
    at = targets.unsqueeze(1).expand_as(scores)
    top = scores.detach().new_full((n_targets, scores.shape[1]), -torch.inf)
    top = top.scatter_reduce(0, at, scores.detach(), "amax")  # subtracted so that exp is finite
    weight = (scores - top.index_select(0, targets)).exp()
    return weight / sum_messages(weight, targets, n_targets).index_select(0, targets)


# --- layers ------------------------------------------------------------------------------------


class GraphLayer(nn.Module):
    """Base class of layers that use the features of neighboring nodes."""

    @abstractmethod
    def forward(self, x: Any, neighborhood: Neighborhood) -> Any:
        """Return features of the nodes one step nearer to the batch than those of ``x``.

        Args:
            x: features of the first nodes of ``neighborhood``, ``[nodes, features]``.
            neighborhood: nodes and the messages between them.
        """


class GraphConv(GraphLayer):
    """A graph convolution: a linear map of aggregated neighbors and of the node's own features.

    ``self_features`` selects how a node's own features are used:

    * ``loop``: the node counts as one of its own neighbors (the usual graph convolution, in which
      A + I is normalized; E 13.30 for the mean, 13.10 for the sum);
    * ``add``: they are added to the aggregated features, with the same weights (E 13.18, 13.20);
    * ``epsilon``: the same, times 1 + ``epsilon`` (E 13.14, 13.26);
    * ``separate``: they have separate weights (E 13.15, 13.28);
    * ``concat``: they are concatenated to the result, which then has ``out_features +
      in_features`` columns (E 13.16);
    * ``none``: they are not used.

    Args:
        in_features: number of input features of a node.
        out_features: number of output features of a node.
        aggregate: ``symmetric`` (E 13.19), ``mean`` (E 13.17), ``sum`` (E 13.8) or ``max``
            (E 13.21).
        self_features: see above.
        epsilon: for ``self_features="epsilon"``.
        n_edge_features: number of edge features, which are aggregated like those of the nodes.
        bias: whether to add a bias.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        aggregate: str = "symmetric",
        self_features: SelfFeatures = "loop",
        epsilon: float = 0.0,
        n_edge_features: int = 0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if aggregate not in AGGREGATIONS:
            raise ValueError(
                f"aggregate must be one of {', '.join(AGGREGATIONS)}, got {aggregate!r}"
            )
        if self_features not in SELF_FEATURES:
            raise ValueError(
                f"self_features must be one of {', '.join(SELF_FEATURES)}, got {self_features!r}"
            )
        if n_edge_features and aggregate == "max":
            raise ValueError(
                "aggregate='max' does not support edge features: use sum, mean or symmetric"
            )
        self.aggregate, self.self_features = aggregate, self_features
        self.epsilon, self.n_edge_features = epsilon, n_edge_features
        width = in_features * (2 if self_features == "separate" else 1) + n_edge_features
        self.linear = nn.Linear(width, out_features, bias=bias)

    @override
    def forward(self, x: Any, neighborhood: Neighborhood) -> Any:
        self_loop, constant = self.self_features == "loop", x is neighborhood.x
        if not constant and self._transforms_first(x):
            z = nn.functional.linear(x, self.linear.weight)
            z = self._aggregate(z, neighborhood, self_loop)
            return z if self.linear.bias is None else z + self.linear.bias
        cached = (
            neighborhood.aggregated_features(self.aggregate, self_loop=self_loop)
            if constant
            else None
        )
        received = self._aggregate(x, neighborhood, self_loop, cached)
        itself = x[: len(received)]
        parts = [received, itself] if self.self_features == "separate" else [received]
        if self.n_edge_features:
            parts.append(self._aggregate_edges(len(x), neighborhood, received.dtype))
        z = self.linear(torch.cat(parts, 1) if len(parts) > 1 else received)
        return torch.cat([z, itself], 1) if self.self_features == "concat" else z

    def _transforms_first(self, x: Any) -> bool:
        """Return whether the linear map comes first because it is cheaper; never for Gaussians."""
        if isinstance(x, Gaussian) or isinstance(self.linear.weight, Gaussian):
            return False
        commutes = self.self_features in ("loop", "add", "epsilon", "none")
        commutes = commutes and not self.n_edge_features and self.aggregate != "max"
        return commutes and self.linear.out_features < x.shape[1]

    def _aggregate(
        self, x: Any, neighborhood: Neighborhood, self_loop: bool, received: Any = None
    ) -> Any:
        """Return the aggregated features, plus the node's own ones where they are added."""
        if received is None:
            received = aggregate_neighbors(x, neighborhood, self.aggregate, self_loop=self_loop)
        if self.self_features == "add":
            return received + x[: len(received)]
        if self.self_features == "epsilon":
            return received + (1 + self.epsilon) * x[: len(received)]
        return received

    def _aggregate_edges(self, n_nodes: int, neighborhood: Neighborhood, dtype: torch.dtype) -> Any:
        index = neighborhood.messages(n_nodes)
        features = neighborhood.edge_features(index, dtype)
        self_loop = self.self_features == "loop"
        weights = neighborhood.weights(n_nodes, self.aggregate, self_loop=self_loop, dtype=dtype)
        features = features * weights.messages.unsqueeze(1)
        return sum_messages(features, index.targets, index.n_targets)

    @override
    def extra_repr(self) -> str:
        return f"aggregate={self.aggregate!r}, self_features={self.self_features!r}"


class GraphAttention(GraphLayer):
    """Graph attention: neighbors and the node itself are weighted by a softmax (E 13.22 to 13.24).

    With ``scoring="additive"`` the score of a message is ``leaky_relu(phi . [h_m, h_n])``
    (Velickovic et al., 2018); with ``"dot"`` it is the product of a query and a key, divided by
    the square root of their length, as in transformers.

    Exact: only the linear map.
    Approximate: scores and values, which are computed with the same weights, are treated as
    independent.

    Args:
        in_features: number of input features of a node.
        out_features: number of output features of each head.
        n_heads: number of attention heads.
        scoring: ``"additive"`` or ``"dot"``.
        concat: whether the heads are concatenated in the result; otherwise they are averaged.
        negative_slope: slope of the leaky ReLU of additive scores.
        dropout: probability with which a neighbor is left out during training, as published.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        n_heads: int = 1,
        scoring: Literal["additive", "dot"] = "additive",
        concat: bool = True,
        negative_slope: float = 0.2,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if scoring not in ("additive", "dot"):
            raise ValueError(f"scoring must be additive or dot, got {scoring!r}")
        self.n_heads, self.out_features, self.scoring = n_heads, out_features, scoring
        self.concat, self.negative_slope = concat, negative_slope
        self.dropout = nn.Dropout(dropout)
        self.values = nn.Linear(in_features, n_heads * out_features, bias=False)
        if scoring == "additive":
            self.to_source = nn.Parameter(torch.empty(n_heads, out_features))
            self.to_target = nn.Parameter(torch.empty(n_heads, out_features))
        else:
            self.queries = nn.Linear(in_features, n_heads * out_features)
            self.keys = nn.Linear(in_features, n_heads * out_features)
        self.bias = nn.Parameter(torch.zeros(n_heads * out_features if concat else out_features))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize the weights by Glorot's scheme, as published."""
        nn.init.xavier_uniform_(self.values.weight)
        if self.scoring == "additive":
            nn.init.xavier_uniform_(self.to_source)
            nn.init.xavier_uniform_(self.to_target)

    @override
    def forward(self, x: Any, neighborhood: Neighborhood) -> Any:
        index = neighborhood.messages(len(x))
        itself = torch.arange(index.n_targets, device=index.targets.device)
        sources = torch.cat([index.sources, itself])
        targets = torch.cat([index.targets, itself])
        values = self.values(x).reshape(len(x), self.n_heads, self.out_features)
        scores = self._scores(x, values, sources, targets)
        attention = edge_softmax(scores, targets, index.n_targets)
        sent = values.index_select(0, sources) * self.dropout(attention).unsqueeze(2)
        received = sum_messages(sent, targets, index.n_targets)
        return (received.flatten(1) if self.concat else received.mean(1)) + self.bias

    def _scores(self, x: Any, values: Any, sources: Any, targets: Any) -> Any:
        if self.scoring == "additive":
            # phi . [h_m, h_n] is the sum of one term for the source and one for the target.
            of_source = (values * self.to_source).sum(2).index_select(0, sources)
            of_target = (values * self.to_target).sum(2).index_select(0, targets)
            return nn.functional.leaky_relu(of_source + of_target, self.negative_slope)
        shape = (len(x), self.n_heads, self.out_features)
        query = self.queries(x).reshape(shape).index_select(0, targets)
        key = self.keys(x).reshape(shape).index_select(0, sources)
        return (query * key).sum(2) / self.out_features**0.5
