"""Figures 23 to 27 of the mushroom study."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tractable import plots
from tractable.agents import BanditHistory
from tractable.plots.style import get_axes
from tractable_studies.framework.record import RunRecord
from tractable_studies.mushroom.agents import NAMES

Histories = dict[str, list[BanditHistory]]


def draw(record: RunRecord, folder: Path, histories: Histories, steps: int) -> None:
    """Draw cumulative regret, eating rate, mistakes and single runs."""
    regrets = {name: _regrets(runs, steps) for name, runs in histories.items()}
    ax = plots.regret({NAMES[name]: rows for name, rows in regrets.items()})
    _keep(record, folder, ax, "regret", "Figure 23: cumulative regret, mean and range over seeds")

    eaten = {
        NAMES[name]: [np.equal(h.actions[:steps], 1) for h in runs]
        for name, runs in histories.items()
        if not name.startswith("eps")
    }
    if eaten:
        any_runs = next(iter(histories.values()))
        best = float(np.mean([np.mean(np.equal(h.oracle[:steps], 1)) for h in any_runs]))
        window = min(500, steps)
        ax = plots.action_rate(eaten, window=window, best=best, ylabel="share eaten")
        caption = f"Figure 24: eating rate over {window} steps, mean over seeds"
        _keep(record, folder, ax, "eating-rate", caption)

    counts = {
        NAMES[name]: [
            float(np.mean([h.mistakes(action)[:steps].sum() for h in runs])) for action in (1, 0)
        ]
        for name, runs in histories.items()
    }
    ax = plots.error_counts(counts, ("poisonous eaten (FP)", "edible left (FN)"))
    _keep(record, folder, ax, "mistakes", "Figure 25: mistakes, mean over seeds")

    single = {NAMES[n]: regrets[n] for n in ("bbb", "greedy", "tagi") if n in regrets}
    if single:
        ax = plots.regret(single, show_runs=True, scale="log")
        _keep(record, folder, ax, "single-runs", "Figure 26: each run by itself")


def draw_variations(record: RunRecord, folder: Path, histories: Histories, steps: int) -> None:
    """Draw the comparison of learning rates and priors with one seed."""
    regrets = {name: _regrets(runs, steps) for name, runs in histories.items()}
    panels = {
        "Learning rate": ["bbb", "bbb-lr-1e-4", "bbb-lr-1e-5"],
        "Prior": ["bbb", "bbb-sigma1-e+2", "bbb-sigma1-e-2", "bbb-sigma1-e-4"],
        "TAGI": ["tagi", "tagi-outputs", "tagi-unprimed"],
    }
    get_axes(None)  # raises an error if matplotlib is missing
    import matplotlib.pyplot as plt

    plt.close()
    figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    for ax, (title, names) in zip(axes, panels.items(), strict=True):
        plots.regret({_label(n): regrets[n] for n in names if n in regrets}, ax=ax)
        ax.set_title(title, fontsize=10)
    record.picture(folder, figure, "variations", f"Figure 27: one seed, {steps:,} steps")
    plt.close(figure)


def _label(name: str) -> str:
    return {"bbb": "as in figure 23", "tagi": "weights drawn"}.get(name, NAMES[name])


def _regrets(runs: list[BanditHistory], steps: int) -> list[Any]:
    return [h.cumulative_regret[:steps] for h in runs]


def _keep(record: RunRecord, folder: Path, ax: Any, part: str, caption: str) -> None:
    import matplotlib.pyplot as plt

    record.picture(folder, ax.figure, part, caption)
    plt.close(ax.figure)
