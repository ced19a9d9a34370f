"""The likelihoods of the library against the battery for everybody's likelihoods."""

import math
from typing import ClassVar

import pytest
import torch
from torch.distributions import Gamma
from torch.distributions import Normal as NormalDistribution

from tractable.likelihoods import (
    Bernoulli,
    Categorical,
    FromDistribution,
    HeteroscedasticNormal,
    Joint,
    Laplace,
    Mixture,
    MultivariateNormal,
    NegativeBinomial,
    Normal,
    Ordinal,
    Poisson,
    StudentT,
    VonMises,
)
from tractable.testing import LikelihoodConformance

D = torch.float64
NOT_NUMBERS = [torch.tensor([0.0, math.nan, 1.0]), torch.tensor([0.0, math.inf, 1.0])]
LABELS = torch.tensor([0, 3, 4])
NOT_LABELS = [torch.tensor([0, 3, 99]), torch.tensor([-1, 3, 4]), torch.tensor([0.5, 3.0, 4.0])]


def gamma(z):
    return Gamma(torch.full_like(z, 3.0), 3 * torch.exp(-z))


def wide_normal(z):
    return NormalDistribution(z[..., 0], torch.exp(z[..., 1] / 2))


class TestNormal(LikelihoodConformance):
    bad_targets = NOT_NUMBERS

    def make(self):
        return Normal(0.3)

    def observed(self):
        return torch.tensor([[0.4], [-2.0], [7.0]], dtype=D)


class TestBernoulli(LikelihoodConformance):
    bad_targets = (torch.tensor([0, 1, 2]), torch.tensor([-1, 0, 1]), torch.tensor([0.5, 0, 1]))

    def make(self):
        return Bernoulli()

    def observed(self):
        return torch.tensor([[1], [0], [1]])


class TestTree(LikelihoodConformance):
    width = 4
    bad_targets = NOT_LABELS

    def make(self):
        return Categorical(5, link="probit")

    def observed(self):
        return LABELS


class TestNormalTree(TestTree):
    normalized = False  # a decision is learned as a number, and predicted as a label

    def make(self):
        return Categorical(5, link="normal", sigma=0.3)


class TestPublishedTree(LikelihoodConformance):
    width = 11
    normalized = False  # a tree of ten classes with sixteen leaves: probabilities are scaled
    exact_moments = False
    bad_targets = NOT_LABELS

    def make(self):
        return Categorical(10, tree="published", link="probit", sigma=0.5)

    def observed(self):
        return torch.tensor([0, 9, 5])


class TestHeteroscedastic(LikelihoodConformance):
    width = 2
    exact_predictive = False
    bad_targets = NOT_NUMBERS

    def make(self):
        return HeteroscedasticNormal()

    def observed(self):
        return torch.tensor([[0.4], [-2.0], [3.0]], dtype=D)


NOT_COUNTS = (torch.tensor([1.0, -2.0, 0.0]), torch.tensor([0.5, 1.0, 2.0]))


class TestPoisson(LikelihoodConformance):
    log_concave = True
    bad_targets = NOT_COUNTS

    def make(self):
        return Poisson()

    def observed(self):
        return torch.tensor([[0.0], [3.0], [7.0]], dtype=D)


class TestSoftplusPoisson(TestPoisson):
    def make(self):
        return Poisson("softplus")


class TestNegativeBinomial(TestPoisson):
    def make(self):
        return NegativeBinomial(1.5)

    def noise_variance(self, p):
        return p.variance - p.mean  # excess over Poisson


class TestLearnedNegativeBinomial(TestNegativeBinomial):
    def make(self):
        return NegativeBinomial()


class TestLaplace(LikelihoodConformance):
    evidence_tolerance = 1e-4  # the density has a kink, which an even grid integrates less well
    check_members = False  # its quantiles are slow
    log_concave = True
    bad_targets = NOT_NUMBERS

    def make(self):
        return Laplace(0.4)

    def observed(self):
        return torch.tensor([[0.4], [-2.0], [3.0]], dtype=D)


class TestLearnedLaplace(TestLaplace):
    def make(self):
        return Laplace()


class TestStudent(TestLaplace):
    log_concave = False
    check_members = False

    def make(self):
        return StudentT(3.0, 0.5)


class TestLearnedStudent(TestStudent):
    def make(self):
        return StudentT()


class TestOrdinal(LikelihoodConformance):
    log_concave = True
    bad_targets = NOT_LABELS
    arguments: ClassVar = {"thresholds": {"thresholds": [-1.0, 0.2, 0.7, 2.0]}}

    def make(self):
        return Ordinal(5)

    def observed(self):
        return torch.tensor([[0], [3], [4]])

    def check_rescaled_classes(self, likelihood, scale, z, variance):
        """Thresholds are known: the noise that is added to an output has another variance."""
        below = (likelihood.thresholds - z) / (scale + variance).sqrt()
        share = torch.special.ndtr(below)
        want = torch.cat([share, torch.ones(3, 1)], 1) - torch.cat([torch.zeros(3, 1), share], 1)
        torch.testing.assert_close(likelihood.predictive(z, variance).probs, want)


class TestOrdinalWithThresholds(TestOrdinal):
    arguments: ClassVar = {
        **TestOrdinal.arguments,
        "levels": {"levels": 3, "thresholds": [-1.0, 1.0]},
    }

    def make(self):
        return Ordinal(5, [-1.0, 0.0, 0.5, 2.0])


class TestLogit(TestBernoulli):
    log_concave = True

    def make(self):
        return Bernoulli("logit")


class TestManyLabels(LikelihoodConformance):
    log_concave = True
    width = 2
    bad_targets = (torch.tensor([[0, 1], [1, 2], [0, 0]]), torch.tensor([[0.5, 1], [1, 1], [0, 0]]))

    def make(self):
        return Bernoulli("logit")

    def observed(self):
        return torch.tensor([[1, 0], [0, 0], [1, 1]])


class TestMixture(LikelihoodConformance):
    """Compare at small variances of the logits, where the expected softmax is nearly exact."""

    width, components = 6, 3
    bad_targets = NOT_NUMBERS
    exact_moments = False  # the contribution of the logits is of first order
    arguments: ClassVar = {"component": {"component": {"name": "Laplace", "scale": 0.2}}}

    def noise_variance(self, p):
        return torch.stack([part.aleatoric for part in p.parts])

    def make(self):
        return Mixture(Normal(0.5), 3)

    def observed(self):
        return torch.tensor([[0.4], [-1.0], [1.5]], dtype=D)

    def outputs(self, seed=0):
        mean, variance = super().outputs(seed)
        variance[:, : self.components] *= 1e-6
        return mean, variance


class TestLearnedMixture(TestMixture):
    def make(self):
        return Mixture(Normal(), 3)


class TestMixtureDensityNetwork(TestMixture):
    width, components = 6, 2
    exact_predictive = False

    def make(self):
        return Mixture(HeteroscedasticNormal(), 2)


class TestLaplaceMixture(TestMixture):
    check_members = False
    width, components = 4, 2

    def make(self):
        return Mixture(Laplace(), 2)


class TestFamily(LikelihoodConformance):
    log_concave = True
    check_members = False
    message_tolerance = 1e-7
    bad_targets = (torch.tensor([1.0, -2.0, 1.0]), *NOT_NUMBERS)

    def make(self):
        return FromDistribution(gamma)

    def observed(self):
        return torch.tensor([[0.4], [2.0], [3.0]], dtype=D)

    def to_load(self):
        return self.make()

    def test_its_arguments_make_it_again(self):
        with pytest.raises(ValueError, match=r"load\(path, likelihood=FromDistribution"):
            FromDistribution(**self.make().config())

    def test_every_argument_is_in_its_config(self):
        """All but the function."""
        for outputs in (1, 2):
            assert FromDistribution(gamma, outputs).config() == {"outputs": outputs}


class TestFamilyOfTwoOutputs(TestFamily):
    log_concave = False
    width = 2
    message_tolerance = 1e-6
    bad_targets = NOT_NUMBERS

    def make(self):
        return FromDistribution(wide_normal, outputs=2)


class TestMultivariateNormal(LikelihoodConformance):
    width = 2
    bad_targets = (torch.full((3, 2), math.nan),)

    arguments: ClassVar = {
        "outputs": {"outputs": 3, "covariance": torch.eye(3).tolist()},
        "covariance": {"covariance": [[0.5, 0.1], [0.1, 0.7]]},
    }

    def make(self):
        return MultivariateNormal(2, [[0.5, 0.3], [0.3, 0.4]])

    def observed(self):
        return torch.tensor([[0.4, 1.0], [0.0, 0.3], [2.0, -1.0]], dtype=D)


class TestLearnedMultivariateNormal(TestMultivariateNormal):
    def make(self):
        return MultivariateNormal(2)


class TestJoint(LikelihoodConformance):
    check_members = False  # counts beside numbers
    has_conditional = False
    width = 3
    bad_targets = (torch.full((3, 2), math.nan), torch.tensor([[0.0, 1.5], [1, 1], [2, 2]]))

    def make(self):
        return Joint(HeteroscedasticNormal(), Poisson())

    exact_predictive = False
    arguments: ClassVar = {
        "parts": {"parts": [{"name": "Poisson", "link": "softplus"}, {"name": "Laplace"}]}
    }

    def observed(self):
        return torch.tensor([[0.4, 2.0], [math.nan, 3.0], [2.0, math.nan]], dtype=D)

    def test_good_targets_are_taken_as_they_are(self):
        y = self.observed()
        got = self.make().check_targets(y, torch.Size([3, self.width]))
        assert torch.equal(got.isnan(), y.isnan())
        assert torch.equal(got.nan_to_num(), y.nan_to_num())


class TestLearnedJoint(TestJoint):
    has_conditional = False
    width = 2
    online_shortfall = 60.0  # two parameters
    evidence_tolerance = 1e-3  # a kink

    def make(self):
        return Joint(Laplace(), NegativeBinomial())


class TestVonMises(LikelihoodConformance):
    bad_targets = NOT_NUMBERS

    def make(self):
        return VonMises(9.0)

    def observed(self):
        return torch.tensor([[0.4], [-2.0], [3.0]], dtype=D)

    def noise_variance(self, p):
        """One over the concentration, from the density at and beside the mean."""
        return (math.cos(0.1) - 1) / (p.log_prob(p.mean + 0.1) - p.log_prob(p.mean))


class TestLearnedVonMises(TestVonMises):
    def make(self):
        return VonMises()
