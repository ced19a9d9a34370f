"""Diffusion models: the model, its noise schedule, samplers and density."""

from tractable.generative.diffusion.density import DiffusionPredictive
from tractable.generative.diffusion.model import Diffusion
from tractable.generative.diffusion.schedule import NoiseSchedule

__all__ = ["Diffusion", "DiffusionPredictive", "NoiseSchedule"]
