"""Outlier safeguards of a robust learner give the same results in both engines."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import tractable as tr
from tests.native import draw
from tests.native.test_parity import learn


def dirty(problem: draw.Problem, seed: int) -> draw.Problem:
    """Return targets of which one in ten is off by 1 to 1e4."""
    rng = draw.seeded(seed)
    bad = torch.rand(problem.y.shape, generator=rng) < 0.1
    off = 10 ** (4 * torch.rand(problem.y.shape, generator=rng))
    sign = torch.randn(problem.y.shape, generator=rng).sign()
    return replace(problem, y=torch.where(bad, problem.y + sign * off, problem.y))


@pytest.mark.parametrize("likelihood", ["normal", "inferred", "outliers"])
@pytest.mark.parametrize("activation", draw.ACTIVATIONS)
@pytest.mark.parametrize("batch", [1, 40])
def test_engines_agree_on_data_with_outliers(activation: str, likelihood: str, batch: int) -> None:
    seed = len(activation) + 100 * batch + len(likelihood)
    problem = draw.problem(
        seed,
        activation=activation,
        likelihood_name="normal" if likelihood == "outliers" else likelihood,
        updates=20,
        largest=60,
        widest_batch=batch,
    )
    if likelihood == "outliers":
        problem = replace(problem, likelihood=tr.likelihoods.Normal(0.4, outliers=True))
    problem = dirty(problem, seed)
    kernel, torch32 = problem.learner("native"), problem.learner("torch")
    learn([kernel, torch32], problem, 20)
    if draw.distance(kernel, torch32) > 1e-4:  # where rounding errors grow, compare with float64
        kernel, torch32 = problem.learner("native"), problem.learner("torch")
        exact = problem.learner("torch", torch.float64)
        learn([kernel, torch32, exact], problem, 20)
        assert draw.distance(kernel, exact) < 3 * draw.distance(torch32, exact) + 1e-4
    assert kernel.outliers.count == torch32.outliers.count
    if likelihood != "normal":
        torch.testing.assert_close(
            kernel.state.gate.level, torch32.state.gate.level, rtol=1e-3, atol=1e-6
        )
        ours, theirs = (
            torch.tensor([[s.target, s.deviations] for s in model.outliers.last])
            for model in (kernel, torch32)
        )
        torch.testing.assert_close(ours, theirs, rtol=1e-2, atol=1e-3)


def test_one_update_agrees_to_the_rounding_of_a_step() -> None:
    """Start from the same state, with an outlier, so that rounding errors cannot grow."""
    for seed in range(6):
        batch = [1, 16][seed % 2]
        problem = draw.problem(
            seed, activation="tanh", likelihood_name="inferred", updates=1, largest=40
        )
        x, y = problem.x[:batch], problem.y[:batch].clone()
        y[0] = 300.0
        models = [problem.learner(engine) for engine in ("native", "torch")]
        for model in models:
            model.update(x, y)
            assert model.outliers.count > 0
        assert draw.distance(*models) < 1e-5
        levels = [model.state.gate.level for model in models]
        torch.testing.assert_close(*levels, rtol=1e-6, atol=0)


def test_kernel_refuses_a_gate_without_levels() -> None:
    for part, size, said in (("log", 3, "log"), ("level", 2, "level for each noise")):
        model = tr.TAGI(draw.network([2, 3, 1], "relu"), tr.likelihoods.Normal(), engine="native")
        setattr(model.state.gate, part, torch.zeros(size, dtype=torch.float64))
        with pytest.raises(ValueError, match=said):
            model.update([[0.1, 0.2]], [[0.3]])
