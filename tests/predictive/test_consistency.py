"""Every prediction against its own density, and planted faults that the check must notice."""

from dataclasses import replace

import pytest
import torch

from tractable.likelihoods import (
    Bernoulli,
    Categorical,
    HeteroscedasticNormal,
    Normal,
    Ordinal,
    Softmax,
)
from tractable.predictive import CategoricalPredictive, NormalPredictive
from tractable.testing import check_predictive

D = torch.float64
ROWS = 4


def outputs(width, seed=0, scale=1.0, dtype=D):
    """Means and variances of a network's outputs."""
    generator = torch.Generator().manual_seed(seed)
    mean = torch.randn(ROWS, width, generator=generator, dtype=dtype)
    return mean, scale * (0.05 + 0.6 * torch.rand(ROWS, width, generator=generator, dtype=dtype))


KINDS = {
    "normal": (lambda: Normal(0.3), 1),
    "normals": (lambda: Normal(0.3, 2), 2),
    "heteroscedastic": (HeteroscedasticNormal, 2),
    "ordinal": (lambda: Ordinal(4), 1),
    "probit": (Bernoulli, 1),
    "labels": (lambda: Bernoulli("logit"), 3),
    "tree": (lambda: Categorical(5), 4),
    "softmax": (lambda: Softmax(4), 4),
}


@pytest.mark.parametrize("dtype", [torch.float32, D])
@pytest.mark.parametrize("kind", KINDS)
def test_members_describe_one_distribution(kind, dtype):
    make, width = KINDS[kind]
    check_predictive(make().predictive(*outputs(width, dtype=dtype)), n_samples=5_000)


# --- the check itself --------------------------------------------------------------------------


class Faulty(NormalPredictive):
    """A normal prediction whose members are overridden below, one at a time."""


FAULTS = {
    "sample": lambda self, n=1, generator=None: (
        self.mean + 1.1 * (NormalPredictive.sample(self, n, generator) - self.mean)
    ),
    "cdf": lambda self, y: NormalPredictive.cdf(self, y + 0.01),
    "quantile": lambda self, q: NormalPredictive.quantile(self, q) + 0.01,
    "log_prob": lambda self, y: NormalPredictive.log_prob(self, y) + 0.01,
    "elementwise_log_prob": lambda self, y: NormalPredictive.elementwise_log_prob(self, y) - 0.01,
    "mean": property(lambda self: self.loc + 0.01),
    "mode": property(lambda self: self.loc + 0.05),
    "variance": property(lambda self: 1.02 * (self.epistemic_variance + self.noise_variance)),
    "aleatoric": property(lambda self: 1.1 * self.noise_variance),
    "interval": lambda self, level=0.9: (self.quantile(0.1), self.quantile(0.9)),
    "with_noise_scaled": lambda self, factors: replace(
        self, epistemic_variance=self.epistemic_variance * factors, novelty=None
    ),
    "rescaled": lambda self, mean, scale: replace(self, loc=mean + scale * self.loc),
    "squeezed": lambda self: NormalPredictive(
        self.loc, self.epistemic_variance, self.noise_variance
    ),
    "double": lambda self: NormalPredictive(
        self.loc + 0.1, self.epistemic_variance, self.noise_variance
    ),
}


@pytest.mark.parametrize("member", FAULTS)
def test_a_fault_in_one_member_is_noticed(member):
    kind = type("Faulty", (Faulty,), {member: FAULTS[member]})
    mean, within = outputs(1, dtype=torch.float32)
    predictive = kind(mean, within, torch.full_like(mean, 0.3))
    with pytest.raises(AssertionError, match=r"Faulty|Normal"):
        check_predictive(predictive)


def test_a_density_from_elsewhere_is_compared():
    likelihood, (mean, variance) = Normal(0.3), outputs(1)
    predictive = likelihood.predictive(mean, variance)
    check_predictive(
        predictive,
        reference=lambda y: likelihood.log_evidence(y, mean, variance),
        transformations=False,
    )
    with pytest.raises(AssertionError, match="reference"):
        check_predictive(
            predictive, reference=lambda y: likelihood.log_evidence(y, mean, 1.1 * variance)
        )


def test_labels_that_are_drawn_wrongly_are_noticed():
    class Wrong(CategoricalPredictive):
        def sample(self, n=1, generator=None):
            return self.labels.expand(n, -1)

    with pytest.raises(AssertionError, match="share of samples"):
        check_predictive(Wrong(torch.tensor([[0.2, 0.8], [0.5, 0.5]])))


def test_an_error_that_is_not_a_refusal_is_raised():
    class Broken(NormalPredictive):
        def cdf(self, y):
            raise TypeError("unsupported operand")

    mean = torch.zeros(2, 1)
    with pytest.raises(TypeError, match="unsupported operand"):
        check_predictive(Broken(mean, mean + 1, mean + 1))
