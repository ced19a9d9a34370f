"""Figures of bandit agents: content and invalid input."""

import numpy as np
import pytest

from tractable import plots

RUNS = {"one": np.cumsum(np.ones((3, 1000)), 1) * [[1], [2], [3]], "other": np.arange(1000.0)}


def test_regret_draws_the_mean_and_the_range():
    ax = plots.regret(RUNS)
    assert [line.get_label() for line in ax.lines] == ["one", "other"]
    assert ax.lines[0].get_ydata()[-1] == 2000
    assert ax.lines[0].get_xdata()[-1] == 1000
    assert len(ax.collections) == 1  # a single run has no range
    low, high = ax.collections[0].get_paths()[0].vertices[:, 1].min(), 3000
    assert low == 1
    assert ax.collections[0].get_paths()[0].vertices[:, 1].max() == high


def test_each_run_by_itself():
    ax = plots.regret(RUNS, show_runs=True, scale="log")
    assert len(ax.lines) == 4
    assert ax.get_yscale() == "log"
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["one", "other"]


def test_the_rate_is_a_running_mean():
    taken = np.tile([1, 0, 0, 0], 100)
    ax = plots.action_rate({"a": [taken, taken]}, window=40, best=0.5)
    assert ax.lines[0].get_ydata() == pytest.approx(0.25)
    assert ax.lines[0].get_xdata()[0] == 40
    assert ax.lines[1].get_label() == "oracle"


def test_mistakes_are_bars():
    ax = plots.error_counts({"a": (1, 2), "b": (3, 4)})
    assert [bar.get_height() for bar in ax.patches] == [1, 3, 2, 4]


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="a has 10 steps, fewer than the window of 20"):
        plots.action_rate({"a": np.ones(10)}, window=20)
    with pytest.raises(ValueError, match="window must be at least 1"):
        plots.action_rate({"a": np.ones(10)}, window=0)
    with pytest.raises(ValueError, match="a has 1 counts for 2 kinds"):
        plots.error_counts({"a": (1,)})
    with pytest.raises(ValueError, match="one row per run"):
        plots.regret({"a": np.ones((2, 2, 2))})
