"""Predictions of several models, mixed into one."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tractable.predictive.angle import AnglePredictive, mean_angles
from tractable.predictive.base import Predictive
from tractable.predictive.categorical import CategoricalPredictive, mean_probabilities
from tractable.predictive.normal import NormalPredictive
from tractable.predictive.normal_mixture import NormalMixturePredictive
from tractable.predictive.steps import StepsPredictive


def mixture(parts: list[Predictive]) -> Predictive:
    """The even mixture of several predictives of the same rows, for example of an ensemble.

    A part that is a mixture of draws itself counts with as many draws as it has.  Any kind of
    predictive will do, but numbers and classes do not mix.
    """
    if not parts:
        raise ValueError("a mixture needs at least one predictive")
    steps = [part for part in parts if isinstance(part, StepsPredictive)]
    if len(steps) == len(parts):
        return StepsPredictive(mixture([part.part for part in steps]), steps[0].steps)
    labels = [part for part in parts if isinstance(part, CategoricalPredictive)]
    if len(labels) == len(parts) and not any(part.several for part in labels):
        return mean_probabilities(labels)
    angles = [part for part in parts if isinstance(part, AnglePredictive)]
    if len(angles) == len(parts):
        return mean_angles(angles)
    stacked = [part.pooled(1) if isinstance(part, NormalPredictive) else part for part in parts]
    normals = [part for part in stacked if isinstance(part, NormalMixturePredictive)]
    if len(normals) == len(parts):
        tails = normals[0].tails
        if not all(_same(part.tails, tails) for part in normals):
            many = math.lcm(*(1 if part.tails is None else len(part.tails) for part in normals))
            normals, tails = [_spread(part, many) for part in normals], None
        return NormalMixturePredictive(
            torch.cat([part.draws for part in normals]),
            torch.cat([part.within for part in normals]),
            torch.cat([part.noise for part in normals]),
            tails=tails,
        )
    if len({part.has_classes for part in parts}) > 1:
        kinds = ", ".join(sorted({type(part).__name__ for part in parts}))
        raise TypeError(f"cannot mix predictives of these kinds: {kinds}")
    return parts[0].mixed(parts[1:])


def _spread(part: NormalMixturePredictive, many: int) -> NormalMixturePredictive:
    """The same as normals only, ``many`` of them for each draw."""
    tails = part.noise.new_ones(1) if part.tails is None else part.tails
    return part.tailed(tails.repeat(many // len(tails))).components


def _same(a: Tensor | None, b: Tensor | None) -> bool:
    """Whether two noises have the same tails."""
    return a is b or (a is not None and b is not None and torch.equal(a, b))
