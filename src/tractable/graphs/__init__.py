"""Graph neural networks for node, link and graph prediction, whose inputs are indices."""

from tractable.graphs.graph import Graph
from tractable.graphs.layers import GraphAttention, GraphConv, GraphLayer, aggregate_neighbors
from tractable.graphs.neighborhood import Neighborhood
from tractable.graphs.networks import GraphNetwork, LinkNetwork, NodeNetwork, Pooling

__all__ = [
    "Graph",
    "GraphAttention",
    "GraphConv",
    "GraphLayer",
    "GraphNetwork",
    "LinkNetwork",
    "Neighborhood",
    "NodeNetwork",
    "Pooling",
    "aggregate_neighbors",
]
