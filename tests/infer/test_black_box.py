import numpy as np
import pytest

from tractable.infer import BlackBoxOptimizer
from tractable_studies.blackbox.functions import ACKLEY10, BRANIN, HARTMANN6


def run(function, n, bounds, **options):
    search = BlackBoxOptimizer(bounds, epochs=20, **options)
    for _ in range(n):
        x = search.ask()
        search.tell(x, function(x))
    return search


def test_finds_the_minimum_and_maximum_of_a_quadratic():
    def bowl(x):
        return float(((x - [3.0, -7.0]) ** 2).sum())

    bounds = [(0, 10), (-10, 0)]
    low = run(bowl, 25, bounds)
    assert low.best_value < 0.5
    assert np.abs(low.best_point - [3, -7]).max() < 1
    high = run(lambda x: -bowl(x), 25, bounds, maximize=True)
    assert high.best_value > -0.5


def test_points_are_within_bounds_and_reproducible():
    bounds = [(-5, -4), (100, 200)]
    twice = [run(lambda x: float(x.sum()), 12, bounds, seed=3) for _ in range(2)]
    for search in twice:
        points = np.array([(p.numpy() + 1) / 2 for p in search._x])
        assert ((points >= 0) & (points <= 1)).all()
    assert twice[0].best_value == twice[1].best_value
    assert len(twice[0]) == 12


def test_other_points_than_the_proposed_can_be_observed():
    search = BlackBoxOptimizer([(0, 1)], n_initial=2, epochs=5)
    search.tell([0.5], 1.0)
    search.tell([0.6], 0.5)
    assert 0 <= search.ask()[0] <= 1
    assert search.best_point == pytest.approx([0.6])


def test_bad_input():
    with pytest.raises(ValueError, match=r"low < high; input 1 has \[2.0, 1.0\]"):
        BlackBoxOptimizer([(0, 1), (2, 1)])
    with pytest.raises(ValueError, match="one pair"):
        BlackBoxOptimizer([0, 1])
    with pytest.raises(ValueError, match="finite"):
        BlackBoxOptimizer([(0, np.inf)])
    with pytest.raises(ValueError, match="n_initial must be at least 1"):
        BlackBoxOptimizer([(0, 1)], n_initial=0)
    search = BlackBoxOptimizer([(0, 1)])
    with pytest.raises(ValueError, match="there is no value yet"):
        _ = search.best_value
    with pytest.raises(ValueError, match="finite number"):
        search.tell([0.5], float("nan"))
    with pytest.raises(ValueError, match="outside the bounds"):
        search.tell([1.5], 0.0)
    with pytest.raises(ValueError, match="must have 1 coordinates, got 2"):
        search.tell([0.5, 0.5], 0.0)


def test_minima_of_the_test_functions():
    assert BRANIN.call(np.array([np.pi, 2.275])) == pytest.approx(BRANIN.minimum, abs=1e-9)
    best = np.array([0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573])
    assert HARTMANN6.call(best) == pytest.approx(HARTMANN6.minimum, abs=1e-5)
    assert ACKLEY10.call(np.zeros(10)) == pytest.approx(0, abs=1e-12)
