"""Public data sets as torch tensors, with verified checksums, and standardization.

A file is read from the folder named by the environment variable ``TRACTABLE_DATA``, else from the
cache, else it is downloaded once (``tractable.data.download``).
"""

from tractable.data.download import ChecksumMismatch, DataNotFound
from tractable.data.graphs import CitationData, MoleculeData, mutag, planetoid
from tractable.data.images import AugmentedImages, ImageData, cifar10, fashion_mnist, mnist
from tractable.data.tables import UCI_NAMES, RegressionData, Split, TableData, mushroom, uci
from tractable.data.timeseries import TimeSeries, airline, etth1, sunspots
from tractable.training.standardizer import Standardizer

__all__ = [
    "UCI_NAMES",
    "AugmentedImages",
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
