"""Outliers in training targets: which are moved, and a run in miniature."""

import json

import numpy as np
import pytest
import torch

from tractable.data import RegressionData
from tractable_studies.outliers import run as outliers


def test_a_share_of_the_targets_is_moved_far():
    y = np.random.default_rng(0).normal(5, 2, 150)
    moved = (outliers.with_outliers(y, 0.01, seed=1) - y) / y.std()
    assert np.count_nonzero(moved) == 2  # rounded up
    assert np.abs(moved[moved != 0]) == pytest.approx(outliers.FAR)
    assert set(np.sign(outliers.with_outliers(y, 0.5, seed=1) - y)) == {-1, 0, 1}
    assert np.array_equal(outliers.with_outliers(y, 0, seed=1), y)


def test_a_run_in_miniature(tmp_path, capsys, monkeypatch):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(150, 3, generator=generator)
    y = x.sum(1, keepdim=True) + 0.2 * torch.randn(150, 1, generator=generator)
    train, test = torch.randperm(150, generator=generator).split([120, 30])
    data = RegressionData("small", x, y, (train,), (test,))
    monkeypatch.setattr(outliers, "uci", lambda name: data)
    outliers.main(["--sets", "boston", "--splits", "1", "--out", str(tmp_path)])
    found = json.loads((tmp_path / "results.json").read_text())
    assert set(found["metrics"]["boston"]) == {"splits", "clean", "1%", "5%"}
    assert found["metrics"]["boston"]["clean"]["rmse"] < 0.5
    assert found["metrics"]["boston"]["5%"]["rmse"] < 1.0  # of a target of deviation 1.7
    assert len(found["comparison"]) == 4
    assert "cost more than a tenth" in capsys.readouterr().out
