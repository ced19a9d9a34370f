"""Cross-validation: fits of configurations to rows of which some are held out, and their scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor

from tractable.learners import Learner, reinitialized
from tractable.likelihoods import Likelihood
from tractable.likelihoods.base import HeldOut
from tractable.sklearn.imputation import ImputedRows
from tractable.sklearn.model_selection import (
    Trial,
    TrialConfig,
    feature_relevance,
    rms_slopes,
)
from tractable.sklearn.noise_model import NoiseModel
from tractable.training import holdout
from tractable.training.parallel import run_each
from tractable.training.selection import TrialResult
from tractable.training.splits import complement, shuffled_folds

_MIN_ROWS_OF_THREE_FOLDS = 500  # with fewer rows five folds are held out in turn, else three
_SEED_STEP = 1_000  # between fits to different rows; the members of an ensemble use those between

LearnerFactory = Callable[[tuple[int, ...], int, int], Learner]
"""Returns an untrained learner for hidden layer sizes, a number of networks and a seed."""


@dataclass(frozen=True)
class HeldOutPrediction:
    """Outputs of a fitted learner at held-out rows, in the parts that are scaled by calibration.

    Attributes:
        likelihood: the likelihood, with the noise that the fit inferred.
        y: targets, ``[rows, targets]``.
        mean: mean of the outputs, ``[rows, outputs]``.
        variance: variance of the outputs without extrapolation, ``[rows, outputs]``.
        within: the part of it that comes from the weights of each network, ``[rows, outputs]``.
        extrapolation: variance added because of the distance from the training rows; None if none.
        x: standardized inputs, ``[rows, columns]``.
    """

    likelihood: Likelihood
    y: Tensor
    mean: Tensor
    variance: Tensor
    within: Tensor
    extrapolation: Tensor | None
    x: Tensor

    def scaled_variance(self, epistemic_scale: float) -> Tensor:
        """Return the variance with that of the weights multiplied by a factor."""
        if epistemic_scale == 1:
            return self.variance
        return self.variance - (1 - epistemic_scale) * self.within

    def as_tuple(self, epistemic_scale: float = 1.0, extrapolation_scale: float = 1.0) -> HeldOut:
        """Return likelihood, targets, mean and variance, with factors on two of the variances."""
        variance = self.scaled_variance(epistemic_scale)
        if self.extrapolation is not None:
            variance = variance + extrapolation_scale * self.extrapolation
        return HeldOut(self.likelihood, self.y, self.mean, variance)


@dataclass(frozen=True)
class FittedModel:
    """A fitted learner, with factors on its inputs and on the parts of its variance.

    Attributes:
        learner: the learner.
        relevance: factors on the standardized columns, ``[columns]``.
        epistemic_scale: factor on the variance that comes from the weights of each network.
        noise: factors on the noise that depend on the inputs; None for the same noise everywhere.
        noise_scales: equally probable factors on the noise; None for a normal distribution.
    """

    learner: Learner
    relevance: Tensor
    epistemic_scale: float = 1.0
    noise: NoiseModel | None = None
    noise_scales: Tensor | None = None

    def rms_slopes(self, x: Tensor) -> Tensor:
        """Return the root mean square slope along each standardized column."""
        return rms_slopes(self.learner, x, self.relevance)

    def predict_held_out(self, rows: ImputedRows, y: Tensor) -> HeldOutPrediction:
        """Return the outputs at rows that were not used for the fit.

        For rows with missing values, mean and variance are those of the mixture over the draws.
        """
        completions = rows.completions()
        if completions is None:
            return self._predict(rows.x, y)
        n_draws = len(completions)
        found = self._predict(completions.flatten(0, 1), y.repeat(n_draws, *[1] * (y.ndim - 1)))

        def by_draw(part: Tensor) -> Tensor:
            return part.unflatten(0, (n_draws, -1))

        means = by_draw(found.mean)
        extra = found.extrapolation
        return HeldOutPrediction(
            found.likelihood,
            found.y[: len(y)],
            means.mean(0),
            by_draw(found.variance).mean(0) + means.var(0, correction=0),
            by_draw(found.within).mean(0),
            None if extra is None else by_draw(extra).mean(0),
            rows.x,
        )

    def _predict(self, x: Tensor, y: Tensor) -> HeldOutPrediction:
        inputs, targets = self.learner.checks.data(x * self.relevance.to(x), y)
        (likelihood, outputs), support = (
            holdout.held_out_outputs(self.learner, inputs),
            self.learner.off_data.support,
        )
        mean, variance = outputs.moments()
        extrapolation = None
        if support is not None and support.slope is not None:
            if not isinstance(inputs, Tensor):
                raise TypeError(f"distances need one input tensor, got {type(inputs).__name__}")
            extra = support.distance(inputs).extra
            # With several outputs per target there is no variance of a target to add to.
            if extra is not None and extra.numel() == mean.numel():
                extrapolation = extra.reshape(mean.shape)
        return HeldOutPrediction(
            likelihood, targets, mean, variance, outputs.within(), extrapolation, x
        )


@dataclass(frozen=True)
class FitRequest:
    """A fit that is to be made.

    Attributes:
        config: the configuration.
        rows: row numbers of the training rows.
        number: number of this selection of rows, which determines the seed.
        n_estimators: number of networks.
        distance_aware: whether the learner stores its training rows for extrapolation.
        start: factors on the columns with which a single round of relevance begins; None for
            factors of 1 and all rounds.
    """

    config: TrialConfig
    rows: Tensor = field(repr=False)
    number: int
    n_estimators: int = 1
    distance_aware: bool = False
    start: Tensor | None = None

    @property
    def probe_epochs(self) -> int:
        """Number of epochs of the short fits from which the relevance is estimated."""
        return max(self.config.epochs // 4, 2)

    @property
    def cost(self) -> int:
        """Approximate cost of the fit, in units common to all fits."""
        sizes = self.config.hidden_layer_sizes
        epochs = self.n_estimators * self.config.epochs
        epochs += self.config.relevance_rounds * self.probe_epochs
        return epochs * (1 + sum(a * b for a, b in pairwise(sizes)) + sum(sizes))


class CrossValidator:
    """Fits configurations to the rows that are not held out, and scores them on the others.

    Args:
        factory: returns untrained learners.
        rows: standardized inputs.
        y: targets, ``[rows, targets]`` or ``[rows]``.
        folds: row numbers to hold out in turn; empty if none is held out.
        seed: seed of the first learner.
        batch_size: rows per update, as for ``Learner.fit``.
    """

    def __init__(
        self,
        factory: LearnerFactory,
        rows: ImputedRows,
        y: Tensor,
        folds: Sequence[Tensor],
        *,
        seed: int,
        batch_size: int | None,
    ) -> None:
        self.factory, self.rows, self.x, self.y, self.folds = factory, rows, rows.x, y, folds
        self.seed, self.batch_size = seed, batch_size
        self._relevance: dict[tuple[TrialConfig, int], Tensor] = {}
        self._fold_fits: tuple[TrialConfig, int, list[FittedModel]] | None = None
        self._untrained: dict[tuple[tuple[int, ...], int], Learner] = {}

    @property
    def n_columns(self) -> int:
        """Number of columns of the inputs."""
        return self.x.shape[1]

    def training_rows(self, fold: Tensor) -> Tensor:
        """Return the indices of the rows that are not in a fold."""
        return complement(len(self.x), fold)

    def fit(self, requests: Sequence[FitRequest], *, progress: bool = False) -> list[FittedModel]:
        """Return fits in the order of the requests, made in parallel where threads help.

        Args:
            requests: configurations and their training rows.
            progress: whether to show a progress bar for the first request.
        """
        learners = [self._untrained_learner(r, r.n_estimators) for r in requests]
        found: dict[int, FittedModel] = {}

        def run(k: int) -> None:
            request, learner = requests[k], learners[k]
            relevance = self._estimate_relevance(request)
            learner.fit(
                self.rows.at(request.rows).as_gaussian(relevance),
                self.y[request.rows],
                epochs=request.config.epochs,
                batch_size=self.batch_size,
                distance_aware=request.distance_aware,
                progress=progress and k == 0,
            )
            found[k] = FittedModel(learner, relevance)

        longest_first = sorted(range(len(requests)), key=lambda k: -requests[k].cost)
        in_parallel = all(learner.method.parallel for learner in learners)
        run_each([partial(run, k) for k in longest_first], threads=in_parallel)
        return [found[k] for k in range(len(requests))]

    def _untrained_learner(self, request: FitRequest, n_estimators: int) -> Learner:
        """Return an untrained learner; those of one shape share everything that is constant."""
        seed = self.seed + _SEED_STEP * request.number
        shape = (request.config.hidden_layer_sizes, n_estimators)
        if shape not in self._untrained:
            self._untrained[shape] = self.factory(*shape, seed)
        return reinitialized(self._untrained[shape], seed)

    def _estimate_relevance(self, request: FitRequest) -> Tensor:
        """Return factors on the columns, from the slopes of short fits."""
        config, known = request.config, (request.config, request.number)
        if known in self._relevance:
            return self._relevance[known]
        rows, y = self.rows.at(request.rows), self.y[request.rows]
        x, n_rounds = rows.x, config.relevance_rounds
        factors = torch.ones(x.shape[1], dtype=x.dtype)
        if request.start is not None:
            factors, n_rounds = request.start, min(n_rounds, 1)
        for _ in range(n_rounds):
            probe = self._untrained_learner(request, 1)
            probe.fit(
                rows.as_gaussian(factors),
                y,
                epochs=request.probe_epochs,
                batch_size=self.batch_size,
                distance_aware=False,
                progress=False,
            )
            factors = feature_relevance(probe, x, factors)
        self._relevance[known] = factors
        return factors

    def predict_folds(self, fits: Sequence[FittedModel]) -> list[HeldOutPrediction]:
        """Return the outputs of fits at the folds that were held out of them."""
        pairs = zip(fits, self.folds, strict=True)
        return [fit.predict_held_out(self.rows.at(fold), self.y[fold]) for fit, fold in pairs]

    def held_out(self, fits: Sequence[FittedModel]) -> list[HeldOut]:
        """Return the same as tuples, with the variance of extrapolation included."""
        return [prediction.as_tuple() for prediction in self.predict_folds(fits)]

    def fit_folds(
        self,
        config: TrialConfig,
        n_estimators: int,
        also: Sequence[FitRequest] = (),
        *,
        progress: bool = False,
    ) -> tuple[list[FittedModel], list[FittedModel]]:
        """Return ensembles fitted without each fold, and other fits made in parallel with them.

        The ensembles of the last configuration are kept and not fitted again.
        """
        is_known = self._fold_fits is not None and self._fold_fits[:2] == (config, n_estimators)
        requests = [
            FitRequest(config, self.training_rows(fold), k, n_estimators, distance_aware=True)
            for k, fold in enumerate(() if is_known else self.folds, 1)
        ]
        fits = self.fit([*also, *requests], progress=progress)
        others, new = fits[: len(also)], fits[len(also) :]
        if not is_known:
            self._fold_fits = config, n_estimators, new
        assert self._fold_fits is not None
        return self._fold_fits[2], others

    def fit_single(self, configs: Sequence[TrialConfig]) -> list[list[FittedModel]]:
        """Return fits of single networks without each fold, for every configuration."""
        rows = [self.training_rows(fold) for fold in self.folds]
        fits = self.fit([FitRequest(c, at, k) for c in configs for k, at in enumerate(rows, 1)])
        n_folds = len(rows)
        return [fits[k * n_folds : (k + 1) * n_folds] for k in range(len(configs))]

    def evaluate(self, configs: Sequence[TrialConfig]) -> list[Trial]:
        """Return held-out log-likelihoods of single networks."""
        fits = self.fit_single(configs)
        return [self._scored(config, own) for config, own in zip(configs, fits, strict=True)]

    def evaluate_ensemble(self, config: TrialConfig, n_estimators: int) -> Trial:
        """Return held-out log-likelihoods of ensembles."""
        return self._scored(config, self.fit_folds(config, n_estimators)[0], n_estimators)

    def _scored(
        self, config: TrialConfig, fits: Sequence[FittedModel], n_estimators: int = 1
    ) -> Trial:
        log_probs, noise_scale = holdout.score(fits[0].learner, self.held_out(fits))
        return TrialResult(config, log_probs, noise_scale, n_estimators)


def choose_folds(n_rows: int, seed: int) -> list[Tensor]:
    """Return folds of a tenth of the rows each: five, three or one, fewer for more rows."""
    folds = shuffled_folds(n_rows, 10, torch.Generator().manual_seed(seed))
    if n_rows >= holdout.MANY_ROWS:
        return folds[:1]
    return folds[: 3 if n_rows >= _MIN_ROWS_OF_THREE_FOLDS else 5]
