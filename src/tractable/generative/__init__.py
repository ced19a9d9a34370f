"""Models of rows alone, or given a context: densities, samples, and rows that do not belong."""

from tractable.generative.base import Generative
from tractable.generative.columns import Columns, DiscreteColumns
from tractable.generative.diffusion import Diffusion
from tractable.generative.learnt import Learnt
from tractable.generative.predictive import Density, RowPredictive
from tractable.generative.schedule import Schedule

__all__ = [
    "Columns",
    "Density",
    "Diffusion",
    "DiscreteColumns",
    "Generative",
    "Learnt",
    "RowPredictive",
    "Schedule",
]
