"""Tests of the noise of a likelihood: learned from data, rescaled, and kept by updates."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import Tensor

from tractable.likelihoods import Likelihood
from tractable.testing.likelihood_case import LikelihoodCase

_SEEDS = 600
"""Seeds of the outputs whose rows make a data set."""
_BATCH = 45
_EM_STEPS = 30
_PASSES = 4
_SHORT = 1.0
"""Log likelihood that the noise learned from all rows may lack of that of the true noise."""


class NoiseTests(LikelihoodCase):
    """Tests that a learned noise is that of the data, and that ``rescale`` multiplies it."""

    def data_set(self, seed: int) -> tuple[Tensor, Tensor]:
        """Return means and variances of the outputs of a data set."""
        _, mean, variance = self.several_outputs(_SEEDS, first=1000 * (seed + 1))
        return mean, variance

    def with_other_noise(self, likelihood: Likelihood, seed: int) -> Likelihood:
        """Return a copy with a wider noise, learned from targets of other rows."""
        z, _ = self.data_set(seed)
        found = copy.deepcopy(likelihood)
        learn_noise(found, self.draw(likelihood, z, seed).roll(1, 0), z)
        return found

    def learns(self) -> bool:
        """Return whether a noise is learned; if not, check that nothing is."""
        likelihood = self.make()
        if likelihood.traits.learns_noise:
            return True
        y, mean, variance = self.several_outputs()
        assert likelihood.update_noise(y, mean, variance) == {}
        assert likelihood.sufficient_statistics(y, mean) is None
        return False

    def test_noise_parameters_can_be_read(self) -> None:
        """``noise`` has finite numbers by name, and they change when they are learned."""
        likelihood = self.make()
        before = {name: value.clone() for name, value in likelihood.noise.items()}
        assert all(bool(value.isfinite().all()) for value in before.values())
        if not likelihood.traits.learns_noise:
            return
        y, mean, variance = self.several_outputs()
        likelihood.set_buffers(likelihood.update_noise(y, mean, variance))
        assert before.keys() == likelihood.noise.keys()
        assert any(bool((value != before[k]).any()) for k, value in likelihood.noise.items())

    @pytest.mark.parametrize("seed", range(3))
    def test_a_learned_noise_is_that_of_the_data(self, seed: int) -> None:
        """Its log likelihood reaches that of the noise which the data were simulated with."""
        if not self.learns():
            return
        true = self.with_other_noise(self.make(), seed)
        z, _ = self.data_set(seed)
        y = self.draw(true, z, seed + 10)
        want = float(true.log_prob(y, z).sum())
        found = self.make()
        learn_noise(found, y, z)
        assert float(found.log_prob(y, z).sum()) > want - _SHORT
        online = self.make()
        update_noise_in_batches(online, y, z, torch.full_like(z, 1e-9))
        assert float(online.log_prob(y, z).sum()) > want - self.online_shortfall

    @pytest.mark.parametrize("seed", range(3))
    def test_the_variance_of_outputs_is_not_taken_for_noise(self, seed: int) -> None:
        """Online, from outputs that are known within their variance."""
        if not self.learns():
            return
        true = self.with_other_noise(self.make(), seed)
        mean, variance = self.data_set(seed)
        noise = torch.randn(mean.shape, generator=torch.Generator().manual_seed(seed)).double()
        y = self.draw(true, mean + variance.sqrt() * noise, seed + 20)
        want = float(true.log_evidence(y, mean, variance).sum())
        found = self.make()
        update_noise_in_batches(found, y, mean, variance)
        assert float(found.log_evidence(y, mean, variance).sum()) > want - self.online_shortfall

    @pytest.mark.parametrize("scale", [0.25, 3.0])
    def test_rescale_multiplies_the_noise(self, scale: float) -> None:
        """For classes, outputs count as if they were smaller by the root of the factor."""
        likelihood = self.make()
        if not likelihood.traits.supports_calibration:
            with pytest.raises(TypeError, match=r"rescale|calibrate|noise"):
                likelihood.rescale(scale)
            return
        z, variance = self.outputs(seed=9)
        before = likelihood.predictive(z, torch.zeros_like(z))
        likelihood.rescale(scale)
        after = likelihood.predictive(z, torch.zeros_like(z))
        if before.has_classes:
            self.check_rescaled_classes(likelihood, scale, z, variance)
            return
        got = (self.noise_variance(after) / self.noise_variance(before)).double()
        torch.testing.assert_close(got, torch.full_like(got, scale), rtol=1e-5, atol=0)

    def check_rescaled_classes(
        self, likelihood: Likelihood, scale: float, z: Tensor, variance: Tensor
    ) -> None:
        """The rescaled noise of a decision against outputs that are scaled."""
        got = likelihood.predictive(z, variance)
        want = self.make().predictive(z / math.sqrt(scale), variance / scale)
        torch.testing.assert_close(got.probs, want.probs, rtol=1e-6, atol=1e-6)

    def test_an_update_keeps_a_rescaled_noise(self) -> None:
        """Three rows more change the noise by their share, and do not undo a calibration."""
        likelihood = self.make()
        if not likelihood.traits.supports_calibration:
            return
        z, _ = self.data_set(0)
        y = self.draw(likelihood, z, 0)
        if likelihood.traits.learns_noise:
            learn_noise(likelihood, y, z)
        before = self.predicted_noise(likelihood, z[:3])
        likelihood.rescale(3.0)
        rescaled = self.predicted_noise(likelihood, z[:3])
        assert bool((rescaled > before).all())
        update_noise_in_batches(likelihood, y[:3], z[:3], torch.full_like(z[:3], 1e-6))
        after = self.predicted_noise(likelihood, z[:3])
        torch.testing.assert_close(after.log(), rescaled.log(), rtol=0, atol=0.02)

    def predicted_noise(self, likelihood: Likelihood, z: Tensor) -> Tensor:
        """Return the noise variance of predictions if outputs are known; for classes, entropy."""
        p = likelihood.predictive(z, torch.zeros_like(z))
        return (p.entropy if p.has_classes else self.noise_variance(p)).double()


def learn_noise(likelihood: Likelihood, y: Tensor, z: Tensor) -> None:
    """Set the noise to that of greatest likelihood, as the gradient learners do."""
    for _ in range(_EM_STEPS):
        statistics = likelihood.sufficient_statistics(y, z)
        assert statistics is not None, "traits.learns_noise, but no sufficient_statistics"
        likelihood.m_step(statistics)


def update_noise_in_batches(
    likelihood: Likelihood, y: Tensor, mean: Tensor, variance: Tensor
) -> None:
    """Update the noise batch by batch, in several passes, as TAGI does.

    An update is one EM step on one batch, so the noise is a few passes behind its limit.
    """
    for _ in range(_PASSES if len(y) > _BATCH else 1):
        for rows in torch.arange(len(y)).split(_BATCH):
            found = likelihood.update_noise(y[rows], mean[rows], variance[rows])
            likelihood.set_buffers(found)
