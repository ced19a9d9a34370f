"""Fits of several networks in parallel give the same results for any number of threads."""

from __future__ import annotations

import os
import signal
import threading

import pytest
import torch

import tractable as tr
from tests.native import draw
from tractable.errors import NonFiniteUpdate
from tractable.learners import fit_many
from tractable.likelihoods import Normal

Jobs = list[tuple[tr.TAGI, torch.Tensor, torch.Tensor]]


def jobs(count: int = 5, rows: int = 300, engine: str = "native") -> Jobs:
    made = []
    for seed in range(count):
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(rows, 4, generator=generator)
        net = draw.network([4, 30, 30, 1], "relu")
        model = tr.TAGI(net, Normal(), seed=seed, engine=engine)
        made.append((model, x, draw.targets("normal", x, 1, generator)))
    return made


@pytest.mark.parametrize("threads", [1, 2, 3, None])
def test_results_do_not_depend_on_the_number_of_threads(threads: int | None) -> None:
    alone, together = jobs(), jobs()
    for model, x, y in alone:
        model.fit(x, y, epochs=3, batch_size=2, progress=False)
    fitted = fit_many(together, threads=threads, epochs=3, batch_size=2)
    assert [id(model) for model in fitted] == [id(model) for model, _, _ in together]
    for (one, _, _), other in zip(alone, fitted, strict=True):
        assert torch.equal(one.posterior.loc, other.posterior.loc)
        assert torch.equal(one.likelihood.noise_mean, other.likelihood.noise_mean)
        assert len(other.history) == 3


def test_parallel_fits_may_include_torch_learners() -> None:
    mixed = [*jobs(2), *jobs(1, engine="torch")]
    fit_many(mixed, threads=2, epochs=1, batch_size=30)
    assert all(model.fitted for model, _, _ in mixed)


def test_the_first_error_stops_all_fits() -> None:
    made = jobs(3)
    made[1][2][7] = 3e38
    with pytest.raises(NonFiniteUpdate):
        fit_many(made, threads=2, epochs=2, batch_size=1)


@pytest.mark.usefixtures("_ctrl_c")
def test_ctrl_c_stops_all_fits_after_complete_epochs() -> None:
    made = jobs(3, rows=400_000)
    before = [model.posterior.loc.clone() for model, _, _ in made]
    timer = threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        fit_many(made, threads=2, epochs=1, batch_size=1)
    timer.join()
    for (model, _, _), start in zip(made, before, strict=True):
        assert len(model.history) == 1 or torch.equal(model.posterior.loc, start)


def test_a_learner_can_be_passed_only_once() -> None:
    made = jobs(1)
    with pytest.raises(ValueError, match="only once"):
        fit_many([*made, *made])
    with pytest.raises(ValueError, match="threads"):
        fit_many(made, threads=0)


def test_one_kernel_serves_several_threads() -> None:
    """Models copied by ``copy.copy`` share a kernel, but no writable memory."""
    made = jobs(4, rows=2_000)
    reference = jobs(4, rows=2_000)
    for (model, _, _), (other, x, y) in zip(made, reference, strict=True):
        model.method.engine = made[0][0].method.engine
        other.fit(x, y, epochs=2, batch_size=1, progress=False)
    workers = [
        threading.Thread(target=m.fit, args=(x, y), kwargs={"epochs": 2, "batch_size": 1})
        for m, x, y in made
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for (model, _, _), (other, _, _) in zip(made, reference, strict=True):
        assert torch.equal(model.posterior.loc, other.posterior.loc)


def test_calibration_is_the_same_with_one_core_and_with_two(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scales = []
    for cores in (1, 2):
        monkeypatch.setattr("tractable.training.parallel.n_cores", lambda cores=cores: cores)
        ((model, x, y),) = jobs(1)
        model.fit(x, y, epochs=2, calibrate=True, progress=False)
        scales.append((model.run.scale, model.posterior.loc))
    assert scales[0][0] == scales[1][0]
    assert torch.equal(scales[0][1], scales[1][1])
