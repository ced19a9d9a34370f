"""The plots of the MNIST study."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from tractable import metrics, plots
from tractable.learners import Learner
from tractable_studies.framework.record import RunRecord


def draw(
    models: Mapping[str, Learner], found: Mapping[str, Any], record: RunRecord, folder: Path
) -> None:
    """Draw the results."""
    import matplotlib.pyplot as plt

    def keep(ax: Any, name: str) -> None:
        record.picture(folder, ax.figure, name)
        plt.close(ax.figure)

    histories = {name: model.history for name, model in models.items()}
    keep(
        plots.learning_curves(histories, "test_error", ylabel="test error [%]", scale="log"),
        "learning-curves",
    )
    posteriors = {name: model.posterior for name, model in models.items()}
    keep(plots.weights(posteriors), "weights")
    uncertain = {k: p for k, p in posteriors.items() if bool((p.variance > 0).any())}
    if uncertain:
        keep(plots.snr(uncertain), "snr")
    ax = None
    for name, curve in reliability_of(found).items():
        ax = plots.reliability(curve, label=name, min_count=20, show_counts=False, ax=ax)
    if ax is not None:
        keep(ax, "calibration")
    for key, name in (("pruned", "pruning"), ("pruned_per_layer", "pruning-per-layer")):
        curves = {k: (r[key]["fraction"], r[key]["error_percent"]) for k, r in found.items()}
        ax = plots.pruning(curves, ylabel="test error [%]")
        best = min(min(up) for _, up in curves.values())
        ax.set_ylim(0, best + 10)  # beyond, a model is of no use
        keep(ax, name)
    for key, name in (
        ("accuracy_under_fgsm_of_a_cnn", "fgsm-of-a-cnn"),
        ("accuracy_under_own_fgsm", "own-fgsm"),
    ):
        curves = {k: ([float(e) for e in r[key]], list(r[key].values())) for k, r in found.items()}
        keep(plots.robustness(curves), name)


def reliability_of(found: Mapping[str, Any]) -> dict[str, metrics.Reliability]:
    """Return the reliability curves that were written as JSON."""
    curves = {}
    for name, result in found.items():
        held = {
            k: torch.tensor([math.nan if e is None else e for e in v])
            for k, v in result["reliability"].items()
        }
        bins = len(held["count"])
        curves[name] = metrics.Reliability(torch.linspace(0, 1, bins + 1), **held)
    return curves
