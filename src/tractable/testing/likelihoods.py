"""What every likelihood must do: inherit, supply ``make`` and ``observed``.

    from tractable.testing import LikelihoodConformance

    class TestPoisson(LikelihoodConformance):
        bad_targets = [torch.tensor([[1.0], [-2.0], [0.5]])]

        def make(self):
            return Poisson()

        def observed(self):
            return torch.tensor([[0.0], [3.0], [7.0]], dtype=torch.float64)

pytest then runs all of it, with three rows: is the evidence the integral of the likelihood, are the
messages its derivatives, and does every learner fit, predict, mix and save with it?
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

import tractable as tr
from tractable.likelihoods import Likelihood
from tractable.predictive import Predictive

ROWS = 3
COPIES = 4
"""How often the three observations are learnt."""
LEARNERS: dict[str, dict[str, Any]] = {
    "TAGI": {},
    "BayesByBackprop": {"lr": 1e-3, "draws": 4},
    "Backprop": {"lr": 1e-3},
    "Laplace": {"lr": 1e-3},
}
SEEDS = 50
"""Draws of means and variances, of three rows each."""
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

    log_concave: ClassVar[bool] = False
    """Whether an observation can only make an output more certain: nothing is cut off then."""

    learners: ClassVar[Sequence[str]] = tuple(LEARNERS)
    """Learners that can use it."""

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

    @pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0, 1e3])
    def test_an_observation_never_takes_more_than_all_the_variance(self, scale: float) -> None:
        """-1/var <= d_var <= 0, so that no state can get a negative variance from one value."""
        y = self.observed().repeat(SEEDS, *[1] * (self.observed().ndim - 1))
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
        assert (1 + sent.believed * variance > 0).all()
        torch.testing.assert_close(sent.d_var, d_var, rtol=1e-5, atol=0)

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

    # --- learners ----------------------------------------------------------------------------

    def rows(self) -> tuple[Tensor, Tensor]:
        """A few inputs, and the three observations several times over."""
        y = self.observed()
        inputs = torch.randn(ROWS * COPIES, 2, generator=torch.Generator().manual_seed(7))
        return inputs, y.repeat(COPIES, *[1] * (y.ndim - 1))

    def fitted(self, learner: str, members: int = 0) -> tr.Learner:
        """A learner of that name, or an ensemble of such, after two epochs."""
        x, y = self.rows()
        net = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, self.width))
        kind, options = getattr(tr, learner), LEARNERS[learner]
        if members:
            kind, options = tr.Ensemble, {**options, "learner": kind, "n": members}
        model: tr.Learner = kind(net, self.make(), seed=1, **options)
        return model.fit(x, y, epochs=2, batch_size=6, progress=False)

    def check_prediction(self, p: Predictive, y: Tensor) -> None:
        """A prediction is a distribution: finite, its parts sum up, and it can be drawn from."""
        log_prob = p.log_prob(y)
        assert log_prob.shape == y.shape[:1]
        assert torch.isfinite(log_prob).all()
        assert torch.isfinite(p.mean).all()
        total = p.entropy if p.has_classes else p.variance
        torch.testing.assert_close(p.epistemic + p.aleatoric, total, equal_nan=True)
        assert (p.epistemic >= -1e-5 * total.abs()).all()
        drawn = p.sample(3, torch.Generator().manual_seed(0))
        assert drawn.shape[:2] == (3, len(y))
        assert torch.equal(drawn, p.sample(3, torch.Generator().manual_seed(0)))

    @pytest.mark.parametrize("learner", LEARNERS)
    def test_every_learner_fits_and_predicts(self, learner: str) -> None:
        if learner not in self.learners:
            pytest.skip(f"{learner} cannot use it")
        x, y = self.rows()
        self.check_prediction(self.fitted(learner).predict(x), y)

    @pytest.mark.parametrize("learner", ["TAGI", "BayesByBackprop", "Backprop"])
    def test_an_ensemble_mixes_its_members(self, learner: str) -> None:
        if learner not in self.learners:
            pytest.skip(f"{learner} cannot use it")
        x, y = self.rows()
        many = self.fitted(learner, members=2)
        assert isinstance(many, tr.Ensemble)
        mixed = many.predict(x)
        self.check_prediction(mixed, y)
        each = torch.stack([member.predict(x).log_prob(y) for member in many.members])
        want = each.double().logsumexp(0) - math.log(2)
        torch.testing.assert_close(mixed.log_prob(y).double(), want, rtol=1e-4, atol=1e-4)

    @pytest.mark.parametrize("learner", ["TAGI", "Backprop"])
    def test_a_file_brings_it_back(self, learner: str, tmp_path: Path) -> None:
        if learner not in self.learners:
            pytest.skip(f"{learner} cannot use it")
        x, y = self.rows()
        model = self.fitted(learner)
        model.save(tmp_path / "model.tr")
        again = tr.Learner.load(tmp_path / "model.tr", likelihood=self.to_load())
        assert torch.equal(again.predict(x).log_prob(y), model.predict(x).log_prob(y))
        for name, buffer in again.likelihood.named_buffers():
            assert torch.equal(buffer, dict(model.likelihood.named_buffers())[name])

    def to_load(self) -> Likelihood | None:
        """What ``load`` needs besides the file: nothing, for a likelihood of the library."""
        own = type(self.make()).__module__.startswith("tractable.likelihoods")
        return None if own else self.make()
