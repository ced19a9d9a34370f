"""Estimators that learn in closed form: no gradient, no learning rate, truly online."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, Literal

from torch import Tensor, nn

from tractable.learners import TAGI, Learner
from tractable.likelihoods import Categorical, Likelihood
from tractable.likelihoods.categorical import Link
from tractable.sklearn.classifier import Classifier
from tractable.sklearn.estimator import Estimator
from tractable.sklearn.regressor import Regressor
from tractable.training import holdout


class _ByTAGI(Estimator):
    """Made and taught as a ``TAGI`` learner."""

    gain: float
    forget: float
    memory: float | None

    def _new_learner(self, net: nn.Module, likelihood: Likelihood, seed: int, rows: int) -> Learner:
        return TAGI(net, likelihood, gain=self.gain, forget=self.forget, seed=seed)

    def _teach(self, learner: Learner, x: Tensor, y: Tensor) -> None:
        self._check_memory()
        wanted = getattr(self, "calibrate", False)
        if wanted not in (True, False, "refit"):
            raise ValueError(f"calibrate must be True, False or 'refit', got {wanted!r}")

        epochs, size = self.epochs, self.batch_size

        def fit(learner: Learner, x: Tensor, y: Tensor, calibrate: bool = False) -> None:
            learner.fit(
                x,
                y,
                epochs=epochs,
                batch_size=size,
                calibrate=calibrate,
                progress=self.verbose > 0,
            )

        if not wanted or len(x) < holdout.FEWEST_ROWS:
            fit(learner, x, y)
        elif wanted is True and len(x) >= holdout.MANY_ROWS:
            rows = holdout.split(learner, len(x), len(x) // 10)
            if epochs is None:
                epochs, _ = holdout.choose_epochs(learner, x, y, [rows[1]], batch_size=size)
            holdout.fit_and_calibrate(learner, x, y, rows, fit)
        elif epochs is None:
            parts = holdout.folds(learner, len(x))
            epochs, factor = holdout.choose_epochs(learner, x, y, parts, batch_size=size)
            fit(learner, x, y)
            learner.rescale_noise(factor)
        else:
            fit(learner, x, y, calibrate=True)

    def _update(self, learner: Learner, x: Tensor, y: Tensor) -> None:
        self._check_memory()
        learner.update(x, y, memory=self.memory)

    def _check_memory(self) -> None:
        memory = self.memory
        if memory is not None and not (isinstance(memory, Real) and 1 < memory < math.inf):
            raise ValueError(f"memory must be a number of rows above 1, or None; got {memory!r}")


class TAGIRegressor(_ByTAGI, Regressor):
    """Regression with error bars, in closed form.

    Inputs and targets are standardised inside.  The noise is inferred along with the weights and
    then scaled to suit held-out rows, because data seen many times make the posterior too narrow:
    below 2,000 rows, five tenths in turn held out from copies of the network; above, one tenth
    that the network itself does not learn from.

    A few targets that are grossly wrong do little harm (``robust`` of ``tractable.TAGI``):
    ``learner_.surprises`` says which were not believed.

    ``partial_fit`` is truly online: a call is one closed-form update by the rows it is given (in
    batches, if they are more than ``batch_size`` or 32), which are not needed again.  The noise is
    then inferred without held-out rows.

    Exact: the moments of each linear layer, given those of its inputs and weights.  Approximate:
    weights and units are independent Gaussians, activations are linearised at their mean (see
    ``tractable.TAGI``).

    Args:
        hidden: widths of the hidden layers; empty for a linear model.
        activation: after each hidden layer: relu, leaky_relu, tanh, sigmoid, softplus, gelu, silu
            or elu.  The first four run in the compiled kernel.
        gain: factor on the prior variance 1 / fan_in of the weights.
        forget: share of the information of an epoch that is forgotten over the next one, falling
            to zero at the last; not of ``partial_fit``.
        epochs: epochs of ``fit``.  By default they are chosen on the rows that are held out to
            calibrate the noise: many help where there is little noise, and harm where there is
            much.  Without such rows: 25,000 rows in all, at least 40 epochs and at most 100.
        batch_size: rows per update; by default about a hundred updates a pass, at most 32 rows
            each, and 32 in ``partial_fit``.
        calibrate: fit the scale of the noise on held-out rows (if there are 20 rows or more);
            ``"refit"`` holds them out from copies only, whatever their number, and learns from
            all rows.
        memory: about how many of the last rows ``partial_fit`` remembers, for data that change;
            by default it forgets nothing.
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
        hidden: Any = (64, 64),
        activation: str = "relu",
        *,
        gain: float = 0.25,
        forget: float = 0.3,
        epochs: int | None = None,
        batch_size: int | None = None,
        calibrate: bool | Literal["refit"] = True,
        memory: float | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.hidden = hidden
        self.activation = activation
        self.gain = gain
        self.forget = forget
        self.epochs = epochs
        self.batch_size = batch_size
        self.calibrate = calibrate
        self.memory = memory
        self.random_state = random_state
        self.verbose = verbose


class TAGIClassifier(_ByTAGI, Classifier):
    """Classification in closed form, by a binary tree of decisions.

    Inputs are standardised inside.  ``partial_fit`` is truly online, as in ``TAGIRegressor``.

    Exact: the evidence of a label, given Gaussian outputs (``link="probit"``).  Approximate: as
    for ``TAGIRegressor``.

    Args:
        hidden: widths of the hidden layers; empty for a linear model.
        activation: as for ``TAGIRegressor``.
        link: ``"probit"``, a model of labels, whose probabilities are better where classes
            overlap; or ``"normal"``, as published, which takes labels as numbers and learns
            faster where they do not (digits, images).  See ``tractable.likelihoods.Categorical``.
        gain: factor on the prior variance 1 / fan_in of the weights.
        forget: as for ``TAGIRegressor``; 0, the textbook method, served classes slightly better.
        epochs: epochs of ``fit``; by default enough for about 25,000 rows, at least 40 and at
            most 100.
        batch_size: as for ``TAGIRegressor``.
        memory: about how many of the last rows ``partial_fit`` remembers, for data that change;
            by default it forgets nothing.
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
        hidden: Any = (64, 64),
        activation: str = "relu",
        *,
        link: Link = "probit",
        gain: float = 0.25,
        forget: float = 0.0,
        epochs: int | None = None,
        batch_size: int | None = None,
        memory: float | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.hidden = hidden
        self.activation = activation
        self.link = link
        self.gain = gain
        self.forget = forget
        self.epochs = epochs
        self.batch_size = batch_size
        self.memory = memory
        self.random_state = random_state
        self.verbose = verbose

    def _likelihood(self, classes: int) -> Categorical:
        return Categorical(classes, link=self.link)
