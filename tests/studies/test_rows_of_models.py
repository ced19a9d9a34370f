"""The studies of models of rows, at sizes that take seconds."""

import math

import numpy as np
import pytest
import torch

from tests.studies.test_entry_points import run
from tractable_studies.impute.run import mean, score, table
from tractable_studies.vae.run import binarised

SMALL = {
    "vae": "--quick --rows 200 --test 20 --exact 4 --draws 20 --samples 5 50",
    "novelty": "--quick --rows 200 --test 30 --epochs 1",
}


@pytest.mark.parametrize("name", SMALL)
def test_a_small_run(name, tmp_path, real_data):
    results = run(name, SMALL[name], tmp_path)
    assert all(row.paper is not None and math.isfinite(row.ours) for row in results.comparison)
    if name == "vae":
        assert {"elbo", "importance-5", "importance-50"} == results.metrics.keys()
        again = run(name, SMALL[name], tmp_path)  # from the models in the folder
        assert again.metrics == results.metrics


def test_pixels_are_drawn_with_their_probability():
    drawn = binarised(torch.full((200, 50), 0.3), 0)
    assert set(drawn.unique().tolist()) == {0.0, 1.0}
    assert float(drawn.mean()) == pytest.approx(0.3, abs=0.02)


def test_holes_and_scores_by_hand(real_data):
    train, holed, truth = table("boston", 0, 200)
    assert np.isnan(train).mean() == pytest.approx(0.2, abs=0.02)
    assert not np.isnan(truth).any()
    seen = ~np.isnan(holed)
    assert (holed[seen] == truth[seen]).all()
    unit = np.nanstd(train, 0)
    found = score(mean(train, holed, 0), holed, truth, unit)
    assert found["rmse"] == pytest.approx(1, abs=0.2)  # the mean is off by a standard deviation
    assert found["coverage"] == pytest.approx(0.9, abs=0.05)
    # Its ends are those of values seen, so a column of two values is held whole.
    assert found["coverage_of_many_values"] < found["coverage"]
