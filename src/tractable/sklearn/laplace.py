"""Estimators with a Gaussian around the most probable weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tractable.learners import Laplace, Learner
from tractable.likelihoods import Likelihood, Softmax
from tractable.sklearn.classifier import Classifier
from tractable.sklearn.gradient import ByGradient
from tractable.sklearn.regressor import Regressor
from tractable.sklearn.values import plain


class _ByLaplace(ByGradient):
    """Made as a ``Laplace`` learner."""

    structure: Any
    prior_precision: float | None

    def _new_learner(self, net: nn.Module, likelihood: Likelihood, seed: int, rows: int) -> Learner:
        return Laplace(
            net,
            likelihood,
            structure=plain(self.structure),
            prior_precision=plain(self.prior_precision),
            lr=plain(self.lr),
            dtype=torch.float64,
            seed=seed,
        )


class LaplaceRegressor(_ByLaplace, Regressor):
    """Regression by an ordinary network with a Gaussian around its weights.

    Inputs and targets are standardised inside; the noise is inferred and then scaled to suit a
    tenth of the rows, held out of a first fit (of the only fit, from 2,000 rows on).

    ``partial_fit`` adds the rows it is given to the Gaussian.  With ``structure="last_layer"`` the
    layers before the last do not learn from them: call ``fit`` first.

    Approximate: the network is linear in its weights around the most probable ones.

    Args:
        hidden_layer_sizes: widths of the hidden layers; empty for a linear model.
        activation: after each hidden layer: relu, leaky_relu, tanh, sigmoid, softplus, gelu, silu
            or elu.
        structure: ``"diagonal"``, a Gaussian over all weights, or ``"last_layer"`` in full.
        prior_precision: precision of the weights before any data; by default that of greatest
            evidence.
        lr: learning rate, falling to zero over a fit (cosine).
        epochs: passes of ``fit``; by default enough for about 1,500 steps, at least 20 and at
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
        structure: Any = "diagonal",
        prior_precision: float | None = None,
        lr: float = 0.01,
        epochs: int | None = None,
        batch_size: int | None = None,
        calibrate: bool = True,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.structure = structure
        self.prior_precision = prior_precision
        self.lr = lr
        self.epochs = epochs
        self.batch_size = batch_size
        self.calibrate = calibrate
        self.random_state = random_state
        self.verbose = verbose


class LaplaceClassifier(_ByLaplace, Classifier):
    """Classification by a softmax network with a Gaussian around its weights.

    Inputs are standardised inside.

    Approximate: as for ``LaplaceRegressor``, and the mean of the softmax over Gaussian outputs by
    the probit approximation.

    Args:
        hidden_layer_sizes: as for ``LaplaceRegressor``.
        activation: as for ``LaplaceRegressor``.
        structure: as for ``LaplaceRegressor``.
        prior_precision: as for ``LaplaceRegressor``.
        lr: learning rate, falling to zero over a fit (cosine).
        epochs: as for ``LaplaceRegressor``.
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
        structure: Any = "diagonal",
        prior_precision: float | None = None,
        lr: float = 0.01,
        epochs: int | None = None,
        batch_size: int | None = None,
        class_weight: Any = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.structure = structure
        self.prior_precision = prior_precision
        self.lr = lr
        self.epochs = epochs
        self.batch_size = batch_size
        self.class_weight = class_weight
        self.random_state = random_state
        self.verbose = verbose

    def _likelihood(self, classes: int) -> Softmax:
        return Softmax(classes)
