"""Estimators with variational Gaussian weights, by Bayes by Backprop."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tractable.learners import BayesByBackprop, Learner
from tractable.likelihoods import Likelihood, Ordinal, Softmax
from tractable.sklearn.classifier import Classifier
from tractable.sklearn.gradient import ByGradient, prior_from
from tractable.sklearn.ordered import Ordered, likelihood_of_classes
from tractable.sklearn.regressor import Regressor
from tractable.sklearn.targets import NORMAL
from tractable.sklearn.values import plain


class _ByBBB(ByGradient):
    """Made as a ``BayesByBackprop`` learner."""

    prior: Any
    kl_weight: float
    n_train_samples: int
    n_weight_samples: int

    def _new_learner(self, net: nn.Module, likelihood: Likelihood, seed: int, rows: int) -> Learner:
        # The learner takes the weight of a batch, and by itself the whole divergence per epoch.
        kl_weight = plain(self.kl_weight)
        share = kl_weight * self._batch_size(rows) / rows
        return BayesByBackprop(
            net,
            likelihood,
            prior=prior_from(self.prior),
            kl_weight="uniform" if kl_weight == 1 else share,
            n_train_samples=plain(self.n_train_samples),
            estimator="local",
            init="he",
            lr=plain(self.lr),
            n_weight_samples=plain(self.n_weight_samples),
            dtype=torch.float64,
            seed=seed,
        )


class BBBRegressor(_ByBBB, Regressor):
    """Regression with variational Gaussian weights, by Bayes by Backprop.

    Inputs and targets are standardised inside; the noise is inferred and then scaled to suit a
    tenth of the rows, held out of a first fit (of the only fit, from 2,000 rows on).

    ``partial_fit`` makes one pass of steps over the rows it is given.

    Approximate: independent Gaussian weights, a gradient and predictions by draws; unless
    ``kl_weight=1``, a posterior that trusts the data more than it should.

    Args:
        hidden_layer_sizes: widths of the hidden layers; empty for a linear model.
        activation: after each hidden layer: relu, leaky_relu, tanh, sigmoid, softplus, gelu, silu
            or elu.
        likelihood: what the targets are, as for ``TAGIRegressor``.
        prior: standard deviation of a normal prior over the weights, or one of
            ``tractable.priors``.
        kl_weight: factor on the divergence from the prior in the objective of ``fit``; 1 is the
            evidence lower bound, under which networks of this size hardly learn small data sets.
            ``partial_fit`` has 1: its share of the divergence falls as rows come in.
        n_train_samples: draws per step.
        n_weight_samples: sets of weights that a prediction averages over.
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
        prior: Any = 0.3,
        kl_weight: float = 0.1,
        n_train_samples: int = 1,
        n_weight_samples: int = 50,
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
        self.kl_weight = kl_weight
        self.n_train_samples = n_train_samples
        self.n_weight_samples = n_weight_samples
        self.lr = lr
        self.epochs = epochs
        self.batch_size = batch_size
        self.calibrate = calibrate
        self.random_state = random_state
        self.verbose = verbose


class BBBClassifier(_ByBBB, Classifier):
    """Classification with variational Gaussian weights: a softmax, averaged over draws.

    Inputs are standardised inside.

    Args:
        hidden_layer_sizes: as for ``BBBRegressor``.
        activation: as for ``BBBRegressor``.
        ordered: whether the classes are levels with an order, as for ``TAGIClassifier``.
        prior: as for ``BBBRegressor``.
        kl_weight: as for ``BBBRegressor``.
        n_train_samples: draws per step.
        n_weight_samples: sets of weights that a prediction averages over.
        lr: learning rate, falling to zero over a fit (cosine).
        epochs: as for ``BBBRegressor``.
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
        prior: Any = 0.3,
        kl_weight: float = 0.1,
        n_train_samples: int = 1,
        n_weight_samples: int = 50,
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
        self.kl_weight = kl_weight
        self.n_train_samples = n_train_samples
        self.n_weight_samples = n_weight_samples
        self.lr = lr
        self.epochs = epochs
        self.batch_size = batch_size
        self.class_weight = class_weight
        self.random_state = random_state
        self.verbose = verbose

    def _likelihood(self, classes: int) -> Ordinal | Softmax:
        return likelihood_of_classes(classes, self.ordered, Softmax(classes))
