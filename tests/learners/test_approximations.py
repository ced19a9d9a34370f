"""Sizes of approximation errors stated in the documentation of the gradient learners."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tractable as tr
from tractable.likelihoods import Normal, Poisson, Softmax
from tractable.predictive import CategoricalPredictive


@pytest.mark.parametrize("structure", ["diagonal", "last_layer"])
@pytest.mark.parametrize("rows", [20, 200])
def test_classes_without_the_covariance_of_their_outputs(rows: int, structure: str) -> None:
    """Compare with the mean softmax over functions sampled with all covariances."""
    for seed in range(3):
        g = torch.Generator().manual_seed(seed)
        x = torch.randn(rows, 2, generator=g)
        y = (x @ torch.randn(2, 3, generator=g)).argmax(1)
        model = tr.Laplace(
            nn.Linear(2, 3), Softmax(3), structure=structure, lr=0.05, prior_precision=1.0,
            seed=seed,
        )  # fmt: skip
        model.fit(x, y, epochs=40, batch_size=20, progress=False, distance_aware=False)
        at = model.checks.inputs(2 * torch.randn(200, 2, generator=g))
        drawn = (
            model.sample(at, 4000, generator=torch.Generator().manual_seed(0)).softmax(-1).mean(0)
        )
        error = (model.predict(at).probs - drawn).abs()
        assert error.mean() < 0.04
        assert error.max() < 0.14


def rates(model: Any, epochs: int) -> list[float]:
    """Record the learning rate of every batch of a fit."""
    found: list[float] = []
    step = model.method.step

    def watched(*args: Any) -> None:
        step(*args)
        found.append(model.state.optimizer.param_groups[0]["lr"])

    model.method.step = watched
    x = torch.ones(6, 1)
    model.fit(x, x, epochs=epochs, batch_size=2, progress=False, distance_aware=False)
    model.update(x, x)
    return found


@pytest.mark.parametrize("kind", [tr.Backprop, tr.BayesByBackprop])
@pytest.mark.parametrize("epochs", [1, 2, 5])
def test_a_cosine_is_stepped_once_per_epoch(kind: Any, epochs: int) -> None:
    """The three batches of an epoch have the same rate; online updates use the initial rate."""
    found = rates(kind(nn.Linear(1, 1), Normal(1.0), lr=0.3), epochs)
    want = [0.15 * (1 + math.cos(math.pi * (k // 3) / epochs)) for k in range(3 * epochs)]
    assert found == pytest.approx([*want, 0.3])


@pytest.mark.parametrize(("dtype", "least"), [(torch.float32, -87.34), (torch.float64, -708.4)])
def test_impossible_labels_have_the_least_log_probability(dtype: torch.dtype, least: float) -> None:
    """Labels above the smallest normal number are exact, those below count as it."""
    for log_prob in (-1.0, -40.0, -80.0, -1e4):
        p = torch.tensor([[math.exp(log_prob), 1 - math.exp(log_prob)]], dtype=dtype)
        found = float(CategoricalPredictive(p).log_prob(torch.tensor([0])))
        assert found == pytest.approx(max(log_prob, least), abs=0.01)


def test_a_newton_step_that_overflows_is_reverted() -> None:
    """With a rate of exp(-6) and counts of 1,000 the curvature is nearly zero."""
    net = nn.Linear(1, 1, bias=False)
    net.weight.data.fill_(-6.0)
    x, y = torch.ones(20, 1), torch.full((20, 1), 1000.0)
    for seed in range(2):
        model = tr.Laplace(
            net, Poisson(), structure="last_layer", init="net", lr=1e-6, prior_precision=1e-3,
            seed=seed,
        )  # fmt: skip
        model.fit(x, y, epochs=1, batch_size=20, progress=False, distance_aware=False)
        assert float(model.posterior.loc) == pytest.approx(-6.0, abs=1e-4)
        assert math.isfinite(model.history[-1]["log_evidence"])


def test_an_improving_newton_step_is_accepted() -> None:
    """With a quadratic log posterior it ends at the mode."""
    x = torch.linspace(-1, 1, 20).unsqueeze(1)
    y: Tensor = 3 * x
    model = tr.Laplace(
        nn.Linear(1, 1, bias=False), Normal(0.5), structure="last_layer", lr=1e-6,
        prior_precision=1.0,
    )  # fmt: skip
    model.fit(x, y, epochs=1, batch_size=20, progress=False, distance_aware=False)
    precision = float((x * x).sum()) / 0.25
    assert float(model.posterior.loc) == pytest.approx(3 * precision / (precision + 1), rel=1e-4)
