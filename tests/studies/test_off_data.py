"""The study of intervals off the data: its rows, its two scores, and a small run."""

import json

import numpy as np
import pytest
import torch

from tractable.data import RegressionData
from tractable_studies.off_data import rows, run


@pytest.fixture
def table():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(300, 3, generator=generator)
    y = x.sum(1, keepdim=True) + 0.2 * torch.randn(300, 1, generator=generator)
    parts = [torch.randperm(300, generator=generator).split([240, 60]) for _ in range(2)]
    train, test = zip(*parts, strict=True)
    return RegressionData("small", x, y, train, test)


def test_the_middle_third_of_a_column_is_cut_out(table):
    task = rows.without_middle(table, 1, seed=0)
    gap, train, inside = task.tests["gap"][0], task.train[0], task.tests["inside"][0]
    assert len(gap) == 100
    assert len(train) + len(inside) == 200
    low, high = gap[:, 1].min(), gap[:, 1].max()
    for part in (train, inside):
        assert ((part[:, 1] < low) | (part[:, 1] > high)).all()
    together = np.concatenate([gap, train, inside])
    assert np.array_equal(np.sort(together[:, 0]), np.sort(table.features[:, 0].double().numpy()))


def test_the_sine_has_a_gap_and_the_rows_beyond_lie_beyond():
    task = rows.sine(3)
    assert (np.abs(task.train[0]) > 1 / 3).all()
    assert (np.abs(task.tests["gap"][0]) <= 1 / 3).all()
    assert (np.abs(task.tests["one range beyond"][0]) >= 1).all()
    assert "gap" not in rows.sine(3, gap=False).tests


def test_the_same_model_is_scored_with_and_without_widening(table):
    task = rows.without_middle(table, 0, seed=0)
    models = run.tagi(task, 0)
    far = 10 * task.train[0]
    before, after = run.plain(models, far), run.predicted(models, far)
    assert models[0].learner_.off_data.support is not None
    assert torch.equal(before.mean, after.mean)
    assert (after.epistemic > 2 * before.epistemic).double().mean() > 0.9


def test_a_run_in_miniature(table, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(run, "uci", lambda name: table)
    monkeypatch.setattr(run, "KINDS", {"TAGI": run.single})
    words = "--quick --sets wine --gaps 1 --toys 1"
    run.main([*words.split(), "--out", str(tmp_path)])
    found = json.loads((tmp_path / "results.json").read_text())["metrics"]
    gap = found["sine, gap"]["TAGI"]
    assert gap["gap, before"]["coverage"] < 0.6 < gap["gap, after"]["coverage"]
    assert gap["gap, before"]["rmse"] == gap["gap, after"]["rmse"]
    inside = found["wine, published"]["TAGI"]
    assert inside["inside, after"]["nll"] == pytest.approx(
        inside["inside, before"]["nll"], abs=0.05
    )
    assert 0 <= inside["shuffled columns, after"]["auroc"] <= 1
    assert "NLL before -> after" in capsys.readouterr().out
