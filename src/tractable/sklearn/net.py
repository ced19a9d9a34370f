"""Estimators by an ordinary network, with one set of weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tractable.learners import Backprop, Learner
from tractable.likelihoods import Likelihood, Ordinal, Softmax
from tractable.sklearn.classifier import Classifier
from tractable.sklearn.gradient import ByGradient, prior_from
from tractable.sklearn.ordered import Ordered, likelihood_of_classes
from tractable.sklearn.regressor import Regressor
from tractable.sklearn.targets import NORMAL
from tractable.sklearn.values import plain


class _ByBackprop(ByGradient):
    """Made as a ``Backprop`` learner."""

    prior: Any

    def _new_learner(self, net: nn.Module, likelihood: Likelihood, seed: int, rows: int) -> Learner:
        return Backprop(
            net,
            likelihood,
            prior=prior_from(self.prior),
            lr=plain(self.lr),
            dtype=torch.float64,
            seed=seed,
        )


class BackpropRegressor(_ByBackprop, Regressor):
    """Regression by an ordinary network: one set of weights and one noise.

    Its error bars are the same everywhere: it does not know what it does not know.  Inputs and
    targets are standardised inside; the noise is inferred and then scaled to suit a tenth of the
    rows, held out of a first fit (of the only fit, from 2,000 rows on).

    ``partial_fit`` makes one pass of steps over the rows it is given.

    Args:
        hidden_layer_sizes: widths of the hidden layers; empty for a linear model.
        activation: after each hidden layer: relu, leaky_relu, tanh, sigmoid, softplus, gelu, silu
            or elu.
        likelihood: what the targets are, as for ``TAGIRegressor``.
        prior: standard deviation of a normal prior over the weights (an L2 penalty), one of
            ``tractable.priors``, or ``None`` for the greatest likelihood.
        lr: learning rate, falling to zero over a fit (cosine).
        epochs: epochs of ``fit``; by default enough for about 1,500 steps, at least 20 and at
            most 100.
        batch_size: rows per step; 32 by default.
        calibrate: fit the scale of the noise on held-out rows (if there are 40 rows or more).
        random_state: seed of everything that is drawn.
        verbose: 1 shows a progress bar.
    """

    def __init__(
        self,
        hidden_layer_sizes: Any = (64, 64),
        activation: str = "relu",
        *,
        likelihood: str = NORMAL,
        prior: Any = 1.0,
        lr: float = 0.01,
        epochs: int | None = None,
        batch_size: int | None = None,
        calibrate: bool = True,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.likelihood = likelihood
        self.prior = prior
        self.lr = lr
        self.epochs = epochs
        self.batch_size = batch_size
        self.calibrate = calibrate
        self.random_state = random_state
        self.verbose = verbose


class BackpropClassifier(_ByBackprop, Classifier):
    """Classification by an ordinary network: a softmax over one set of weights.

    Inputs are standardised inside.

    Args:
        hidden_layer_sizes: as for ``BackpropRegressor``.
        activation: as for ``BackpropRegressor``.
        ordered: whether the classes are levels with an order, as for ``TAGIClassifier``.
        prior: as for ``BackpropRegressor``.
        lr: learning rate, falling to zero over a fit (cosine).
        epochs: as for ``BackpropRegressor``.
        batch_size: rows per step; 32 by default.
        class_weight: as for ``TAGIClassifier``.
        random_state: seed of everything that is drawn.
        verbose: 1 shows a progress bar.
    """

    def __init__(
        self,
        hidden_layer_sizes: Any = (64, 64),
        activation: str = "relu",
        *,
        ordered: Ordered = False,
        prior: Any = 1.0,
        lr: float = 0.01,
        epochs: int | None = None,
        batch_size: int | None = None,
        class_weight: Any = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.ordered = ordered
        self.prior = prior
        self.lr = lr
        self.epochs = epochs
        self.batch_size = batch_size
        self.class_weight = class_weight
        self.random_state = random_state
        self.verbose = verbose

    def _likelihood(self, classes: int) -> Ordinal | Softmax:
        return likelihood_of_classes(classes, self.ordered, Softmax(classes))
