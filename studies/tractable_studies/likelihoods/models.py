"""Models of this library: a network, a likelihood and a learner."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import nn

import tractable as tr
from tractable import metrics
from tractable.likelihoods import Likelihood, Normal
from tractable.predictive import CategoricalPredictive, Predictive
from tractable_studies.likelihoods.rows import Task

Model = Callable[[Task, int], Predictive]
TRIALS = 3
"""Number of splits of the training rows for the comparison of candidates."""


def network(task: Task, outputs: int, widths: tuple[int, ...]) -> nn.Module:
    """Return a network of hidden ReLU layers."""
    sizes, layers = (task.x.shape[1], *widths), list[nn.Module]()
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], outputs))


def learnt(
    kind: type[tr.Learner],
    likelihood: Likelihood,
    *widths: int,
    epochs: int,
    batch: int,
    calibrate: bool = False,
    members: int = 1,
    **options: Any,
) -> Model:
    """Return a model: a learner with a likelihood, at its defaults except for the options."""

    def fit(task: Task, seed: int) -> Predictive:
        net = network(task, likelihood.outputs_needed, widths)
        if members == 1:
            model = kind(net, likelihood, seed=seed, **options)
        else:
            model = tr.Ensemble(
                net, likelihood, n_estimators=members, learner=kind, seed=seed, **options
            )
        model.fit(
            task.x, task.y, epochs=epochs, batch_size=batch, calibrate=calibrate, progress=False,
            distance_aware=False,
        )  # fmt: skip
        return model.predict(task.x_test)

    return fit


def best_of(*candidates: Model, seed: int = 0) -> Model:
    """Select the candidate of highest log-likelihood on a fifth of the training rows; refit it.

    Means over three random fifths are compared; test rows are used once.
    """

    def fit(task: Task, run: int) -> Predictive:
        if len(candidates) == 1:
            return candidates[0](task, run)
        generator = torch.Generator().manual_seed(seed)
        missed = torch.zeros(len(candidates))
        for _ in range(TRIALS):
            order = torch.randperm(len(task.x), generator=generator)
            out, kept = order[: len(order) // 5], order[len(order) // 5 :]
            part = Task(task.x[kept], task.y[kept], task.x[out], task.y[out])
            missed += torch.tensor([metrics.nll(one(part, run), part.y_test) for one in candidates])
        return candidates[int(missed.argmin())](task, run)

    return fit


def rounded(levels: int, epochs: int) -> Model:
    """Fit a normal distribution, and assign to each level the probability of rounding to it."""

    def fit(task: Task, seed: int) -> Predictive:
        y = task.y.to(task.x.dtype).unsqueeze(1)
        number = Task(task.x, (y - y.mean()) / y.std(), task.x_test, y)
        p = learnt(tr.TAGI, Normal(), 50, epochs=epochs, batch=16)(number, seed)
        edges = (torch.arange(levels - 1) + 0.5 - y.mean()) / y.std()
        inner = torch.cat([p.cdf(edge.expand_as(p.mean)) for edge in edges], 1)
        zero, one = torch.zeros_like(inner[:, :1]), torch.ones_like(inner[:, :1])
        probs = torch.cat([zero, inner, one], 1).diff(dim=1)
        return CategoricalPredictive(probs.clamp_min(1e-12), ordered=True)

    return fit
