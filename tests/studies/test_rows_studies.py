"""The studies of densities and of diffusion, at sizes that take seconds."""

import math

import numpy as np
import pytest
import torch

from tractable.report.results import Results
from tractable_studies.densities import run as densities
from tractable_studies.densities.models import zuko_loop
from tractable_studies.densities.tables import rows_of
from tractable_studies.diffusion import run as diffusion
from tractable_studies.diffusion import tasks


def test_rows_of_a_table(real_data):
    rows = rows_of("naval", 400, seed=0)
    assert rows.train.shape[0] + rows.validation.shape[0] == 400
    assert rows.train.shape[1] == 14  # of 17 columns two are constant, and one is a copy
    assert torch.allclose(rows.learnt.mean(0), torch.zeros(14), atol=1e-4)
    energy = rows_of("energy", 300, seed=0)
    assert len(torch.unique(energy.train[:, 0])) == len(energy.train)  # spread over its steps
    assert torch.equal(energy.test, rows_of("energy", 300, seed=0).test)


def test_the_plain_loop_is_the_same_program(real_data):
    pytest.importorskip("zuko")
    from tractable.generative import Flow

    x = rows_of("boston", 120, seed=0).learnt
    options = {"lr": 2e-3}
    model = Flow(
        hidden_layer_sizes=(64, 64), validation_fraction=0, standardize=False,
        learner_kwargs=options, seed=4,
    )  # fmt: skip
    plain = zuko_loop(
        Flow(validation_fraction=0, standardize=False, learner_kwargs=options, seed=4), x, 2
    )
    model.fit(x, epochs=2, batch_size=128)
    with torch.no_grad():
        other = plain().log_prob(x)
    assert torch.allclose(model.predict().log_prob(x), other, rtol=1e-4, atol=1e-3)


def _never(*arguments):
    raise AssertionError("computed again")


def test_a_small_run_of_densities(tmp_path, real_data, monkeypatch):
    pytest.importorskip("zuko")
    arguments = ["--quick", "--rows", "60", "--out", str(tmp_path)]
    results = Results.read(densities.main(arguments))
    found = results.metrics["boston"]
    assert set(found) >= {"Gaussian", "mixture", "TAGI, chain", "NSF, Backprop"}
    assert all(math.isfinite(scores["log_density"]) for scores in found.values())
    one, plain = (found[name]["log_density"] for name in ("NSF, Backprop", densities.PLAIN))
    assert one == pytest.approx(plain, abs=0.02)
    # What is finished is kept, unless settings differ.
    monkeypatch.setattr(densities, "run_table", _never)
    assert Results.read(densities.main(arguments)).metrics == results.metrics
    with pytest.raises(AssertionError, match="again"):
        densities.main([*arguments, "--members", "3"])


def test_a_small_run_of_diffusion(tmp_path, real_data, monkeypatch):
    monkeypatch.setattr(diffusion.models, "has_forest", lambda: False)
    arguments = ["--quick", "--rows", "80", "--out", str(tmp_path)]
    results = Results.read(diffusion.main(arguments))
    assert set(results.metrics["wine"]) == {"training rows", "TAGI", "Backprop"}
    assert results.metrics["wine"]["TAGI"]["fitting"] > 0
    assert any("not installed" in note for note in results.notes)


def test_digits_and_their_worth():
    task = tasks.digits(700, seed=0)
    assert task.labels is not None
    assert task.train.shape == (500, 64)
    assert np.abs(task.train).max() < 1.1
    assert tasks.worth(task, task.train, task.labels[0], 0) > 0.9
    assert tasks.one_hot(task.labels[2]).sum(1).tolist() == [1.0] * len(task.test)
