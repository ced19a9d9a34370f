"""Modules that torch lacks, and what is built on them: plain modules, for every learner."""

from tractable.nn.causal_lm import CausalLM
from tractable.nn.causal_transformer import CausalTransformer
from tractable.nn.steady_state import SteadyState
from tractable.nn.truncated import Truncated

__all__ = ["CausalLM", "CausalTransformer", "SteadyState", "Truncated"]
