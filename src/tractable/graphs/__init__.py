"""Networks of graphs: nodes, pairs of nodes and whole graphs as rows of numbers."""

from tractable.graphs.aggregate import aggregated
from tractable.graphs.graph import Graph
from tractable.graphs.layers import Attention, Conv, GraphLayer
from tractable.graphs.rows import Edges, Graphs, Nodes, Pool
from tractable.graphs.view import View

__all__ = [
    "Attention",
    "Conv",
    "Edges",
    "Graph",
    "GraphLayer",
    "Graphs",
    "Nodes",
    "Pool",
    "View",
    "aggregated",
]
