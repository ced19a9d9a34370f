"""Neural network modules that `torch.nn` does not have. Every learner accepts them."""

from tractable.nn.causal_transformer import CausalTransformer
from tractable.nn.mlp import mlp
from tractable.nn.steady_state import SteadyState
from tractable.nn.truncated import Truncated

__all__ = ["CausalTransformer", "SteadyState", "Truncated", "mlp"]
