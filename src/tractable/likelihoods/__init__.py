"""Observation models: how targets depend on the outputs of the network."""

from tractable.errors import InvalidTarget
from tractable.likelihoods.base import Likelihood, Traits
from tractable.likelihoods.bernoulli import Bernoulli
from tractable.likelihoods.categorical import Categorical
from tractable.likelihoods.from_distribution import FromDistribution
from tractable.likelihoods.heteroscedastic import HeteroscedasticNormal
from tractable.likelihoods.joint import Joint
from tractable.likelihoods.laplace import Laplace
from tractable.likelihoods.log_density import LogDensity
from tractable.likelihoods.mixture import Mixture
from tractable.likelihoods.multivariate_normal import MultivariateNormal
from tractable.likelihoods.negative_binomial import NegativeBinomial
from tractable.likelihoods.normal import Normal
from tractable.likelihoods.ordinal import Ordinal
from tractable.likelihoods.per_step import PerStep
from tractable.likelihoods.poisson import Poisson
from tractable.likelihoods.softmax import Softmax
from tractable.likelihoods.student_t import StudentT
from tractable.likelihoods.von_mises import VonMises

__all__ = [
    "Bernoulli",
    "Categorical",
    "FromDistribution",
    "HeteroscedasticNormal",
    "InvalidTarget",
    "Joint",
    "Laplace",
    "Likelihood",
    "LogDensity",
    "Mixture",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "Ordinal",
    "PerStep",
    "Poisson",
    "Softmax",
    "StudentT",
    "Traits",
    "VonMises",
]
