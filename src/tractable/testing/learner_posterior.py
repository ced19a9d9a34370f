"""Tests that posterior, predictions and samples of a learner agree.

With one linear layer a sampled function shows the sampled weights: its value at zero is the bias,
and its slope along an input is a weight.
"""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tractable as tr
from tractable.learners import Learner, Method
from tractable.testing.learner_case import LearnerCase

INPUTS = 6
_DRAWS = 600
_STANDARD_ERRORS = 6


def linear_data(seed: int, scale: float) -> tuple[Tensor, Tensor]:
    """Return rows of ``INPUTS`` numbers and a linear function of them with noise of std 0.1."""
    generator = torch.Generator().manual_seed(seed)
    x = scale * torch.randn(40, INPUTS, generator=generator)
    weights = torch.linspace(-1, 1, INPUTS) / scale
    return x, x @ weights + 0.3 + 0.1 * torch.randn(40, generator=generator)


def close(got: Tensor, want: Tensor, allowed: Tensor | float, what: str) -> None:
    """Raise unless two tensors differ by at most ``allowed``."""
    got, want = got.double(), want.double()
    wrong = ~((got - want).abs() <= torch.as_tensor(allowed).double().expand_as(got))
    assert not bool(wrong.any()), (
        f"{what}: {got[wrong][0]:.6g} and {want[wrong][0]:.6g} "
        f"({int(wrong.sum())} of {got.numel()} differ)"
    )


class PosteriorTests(LearnerCase):
    """Tests that ``posterior``, ``sample`` and ``outputs`` describe the same weights."""

    def linear_model(self, seed: int = 0, scale: float = 1.0) -> Any:
        """Return a fitted learner of one linear layer."""
        if not self.linear:
            pytest.skip("a network of one linear layer cannot be learned")
        if self.dropout:
            pytest.skip("the posterior does not include dropout")
        net = nn.Sequential(nn.Linear(INPUTS, 1))
        model = self.make(net, tr.likelihoods.Normal(0.1), seed=seed, dtype=torch.float64)
        return model.fit(*linear_data(seed, scale), epochs=2, batch_size=10, distance_aware=False)

    def drawn_weights(self, model: Any) -> Tensor:
        """Return weights and bias of sampled functions, ``[draws, INPUTS + 1]``."""
        at = torch.cat([torch.eye(INPUTS), torch.zeros(1, INPUTS)]).double()
        values = model.sample(at, _DRAWS, generator=torch.Generator().manual_seed(3))[..., 0]
        return torch.cat([values[:, :-1] - values[:, -1:], values[:, -1:]], 1)

    def moments(self, model: Any) -> tuple[Tensor, Tensor]:
        """Return posterior mean and variance of weights and bias, over all members."""
        each = getattr(model, "posteriors", [model.posterior])
        loc = torch.stack([p.loc for p in each]).double()
        variance = torch.stack([p.variance for p in each]).double()
        return loc.mean(0), variance.mean(0) + loc.var(0, correction=0)

    @pytest.mark.parametrize(("seed", "scale"), [(0, 1.0), (1, 0.3), (2, 3.0)])
    def test_drawn_weights_are_those_of_the_posterior(self, seed: int, scale: float) -> None:
        model = self.linear_model(seed, scale)
        drawn, (mean, variance) = self.drawn_weights(model), self.moments(model)
        error = _STANDARD_ERRORS * (drawn.var(0) / _DRAWS).sqrt()
        close(drawn.mean(0), mean, error + 1e-9, "mean of drawn weights, and of the posterior")
        off = (drawn - drawn.mean(0)).square()
        error = _STANDARD_ERRORS * off.std(0) / _DRAWS**0.5
        what = "variance of drawn weights, and of the posterior"
        close(off.mean(0), variance, error + 1e-12 + variance * 1e-2, what)

    def test_drawn_functions_have_the_moments_of_the_outputs(self) -> None:
        model = self.linear_model()
        x = linear_data(5, 2.0)[0].double()
        drawn = model.sample(x, _DRAWS, generator=torch.Generator().manual_seed(4))
        mean, variance = model.outputs(x).moments()
        error = _STANDARD_ERRORS * (drawn.var(0) / _DRAWS).sqrt()
        loose = self.output_error
        close(drawn.mean(0), mean, error + loose * variance.sqrt() + 1e-9, "mean of outputs")
        off = (drawn - drawn.mean(0)).square()
        error = _STANDARD_ERRORS * off.std(0) / _DRAWS**0.5
        close(off.mean(0), variance, error + 2 * loose * variance + 1e-12, "variance of outputs")

    def test_a_pruned_learner_is_pruned_at_once(self) -> None:
        """Its posterior, the weights it draws, and its predictions, before it learns more."""
        model = self.linear_model()
        if type(model.method).prune is Method.prune:
            pytest.skip("it cannot be pruned")
        model.prune(0.5)
        count = round(0.5 * (INPUTS + 1))
        for posterior in getattr(model, "posteriors", [model.posterior]):
            zero = (posterior.loc == 0) & (posterior.variance == 0)
            assert int(zero.sum()) >= count
        mean, variance = self.moments(model)
        zero = (mean == 0) & (variance == 0)
        close(self.drawn_weights(model)[:, zero], torch.zeros(1), 1e-12, "drawn weights, and zero")
        x = linear_data(6, 1.0)[0].double()
        predicted, spread = model.outputs(x).moments()
        want = x @ mean[:-1] + mean[-1]
        loose = self.output_error * spread[:, 0].sqrt()
        close(predicted[:, 0], want, loose + 1e-6, "prediction, and that of pruned weights")

    def test_copies_and_files_draw_the_same(self, tmp_path: Path) -> None:
        """Also after pruning: draws show all that a method keeps besides its posterior."""
        model = self.linear_model()
        if type(model.method).prune is not Method.prune:
            model.prune(0.3)
        x = linear_data(7, 1.0)[0].double()
        model.save(tmp_path / "model.tr")
        others = [Learner.load(tmp_path / "model.tr"), model.clone(), copy.deepcopy(model)]
        others.append(pickle.loads(pickle.dumps(model)))
        for other in others:
            own, its = (
                m.sample(x, 4, generator=torch.Generator().manual_seed(0)) for m in (model, other)
            )
            assert torch.equal(own, its)
            for part, same in zip(
                model.outputs(x).moments(), other.outputs(x).moments(), strict=True
            ):
                assert torch.equal(part, same)
            for name in ("loc", "variance"):
                assert torch.equal(getattr(model.posterior, name), getattr(other.posterior, name))
