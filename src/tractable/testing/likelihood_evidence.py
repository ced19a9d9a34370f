"""Tests of targets, evidence and messages of a likelihood."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tractable.likelihoods import Likelihood
from tractable.testing.likelihood_case import ROWS, LikelihoodCase
from tractable.testing.reference_integrals import Estimate, reference

STANDARD_ERRORS = 10
"""Allowed standard errors; the error itself is estimated, from eight blocks of points."""
_SEEDS = 50


def assert_close(got: Tensor, want: Estimate, size: Tensor | float, tolerance: float) -> None:
    """Raise unless ``got`` is an integral, up to ``tolerance * size`` and its error."""
    allowed = torch.as_tensor(tolerance * size) + STANDARD_ERRORS * want.error
    off = (got.double() - want.value).abs()
    wrong = ~(off <= allowed)
    assert not bool(wrong.any()), (
        f"{got[wrong][0]:.8g} but the integral over the likelihood is {want.value[wrong][0]:.8g} "
        f"({int(wrong.sum())} of {wrong.numel()} differ)"
    )


class EvidenceTests(LikelihoodCase):
    """Tests that the evidence integrates the likelihood, and that messages are its derivatives."""

    # --- targets -----------------------------------------------------------------------------

    def test_good_targets_are_taken_as_they_are(self) -> None:
        y = self.observed()
        assert torch.equal(self.make().check_targets(y, torch.Size([ROWS, self.width])), y)

    def test_bad_targets_are_refused(self) -> None:
        assert len(self.bad_targets) > 0, "set bad_targets = (...,)"
        for y in self.bad_targets:
            with pytest.raises(ValueError, match=r"\w"):
                self.make().check_targets(y, torch.Size([ROWS, self.width]))

    def test_targets_for_other_rows_are_refused(self) -> None:
        with pytest.raises(ValueError, match=r"\w"):
            self.make().check_targets(self.observed()[:2], torch.Size([ROWS, self.width]))

    def test_the_conditional_distribution_has_the_density_of_the_likelihood(self) -> None:
        """Its log density, summed over a row, is ``log_prob``."""
        likelihood, y = self.make(), self.observed()
        z, _ = self.outputs(seed=4)
        if not self.has_conditional:
            with pytest.raises(TypeError, match="conditional"):
                likelihood.conditional(z)
            return
        found = likelihood.conditional(z).log_prob(y.to(z.dtype))
        found = found.flatten(1).sum(1) if found.ndim > 1 else found
        if self.normalized:
            want = likelihood.log_prob(y, z)
            torch.testing.assert_close(found, want, rtol=1e-6, atol=1e-6)
        assert bool(found.isfinite().all())

    # --- evidence and posterior --------------------------------------------------------------

    def test_evidence_and_messages_are_integrals_of_the_likelihood(self) -> None:
        """The messages give the posterior mean and variance of every output.

        An observation that makes an output less certain may leave its variance as it is.
        """
        likelihood = self.make()
        y, mean, variance = self.several_outputs()
        want = reference(likelihood.log_prob, y, mean, variance)
        tolerance = self.evidence_tolerance
        got = likelihood.log_evidence(y, mean, variance)
        assert_close(got, want.log_evidence, 1.0, tolerance)
        d_mu, d_var = likelihood.messages(y, mean, variance)
        assert_close(mean + variance * d_mu, want.mean, variance.sqrt(), tolerance)
        left = Estimate(torch.minimum(want.variance.value, variance), want.variance.error)
        assert_close(variance + variance.square() * d_var, left, variance, tolerance)

    def test_without_variance_the_evidence_is_the_likelihood(self) -> None:
        likelihood, y = self.make(), self.observed()
        mean, _ = self.outputs(seed=5)
        got = likelihood.log_evidence(y, mean, torch.full_like(mean, 1e-12))
        torch.testing.assert_close(got, likelihood.log_prob(y, mean), rtol=1e-6, atol=1e-6)

    # --- messages ----------------------------------------------------------------------------

    def test_messages_are_the_derivatives_of_the_evidence(self) -> None:
        likelihood = self.make()
        y, mean, variance = self.several_outputs(first=2)
        got = likelihood.messages(y, mean, variance)
        want = Likelihood.messages(likelihood, y, mean, variance)
        for message, derivative, looser in zip(got, want, (1, 10), strict=True):
            rtol = looser * self.message_tolerance
            torch.testing.assert_close(message, derivative, rtol=rtol, atol=rtol / 10)

    def test_derivatives_by_finite_differences(self) -> None:
        """The second derivative as far as it is negative."""
        likelihood = self.make()
        y, mean, variance = self.several_outputs(first=3)
        d_mu, d_var = likelihood.messages(y, mean, variance)
        at = likelihood.log_evidence(y, mean, variance)
        for k in range(self.width):
            step = torch.zeros_like(mean)
            step[:, k] = 1e-3 * variance[:, k].sqrt()
            size = step[:, k]
            above, below, far, near = (
                likelihood.log_evidence(y, mean + way * step, variance) for way in (1, -1, 2, -2)
            )
            first = (8 * (above - below) - (far - near)) / (12 * size)
            scale = 1 / variance[:, k].sqrt()
            assert bool(((first - d_mu[:, k]).abs() < 1e-5 * (scale + first.abs())).all())
            second = ((above - 2 * at + below) / size.square()).clamp(max=0)
            off = (second - d_var[:, k]).abs()
            assert bool((off < 2e-3 * (scale.square() + second.abs())).all())

    @pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0, 1e3])
    def test_an_observation_never_takes_more_than_all_the_variance(self, scale: float) -> None:
        """-1/var <= d_var <= 0, so that no state can get a negative variance from one value."""
        y = self.observed().repeat(_SEEDS, *[1] * (self.observed().ndim - 1))
        y = y.float() if y.is_floating_point() else y
        generator = torch.Generator().manual_seed(4)
        mean = 5 * torch.randn(len(y), self.width, generator=generator)
        variance = scale * torch.rand(len(y), self.width, generator=generator)
        d_mu, d_var = self.make().messages(y, mean, variance)
        assert d_mu.dtype == d_var.dtype == torch.float32
        assert torch.isfinite(d_mu).all()
        assert (d_var <= 0).all()
        assert (-d_var * variance <= 1 + 1e-5).all()
        sent = self.make().observe(y, mean, variance)
        assert torch.equal(sent.d_mu, d_mu)
        assert (1 + sent.d_var * variance > 0).all()
        assert (1 + sent.unweighted_d_var * variance > 0).all()
        torch.testing.assert_close(sent.d_var, d_var, rtol=1e-5, atol=0)

    def test_an_update_gets_the_same_messages_and_noise(self) -> None:
        """``messages_and_noise`` is ``messages`` and ``update_noise`` at once."""
        likelihood = self.make()
        y, mean, variance = self.several_outputs(first=6)
        *sent, updated = likelihood.messages_and_noise(y, mean, variance)
        noise = likelihood.update_noise(y, mean, variance)
        messages = likelihood.messages(y, mean, variance)
        torch.testing.assert_close(tuple(sent), messages, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(updated, noise, rtol=1e-9, atol=1e-12)

    def test_log_concave_ones_are_not_cut_off(self) -> None:
        """The second derivative of the log evidence is negative by itself."""
        if not self.log_concave:
            pytest.skip("an observation may make an output less certain")
        likelihood, y = self.make(), self.observed()
        mean, variance = self.outputs(seed=8)
        for k in range(self.width):
            step = torch.zeros_like(mean)
            step[:, k] = 1e-3
            near = [likelihood.log_evidence(y, mean + way * step, variance) for way in (-1, 0, 1)]
            bend = (near[0] - 2 * near[1] + near[2]) / 1e-6
            got = likelihood.messages(y, mean, variance)[1][:, k]
            torch.testing.assert_close(got, bend, rtol=1e-3, atol=1e-4)
