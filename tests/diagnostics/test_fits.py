"""Studies of many fits: capacity, rows, remedies; recovered laws, choices, and bad input."""

import json
import math

import numpy as np
import pytest
import torch
from torch import nn

import tractable as tr
from tractable.diagnostics.capacity import Capacity, Size
from tractable.diagnostics.learning_curve import Expected, MoreData, fitted_curves
from tractable.diagnostics.parallel_fits import run_all, seeds_of
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
    found = tr.diagnostics.capacity(sized, [32, 1, 4], *wave(), seeds=2, workers=1, epochs=30)
    assert [s.size for s in found.sizes] == [1, 4, 32]
    assert [s.parameters for s in found.sizes] == [4, 13, 97]
    assert found.best.size == 32
    assert found.sizes[0].train_error > 3 * found.sizes[2].train_error
    assert found.baseline == pytest.approx(0.5, abs=0.35)
    assert found.kind == "mean squared error"
    assert "Size 32 has the lowest test error" in found.advice()
    assert json.loads(found.to_json())["sizes"][0]["size"] == 1
    assert len(found.plot().lines) >= 2


def test_the_evidence_of_the_learner_stands_beside_the_error():
    def make(width, seed):
        net = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, 1))
        return tr.Laplace(net, tr.likelihoods.Normal(0.1), lr=0.02, seed=seed)

    found = tr.diagnostics.capacity(make, [1, 8], *wave(), workers=1, epochs=120, batch_size=45)
    assert found.best_by_evidence.size == 8 == found.best.size
    assert "the evidence prefers 8" in found.advice()


def sizes(errors, train):
    pairs = enumerate(zip(errors, train, strict=True), 1)
    return tuple(Size(i, 10 * i, t, e, None, 0.0, None) for i, (e, t) in pairs)


def test_a_peak_and_its_threshold():
    found = Capacity(sizes([0.5, 0.2, 0.5, 0.3, 0.1], [0.4, 0.2, 0.0, 0.0, 0]), "x", 0.9, 100, 10)
    assert found.peak == pytest.approx(2.5)
    assert found.threshold == 3
    assert "rises to 2.5 times" in found.advice()
    down = Capacity(sizes([0.5, 0.4, 0.3], [0.4, 0.3, 0.2]), "x", 0.9, 100, 10)
    assert down.peak == 1
    assert down.threshold is None
    up = Capacity(sizes([0.3, 0.4, 0.5], [0.4, 0.3, 0.2]), "x", 0.9, 100, 10)
    assert up.peak == 1  # it never comes down again


def test_bad_capacity():
    with pytest.raises(ValueError, match="different whole numbers"):
        tr.diagnostics.capacity(sized, [2, 2], *wave())
    with pytest.raises(ValueError, match="ignores its seed"):
        tr.diagnostics.capacity(lambda width, seed: sized(width, 0), [2, 4], *wave())
    with pytest.raises(ValueError, match="seeds must be"):
        tr.diagnostics.capacity(sized, [2], *wave(), seeds=0)


# --- rows --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("floor", "scale", "power"), [(0.2, 3.0, 1.0), (0.0, 2.0, 0.5), (0.3, 0.0, 1)]
)
def test_a_law_is_found_again(floor, scale, power):
    rows = [20, 50, 100, 200, 400]
    n = torch.tensor(rows, dtype=torch.float64)
    found = fitted_curves(rows, (floor + scale * n**-power)[None])
    far = torch.tensor([2000.0], dtype=torch.float64)
    assert float(found.at(far)) == pytest.approx(floor + scale * 2000**-power, rel=1e-6)
    assert float(found.floor) == pytest.approx(floor, abs=1e-6)


class Mean:
    """Predicts the mean of what it saw: its expected loss is sigma^2 (1 + 1/n)."""

    def __init__(self, seed):
        self.seed = seed

    def fit(self, x, y):
        self.mean = float(np.asarray(y).mean())

    def predict(self, x):
        return np.full(len(x), self.mean)


def test_more_rows_of_a_mean():
    """By theory twice 400 rows take 0.125 % off the loss: hardly worth it."""
    y = torch.randn(400, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = tr.diagnostics.more_data(Mean, torch.zeros(400, 1), y, workers=1)
    assert found.rows == (32, 64, 128, 224, 320)
    assert found.later[0].rows == 800
    assert found.later[0].loss == pytest.approx(float(y.var()), rel=0.03)
    assert found.later[0].low <= found.later[0].loss <= found.later[0].high
    assert found.advice().startswith("More rows would hardly help")
    assert len(found.table().splitlines()) == 8
    assert json.loads(found.to_json())["now"]["rows"] == 400
    assert found.plot().get_ylim()[0] == 0


def test_more_rows_of_a_wave_help():
    found = tr.diagnostics.more_data(
        lambda seed: sized(16, seed), *wave(80), workers=1, epochs=30, folds=4
    )
    assert found.now.loss > found.later[0].loss > found.later[1].loss
    assert found.advice().startswith(("More rows would help", "More rows may help"))


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
def test_advice_is_given_where_it_helps(loss, low, high, says):
    now = Expected(40, 0.441, 0.4, 0.5, 0.0, 0.0)
    later = Expected(80, loss, 0.3, 0.5, low, high)
    found = MoreData((8, 16, 32), ((0.5,),) * 3, 0.4, 1.0, now, (later,))
    assert says in found.advice()


def test_bad_rows():
    with pytest.raises(ValueError, match="4 rows are fewer than 5 folds"):
        tr.diagnostics.more_data(Mean, torch.zeros(4, 1), torch.zeros(4))
    with pytest.raises(ValueError, match="folds must be at least 2"):
        tr.diagnostics.more_data(Mean, torch.zeros(40, 1), torch.zeros(40), folds=1)
    with pytest.raises(ValueError, match="three or more"):
        tr.diagnostics.more_data(Mean, torch.zeros(40, 1), torch.zeros(40), shares=(0.5, 1.0))
    with pytest.raises(ValueError, match="times must be above 1"):
        tr.diagnostics.more_data(Mean, torch.zeros(40, 1), torch.zeros(40), times=(0.5,))
    with pytest.raises(ValueError, match="too few to see a curve"):
        tr.diagnostics.more_data(Mean, torch.zeros(3, 1), torch.zeros(3), folds=3)


# --- remedies ----------------------------------------------------------------------------------

NET = nn.Sequential(nn.Linear(1, 8), nn.ReLU(), nn.Linear(8, 1))


def test_remedies_are_ranked_and_strengths_chosen():
    only = ["L2 prior", "dropout", "TAGI", "early stopping", "input noise"]
    found = tr.diagnostics.remedies(
        NET, *wave(), only=only, epochs=10, splits=2, lr=0.01, workers=1, batch_size=36
    )
    assert {r.name for r in found.remedies} == {"nothing", *only}
    values = [r.nll for r in found.remedies]
    assert values == sorted(values)
    assert found["nothing"].gain == 0
    assert found["L2 prior"].strength in {"σ = 0.1", "σ = 0.3", "σ = 1"}
    assert set(found.left_out) == {"augmentation", "smoothing"}
    assert found["TAGI"].gain == pytest.approx(found["nothing"].nll - found["TAGI"].nll)
    assert json.loads(found.to_json())["visits"] == 10
    assert len(found.plot().get_yticklabels()) == len(only)
    with pytest.raises(KeyError, match="there are"):
        found["prayer"]


def test_remedies_of_classes():
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(60) % 2
    x = torch.randn(60, 2, generator=generator) + 2 * y[:, None]
    net = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 2))

    def mirrored(x, y, generator):
        return x.flip(1), y

    found = tr.diagnostics.remedies(
        net, x, y, augment=mirrored, only=["smoothing", "augmentation", "TAGI"], epochs=6,
        splits=1, workers=1, batch_size=36,
    )  # fmt: skip
    assert found.kind == "error rate"
    assert not any(r.helps for r in found.remedies)  # one split tells nothing
    assert "not significant" in found.advice()


def test_dropout_stands_behind_activations():
    kinds = [type(m).__name__ for m in with_dropout(NET, 0.1)]
    assert kinds == ["Linear", "ReLU", "Dropout", "Linear"]
    assert with_dropout(nn.Linear(1, 1), 0.1) is None
    assert with_dropout(nn.Sequential(nn.Linear(1, 1), nn.ReLU()), 0.1) is None


def test_bad_remedies():
    with pytest.raises(ValueError, match="no remedy 'smoothing' here: labels are smoothed"):
        tr.diagnostics.remedies(NET, *wave(), only=["smoothing"])
    with pytest.raises(ValueError, match="no remedy 'luck' here; there are"):
        tr.diagnostics.remedies(NET, *wave(), only=["luck"])
    with pytest.raises(ValueError, match="at least 20 rows, got 8"):
        tr.diagnostics.remedies(NET, *wave(8))
    with pytest.raises(ValueError, match="splits must be"):
        tr.diagnostics.remedies(NET, *wave(), splits=0)


# --- on all cores ------------------------------------------------------------------------------


def test_work_beside_each_other_comes_in_order_and_its_error_comes_through():
    for threads in (True, False):
        assert run_all(lambda i: i * i, 7, threads=threads, workers=3) == [i * i for i in range(7)]

        def fails(number):
            if number == 3:
                raise ArithmeticError("three")
            return number

        with pytest.raises(ArithmeticError, match="three"):
            run_all(fails, 6, threads=threads, workers=2)
    assert len(set(seeds_of(0, 50))) == 50
    assert math.isclose(sum(run_all(float, 3, threads=False, workers=1)), 3.0)
