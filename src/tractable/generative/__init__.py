"""Models of rows alone, or given a context: densities, samples, and rows that do not belong."""

from tractable.generative.autoencoder import Autoencoder, kl_to_prior, slerp
from tractable.generative.base import Generative
from tractable.generative.columns import Columns, DiscreteColumns
from tractable.generative.diffusion import Diffusion
from tractable.generative.learnt import Learnt
from tractable.generative.mixture import GaussianMixture
from tractable.generative.predictive import Density, RowPredictive
from tractable.generative.schedule import Schedule
from tractable.generative.vae import VAE

__all__ = [
    "VAE",
    "Autoencoder",
    "Columns",
    "Density",
    "Diffusion",
    "DiscreteColumns",
    "GaussianMixture",
    "Generative",
    "Learnt",
    "RowPredictive",
    "Schedule",
    "kl_to_prior",
    "slerp",
]
