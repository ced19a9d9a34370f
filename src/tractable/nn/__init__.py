"""Neural network modules that `torch.nn` does not have. Every learner accepts them."""

from tractable.nn.causal_transformer import CausalTransformer
from tractable.nn.equilibrium import DeepEquilibrium
from tractable.nn.mlp import mlp
from tractable.nn.truncated_bptt import TruncatedBPTT

__all__ = ["CausalTransformer", "DeepEquilibrium", "TruncatedBPTT", "mlp"]
