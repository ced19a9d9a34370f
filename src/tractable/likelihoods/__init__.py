"""What the data mean: how an observation depends on the outputs of the network."""

from tractable.errors import InvalidTarget
from tractable.likelihoods.base import Likelihood
from tractable.likelihoods.bernoulli import Bernoulli
from tractable.likelihoods.categorical import Categorical
from tractable.likelihoods.heteroscedastic import HeteroscedasticNormal
from tractable.likelihoods.normal import Normal
from tractable.likelihoods.softmax import Softmax

__all__ = [
    "Bernoulli",
    "Categorical",
    "HeteroscedasticNormal",
    "InvalidTarget",
    "Likelihood",
    "Normal",
    "Softmax",
]
