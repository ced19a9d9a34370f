"""Models of rows alone, or given a context: densities, samples, and rows that do not belong."""

from tractable.generative.autoencoder import Autoencoder, kl_to_prior, slerp
from tractable.generative.autoregressive import Autoregressive
from tractable.generative.base import Generative
from tractable.generative.causal_lm import CausalLM
from tractable.generative.columns import Columns, DiscreteColumns
from tractable.generative.diffusion import Diffusion
from tractable.generative.flows import Chain, DensityModule, Flow, flow, reverse_fit
from tractable.generative.gan import GAN
from tractable.generative.latent import Latent
from tractable.generative.learnt import Learnt
from tractable.generative.masked import Masked
from tractable.generative.mixture import GaussianMixture
from tractable.generative.predictive import Density, RowPredictive
from tractable.generative.schedule import Schedule
from tractable.generative.vae import VAE

__all__ = [
    "GAN",
    "VAE",
    "Autoencoder",
    "Autoregressive",
    "CausalLM",
    "Chain",
    "Columns",
    "Density",
    "DensityModule",
    "Diffusion",
    "DiscreteColumns",
    "Flow",
    "GaussianMixture",
    "Generative",
    "Latent",
    "Learnt",
    "Masked",
    "RowPredictive",
    "Schedule",
    "flow",
    "kl_to_prior",
    "reverse_fit",
    "slerp",
]
