"""Nonstationary streams: with ``memory_rows`` a model continues to adapt."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

import tractable as tr
from tractable import native

ENGINES = ["torch", *(["native"] if native.kernel() is not None else [])]
NOISE = 0.1


def net() -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(1, 20), nn.ReLU(), nn.Linear(20, 20), nn.ReLU(), nn.Linear(20, 1)
    )


def stream(rows: int, shift: float, seed: int, noise: float = NOISE) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = 2 * torch.rand(rows, 1, generator=generator) - 1
    return x, torch.sin(3 * x + shift) + noise * torch.randn(rows, 1, generator=generator)


def follow(model: tr.TAGI, x: Tensor, y: Tensor, memory: float | None, batch: int = 4) -> tr.TAGI:
    for rows in torch.arange(len(x)).split(batch):
        model.update(x[rows], y[rows], memory_rows=memory)
    return model


def error(model: tr.TAGI, shift: float) -> float:
    x = torch.linspace(-1, 1, 200).unsqueeze(1)
    return float((model.predict(x).mean - torch.sin(3 * x + shift)).square().mean().sqrt())


@pytest.mark.parametrize("sigma", [NOISE, None])
def test_a_model_with_memory_adapts_to_a_jump(sigma):
    models = {
        memory: tr.TAGI(net(), tr.likelihoods.Normal(sigma), gain=1.0) for memory in (200, None)
    }
    for memory, model in models.items():
        follow(model, *stream(8000, 0.0, 0), memory)
    fresh = tr.TAGI(net(), tr.likelihoods.Normal(sigma), gain=1.0)
    x, y = stream(800, 2.0, 1)
    for memory, model in models.items():
        follow(model, x[:160], y[:160], memory)
    assert error(models[200], 2.0) < 0.8 * error(models[None], 2.0)
    follow(models[200], x[160:], y[160:], 200)
    follow(fresh, x, y, 200)
    assert error(models[200], 2.0) < 1.5 * error(fresh, 2.0)


def test_a_growing_noise_is_inferred():
    told = {}
    for memory in (300, None):
        model = tr.TAGI(net(), tr.likelihoods.Normal(), gain=1.0)
        follow(model, *stream(6000, 0.0, 0), memory)
        follow(model, *stream(1500, 0.0, 1, noise=0.5), memory)
        told[memory] = math.sqrt(float(model.likelihood.noise_mean))
    assert 0.4 < told[300] < 0.6
    assert told[None] < 0.3


@pytest.mark.parametrize("engine", ENGINES)
def test_the_information_of_a_stream_levels_off_at_the_memory(engine):
    """One weight, inputs of 1 and noise of 1: each row adds 1 to the precision."""
    layer = nn.Linear(1, 1, bias=False)
    model = tr.TAGI(layer, tr.likelihoods.Normal(1.0), engine=engine)
    prior = float(model.posterior.variance)
    one = torch.ones(1, 1)
    for _ in range(600):
        model.update(one, one, memory_rows=50)
    # 1/v' = (1/v + 1) (1 - 1/N) + 1/(v0 N) is at rest at 1/v0 + N - 1.
    assert 1 / float(model.posterior.variance) == pytest.approx(1 / prior + 49, rel=1e-3)


@pytest.mark.parametrize("sigma", [NOISE, None])
def test_dead_units_recover_with_a_memory(sigma):
    """A ReLU with a negative mean passes no message, so only forgetting can revive its unit."""
    models = [tr.TAGI(net(), tr.likelihoods.Normal(sigma), gain=1.0) for _ in "12"]
    x, y = stream(3000, 0.0, 0)
    for model, memory in zip(models, (40, None), strict=True):
        begun = model.posterior.loc.clone()
        follow(model, x[:40], y[:40], memory)
        model.posterior["2.bias"].loc.fill_(-5.0)
        follow(model, x, y, memory)
        if memory is not None:  # without information a weight returns to its prior
            torch.testing.assert_close(model.state.start, begun)
    assert error(models[0], 0.0) < 0.25
    assert error(models[1], 0.0) > 0.5


def test_means_without_information_return_to_their_initial_values():
    """A weight of an input that is always 0 is never told anything."""
    layer = nn.Linear(2, 1, bias=False)
    model = tr.TAGI(layer, tr.likelihoods.Normal(1.0), seed=3)
    begun = float(model.posterior.loc[1])
    model.posterior.loc[1] = 7.0
    for _ in range(50):
        model.update([[1.0, 0.0]], [[1.0]], memory_rows=20)
    left = (1 - 0.1 / 20) ** 50  # a tenth of the rate of forgetting, as its variance is the prior's
    assert float(model.posterior.loc[1]) == pytest.approx(begun + left * (7 - begun), rel=1e-4)


def test_a_batch_forgets_as_much_as_its_rows():
    layer = nn.Linear(1, 1, bias=False)
    one = torch.ones(8, 1)
    by_batch, by_row = (
        tr.TAGI(layer, tr.likelihoods.Normal(1e3), dtype=torch.float64) for _ in range(2)
    )
    for model in (by_batch, by_row):  # small variances, so that forgetting dominates
        model.posterior.variance.mul_(1e-3)
    by_batch.update(one.double(), one.double(), memory_rows=20)
    for _ in range(8):
        by_row.update(one[:1].double(), one[:1].double(), memory_rows=20)
    torch.testing.assert_close(by_batch.posterior.variance, by_row.posterior.variance, rtol=1e-4,
                               atol=0)  # fmt: skip


@pytest.mark.parametrize("batch", [1, 7])
@pytest.mark.parametrize("sigma", [NOISE, None])
@pytest.mark.skipif(native.kernel() is None, reason="the kernel was not built")
def test_engines_forget_alike(batch, sigma):
    x, y = stream(140, 0.0, 0)
    y[30] = 40.0
    models = [
        follow(tr.TAGI(net(), tr.likelihoods.Normal(sigma), engine=engine), x, y, 30, batch)
        for engine in ("native", "torch")
    ]
    for part in ("loc", "variance"):
        torch.testing.assert_close(
            getattr(models[0].posterior, part),
            getattr(models[1].posterior, part),
            rtol=1e-3,
            atol=1e-5,
        )
    torch.testing.assert_close(
        models[0].likelihood.noise_mean, models[1].likelihood.noise_mean, rtol=1e-4, atol=0
    )


@pytest.mark.parametrize("memory", [0, 1, -3, float("nan"), float("inf")])
def test_a_memory_is_a_number_of_rows(memory):
    model = tr.TAGI(nn.Linear(1, 1), tr.likelihoods.Normal(0.1))
    with pytest.raises(ValueError, match="memory_rows must be a number of rows above 1"):
        model.update([0.5], [1.0], memory_rows=memory)


@pytest.mark.parametrize("kind", [tr.Backprop, tr.BayesByBackprop])
def test_methods_without_memory_rows_raise_an_error(kind):
    model = kind(nn.Linear(1, 1), tr.likelihoods.Normal(0.1))
    before = model.posterior.loc.clone()
    with pytest.raises(TypeError, match="does not support memory_rows"):
        model.update([0.5], [1.0], memory_rows=10)
    assert torch.equal(model.posterior.loc, before)


def test_an_ensemble_of_tagi_has_one():
    ensemble = tr.Ensemble(
        nn.Linear(1, 1), tr.likelihoods.Normal(0.1), n_estimators=2, learner=tr.TAGI
    )
    alone = tr.TAGI(nn.Linear(1, 1), tr.likelihoods.Normal(0.1), seed=1)
    for model in (ensemble, alone):
        for _ in range(5):
            model.update([0.5], [1.0], memory_rows=10)
    assert torch.equal(ensemble.posteriors[1].variance, alone.posterior.variance)


@pytest.mark.parametrize("kind", [tr.Backprop, tr.BayesByBackprop])
def test_gradient_learners_infer_the_noise_online(kind):
    x, y = stream(3000, 0.0, 0, noise=0.3)
    model = kind(net(), tr.likelihoods.Normal(), lr=0.01, schedule="constant")
    for rows in torch.arange(len(x)).split(10):
        model.update(x[rows], y[rows])
    assert 0.25 < math.sqrt(float(model.likelihood.noise_mean)) < 0.4
