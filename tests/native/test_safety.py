"""An update is applied completely or not at all."""

from __future__ import annotations

import gc
import os
import resource
import signal
import threading
import time
from pathlib import Path

import pytest
import torch
from torch import nn

import tractable as tr
from tests.native import draw
from tractable.errors import InvalidInput, NonFiniteUpdate
from tractable.training.data import ArrayData


def regression(
    rows: int = 60, engine: str = "native"
) -> tuple[tr.TAGI, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, 3, generator=generator)
    model = tr.TAGI(draw.network([3, 20, 20, 1], "tanh"), tr.likelihoods.Normal(), engine=engine)
    return model, x, draw.targets("normal", x, 1, generator)


def state(model: tr.TAGI) -> list[torch.Tensor]:
    likelihood = model.likelihood
    return [
        tensor.clone()
        for tensor in (
            model.posterior.loc,
            model.posterior.variance,
            likelihood.noise_mean,
            likelihood.noise_variance,
        )
    ]


def same(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_an_epoch_whose_progress_raises_changes_nothing() -> None:
    model, x, y = regression(200_000)
    before = state(model)

    def interrupt(batches: int) -> None:
        assert batches > 0
        raise KeyboardInterrupt

    assert model.engine == "native"
    with pytest.raises(KeyboardInterrupt):
        model.method.engine.learn_epoch(model.state, ArrayData(x, y, 1), None, 0.0, interrupt)
    assert same(before, state(model))


@pytest.mark.usefixtures("_ctrl_c")
def test_ctrl_c_stops_within_an_epoch_and_changes_nothing() -> None:
    model, x, y = regression(3_000_000)
    before = state(model)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    started = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        model.fit(x, y, epochs=1, batch_size=1, progress=False)
    timer.join()
    assert time.perf_counter() - started < 10
    assert same(before, state(model))
    model.update(x[:1], y[:1])  # and the model still works
    assert not same(before, state(model))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_nan_in_the_data_is_refused_before_the_first_update(bad: float) -> None:
    model, x, y = regression()
    before = state(model)
    spoilt, spoilt_y = x.clone(), y.clone()
    spoilt[40, 1] = bad
    spoilt_y[40] = bad
    with pytest.raises(InvalidInput, match="row 40"):
        model.fit(spoilt, y, epochs=1, progress=False)
    with pytest.raises(tr.likelihoods.InvalidTarget):
        model.fit(x, spoilt_y, epochs=1, progress=False)
    assert same(before, state(model))


@pytest.mark.parametrize("batch", [1, 4])
def test_both_engines_refuse_messages_that_overflow(batch: int) -> None:
    models = []
    for engine in ("native", "torch"):
        model, x, y = regression(engine=engine)
        x[41] = 3e38
        net = draw.network([3, 20, 20, 1], "identity")
        model = tr.TAGI(net, tr.likelihoods.Normal(), engine=engine)
        with pytest.raises(NonFiniteUpdate):
            model.fit(x, y, epochs=1, batch_size=batch, shuffle=False, progress=False)
        expected = tr.TAGI(model.net, tr.likelihoods.Normal(), engine=engine)
        for rows in torch.arange(40).split(batch):
            expected.update(x[rows], y[rows])
        if batch == 1:
            expected.update(x[40:41], y[40:41])
        models.append(model)
        assert model.fitted
    assert draw.distance(*models) < 1e-5
    # The kernel applied only the batches before the refused one.
    unforgetting = tr.TAGI(
        models[0].net, tr.likelihoods.Normal(), engine="native", epoch_forgetting=0.0
    )
    with pytest.raises(NonFiniteUpdate):
        unforgetting.fit(x, y, epochs=1, batch_size=batch, shuffle=False, progress=False)
    expected = tr.TAGI(
        models[0].net, tr.likelihoods.Normal(), engine="native", epoch_forgetting=0.0
    )
    for rows in torch.arange(41 // batch * batch).split(batch):
        expected.update(x[rows], y[rows])
    assert same(state(unforgetting), state(expected))


def test_a_failed_update_changes_nothing() -> None:
    model, x, y = regression()
    model.update(x, y)
    before = state(model)
    with pytest.raises(NonFiniteUpdate):
        model.update(x[:1], torch.tensor([3e38]))
    assert same(before, state(model))


@pytest.mark.parametrize("activation", [nn.Tanh(), nn.Sigmoid(), nn.ReLU(), nn.Identity()])
@pytest.mark.parametrize("rows", [1, 5])
def test_a_refused_batch_does_not_affect_the_next(activation: nn.Module, rows: int) -> None:
    """This includes the scratch memory that the next update reuses."""
    net = nn.Sequential(*draw.network([3, 20, 20, 20, 3], "leaky_relu"), activation)
    refused, spared = (tr.TAGI(net, tr.likelihoods.Normal(0.3), engine="native") for _ in "ab")
    generator = draw.seeded()
    x, y = torch.randn(rows, 3, generator=generator), torch.rand(rows, 3, generator=generator)
    for model in (refused, spared):
        model.posterior.loc.mul_(20)  # so that the sums overflow, and not their squares alone
    before = state(refused)
    with pytest.raises(NonFiniteUpdate):
        refused.update(torch.full_like(x, 3e38), y)
    assert same(before, state(refused))
    for model in (refused, spared):
        model.update(x, y)
    assert same(state(refused), state(spared))


@pytest.mark.parametrize(("first", "second"), [("native", "torch"), ("torch", "native")])
def test_a_model_saved_by_one_engine_continues_in_the_other(
    tmp_path: Path, first: str, second: str
) -> None:
    model, x, y = regression(engine=first)
    model.fit(x, y, epochs=2, progress=False)
    model.save(tmp_path / "model")
    other = tr.TAGI.load(tmp_path / "model", engine=second)
    assert other.engine == second
    assert same(state(model), state(other))
    for one in (model, other):
        one.fit(x, y, epochs=2, progress=False)
    assert draw.distance(model, other) < 1e-5
    torch.testing.assert_close(model.predict(x).mean, other.predict(x).mean, rtol=1e-4, atol=1e-5)


def test_memory_does_not_grow() -> None:
    """``benchmarks/native.py`` measures the same over a million updates."""
    model, x, y = regression(500)

    def work(rounds: int) -> None:
        for _ in range(rounds):
            model.fit(x, y, epochs=4, batch_size=1, progress=False)
            for rows in (1, 2, 5, 9, 17, 30):
                model.update(x[:rows], y[:rows])
                model.predict(x[:rows])

    work(5)
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    work(20)
    gc.collect()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2_000  # kilobytes
