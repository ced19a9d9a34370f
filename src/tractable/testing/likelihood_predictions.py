"""Tests of the predictions of a likelihood against integrals over the likelihood."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tractable.likelihoods import Likelihood
from tractable.predictive import Predictive
from tractable.testing.likelihood_case import LikelihoodCase
from tractable.testing.likelihood_evidence import assert_close
from tractable.testing.predictive import check_predictive
from tractable.testing.reference_integrals import Estimate, average, reference, smooth_nodes

_DRAWS = 10_000
_SHARES = (0.05, 0.3, 0.6, 0.95)
_TARGETS = 4
"""Targets per row at which densities are compared."""


class PredictionTests(LikelihoodCase):
    """Tests that predictions describe the distribution of the likelihood."""

    def test_at_known_outputs_predictions_are_the_likelihood(self) -> None:
        """Density, mean, distribution function, quantiles and samples; the density has mass one."""
        likelihood = self.make()
        z, _ = self.outputs(seed=6)
        p = likelihood.predictive(z, torch.zeros_like(z))
        if self.check_members:
            check_predictive(
                p, tolerance=self.prediction_tolerance, n_samples=_DRAWS, transformations=False,
                check_mode=False,
            )  # fmt: skip
        if self.normalized:
            for y in self.possible(likelihood, p, z.shape):
                want = likelihood.log_prob(y, z)
                torch.testing.assert_close(p.log_prob(y), want, rtol=1e-7, atol=1e-7)

    def test_predictions_are_integrals_of_the_likelihood(self) -> None:
        """Density, distribution function, quantiles and samples where outputs have a variance."""
        if not self.exact_predictive:
            pytest.skip("the predictive distribution is an approximation")
        likelihood = self.make()
        mean, variance = self.outputs(seed=7)
        p = likelihood.predictive(mean, variance)
        if self.normalized:
            for y in self.possible(likelihood, p, mean.shape):
                want = reference(likelihood.log_prob, y, mean, variance).log_evidence
                assert_close(p.log_prob(y), want, 1.0, self.evidence_tolerance)
        known = self.known(likelihood, mean, variance)
        if p.has_classes or is_angle(p) or not offers_cdf(known):
            check_predictive(
                p, tolerance=self.prediction_tolerance, n_samples=_DRAWS, transformations=False
            )
            return
        drawn = p.sample(_DRAWS, torch.Generator().manual_seed(1)).double()
        for q in _SHARES:
            y = p.quantile(q)
            below = self.over(known.cdf(self.repeated(y)), mean)
            assert_close(p.cdf(y), below, 1.0, self.prediction_tolerance)
            if p.is_discrete:
                assert bool((p.cdf(y) >= q - 1e-6).all())
                assert bool((p.cdf(y - 1) <= q + 1e-6).all())
            else:
                assert_close(p.cdf(y), Estimate(torch.full_like(y, q), y * 0), 1.0, 1e-4)
            share = (drawn <= y).double().mean(0)
            error = 5 * (below.value * (1 - below.value) / _DRAWS).sqrt()
            assert_close(share, below, 1.0, float(error.max()) + self.prediction_tolerance)

    def test_parts_of_the_variance_are_integrals_over_the_outputs(self) -> None:
        """``epistemic`` is the variance of the expected target, ``aleatoric`` the mean variance.

        For classes, ``aleatoric`` is the mean entropy.
        """
        if not self.exact_moments:
            pytest.skip("mean and variance of a prediction are approximate")
        likelihood = self.make()
        mean, variance = self.outputs(seed=8)
        p = likelihood.predictive(mean, variance)
        known = self.known(likelihood, mean, variance)
        if p.has_classes:
            assert_close(p.probs, self.over(known.probs, mean), 1.0, self.prediction_tolerance)
            entropy = self.over(known.entropy, mean)
            assert_close(p.aleatoric, entropy, 1.0, self.prediction_tolerance)
            return
        if is_angle(p) or not bool(p.variance.isfinite().all()):
            pytest.skip("the mean of angles, or of heavy tails, is no such integral")
        aleatoric, middle = self.over(known.variance, mean), self.over(known.mean, mean)
        square = self.over((known.mean - self.repeated(middle.value)).square(), mean)
        std = p.std
        assert_close(p.mean, middle, std, self.prediction_tolerance)
        assert_close(p.aleatoric, aleatoric, std.square(), self.prediction_tolerance)
        assert_close(p.epistemic, square, std.square(), self.prediction_tolerance)

    # --- used by the tests -----------------------------------------------------------------------

    def known(self, likelihood: Likelihood, mean: Tensor, variance: Tensor) -> Predictive:
        """Return predictions at the outputs of ``smooth_nodes``, as rows."""
        e, _ = smooth_nodes(self.width)
        z = (mean + variance.sqrt() * e.unsqueeze(2)).reshape(-1, self.width)
        return likelihood.predictive(z, torch.zeros_like(z))

    def repeated(self, y: Tensor) -> Tensor:
        """Return targets repeated for the rows of ``known``."""
        return y.repeat(smooth_nodes(self.width)[0][..., 0].numel(), *[1] * (y.ndim - 1))

    def over(self, values: Tensor, mean: Tensor) -> Estimate:
        """Return the average over the outputs of values of ``known``."""
        nodes = smooth_nodes(self.width)[0].shape[:2]
        return average(values.reshape(*nodes, len(mean), *values.shape[1:]), self.width)

    def possible(self, likelihood: Likelihood, p: Predictive, shape: torch.Size) -> list[Tensor]:
        """Return targets at which densities are compared: samples, or each class."""
        drawn = p.sample(_TARGETS, torch.Generator().manual_seed(0))
        if p.has_classes:
            labels = [torch.full(drawn.shape[1:], k) for k in range(p.probs.shape[-1])]
            return [likelihood.check_targets(y, shape) for y in labels]
        return [likelihood.check_targets(y, shape) for y in drawn]


def offers_cdf(p: Predictive) -> bool:
    """Return whether there is a distribution function."""
    try:
        p.cdf(p.mean)
    except TypeError:
        return False
    return True


def is_angle(p: Predictive) -> bool:
    """Return whether a full turn changes nothing."""
    turned: Tensor = p.unwrapped(p.mean + 2 * math.pi)
    return bool(torch.isclose(turned, p.mean, atol=1e-5).all())
