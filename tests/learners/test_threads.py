"""Several threads on one model: no lost updates, no deadlocks, no invalid reads."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import tractable as tr
from tractable.learners import Learner

SIGMA = 0.5


@pytest.fixture(autouse=True)
def _hasty_threads() -> Iterator[None]:
    """Make threads switch as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(*work: Callable[[], None]) -> None:
    """Run functions in parallel threads; raise the first exception."""
    raised: list[BaseException] = []

    def guarded(one: Callable[[], None]) -> None:
        try:
            one()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=guarded, args=(one,)) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    if raised:
        raise raised[0]


def line(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(rows, 1, generator=generator) + 0.5
    return x, 2 * x[:, 0] + SIGMA * torch.randn(rows, generator=generator)


def updates(model: Any, x: torch.Tensor, y: torch.Tensor) -> Callable[[], None]:
    def work() -> None:
        for row, seen in zip(x, y, strict=True):
            model.update(row, seen)

    return work


@pytest.mark.parametrize(("engine", "each"), [("native", 1_000), ("torch", 100)])
def test_updates_from_four_threads_are_all_applied(engine, each):
    """For a line through zero the precisions add up in any order of the rows."""
    x, y = line(4 * each)
    net = nn.Linear(1, 1, bias=False)
    model = tr.TAGI(net, tr.likelihoods.Normal(SIGMA), gain=1.0, engine=engine)
    prior = float(1 / model.posterior.variance)
    start = float(model.posterior.loc) * prior
    in_threads(*(updates(model, x[k::4], y[k::4]) for k in range(4)))
    precision = prior + float((x.double() ** 2).sum()) / SIGMA**2
    told = start + float((x[:, 0] * y).double().sum()) / SIGMA**2
    share = 1 / (4 * each)  # of one update
    assert float(1 / model.posterior.variance) == pytest.approx(precision, rel=0.3 * share)
    assert float(model.posterior.loc) == pytest.approx(told / precision, rel=1e-3)


@pytest.mark.parametrize("kind", [tr.BayesByBackprop, tr.Backprop])
def test_gradient_learners_make_every_step(kind):
    x, y = line(400)
    model = kind(nn.Linear(1, 1), tr.likelihoods.Normal(SIGMA))
    in_threads(*(updates(model, x[k::4], y[k::4]) for k in range(4)))
    assert float(model.state_dict()["training/0/step"]) == 400
    assert model.state.rows == 400
    assert torch.isfinite(model.predict(x[:5]).mean).all()


@pytest.mark.parametrize("engine", ["native", "torch"])
def test_predicting_saving_and_loading_beside_updates(engine, tmp_path):
    x, y = line(600)
    net = nn.Sequential(nn.Linear(1, 8), nn.ReLU(), nn.Linear(8, 1))
    model = tr.TAGI(net, tr.likelihoods.Normal(), engine=engine)
    found: list[Any] = []

    def predict() -> None:
        found.extend(model.predict(x[:3]) for _ in range(100))

    def save_and_load() -> None:
        for _ in range(10):
            model.save(tmp_path / "model.tr")
            found.append(Learner.load(tmp_path / "model.tr").predict(x[:3]))

    in_threads(updates(model, x[::2], y[::2]), updates(model, x[1::2], y[1::2]), predict,
               save_and_load)  # fmt: skip
    assert len(found) == 110
    for predictive in found:
        assert torch.isfinite(predictive.mean).all()
        assert (predictive.variance > 0).all()


def test_fitting_and_updating_at_once_loses_neither():
    x, y = line(400)
    net = nn.Linear(1, 1, bias=False)
    model = tr.TAGI(net, tr.likelihoods.Normal(SIGMA), gain=1.0, epoch_forgetting=0.0)
    prior = float(1 / model.posterior.variance)
    in_threads(
        lambda: model.fit(x[:200], y[:200], epochs=1, batch_size=1, progress=False),
        updates(model, x[200:], y[200:]),
    )
    precision = prior + float((x.double() ** 2).sum()) / SIGMA**2
    assert float(1 / model.posterior.variance) == pytest.approx(precision, rel=3e-4)


# --- in separate processes, which may crash or hang ------------------------------------------

BEGIN = """
import os, sys, threading, time
import torch
from torch import nn
import tractable as tr
torch.set_num_threads(1)
"""


def run(code: str, seconds: float = 120) -> str:
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, f"exit code {done.returncode}: {done.stderr[-1000:]}"
    return done.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_during_training_does_not_hang():
    said = run("""
        x = torch.rand(50_000, 2, generator=torch.Generator().manual_seed(0))
        net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
        model = tr.TAGI(net, tr.likelihoods.Normal(0.1))
        model.update(x[0], 1.0)
        stop = threading.Event()

        def train():
            while not stop.is_set():
                model.fit(x, x[:, 0], epochs=1, batch_size=1, progress=False)

        thread = threading.Thread(target=train)
        thread.start()
        for _ in range(20):
            time.sleep(0.01)
            child = os.fork()
            if not child:
                model.update(x[0], 1.0)
                os._exit(0 if torch.isfinite(model.predict(x[:3]).mean).all() else 3)
            end = time.monotonic() + 30
            while True:
                done, status = os.waitpid(child, os.WNOHANG)
                if done:
                    break
                if time.monotonic() > end:
                    os.kill(child, 9)
                    sys.exit("the child hangs")
                time.sleep(0.001)
            assert status == 0, status
        stop.set()
        thread.join()
        print("forked")
    """)
    assert said == "forked\n"


@pytest.mark.parametrize(
    ("likelihood", "outputs"), [("Categorical(3)", 2), ("Bernoulli()", 1), ("Softmax(3)", 3)]
)
def test_labels_changed_by_another_thread_during_fit_are_not_read(likelihood, outputs):
    said = run(f"""
        rows = 50_000 if {outputs} < 3 else 200
        x = torch.rand(rows, 2, generator=torch.Generator().manual_seed(0))
        y = torch.zeros(rows, dtype=torch.int64)
        net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, {outputs}))
        model = tr.TAGI(net, tr.likelihoods.{likelihood})
        began = threading.Event()

        def change():
            began.wait()
            for _ in range(200):
                y.fill_(10**13)
                time.sleep(0.001)
                y.fill_(-10**13)

        def tell(learner, record):
            began.set()

        thread = threading.Thread(target=change)
        thread.start()
        model.fit(x, y, epochs=3, batch_size=1, callbacks=[tell], progress=False)
        thread.join()
        assert (y == -10**13).all()
        assert torch.isfinite(model.predict(x[:5]).probs).all()
        print("whole")
    """)
    assert said == "whole\n"


def test_labels_changing_before_fit_are_learned_or_refused():
    said = run("""
        x = torch.rand(64, 2, generator=torch.Generator().manual_seed(0))
        y = torch.zeros(64, dtype=torch.int64)
        net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
        model = tr.TAGI(net, tr.likelihoods.Categorical(3))
        stop, counts = threading.Event(), [0, 0]

        def flicker():
            while not stop.is_set():
                y.fill_(10**13)
                y.fill_(1)

        sys.setswitchinterval(1e-5)
        thread = threading.Thread(target=flicker)
        thread.start()
        end = time.monotonic() + 2
        while time.monotonic() < end:
            try:
                model.update(x, y)
                counts[0] += 1
            except tr.errors.InvalidTarget:
                counts[1] += 1
        stop.set()
        thread.join()
        assert torch.isfinite(model.predict(x).probs).all()
        assert min(counts) > 0, counts
        print("whole")
    """)
    assert said == "whole\n"
