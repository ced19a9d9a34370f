"""Capacity, learning curves, regularizers and parallel fits: known laws and invalid input."""

import json
import math

import numpy as np
import pytest
import torch
from torch import nn

import tractable as tr
from tractable.diagnostics.capacity import Capacity, SizeResult
from tractable.diagnostics.learning_curve import LearningCurve, LossForecast, fit_power_laws
from tractable.diagnostics.parallel_fits import draw_seeds, run_all
from tractable.diagnostics.regularizers import with_dropout


def wave(rows=60, seed=0, noise=0.1):
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(rows, 1, generator=generator) * 2 - 1
    return x, torch.sin(4 * x[:, 0]) + noise * torch.randn(rows, generator=generator)


def sized(width, seed):
    net = nn.Sequential(nn.Linear(1, width), nn.ReLU(), nn.Linear(width, 1))
    return tr.TAGI(net, tr.likelihoods.Normal(), gain=1.0, seed=seed)


# --- capacity ----------------------------------------------------------------------------------


def test_capacity_by_size():
    found = tr.diagnostics.capacity(sized, [32, 1, 4], *wave(), n_seeds=2, n_jobs=1, epochs=30)
    assert [s.size for s in found.sizes] == [1, 4, 32]
    assert [s.n_parameters for s in found.sizes] == [4, 13, 97]
    assert found.best.size == 32
    assert found.sizes[0].train_error > 3 * found.sizes[2].train_error
    assert found.baseline == pytest.approx(0.5, abs=0.35)
    assert found.error_metric == "mean squared error"
    assert "Size 32 has the lowest test error" in found.recommendation()
    assert json.loads(found.to_json())["sizes"][0]["size"] == 1
    assert len(found.plot().lines) >= 2


def test_the_evidence_selects_a_size():
    def make(width, seed):
        net = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, 1))
        return tr.Laplace(net, tr.likelihoods.Normal(0.1), lr=0.02, seed=seed)

    found = tr.diagnostics.capacity(make, [1, 8], *wave(), n_jobs=1, epochs=120, batch_size=45)
    assert found.best_by_evidence.size == 8 == found.best.size
    assert "the evidence prefers 8" in found.recommendation()


def sizes(errors, train):
    pairs = enumerate(zip(errors, train, strict=True), 1)
    return tuple(SizeResult(i, 10 * i, t, e, None, 0.0, None) for i, (e, t) in pairs)


def test_a_peak_and_its_threshold():
    found = Capacity(sizes([0.5, 0.2, 0.5, 0.3, 0.1], [0.4, 0.2, 0.0, 0.0, 0]), "x", 0.9, 100, 10)
    assert found.peak_ratio == pytest.approx(2.5)
    assert found.interpolation_threshold == 3
    assert "rises to 2.5 times" in found.recommendation()
    down = Capacity(sizes([0.5, 0.4, 0.3], [0.4, 0.3, 0.2]), "x", 0.9, 100, 10)
    assert down.peak_ratio == 1
    assert down.interpolation_threshold is None
    up = Capacity(sizes([0.3, 0.4, 0.5], [0.4, 0.3, 0.2]), "x", 0.9, 100, 10)
    assert up.peak_ratio == 1  # the error does not decrease again


def test_bad_capacity():
    with pytest.raises(ValueError, match="different whole numbers"):
        tr.diagnostics.capacity(sized, [2, 2], *wave())
    with pytest.raises(ValueError, match="ignores its seed"):
        tr.diagnostics.capacity(lambda width, seed: sized(width, 0), [2, 4], *wave())
    with pytest.raises(ValueError, match="n_seeds must be"):
        tr.diagnostics.capacity(sized, [2], *wave(), n_seeds=0)


# --- rows --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("floor", "scale", "power"), [(0.2, 3.0, 1.0), (0.0, 2.0, 0.5), (0.3, 0.0, 1)]
)
def test_a_power_law_is_recovered(floor, scale, power):
    rows = [20, 50, 100, 200, 400]
    n = torch.tensor(rows, dtype=torch.float64)
    found = fit_power_laws(rows, (floor + scale * n**-power)[None])
    far = torch.tensor([2000.0], dtype=torch.float64)
    assert float(found.at(far)) == pytest.approx(floor + scale * 2000**-power, rel=1e-6)
    assert float(found.irreducible_loss) == pytest.approx(floor, abs=1e-6)


class Mean:
    """Predicts the mean of its training data: its expected loss is sigma^2 (1 + 1/n)."""

    def __init__(self, seed):
        self.seed = seed

    def fit(self, x, y):
        self.mean = float(np.asarray(y).mean())

    def predict(self, x):
        return np.full(len(x), self.mean)


def test_learning_curve_of_a_mean():
    """In theory, doubling 400 rows reduces the loss by only 0.125 %."""
    y = torch.randn(400, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = tr.diagnostics.learning_curve(Mean, torch.zeros(400, 1), y, n_jobs=1)
    assert found.n_rows == (32, 64, 128, 224, 320)
    assert found.forecasts[0].n_rows == 800
    assert found.forecasts[0].loss == pytest.approx(float(y.var()), rel=0.03)
    assert found.forecasts[0].low <= found.forecasts[0].loss <= found.forecasts[0].high
    assert found.recommendation().startswith("More rows would hardly help")
    assert len(found.table().splitlines()) == 8
    assert json.loads(found.to_json())["current"]["n_rows"] == 400
    assert found.plot().get_ylim()[0] == 0


def test_more_rows_of_a_wave_help():
    found = tr.diagnostics.learning_curve(
        lambda seed: sized(16, seed), *wave(80), n_jobs=1, epochs=30, n_folds=4
    )
    assert found.current.loss > found.forecasts[0].loss > found.forecasts[1].loss
    assert found.recommendation().startswith(("More rows would help", "More rows may help"))


@pytest.mark.parametrize(
    ("loss", "low", "high", "says"),
    [
        (0.441, 0.0, 0.30, "hardly help: the squared error is 0.441, and 80 rows instead of 40 "
         "should leave it at 0.441 (at most 30 % less)."),
        (0.435, 0.0, 0.0, "should reduce it to 0.435 (a negligible reduction)."),
        (0.35, 0.01, 0.4, "may help: 80 rows instead of 40 should reduce the "
         "squared error by 1 to 40 %"),
        (0.35, 0.1, 0.4, "would help: 80 rows instead of 40 should reduce the "
         "squared error by 10 to 40 %"),
    ],
)  # fmt: skip
def test_recommendation_of_more_rows(loss, low, high, says):
    now = LossForecast(40, 0.441, 0.4, 0.5, 0.0, 0.0)
    later = LossForecast(80, loss, 0.3, 0.5, low, high)
    found = LearningCurve((8, 16, 32), ((0.5,),) * 3, 0.4, 1.0, now, (later,))
    assert says in found.recommendation()


def test_bad_rows():
    with pytest.raises(ValueError, match="4 rows are fewer than 5 folds"):
        tr.diagnostics.learning_curve(Mean, torch.zeros(4, 1), torch.zeros(4))
    with pytest.raises(ValueError, match="n_folds must be at least 2"):
        tr.diagnostics.learning_curve(Mean, torch.zeros(40, 1), torch.zeros(40), n_folds=1)
    with pytest.raises(ValueError, match="three or more"):
        tr.diagnostics.learning_curve(
            Mean, torch.zeros(40, 1), torch.zeros(40), train_fractions=(0.5, 1.0)
        )
    with pytest.raises(ValueError, match="extrapolation_factors must be above 1"):
        tr.diagnostics.learning_curve(
            Mean, torch.zeros(40, 1), torch.zeros(40), extrapolation_factors=(0.5,)
        )
    with pytest.raises(ValueError, match="too few for a learning curve"):
        tr.diagnostics.learning_curve(Mean, torch.zeros(3, 1), torch.zeros(3), n_folds=3)


# --- regularizers ------------------------------------------------------------------------------

NET = nn.Sequential(nn.Linear(1, 8), nn.ReLU(), nn.Linear(8, 1))


def test_regularizers_are_ranked_and_their_strengths_selected():
    only = ["L2 prior", "dropout", "TAGI", "early stopping", "input noise"]
    found = tr.diagnostics.compare_regularizers(
        NET, *wave(), only=only, epochs=10, n_splits=2, lr=0.01, n_jobs=1, batch_size=36
    )
    assert {r.name for r in found.results} == {"none", *only}
    values = [r.nll for r in found.results]
    assert values == sorted(values)
    assert found["none"].gain == 0
    assert found["L2 prior"].strength in {"σ = 0.1", "σ = 0.3", "σ = 1"}
    assert set(found.not_applicable) == {"augmentation", "smoothing"}
    assert found["TAGI"].gain == pytest.approx(found["none"].nll - found["TAGI"].nll)
    assert json.loads(found.to_json())["row_visits"] == 10
    assert len(found.plot().get_yticklabels()) == len(only)
    with pytest.raises(KeyError, match="there are"):
        found["prayer"]


def test_regularizers_of_classes():
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(60) % 2
    x = torch.randn(60, 2, generator=generator) + 2 * y[:, None]
    net = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 2))

    def mirrored(x, y, generator):
        return x.flip(1), y

    found = tr.diagnostics.compare_regularizers(
        net, x, y, augment=mirrored, only=["smoothing", "augmentation", "TAGI"], epochs=6,
        n_splits=1, n_jobs=1, batch_size=36,
    )  # fmt: skip
    assert found.error_metric == "error rate"
    assert not any(r.is_significant for r in found.results)  # one split has no standard error
    assert "not significant" in found.recommendation()


def test_dropout_follows_hidden_activations():
    kinds = [type(m).__name__ for m in with_dropout(NET, 0.1)]
    assert kinds == ["Linear", "ReLU", "Dropout", "Linear"]
    assert with_dropout(nn.Linear(1, 1), 0.1) is None
    assert with_dropout(nn.Sequential(nn.Linear(1, 1), nn.ReLU()), 0.1) is None


def test_bad_regularizers():
    with pytest.raises(ValueError, match="no method 'smoothing' here: labels are smoothed"):
        tr.diagnostics.compare_regularizers(NET, *wave(), only=["smoothing"])
    with pytest.raises(ValueError, match="no method 'luck' here; there are"):
        tr.diagnostics.compare_regularizers(NET, *wave(), only=["luck"])
    with pytest.raises(ValueError, match="at least 20 rows, got 8"):
        tr.diagnostics.compare_regularizers(NET, *wave(8))
    with pytest.raises(ValueError, match="n_splits must be"):
        tr.diagnostics.compare_regularizers(NET, *wave(), n_splits=0)


# --- parallel fits -----------------------------------------------------------------------------


def test_parallel_results_are_in_order_and_errors_are_raised():
    for threads in (True, False):
        assert run_all(lambda i: i * i, 7, threads=threads, n_jobs=3) == [i * i for i in range(7)]

        def fails(number):
            if number == 3:
                raise ArithmeticError("three")
            return number

        with pytest.raises(ArithmeticError, match="three"):
            run_all(fails, 6, threads=threads, n_jobs=2)
    assert len(set(draw_seeds(0, 50))) == 50
    assert math.isclose(sum(run_all(float, 3, threads=False, n_jobs=1)), 3.0)
