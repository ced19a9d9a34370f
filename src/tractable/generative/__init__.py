"""Generative models of rows: densities, samples, imputation and novelty scores."""

from tractable.generative.autoencoder import Autoencoder
from tractable.generative.autoregressive import Autoregressive
from tractable.generative.base import GenerativeModel
from tractable.generative.causal_lm import CausalLM
from tractable.generative.column_scaler import DiscreteColumnsWarning
from tractable.generative.diffusion import Diffusion, NoiseSchedule
from tractable.generative.flows import (
    ComposedFlow,
    DensityModule,
    Flow,
    fit_reverse_kl,
    neural_spline_flow,
)
from tractable.generative.gan import GAN
from tractable.generative.latent_decoder import LatentDecoder
from tractable.generative.made import MADE
from tractable.generative.mixture import GaussianMixture
from tractable.generative.predictive import DensityPredictive
from tractable.generative.vae import VAE

__all__ = [
    "GAN",
    "MADE",
    "VAE",
    "Autoencoder",
    "Autoregressive",
    "CausalLM",
    "ComposedFlow",
    "DensityModule",
    "DensityPredictive",
    "Diffusion",
    "DiscreteColumnsWarning",
    "Flow",
    "GaussianMixture",
    "GenerativeModel",
    "LatentDecoder",
    "NoiseSchedule",
    "fit_reverse_kl",
    "neural_spline_flow",
]
