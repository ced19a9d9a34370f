"""Conformance tests of likelihoods: inherit, implement ``make`` and ``observed``.

    from tractable.testing import LikelihoodConformance

    class TestPoisson(LikelihoodConformance):
        bad_targets = [torch.tensor([[1.0], [-2.0], [0.5]])]

        def make(self):
            return Poisson()

        def observed(self):
            return torch.tensor([[0.0], [3.0], [7.0]], dtype=torch.float64)

pytest then tests that evidence, messages and all members of a prediction are integrals of the
likelihood, that a learned noise is the one of simulated data, that ``config`` contains every
argument, and that every learner can fit, predict and save with it.  Tests that do not apply are
declared by attributes of ``tractable.testing.likelihood_case.LikelihoodCase``.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tractable as tr
from tractable.likelihoods import Likelihood
from tractable.predictive import Predictive
from tractable.testing.likelihood_case import ROWS
from tractable.testing.likelihood_config import ConfigTests
from tractable.testing.likelihood_evidence import EvidenceTests
from tractable.testing.likelihood_noise import NoiseTests
from tractable.testing.likelihood_predictions import PredictionTests

COPIES = 4
"""How often the three observations are repeated in the training data."""
LEARNERS: dict[str, dict[str, Any]] = {
    "TAGI": {},
    "BayesByBackprop": {"lr": 1e-3, "n_weight_samples": 4},
    "Backprop": {"lr": 1e-3},
    "Laplace": {"lr": 1e-3},
}


class LikelihoodConformance(EvidenceTests, PredictionTests, NoiseTests, ConfigTests):
    """Tests that every likelihood passes; ``LikelihoodCase`` states what to implement."""

    # --- learners ----------------------------------------------------------------------------

    def rows(self) -> tuple[Tensor, Tensor]:
        """Return a few inputs, and the three observations, repeated."""
        y = self.observed()
        inputs = torch.randn(ROWS * COPIES, 2, generator=torch.Generator().manual_seed(7))
        return inputs, y.repeat(COPIES, *[1] * (y.ndim - 1))

    def fitted(self, learner: str, n_estimators: int = 0) -> tr.Learner:
        """Return a learner, or an ensemble of learners, after two epochs.

        Args:
            learner: name of the class of the learner.
            n_estimators: number of learners in the ensemble. Default: 0, a single learner.
        """
        x, y = self.rows()
        net = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, self.width))
        kind, options = getattr(tr, learner), LEARNERS[learner]
        if n_estimators:
            ensemble = {"learner": kind, "n_estimators": n_estimators}
            kind, options = tr.Ensemble, {**options, **ensemble}
        model: tr.Learner = kind(net, self.make(), seed=1, **options)
        return model.fit(x, y, epochs=2, batch_size=6, progress=False)

    def check_prediction(self, p: Predictive, y: Tensor) -> None:
        """Check that a prediction is finite, that its parts add up, and that it has samples.

        Args:
            p: the prediction.
            y: targets of the predicted rows.
        """
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
        many = self.fitted(learner, n_estimators=2)
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
        """Return the argument ``likelihood`` of ``load``: None for those of the library."""
        own = type(self.make()).__module__.startswith("tractable.likelihoods")
        return None if own else self.make()
