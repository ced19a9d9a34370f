"""What every likelihood must do: inherit, supply ``make`` and ``observed``.

    from tractable.testing import LikelihoodConformance

    class TestPoisson(LikelihoodConformance):
        bad_targets = [torch.tensor([[1.0], [-2.0], [0.5]])]

        def make(self):
            return Poisson()

        def observed(self):
            return torch.tensor([[0.0], [3.0], [7.0]], dtype=torch.float64)

pytest then runs all of it, with three rows.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from tractable.likelihoods import Likelihood

ROWS = 3
DRAWS = 200_000
STANDARD_ERRORS = 5


class LikelihoodConformance(ABC):
    """Tests that hold for any likelihood."""

    width: ClassVar[int] = 1
    """Number of outputs of the network that an observation needs."""

    bad_targets: ClassVar[Sequence[Tensor]] = ()
    """Targets for three rows, each of which must be refused."""

    exact_predictive: ClassVar[bool] = True
    """Whether the predictive distribution is exact, so that its density is the evidence."""

    message_tolerance: ClassVar[float] = 1e-9
    """Relative error of messages that are written out, against derivatives of the evidence."""

    @abstractmethod
    def make(self) -> Likelihood:
        """A new likelihood."""

    @abstractmethod
    def observed(self) -> Tensor:
        """Three observations, in the shape that ``targets`` gives; numbers in float64."""

    def outputs(self, seed: int = 0) -> tuple[Tensor, Tensor]:
        """Mean and variance of the outputs at three rows."""
        generator, shape = torch.Generator().manual_seed(seed), (ROWS, self.width)
        mean = 0.7 * torch.randn(shape, generator=generator, dtype=torch.float64) + 0.3
        return mean, 0.05 + 0.6 * torch.rand(shape, generator=generator, dtype=torch.float64)

    # --- targets -----------------------------------------------------------------------------

    def test_good_targets_are_taken_as_they_are(self) -> None:
        y = self.observed()
        assert torch.equal(self.make().targets(y, torch.Size([ROWS, self.width])), y)

    def test_bad_targets_are_refused(self) -> None:
        assert len(self.bad_targets) > 0, "supply bad_targets = [...]"
        for y in self.bad_targets:
            with pytest.raises(ValueError, match=r"\w"):
                self.make().targets(y, torch.Size([ROWS, self.width]))

    def test_targets_for_other_rows_are_refused(self) -> None:
        with pytest.raises(ValueError, match=r"\w"):
            self.make().targets(self.observed()[:2], torch.Size([ROWS, self.width]))

    # --- evidence ----------------------------------------------------------------------------

    def test_evidence_is_the_integral_of_the_likelihood(self) -> None:
        likelihood, y = self.make(), self.observed()
        mean, variance = self.outputs()
        generator = torch.Generator().manual_seed(1)
        noise = torch.randn(DRAWS, ROWS, self.width, generator=generator, dtype=torch.float64)
        z = (mean + variance.sqrt() * noise).reshape(DRAWS * ROWS, self.width)
        repeated = y.repeat(DRAWS, *([1] * (y.ndim - 1)))
        p = likelihood.log_prob(repeated, z).exp().reshape(DRAWS, ROWS)
        error = p.std(0) / math.sqrt(DRAWS)
        got = likelihood.log_evidence(y, mean, variance).exp()
        assert ((got - p.mean(0)).abs() < STANDARD_ERRORS * error + 1e-9).all()

    def test_without_variance_the_evidence_is_the_likelihood(self) -> None:
        likelihood, y = self.make(), self.observed()
        mean, _ = self.outputs(seed=5)
        got = likelihood.log_evidence(y, mean, torch.full_like(mean, 1e-12))
        torch.testing.assert_close(got, likelihood.log_prob(y, mean), rtol=1e-6, atol=1e-6)

    # --- messages ----------------------------------------------------------------------------

    def test_messages_are_the_derivatives_of_the_evidence(self) -> None:
        likelihood, y = self.make(), self.observed()
        mean, variance = self.outputs(seed=2)
        got = likelihood.messages(y, mean, variance)
        want = Likelihood.messages(likelihood, y, mean, variance)
        for message, derivative, looser in zip(got, want, (1, 10), strict=True):
            rtol = looser * self.message_tolerance
            torch.testing.assert_close(message, derivative, rtol=rtol, atol=rtol / 10)

    def test_first_derivative_by_finite_differences(self) -> None:
        likelihood, y = self.make(), self.observed()
        mean, variance = self.outputs(seed=3)
        d_mu, _ = likelihood.messages(y, mean, variance)
        for k in range(self.width):
            step = torch.zeros_like(mean)
            step[:, k] = 1e-6
            above = likelihood.log_evidence(y, mean + step, variance)
            below = likelihood.log_evidence(y, mean - step, variance)
            torch.testing.assert_close((above - below) / 2e-6, d_mu[:, k], rtol=1e-5, atol=1e-7)

    def test_an_observation_never_takes_more_than_all_the_variance(self) -> None:
        """-1/var <= d_var <= 0, so that no state can get a negative variance from one value."""
        likelihood, y = self.make(), self.observed()
        y = y.float() if y.is_floating_point() else y
        generator = torch.Generator().manual_seed(4)
        for scale in (1e-6, 1.0, 1e3):
            mean = 5 * torch.randn(ROWS, self.width, generator=generator)
            variance = scale * torch.rand(ROWS, self.width, generator=generator)
            d_mu, d_var = likelihood.messages(y, mean, variance)
            assert d_mu.dtype == d_var.dtype == torch.float32
            assert torch.isfinite(d_mu).all()
            assert (d_var <= 0).all()
            assert (-d_var * variance <= 1 + 1e-5).all()

    # --- predictions and files ---------------------------------------------------------------

    def test_the_density_of_a_prediction_is_the_evidence(self) -> None:
        if not self.exact_predictive:
            pytest.skip("the predictive distribution is an approximation")
        likelihood, y = self.make(), self.observed()
        mean, variance = self.outputs(seed=6)
        got = likelihood.predictive(mean, variance).log_prob(y)
        want = likelihood.log_evidence(y, mean, variance)
        torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)

    def test_its_arguments_make_it_again(self) -> None:
        likelihood = self.make()
        again = type(likelihood)(**likelihood.config())
        assert again.config() == likelihood.config()
        assert again.state_dict().keys() == likelihood.state_dict().keys()
