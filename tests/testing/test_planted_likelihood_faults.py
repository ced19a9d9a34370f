"""The tests for likelihoods fail for likelihoods with a fault.

Each fault is planted in a subclass of a likelihood of the library, so that nothing but the fault
differs; the test that must notice it passes without the fault.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.distributions import Gamma as GammaDistribution

from tractable.likelihoods import HeteroscedasticNormal, Laplace, NegativeBinomial, Normal, Poisson
from tractable.likelihoods.online_em import OnlineEM
from tractable.likelihoods.targets import real_targets
from tractable.likelihoods.univariate import Univariate
from tractable.testing import LikelihoodConformance

D = torch.float64
COUNTS = torch.tensor([[0.0], [3.0], [7.0]], dtype=D)
NUMBERS = torch.tensor([[0.4], [-1.0], [1.5]], dtype=D)


class Gamma(Univariate, OnlineEM):
    """``y ~ Gamma(shape, shape exp(-z))``: positive numbers of mean ``exp(z)``."""

    def __init__(self, shape: float | None = None, outputs: int = 1) -> None:
        OnlineEM.__init__(self, shape, outputs, 1 + 0.5772156649015329, "shape")

    def check_targets(self, y: Tensor, outputs: torch.Size) -> Tensor:
        return real_targets(y, outputs)

    def conditional(self, z: Tensor) -> GammaDistribution:
        a = self.parameter.to(z.dtype).expand_as(z)
        return GammaDistribution(a, a * torch.exp(-z), validate_args=False)

    def log_density(self, y: Tensor, z: Tensor) -> Tensor:
        a = self.parameter.to(z.dtype)
        return a * (a.log() - z) + (a - 1) * y.log() - a * y * torch.exp(-z) - torch.lgamma(a)

    def derivatives(self, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        ratio = self.parameter.to(z.dtype) * y * torch.exp(-z)
        return ratio - self.parameter, -ratio

    def initial_posterior_mode(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return y.log()

    def expected_statistic(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """``E[y / exp(z) - log(y / exp(z))]``."""
        if not bool(variance.any()):
            z, share = mean.unsqueeze(0), torch.ones_like(mean).unsqueeze(0)
        else:
            z, share = self.posterior(y, mean, variance)
        return (share * (y * torch.exp(-z) - y.log() + z)).sum(0)

    def parameter_from_statistic(self, statistic: Tensor) -> Tensor:
        """``1 + digamma-equation``: ``log a - psi(a) = statistic - 1``, by Newton steps."""
        wanted = (statistic - 1).clamp_min(1e-8)
        a = (3 - wanted + ((wanted - 3) ** 2 + 24 * wanted).sqrt()) / (12 * wanted)
        for _ in range(4):
            miss = a.log() - torch.digamma(a) - wanted
            a = a * torch.exp(-(miss / (1 - a * torch.polygamma(1, a))).clamp(-2, 2))
        return a

    def statistic_from_parameter(self, parameter: Tensor) -> Tensor:
        return 1 + parameter.log() - torch.digamma(parameter)

    def rescale(self, scale: float) -> None:
        self.set_parameter(self.parameter / scale)

    def config(self) -> dict[str, object]:
        return {"shape": self.fixed_value, "outputs": self.outputs}


class Suite(LikelihoodConformance):
    """The tests for one likelihood, without pytest."""

    __test__ = False

    def __init__(self, kind: type, *arguments: object) -> None:
        self.kind, self.given = kind, arguments

    @property
    def width(self) -> int:  # type: ignore[override]
        return 2 if issubclass(self.kind, HeteroscedasticNormal) else 1

    @property
    def exact_predictive(self) -> bool:  # type: ignore[override]
        return not issubclass(self.kind, HeteroscedasticNormal)

    def make(self):  # type: ignore[no-untyped-def]
        return self.kind(*self.given)

    def observed(self) -> Tensor:
        if issubclass(self.kind, (Poisson, NegativeBinomial)):
            return COUNTS
        return NUMBERS.abs() if issubclass(self.kind, Gamma) else NUMBERS


class WrongStatistic(Gamma):
    def expected_statistic(self, y, mean, variance):
        return 1.1 * super().expected_statistic(y, mean, variance)


class StatisticOfOutputsOnly(Laplace):
    """Takes the variance of the outputs for noise."""

    def expected_statistic(self, y, mean, variance):
        return (
            super().expected_statistic(y, mean, torch.full_like(variance, 1e-12))
            + 0.8 * variance.sqrt()
        )


class WrongDirection(Gamma):
    def rescale(self, scale):
        super().rescale(1 / scale)


class RootOfScale(Laplace):
    def rescale(self, scale):
        self.set_parameter(self.parameter * scale)


class ForgetsCalibration(Laplace):
    def rescale(self, scale):
        self.parameter = self.parameter * scale**0.5


class WrongRate(Gamma):
    def conditional(self, z):
        right = super().conditional(z)
        return GammaDistribution(right.concentration, 1.5 * right.rate, validate_args=False)


class DoubledRate(Poisson):
    def conditional(self, z):
        return super().conditional(z + math.log(2))


class UnnormalizedCounts(Poisson):
    def log_density(self, y, z):
        return super().log_density(y, z) + torch.lgamma(y + 1) - torch.lgamma(y + 2)


class LosesOutputs(Gamma):
    def config(self):
        return {"shape": self.fixed_value}


class LosesLink(Poisson):
    def config(self):
        return {"link": "exp"}


class WrongSign(Gamma):
    def derivatives(self, y, z):
        first, second = super().derivatives(y, z)
        return -first, second


class WrongMessageSign(Normal):
    def messages(self, y, mean, variance):
        d_mu, d_var = super().messages(y, mean, variance)
        return -d_mu, d_var


class PositiveVarianceMessage(Normal):
    def messages(self, y, mean, variance):
        d_mu, d_var = super().messages(y, mean, variance)
        return d_mu, -d_var


class SwappedMessages(Normal):
    def messages(self, y, mean, variance):
        return super().messages(y, mean, variance)[::-1]


class SwappedOutputs(HeteroscedasticNormal):
    """Evidence and messages exchange mean and variance of the outputs."""

    def log_evidence(self, y, mean, variance):
        return super().log_evidence(y, variance, mean.abs())

    def messages(self, y, mean, variance):
        return super().messages(y, variance, mean.abs())


class TakesTooMuch(Laplace):
    def messages(self, y, mean, variance):
        d_mu, d_var = super().messages(y, mean, variance)
        return d_mu, 1.2 * d_var


class EvidenceWithoutVariance(Laplace):
    """Consistent in itself, but the output's variance counts for half."""

    def log_evidence(self, y, mean, variance):
        return super().log_evidence(y, mean, variance / 2)


class SwappedParts(Normal):
    def predictive(self, mean, variance):
        p = super().predictive(mean, variance)
        return type(p)(p.loc, p.noise_variance, p.epistemic_variance)


class WideMean(HeteroscedasticNormal):
    """The noise of a prediction is the exponential of the mean, without the half variance."""

    def predictive(self, mean, variance):
        location, log_noise = mean.chunk(2, -1)
        return (
            Normal(1.0)
            .predictive(location, variance.chunk(2, -1)[0])
            .__class__(location, variance.chunk(2, -1)[0], log_noise.exp())
        )


class NarrowPrediction(Normal):
    """Right at known outputs; the variance of outputs counts for a quarter."""

    def predictive(self, mean, variance):
        return super().predictive(mean, variance / 4)


class OtherUpdate(Laplace):
    def messages_and_noise(self, y, mean, variance, *, weight=None, memory_rows=None):
        d_mu, d_var, _ = super().messages_and_noise(y, mean, variance, memory_rows=memory_rows)
        return d_mu, d_var, {}


EVIDENCE = "test_evidence_and_messages_are_integrals_of_the_likelihood"
KNOWN = "test_at_known_outputs_predictions_are_the_likelihood"
DENSITY = "test_predictions_are_integrals_of_the_likelihood"
PARTS = "test_parts_of_the_variance_are_integrals_over_the_outputs"
LEARNED = "test_a_learned_noise_is_that_of_the_data"
ONLINE = "test_the_variance_of_outputs_is_not_taken_for_noise"
RESCALED = "test_rescale_multiplies_the_noise"
KEPT = "test_an_update_keeps_a_rescaled_noise"
ARGUMENTS = "test_every_argument_is_in_its_config"
VARIANCE = "test_an_observation_never_takes_more_than_all_the_variance"
UPDATE = "test_an_update_gets_the_same_messages_and_noise"
FAULTS: list[tuple[type, tuple[object, ...], str, tuple[object, ...]]] = [
    (WrongStatistic, (), LEARNED, (0,)),
    (StatisticOfOutputsOnly, (), ONLINE, (0,)),
    (RootOfScale, (0.4,), RESCALED, (3.0,)),
    (ForgetsCalibration, (), KEPT, ()),
    (WrongRate, (3.0,), KNOWN, ()),
    (DoubledRate, (), KNOWN, ()),
    (UnnormalizedCounts, (), KNOWN, ()),
    (LosesOutputs, (), ARGUMENTS, ()),
    (LosesLink, (), ARGUMENTS, ()),
    (WrongSign, (3.0,), EVIDENCE, ()),
    (WrongMessageSign, (0.3,), EVIDENCE, ()),
    (PositiveVarianceMessage, (0.3,), EVIDENCE, ()),
    (SwappedMessages, (0.3,), EVIDENCE, ()),
    (SwappedOutputs, (), EVIDENCE, ()),
    (TakesTooMuch, (0.01,), VARIANCE, (1.0,)),
    (EvidenceWithoutVariance, (0.4,), EVIDENCE, ()),
    (NarrowPrediction, (0.3,), DENSITY, ()),
    (SwappedParts, (0.3,), PARTS, ()),
    (WideMean, (), PARTS, ()),
    (OtherUpdate, (), UPDATE, ()),
]


@pytest.mark.parametrize(
    ("kind", "given", "test", "values"), FAULTS, ids=[fault[0].__name__ for fault in FAULTS]
)
def test_a_planted_fault_is_noticed(kind, given, test, values):
    sound = kind.__mro__[1]
    getattr(Suite(sound, *given), test)(*values)
    with pytest.raises(AssertionError):
        getattr(Suite(kind, *given), test)(*values)


class GammaSuite(Suite):
    def noise_variance(self, p):
        return p.aleatoric


def test_a_rescaling_in_the_wrong_direction_is_noticed():
    GammaSuite(Gamma, 3.0).test_rescale_multiplies_the_noise(3.0)
    with pytest.raises(AssertionError):
        GammaSuite(WrongDirection, 3.0).test_rescale_multiplies_the_noise(3.0)
