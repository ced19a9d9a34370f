"""Generative models: each returns as many samples as there are test rows."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import tractable as tr
from tractable.generative import Diffusion
from tractable_studies.diffusion.tasks import Array, Labels, Task, one_hot

STEPS = 50


@dataclass(frozen=True)
class Made:
    """Generated rows.

    Attributes:
        rows: the generated rows.
        labels: labels of generated digits.
        fitting: processor seconds to fit the selected setting.
        sampling: processor seconds to draw the samples.
        setting: the selected setting.
    """

    rows: Array
    labels: Labels | None
    fitting: float
    sampling: float
    setting: dict[str, float]


Maker = Callable[[Task, int], Made]


def diffusion(kind: Any, settings: list[dict[str, Any]], widths: tuple[int, ...]) -> Maker:
    """Fit this library's model, with settings selected by the bound on validation rows."""

    def fitted(task: Task, setting: dict[str, Any], seed: int) -> Diffusion:
        setting = dict(setting)
        passes = setting.pop("epochs")
        model = Diffusion(
            widths, steps=STEPS, learner=kind, learner_kwargs=setting,
            validation_fraction=0, seed=seed,
        )  # fmt: skip
        context = None if task.labels is None else one_hot(task.labels[0])
        return model.fit(task.train, context, epochs=passes, progress=False)

    def bound(model: Diffusion, task: Task) -> float:
        context = None if task.labels is None else one_hot(task.labels[1])
        return float(model.predict(context).log_prob(task.validation).mean())

    def make(task: Task, seed: int) -> Made:
        tried = []
        for setting in settings:
            began = time.process_time()
            model = fitted(task, setting, seed)
            seconds = time.process_time() - began
            tried.append((bound(model, task), seconds, model, setting))
        _, seconds, model, setting = max(tried, key=lambda one: one[0])
        began = time.process_time()
        labels = None if task.labels is None else task.labels[2]
        if labels is None:
            rows = model.predict().sample(len(task.test)).numpy()
        else:
            rows = model.predict(one_hot(labels)).sample(1)[0].numpy()
        return Made(
            rows.astype(np.float64), labels, seconds, time.process_time() - began, dict(setting)
        )

    return make


def forest(times: int, copies: int, trees: int) -> Maker:
    """Fit ForestDiffusion: boosted trees for every column and time, flow matching, one setting.

    Args:
        times: its n_t, 50 by default there.
        copies: its duplicate_K, 100 by default there.
        trees: its n_estimators, 100 by default there.
    """

    def make(task: Task, seed: int) -> Made:
        from ForestDiffusion import ForestDiffusionModel

        began = time.process_time()
        model = ForestDiffusionModel(
            task.train, n_t=times, duplicate_K=copies, n_estimators=trees, n_jobs=1, seed=seed,
            nthread=1,
        )  # fmt: skip
        seconds = time.process_time() - began
        began = time.process_time()
        rows = np.asarray(model.generate(batch_size=len(task.test)), dtype=np.float64)
        setting = {"times": times, "copies": copies, "trees": trees}
        return Made(rows, None, seconds, time.process_time() - began, dict(setting))

    return make


def ours(passes: int, widths: tuple[int, ...]) -> dict[str, Maker]:
    """Return the two learners, each with two settings."""
    return {
        "TAGI": diffusion(tr.TAGI, [{"epochs": max(passes // 2, 1)}, {"epochs": passes}], widths),
        "Backprop": diffusion(
            tr.Backprop,
            [{"epochs": passes, "lr": 1e-3}, {"epochs": passes, "lr": 3e-3}],
            widths,
        ),
    }


def has_forest() -> bool:
    """Return whether ForestDiffusion is installed."""
    return importlib.util.find_spec("ForestDiffusion") is not None
