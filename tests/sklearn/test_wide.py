"""Tables of many columns: slopes in bounded memory, and the same as before for small tables."""

import subprocess
import sys

import numpy as np
import pytest
import torch

import tractable as tr
from tractable.learners.off_data import support
from tractable.learners.off_data.support import rms_column_slopes
from tractable.nn import mlp
from tractable.sklearn import model_selection

CODE = """
import resource
import numpy as np
from tractable.sklearn import TAGIRegressor
X = np.random.default_rng(0).normal(size=(500, 5_000))
options = dict(hidden_layer_sizes=(8,), epochs=1, n_estimators=1, relevance=True, calibrate=False)
TAGIRegressor(**options, random_state=0).fit(X, X[:, 0]).predict(X[:20])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2)
"""


def all_at_once(mean, x, units):
    """``rms_column_slopes`` with one matrix of all rows, moved along all columns."""
    rows, columns = x.shape
    moves = torch.diag(0.1 * units).repeat_interleave(rows, 0)
    at = x.repeat(columns, 1)
    sides = [mean(at + sign * moves).double().reshape(columns, rows, -1) for sign in (-1.0, 1.0)]
    return ((sides[1] - sides[0]) / 0.2).square().mean(dim=(1, 2)).sqrt()


@pytest.mark.parametrize("moved", [1, 500, 1 << 21])
@pytest.mark.parametrize("outputs", [1, 3])
def test_slopes_in_blocks_are_those_of_one_matrix(moved, outputs, monkeypatch):
    monkeypatch.setattr(support, "_MOVED", moved)
    generator = torch.Generator().manual_seed(0)
    x, units = torch.randn(20, 7, generator=generator), torch.rand(7, generator=generator)
    weights = torch.randn(7, outputs, generator=generator)

    def mean(at):
        return (at @ weights).sin()

    found = rms_column_slopes(mean, x, units)
    torch.testing.assert_close(found, all_at_once(mean, x, units), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n_estimators", [1, 3])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("outputs", [1, 2])
def test_gradients_are_slopes_at_small_steps(n_estimators, activation, outputs, monkeypatch):
    rng = np.random.default_rng(1)
    x = torch.tensor(rng.normal(size=(60, 5)), dtype=torch.float32)
    y = torch.stack([x[:, 0] * x[:, 1], x[:, 2].sin()], 1)[:, :outputs]
    net, likelihood = mlp(5, (16, 16), outputs, activation), tr.likelihoods.Normal()
    if outputs > 1:
        likelihood = tr.likelihoods.Normal(outputs=outputs)
    model = tr.Ensemble(net, likelihood, n_estimators=n_estimators, learner=tr.TAGI, seed=0)
    model.fit(x, y, epochs=5, distance_aware=False, progress=False)
    factors = torch.tensor([1.0, 2.0, 0.5, 0.3, 1.0])
    monkeypatch.setattr(support, "_COLUMN_STEP", 1e-2)
    by_differences = model_selection.rms_slopes(model, x, factors)
    monkeypatch.setattr(model_selection, "_MAX_DIFFERENCES", 4)
    by_gradient = model_selection.rms_slopes(model, x, factors)
    torch.testing.assert_close(by_gradient, by_differences, rtol=0.02, atol=1e-3)


def test_five_thousand_columns_take_less_than_two_gigabytes():
    """50 rows took 19.7 GB: memory grew with rows times the square of the columns."""
    found = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert float(found.stdout) < 2.0
