"""Public data sets as torch tensors, each file checked against its SHA-256.

A file is taken from the folder that ``TRACTABLE_DATA`` names, else from the cache, else
downloaded once (:mod:`tractable.data.store`). :class:`Standardizer` scales columns;
:class:`Augmented` varies images.
"""

from tractable.data.augmented import Augmented
from tractable.data.cifar import cifar10
from tractable.data.graphs import CitationData, MoleculeData, mutag, planetoid
from tractable.data.idx import fashion_mnist, mnist
from tractable.data.images import ImageData
from tractable.data.regression import UCI_NAMES, RegressionData, Split, uci
from tractable.data.standardizer import Standardizer
from tractable.data.store import ChecksumMismatch, DataNotFound
from tractable.data.tables import TableData, mushroom
from tractable.data.timeseries import TimeSeries, airline, etth1, sunspots

__all__ = [
    "UCI_NAMES",
    "Augmented",
    "ChecksumMismatch",
    "CitationData",
    "DataNotFound",
    "ImageData",
    "MoleculeData",
    "RegressionData",
    "Split",
    "Standardizer",
    "TableData",
    "TimeSeries",
    "airline",
    "cifar10",
    "etth1",
    "fashion_mnist",
    "mnist",
    "mushroom",
    "mutag",
    "planetoid",
    "sunspots",
    "uci",
]
