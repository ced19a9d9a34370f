"""Estimators that learn in closed form: no gradient, no learning rate, truly online."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from numbers import Integral, Real
from typing import Any, Literal

import torch
from torch import Tensor, nn

from tractable.data import Standardizer
from tractable.learners import TAGI, Ensemble, Learner
from tractable.likelihoods import Categorical, Likelihood, Normal, Ordinal
from tractable.likelihoods.categorical import Link
from tractable.persistence import validation
from tractable.predictive import LogScale
from tractable.sklearn import doubt as doubts
from tractable.sklearn import logarithm, noise, stretches, tails
from tractable.sklearn.choosing import ROUNDS, Fit, Setting, Trials, Tried, Wanted, choose, parts_of
from tractable.sklearn.classifier import Classifier
from tractable.sklearn.estimator import Estimator
from tractable.sklearn.network import dense, widths
from tractable.sklearn.ordered import Ordered, likelihood_of_classes
from tractable.sklearn.regressor import Regressor
from tractable.sklearn.rows import Rows
from tractable.sklearn.targets import COMPILED, FEW_EPOCHS, FULL_BATCH, NORMAL
from tractable.sklearn.values import plain
from tractable.training import holdout

HIDDEN = (64, 64)
"""Widths of the hidden layers, unless given or a linear model suits better."""
_JUDGED = 3  # members of the copies that the noise of a larger ensemble is calibrated by


class _ByTAGI(Estimator):
    """Made and taught as an ensemble of ``TAGI`` learners.

    Attributes:
        best_params_: the setting that was fitted.
        cv_results_: what rows held out of fits say of every setting tried, best last.
    """

    gain: float
    epoch_forgetting: float
    n_estimators: int
    calibrate: bool | Literal["cv"]
    relevance: bool | None
    memory_rows: float | None

    best_params_: Setting
    cv_results_: list[Tried]

    def _new_learner(self, net: nn.Module, likelihood: Likelihood, seed: int, rows: int) -> Learner:
        return self._of(net, likelihood, int(self.n_estimators), seed)

    def _of(self, net: nn.Module, likelihood: Likelihood, n_estimators: int, seed: int) -> Learner:
        options = {
            "gain": plain(self.gain),
            "epoch_forgetting": plain(self.epoch_forgetting),
            "seed": seed,
        }
        if n_estimators == 1:
            return TAGI(net, likelihood, **options)
        return Ensemble(net, likelihood, n_estimators=n_estimators, learner=TAGI, **options)

    def _learn(self, likelihood: Likelihood, outputs: int, x: Rows, y: Tensor) -> Fit:
        self._check_settings()
        rows, trials = len(x), self._trials(likelihood, outputs, x, y)
        setting, tried = self._first_setting(rows), list[Tried]()
        fast = isinstance(likelihood, COMPILED)
        if not fast and self.epochs is None:
            setting = replace(setting, epochs=FEW_EPOCHS)
        if trials.parts:
            best, tried = choose(
                trials,
                setting,
                epochs=self.epochs is None,
                linear=self.hidden_layer_sizes is None,
                weigh=self.relevance is None and fast,
                n_estimators=min(int(self.n_estimators), _JUDGED) if fast else 1,
            )
            setting = best.setting
        many = plain(self.calibrate) is True and x.distinct >= holdout.MANY_ROWS
        fit = self._fitted(trials, setting, spare=many)
        self.best_params_, self.cv_results_ = setting, tried
        return fit

    def _trials(self, likelihood: Likelihood, outputs: int, x: Rows, y: Tensor) -> Trials:
        """Fits to standardised rows, some of which are held out if they are enough."""

        def make(hidden_layer_sizes: tuple[int, ...], n_estimators: int, seed: int) -> Learner:
            net = dense(x.x.shape[1], hidden_layer_sizes, outputs, self.activation)
            return self._of(net, likelihood, n_estimators, seed)

        seed, rows = self._seed, len(x)
        wanted = self.calibrate if x.distinct >= holdout.MIN_ROWS else False
        parts = [x.copies_of(part) for part in parts_of(x.distinct, seed)] if wanted else []
        fast = isinstance(likelihood, COMPILED)
        size = plain(self.batch_size)
        if not fast and size is None:
            size = min(FULL_BATCH, rows)
        return Trials(make, x, y, parts, seed=seed, batch_size=size)

    def _first_setting(self, rows: int) -> Setting:
        epochs = holdout.default_epochs(rows) if self.epochs is None else int(self.epochs)
        setting = Setting(tuple(self._widths()), epochs)
        return replace(setting, rounds=ROUNDS) if self.relevance else setting

    def _fitted(self, trials: Trials, setting: Setting, *, spare: bool) -> Fit:
        """The fit that is kept: its noise suits held-out rows, if there are any.

        Args:
            trials: the rows.
            setting: what was chosen.
            spare: whether there are rows enough not to learn from those held out.
        """
        rows = trials.kept(trials.parts[0]) if spare else torch.arange(len(trials.x))
        final = Wanted(setting, rows, 0, int(self.n_estimators), distance_aware=True)
        bar = self.verbose > 0
        if spare or not trials.parts:
            (fit,) = judged = trials.fits([final], progress=bar)
        else:
            fast = isinstance(trials.make(setting.hidden_layer_sizes, 1, 0).likelihood, COMPILED)
            n_estimators = min(int(self.n_estimators), _JUDGED) if fast else 1
            judged, (fit,) = trials.judged(setting, n_estimators, [final], progress=bar)
        return self._suited(trials, setting, fit, judged) if trials.parts else fit

    def _suited(self, trials: Trials, setting: Setting, fit: Fit, judged: list[Fit]) -> Fit:
        """A fit whose noise suits what held-out rows say of copies of it (or of itself)."""
        if not fit.learner.likelihood.can_calibrate:
            return fit
        fit.learner.rescale_noise(holdout.noise_scale(fit.learner, trials.held_out(judged)))
        return fit

    def _streaming(self, width: int) -> None:
        super()._streaming(width)
        self.best_params_, self.cv_results_ = Setting(tuple(self._widths()), 1), []

    def chosen_state(self) -> dict[str, Any] | None:
        """See ``Estimator``."""
        chosen = getattr(self, "best_params_", None)
        if chosen is None:
            return None
        tried = [
            {**asdict(one.setting), "noise_scale": one.factor, "n_estimators": one.n_estimators}
            for one in self.cv_results_
        ]
        return {**asdict(chosen), "cv_results": tried}

    def tried_tensors(self) -> dict[str, Tensor]:
        """See ``Estimator``."""
        tried = getattr(self, "cv_results_", [])
        return {f"{k}": one.log_probs.double().nan_to_num() for k, one in enumerate(tried)}

    def restore_chosen_state(self, values: Any, tensors: dict[str, Tensor]) -> None:
        """See ``Estimator``."""
        if values is None:
            return
        validation.require_type(values, dict, "best_params")
        self.best_params_, self.cv_results_ = _setting(values), []
        given = validation.require_type(values.get("cv_results", []), list, "cv_results")
        if set(tensors) != {f"{k}" for k in range(len(given))}:
            raise ValueError(f"the file has {len(tensors)} scores of {len(given)} settings")
        for number, one in enumerate(given):
            scores = tensors[f"{number}"]
            if scores.ndim != 1 or scores.dtype is not torch.float64:
                raise ValueError(f"the scores of setting {number} in the file are damaged")
            factor = validation.require_type(one["noise_scale"], float, "noise_scale")
            n_estimators = validation.require_type(one["n_estimators"], int, "n_estimators")
            self.cv_results_.append(Tried(_setting(one), scores, factor, n_estimators))

    def check_restored(self) -> None:
        """See ``Estimator``; files of before there were members hold one network."""
        super().check_restored()
        if not isinstance(self.learner_, Ensemble):
            self.n_estimators = 1
        elif self.learner_.n_estimators != self.n_estimators:
            raise ValueError(
                f"the file has {self.learner_.n_estimators} networks of {self.n_estimators}"
            )

    def _update(self, learner: Learner, x: Tensor, y: Tensor) -> None:
        learner.update(x, y, memory_rows=plain(self.memory_rows))

    def _to_learn(self, rows: Rows) -> Tensor:
        return rows.uncertain(torch.ones(rows.x.shape[1]))

    def _widths(self) -> Any:
        if self.hidden_layer_sizes is None:
            return HIDDEN
        return widths(self.hidden_layer_sizes)

    def _check_settings(self) -> None:
        super()._check_settings()
        n_estimators, memory, relevance = self.n_estimators, self.memory_rows, self.relevance
        if not (isinstance(n_estimators, Integral) and n_estimators >= 1) or isinstance(
            n_estimators, bool
        ):
            raise ValueError(f"n_estimators must be a whole number from 1, got {n_estimators!r}")
        if memory is not None and not (isinstance(memory, Real) and 1 < memory < math.inf):
            raise ValueError(
                f"memory_rows must be a number of rows above 1, or None; got {memory!r}"
            )
        if relevance not in (None, True, False):
            raise ValueError(f"relevance must be True, False or None, got {relevance!r}")
        if self.calibrate not in (True, False, "cv"):
            raise ValueError(f"calibrate must be True, False or 'cv', got {self.calibrate!r}")


def _setting(values: dict[str, Any]) -> Setting:
    """A setting in a file."""
    hidden_layer_sizes = validation.require_type(
        values["hidden_layer_sizes"], list, "hidden_layer_sizes"
    )
    *sizes, epochs, rounds = [
        validation.require_type(n, int, "a number")
        for n in (*hidden_layer_sizes, values["epochs"], values["rounds"])
    ]
    return Setting(tuple(sizes), epochs, rounds)


class TAGIRegressor(_ByTAGI, Regressor):
    """Regression with error bars, in closed form, by a small ensemble whose settings are chosen.

    Inputs and targets are standardised inside.  On held-out rows are chosen the number of epochs,
    the network or a linear model, and whether columns are weighed by how much they matter
    (``tractable.sklearn.choosing``); then the noise, which is inferred along with the weights, is
    scaled to suit them, because data seen many times make the posterior too narrow; where it is too
    wide instead, so are the variances of the networks (``tractable.sklearn.doubt``).  Below 2,000
    rows those held out are tenths in turn, out of copies; above, one tenth that the networks
    themselves do not learn from.

    The noise may depend on the inputs (``tractable.sklearn.noise``) and have heavier tails than a
    normal one (``tractable.sklearn.tails``), where held-out rows gain by it.

    Error bars grow away from the training rows, as fast as stretches of the data that are held out
    ask for (``tractable.sklearn.stretches``).

    A few targets that are grossly wrong do little harm (``robust`` of ``tractable.TAGI``):
    ``learner_.outliers`` says which were not believed.

    ``partial_fit`` is truly online: a call is one closed-form update by the rows it is given (in
    batches, if they are more than ``batch_size`` or 32), which are not needed again.  The noise is
    then inferred without held-out rows.

    Exact: the moments of each linear layer, given those of its inputs and weights.  Approximate:
    weights and units are independent Gaussians, activations are linearised at their mean (see
    ``tractable.TAGI``).

    Args:
        hidden_layer_sizes: widths of the hidden layers, empty for a linear model; by default two of
            64, or a linear model where held-out rows find it as good.
        activation: after each hidden layer: relu, leaky_relu, tanh, sigmoid, softplus, gelu, silu
            or elu.  The first four run in the compiled kernel.
        likelihood: what the targets are: ``"normal"``, ``"heteroscedastic"``, ``"laplace"``,
            ``"student_t"``, ``"mixture"``, ``"poisson"``, ``"negative_binomial"`` or
            ``"von_mises"`` (``tractable.sklearn.targets``).  What is said above of error bars off
            the data, of wild targets and of a noise that depends on the inputs is of the first.
            With those that the kernel does not serve (laplace, student_t, mixture, von_mises) at
            most 40 epochs are tried, in batches of 32, and columns are not weighed.
        gain: factor on the prior variance 1 / fan_in of the weights.
        epoch_forgetting: share of the information of an epoch that is forgotten over the next one,
            falling to zero at the last; not of ``partial_fit``.
        n_estimators: networks that differ in their first weights, whose predictions are mixed.
        epochs: epochs of ``fit``.  By default they are chosen on held-out rows: many help where
            there is little noise, and harm where there is much.  Without such rows: 25,000 rows
            in all, at least 40 epochs and at most 100.
        batch_size: rows per update; by default about a hundred updates a pass, at most 32 rows
            each, and 32 in ``partial_fit``.
        calibrate: hold rows out to choose settings and the scale of the noise (if there are 20
            rows or more); ``"cv"`` holds them out from copies only, whatever their number, and
            learns from all rows.
        relevance: weigh columns by how much they matter; by default where held-out rows gain by it.
        memory_rows: about how many of the last rows ``partial_fit`` remembers, for data that
            change; by default it forgets nothing.
        log_target: learn the logarithm of the target, which must be positive; by default where
            held-out rows gain by it, if there is one target (``tractable.sklearn.logarithm``).
        random_state: seed of the initial means and of the order of the rows.
        verbose: 1 shows a progress bar.

    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 200).reshape(-1, 1)
    >>> y = 100 * np.sin(3 * X[:, 0])
    >>> model = TAGIRegressor(random_state=0).fit(X, y)
    >>> mean, std = model.predict([[0.5], [5.0]], return_std=True)
    >>> bool(abs(mean[0] - 99.7) < 5), bool(std[1] > 3 * std[0])  # 5.0 is far from all data
    (True, True)
    """

    def __init__(
        self,
        hidden_layer_sizes: Any = None,
        activation: str = "relu",
        *,
        likelihood: str = NORMAL,
        gain: float = 0.25,
        epoch_forgetting: float = 0.3,
        n_estimators: int = 5,
        epochs: int | None = None,
        batch_size: int | None = None,
        calibrate: bool | Literal["cv"] = True,
        relevance: bool | None = None,
        memory_rows: float | None = None,
        log_target: bool | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.likelihood = likelihood
        self.gain = gain
        self.epoch_forgetting = epoch_forgetting
        self.n_estimators = n_estimators
        self.epochs = epochs
        self.batch_size = batch_size
        self.calibrate = calibrate
        self.relevance = relevance
        self.memory_rows = memory_rows
        self.log_target = log_target
        self.random_state = random_state
        self.verbose = verbose

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.log_target not in (None, True, False):
            raise ValueError(f"log_target must be True, False or None, got {self.log_target!r}")

    def _log_scale(self, x: Rows, y: Tensor) -> LogScale | None:
        self._check_settings()
        if self.likelihood != NORMAL:
            if self.log_target:
                raise ValueError(f"log_target goes with likelihood='{NORMAL}' only")
            return None
        if self.log_target is None and not logarithm.possible(y):
            return None
        if self.log_target is not None and not self.log_target:
            return None
        scale = logarithm.scale_of(y)
        if self.log_target:
            return scale
        logs = scale.forward(y)
        scalers = Standardizer.fit(y), Standardizer.fit(logs)
        trials = [
            self._trials(Normal(), 1, x, scaler.transform(target))
            for scaler, target in zip(scalers, (y, logs), strict=True)
        ]
        if not trials[0].parts:
            return None
        setting = self._first_setting(len(x))
        return scale if logarithm.helps(trials[0], trials[1], setting, scalers) else None

    def _suited(self, trials: Trials, setting: Setting, fit: Fit, judged: list[Fit]) -> Fit:
        if self.likelihood != NORMAL:
            return super()._suited(trials, setting, fit, judged)
        seed, learner, seen = self._seed, fit.learner, trials.seen(judged)
        doubt = doubts.choose(seen)
        growth = stretches.growth(trials, setting, judged[0], seen, doubt=doubt, seed=seed)
        if learner.support is not None:
            learner.support = learner.support.with_scaled_growth(growth)
        held_out = [part.heldout(doubt, growth) for part in seen]
        learner.rescale_noise(holdout.noise_scale(learner, held_out))
        missed = noise.missed_by(seen, learner.likelihood, doubt=doubt, growth=growth)
        model = noise.choose(missed, seed)
        return replace(fit, doubt=doubt, noise=model, tails=tails.choose(missed, model))


class TAGIClassifier(_ByTAGI, Classifier):
    """Classification in closed form, by a binary tree of decisions.

    Inputs are standardised inside.  Settings are chosen on held-out rows as in ``TAGIRegressor``,
    and so is the noise of a decision in predictions.  ``partial_fit`` is truly online.

    Exact: the evidence of a label, given Gaussian outputs (``link="probit"``).  Approximate: as
    for ``TAGIRegressor``.

    Args:
        hidden_layer_sizes: as for ``TAGIRegressor``.
        activation: as for ``TAGIRegressor``.
        link: ``"probit"``, a model of labels, whose probabilities are better where classes
            overlap; or ``"normal"``, as published, which takes labels as numbers and learns
            faster where they do not (digits, images).  See ``tractable.likelihoods.Categorical``.
        ordered: whether the classes are levels with an order (grades, stages), learnt as
            ``tractable.likelihoods.Ordinal``: True takes the order that sorting gives, a list of
            all labels its own order, from the lowest.  ``link`` then says nothing.
        gain: factor on the prior variance 1 / fan_in of the weights.
        epoch_forgetting: as for ``TAGIRegressor``; 0, the textbook method, served classes slightly
            better.
        n_estimators: as for ``TAGIRegressor``.
        epochs: as for ``TAGIRegressor``.
        batch_size: as for ``TAGIRegressor``.
        calibrate: as for ``TAGIRegressor``.
        relevance: as for ``TAGIRegressor``.
        memory_rows: about how many of the last rows ``partial_fit`` remembers, for data that
            change; by default it forgets nothing.
        class_weight: ``"balanced"`` or a dict from labels to weights, as scikit-learn has it, by
            which predicted probabilities are multiplied (``tractable.sklearn.weighting``).
        random_state: seed of the initial means and of the order of the rows.
        verbose: 1 shows a progress bar.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = TAGIClassifier(random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    def __init__(
        self,
        hidden_layer_sizes: Any = None,
        activation: str = "relu",
        *,
        link: Link = "probit",
        ordered: Ordered = False,
        gain: float = 0.25,
        epoch_forgetting: float = 0.0,
        n_estimators: int = 5,
        epochs: int | None = None,
        batch_size: int | None = None,
        calibrate: bool | Literal["cv"] = True,
        relevance: bool | None = None,
        memory_rows: float | None = None,
        class_weight: Any = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.link = link
        self.ordered = ordered
        self.gain = gain
        self.epoch_forgetting = epoch_forgetting
        self.n_estimators = n_estimators
        self.epochs = epochs
        self.batch_size = batch_size
        self.calibrate = calibrate
        self.relevance = relevance
        self.memory_rows = memory_rows
        self.class_weight = class_weight
        self.random_state = random_state
        self.verbose = verbose

    def _likelihood(self, classes: int) -> Categorical | Ordinal:
        return likelihood_of_classes(classes, self.ordered, Categorical(classes, link=self.link))
