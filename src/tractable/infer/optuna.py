"""``BlackBoxOptimizer`` as a sampler of Optuna (needs the extra ``optuna``).

    study = optuna.create_study(sampler=TractableSampler(seed=0))

Floating point and integer parameters, on linear or logarithmic scales, are proposed together;
categorical ones, and those that do not appear in every trial, are sampled at random.
"""

from __future__ import annotations

import math
from typing import Any

from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.search_space import IntersectionSearchSpace
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from tractable.infer.bayes_opt import BlackBoxOptimizer

Number = FloatDistribution | IntDistribution


class TractableSampler(BaseSampler):
    """An Optuna sampler that proposes parameters by inference and posterior sampling.

    Args:
        seed: seed of all random numbers.
        options: arguments of ``BlackBoxOptimizer``, such as ``n_initial`` or ``hidden_size``.
    """

    def __init__(self, seed: int = 0, **options: Any) -> None:
        self.seed, self.options = seed, options
        self._random = RandomSampler(seed=seed)
        self._space = IntersectionSearchSpace()

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Return the numeric parameters that all trials so far have."""
        space = self._space.calculate(study)
        return {
            name: kind
            for name, kind in space.items()
            if isinstance(kind, Number) and not kind.single()
        }

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return a proposal for all numeric parameters."""
        if not search_space:
            return {}
        space = {name: k for name, k in search_space.items() if isinstance(k, Number)}
        search = BlackBoxOptimizer(
            [(_scale(kind, kind.low), _scale(kind, kind.high)) for kind in space.values()],
            maximize=study.direction == StudyDirection.MAXIMIZE,
            seed=self.seed + trial.number,
            **self.options,
        )
        for done in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
            if done.value is not None and math.isfinite(done.value):
                point = [_scale(kind, done.params[name]) for name, kind in space.items()]
                search.tell(point, done.value)
        return {
            name: _unscale(kind, value)
            for (name, kind), value in zip(space.items(), search.ask().tolist(), strict=True)
        }

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Return a random value of any other parameter."""
        return self._random.sample_independent(study, trial, param_name, param_distribution)

    def reseed_rng(self) -> None:
        """Reseed the generator, as Optuna does for parallel workers."""
        self._random.reseed_rng()


def _scale(kind: Number, value: float) -> float:
    return math.log(value) if kind.log else float(value)


def _unscale(kind: Number, value: float) -> float | int:
    number = math.exp(value) if kind.log else value
    if kind.step is not None and not (isinstance(kind, IntDistribution) and kind.log):
        number = kind.low + round((number - kind.low) / kind.step) * kind.step
    number = min(max(number, kind.low), kind.high)
    return round(number) if isinstance(kind, IntDistribution) else number


__all__ = ["TractableSampler"]
