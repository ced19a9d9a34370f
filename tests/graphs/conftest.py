"""The two graphs of the book, after E 13.26 (nodes are numbered from 0 here)."""

import pytest
import torch

from tractable.graphs import Graph

A1 = "0110000 1001110 1000011 0100011 0100001 0111000 0011100"
A2 = "0011001 0011100 1100000 1100111 0101001 0001001 1001110"


def matrix(text):
    return torch.tensor([[float(c) for c in row] for row in text.split()])


def graph_of(text, **options):
    a = matrix(text)
    options.setdefault("x", torch.arange(1.0, len(a) + 1).unsqueeze(1))
    return Graph(a.triu().nonzero(), **options)


@pytest.fixture
def first():
    return graph_of(A1)


@pytest.fixture
def second():
    return graph_of(A2)
