"""Selection of configurations by paired scores, and random splits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import pytest
import torch
from scipy import stats

from tractable.training.selection import (
    ModelSearch,
    TrialResult,
    best_improvement,
    coordinate_search,
    last_improvement,
)
from tractable.training.splits import complement, shuffled_folds, train_test_rows


def result(config, *scores):
    return TrialResult(config, torch.tensor(scores, dtype=torch.float64))


def test_a_difference_is_compared_with_its_standard_error():
    """As in a paired t test: t = mean / standard error of the differences."""
    generator = torch.Generator().manual_seed(0)
    for shift in (0.0, 0.05, 0.1, 0.2, 0.5):
        rows = 10 * torch.randn(50, generator=generator, dtype=torch.float64)
        noise = torch.randn(50, generator=generator, dtype=torch.float64)
        one, other = TrialResult("a", rows), TrialResult("b", rows + shift + noise)
        t = stats.ttest_rel(other.scores.numpy(), one.scores.numpy()).statistic
        for bound in (0.5, 1.0, 2.0):
            assert other.is_significantly_better(one, bound) == (t > bound)
        assert not one.is_significantly_better(one)


def test_the_best_of_the_clear_improvements_is_selected():
    current = result("simple", 0.0, 0.0, 0.0)
    noisy = result("noisy", 9.0, -9.0, 3.0)
    small = result("small", 0.1, 0.1, 0.2)
    large = result("large", 0.3, 0.4, 0.3)
    assert noisy.mean > large.mean
    assert best_improvement(current, [noisy, small, large]) is large
    assert best_improvement(current, [noisy]) is current
    assert best_improvement(current, []) is current


def test_every_further_improvement_has_to_be_clear():
    by_margin = partial(last_improvement, is_better=lambda a, b: a.mean > b.mean + 0.01)
    current = result("simple", 1.0)
    steps = [result("a", 1.02), result("b", 1.025), result("c", 1.04), result("d", 1.0)]
    assert by_margin(current, steps).config == "c"
    assert by_margin(current, [steps[1], steps[2]]).config == "c"
    assert by_margin(current, []) is current


@dataclass(frozen=True)
class Config:
    width: int = 1
    depth: int = 1


def test_a_search_evaluates_every_configuration_once_and_keeps_the_order():
    calls = []

    def evaluate(configs):
        calls.append(list(configs))
        return [result(c, float(c.width * c.depth)) for c in configs]

    search = ModelSearch(evaluate)
    first, again, second = search.evaluate([Config(), Config(), Config(2)])
    assert first is again
    assert search.evaluate([Config(2), Config(3)])[0] is second
    assert calls == [[Config(), Config(2)], [Config(3)]]
    assert [r.config for r in search.results] == [Config(), Config(2), Config(3)]
    replaced = result(Config(), 7.0)
    search.add(replaced)
    assert search.evaluate([Config()]) == [replaced]
    assert len(calls) == 2
    assert len(search.results) == 4


def test_coordinates_are_searched_in_the_given_order():
    """The second decision starts from the first, and depends on it."""
    scores = {(1, 1): 0.0, (2, 1): 1.0, (3, 1): 0.5, (2, 2): 2.0, (1, 2): 9.0, (2, 3): 1.0}

    def evaluate(configs):
        return [result(c, *[scores[c.width, c.depth]] * 3) for c in configs]

    search = ModelSearch(evaluate)
    (start,) = search.evaluate([Config()])
    best = coordinate_search(search, start, [("width", [2, 3]), ("depth", [2, 3])])
    assert best.config == Config(2, 2)
    other = coordinate_search(search, start, [("depth", [2]), ("width", [])])
    assert other.config == Config(1, 2)


@pytest.mark.parametrize(("rows", "folds"), [(10, 10), (103, 10), (7, 3), (4, 10)])
def test_folds_contain_every_row_once(rows, folds):
    found = shuffled_folds(rows, folds, torch.Generator().manual_seed(1))
    assert sorted(torch.cat(found).tolist()) == list(range(rows))
    assert len(found) <= folds
    assert len({len(fold) for fold in found[:-1]}) <= 1
    for fold in found:
        others = complement(rows, fold)
        assert sorted([*others.tolist(), *fold.tolist()]) == list(range(rows))
        assert others.tolist() == sorted(others.tolist())


def test_a_training_and_a_test_set_are_disjoint_and_depend_on_the_seed():
    parts = [train_test_rows(20, 6, torch.Generator().manual_seed(seed)) for seed in (0, 0, 1)]
    for train, test in parts:
        assert len(test) == 6
        assert sorted([*train.tolist(), *test.tolist()]) == list(range(20))
    assert torch.equal(parts[0][1], parts[1][1])
    assert not torch.equal(parts[0][1], parts[2][1])
