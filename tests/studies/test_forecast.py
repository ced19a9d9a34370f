"""The study of forecasts: its rivals by closed forms, its table, its committed results."""

import json
from pathlib import Path

import numpy as np
import pytest

from tractable_studies.forecast import run, statistical

RESULTS = Path(run.__file__).parent / "results.json"


def test_scores_are_those_of_gaussians():
    y = np.arange(10.0)
    origins = np.array([3, 4])
    mean = y[origins[:, None] + 1 + np.arange(2)] + 1.0
    found = statistical.scores(y, origins, (mean, np.ones_like(mean)))
    assert found["rmse"] == 1
    assert found["log_likelihood"] == pytest.approx(-0.5 - 0.5 * np.log(2 * np.pi))
    assert found["coverage_90"] == 1


def test_an_autoregression_is_run_on_as_the_textbook_says():
    pytest.importorskip("statsmodels")
    e = np.random.default_rng(0).standard_normal(3000)
    y = np.zeros(3000)
    for t in range(1, 3000):
        y[t] = 0.8 * y[t - 1] + e[t]
    (mean, variance), order = statistical.autoregression(y, 2500, np.array([2600]), 3, 3)
    assert order in (1, 2, 3)
    assert variance[0] == pytest.approx([1, 1.64, 2.05], rel=0.1)
    assert mean[0] == pytest.approx(y[2600] * 0.8 ** np.arange(1, 4), abs=0.25)


def test_etth1_is_standardised_by_the_training_months(real_data):
    values = run.etth1([6])
    assert len(values) == run.TEST
    assert values[: run.TRAIN].mean() == pytest.approx(0, abs=1e-9)
    assert values[: run.TRAIN].std() == pytest.approx(1)


def test_committed_results_contain_the_required_comparisons():
    found = json.loads(RESULTS.read_text())["metrics"]
    for own in found["OT"].values():
        assert 0.86 <= own["TAGI"]["coverage_90"] <= 0.94
    assert found["OT"]["96"]["TAGI"]["mse"] < 0.056
    sunspots = found["sunspots"]["sunspots"]
    ar = next(value for name, value in sunspots.items() if name.startswith("AR("))
    assert sunspots["TAGI"]["log_likelihood"] > ar["log_likelihood"]
    names = [row.name for row in run.compare(found)]
    assert "sunspots: log-likelihood, beside seasonal naive" in names
