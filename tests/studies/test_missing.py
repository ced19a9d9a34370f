"""The study of missing values: missing cells, imputation modes, and a small run."""

import json

import numpy as np
import torch

from tractable.data import RegressionData
from tractable_studies.missing import run as missing


def test_a_share_of_the_cells_is_missing_and_no_row_is_blank():
    x = np.random.default_rng(0).normal(size=(2000, 3))
    holes = missing.with_gaps(x, 0.2, seed=1)
    assert abs(np.isnan(holes).mean() - 0.2) < 0.02
    assert not np.isnan(missing.with_gaps(x, 0.99, seed=1)).all(1).any()
    assert np.array_equal(holes[~np.isnan(holes)], x[~np.isnan(holes)])


def test_the_rivals_fill_and_ours_does_not():
    x = missing.with_gaps(np.random.default_rng(0).normal(size=(100, 3)), 0.2, seed=1)
    assert missing.filled("inferred", x)[0] is x
    for way in missing.WAYS[1:]:
        assert not np.isnan(missing.filled(way, x, x)[1]).any()


def test_a_run_in_miniature(tmp_path, capsys, monkeypatch):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(150, 3, generator=generator)
    y = 3 * x[:, :1] + x[:, 1:2] + 0.2 * torch.randn(150, 1, generator=generator)
    train, test = torch.randperm(150, generator=generator).split([110, 40])
    data = RegressionData("small", x, y, (train,), (test,))
    monkeypatch.setattr(missing, "uci", lambda name: data)
    quick = {"hidden_layer_sizes": (), "epochs": 10, "n_estimators": 1, "relevance": False}
    made = missing.TAGIRegressor
    monkeypatch.setattr(missing, "TAGIRegressor", lambda **more: made(**quick, **more))
    missing.main(["--sets", "boston", "--splits", "1", "--out", str(tmp_path)])
    found = json.loads((tmp_path / "results.json").read_text())
    blank = found["metrics"]["boston"]["blank"]
    assert blank["means"]["coverage"] < 0.5 < 0.7 < blank["inferred"]["coverage"]
    gaps = found["metrics"]["boston"]["gaps"]
    best = max(missing.WAYS, key=lambda way: gaps[way]["gaps"]["log_likelihood"])
    assert best == "inferred"
    assert len(found["comparison"]) == 3
    assert "a column blank" in capsys.readouterr().out
