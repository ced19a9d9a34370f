"""The comparison of estimators: its measures against closed forms, and a run in miniature."""

import json

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.dummy import DummyRegressor

from tractable.data import RegressionData
from tractable_studies.estimators import run as estimators


@pytest.fixture
def small_set(monkeypatch):
    """Two splits of a small table in place of every set."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(150, 3, generator=generator)
    y = x.sum(1, keepdim=True) + 0.2 * torch.randn(150, 1, generator=generator)
    parts = [torch.randperm(150, generator=generator).split([120, 30]) for _ in range(2)]
    train, test = zip(*parts, strict=True)
    data = RegressionData("small", x, y, train, test)
    monkeypatch.setattr(estimators, "uci", lambda name: data)


def test_a_model_without_error_bars_gets_its_held_out_noise():
    rng = np.random.default_rng(0)
    y, y_test = rng.normal(5, 2, 4000), rng.normal(5, 2, 4000)
    x = np.zeros((4000, 1))
    found = estimators.theirs(DummyRegressor(), x, y, x, y_test, seed=0)
    assert found["rmse"] == pytest.approx(2, rel=0.05)
    assert found["log_likelihood"] == pytest.approx(-stats.norm(5, 2).entropy(), abs=0.03)


def test_the_best_is_the_one_of_highest_log_likelihood():
    found = {"a": {"log_likelihood": -2.0}, "b": {"log_likelihood": -1.0}}
    assert estimators.best(found) == "b"


@pytest.mark.usefixtures("small_set")
def test_a_run_in_miniature(tmp_path, capsys):
    estimators.main(["--sets", "boston", "wine", "--splits", "2", "--out", str(tmp_path)])
    found = json.loads((tmp_path / "results.json").read_text())["metrics"]
    assert list(found) == ["boston", "wine"]
    assert found["boston"]["splits"] == 2
    assert found["boston"][estimators.OURS]["rmse"] < 0.5  # the noise is 0.2, the signal 1.7
    text = capsys.readouterr().out
    assert "90 % covers" in text
    won = sum(one["best_log_likelihood"] == estimators.OURS for one in found.values())
    assert f"highest log-likelihood on {won} of 2 sets" in text
