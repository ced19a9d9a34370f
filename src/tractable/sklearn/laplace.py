"""Estimators with a Laplace approximation: a Gaussian around the most probable weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from typing_extensions import override

from tractable.learners import Laplace, Learner
from tractable.likelihoods import Likelihood, Softmax
from tractable.sklearn.base import as_python
from tractable.sklearn.classifier import Classifier
from tractable.sklearn.gradient import GradientEstimator
from tractable.sklearn.regressor import Regressor


class _LaplaceEstimator(GradientEstimator):
    """Estimators with a ``Laplace`` learner."""

    structure: Any
    prior_precision: float | None

    @override
    def _new_learner(self, net: nn.Module, likelihood: Likelihood, n_rows: int) -> Learner:
        return Laplace(
            net,
            likelihood,
            structure=as_python(self.structure),
            prior_precision=as_python(self.prior_precision),
            lr=as_python(self.lr),
            dtype=torch.float64,
            seed=self._seed,
        )


class LaplaceRegressor(_LaplaceEstimator, Regressor):
    """A regressor with a Laplace approximation: a Gaussian around the most probable weights.

    Inputs and targets are standardized. The noise is inferred, and then scaled on a tenth of the
    rows that are held out of a first fit (with 2,000 rows or more, out of the only fit).

    ``partial_fit`` adds the given rows to the Gaussian. With ``structure="last_layer"`` the other
    layers do not change: call ``fit`` first.

    Approximate: the network is linearized in its weights around the most probable ones.

    Args:
        hidden_layer_sizes: number of units of each hidden layer; an empty tuple gives a linear
            model. Default: ``(64, 64)``.
        activation: activation function after each hidden layer: ``"relu"`` (default),
            ``"leaky_relu"``, ``"tanh"``, ``"sigmoid"``, ``"softplus"``, ``"gelu"``, ``"silu"`` or
            ``"elu"``.
        structure: ``"diagonal"``, a Gaussian over all weights with diagonal covariance, or
            ``"last_layer"``, over the last layer with full covariance. Default: ``"diagonal"``.
        prior_precision: prior precision of the weights. Default: that of maximum evidence.
        lr: initial learning rate, decreased to zero over a fit (cosine schedule). Default: 0.01.
        epochs: number of passes over the data in ``fit``. Default: about 1,500 steps, but at least
            20 and at most 100 epochs.
        batch_size: rows per step. Default: 32.
        calibrate: whether to scale the noise on held-out rows, if there are 40 rows or more.
            Default: True.
        random_state: seed of all random numbers, as in scikit-learn. Default: None.
        verbose: 1 shows a progress bar. Default: 0.

    References:
        E. Daxberger et al., "Laplace redux: effortless Bayesian deep learning", NeurIPS 2021.

    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 100).reshape(-1, 1)
    >>> model = LaplaceRegressor((16,), random_state=0).fit(X, 3 * X[:, 0])
    >>> mean, std = model.predict([[0.5]], return_std=True)
    >>> bool(abs(mean[0] - 1.5) < 0.3)
    True
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


class LaplaceClassifier(_LaplaceEstimator, Classifier):
    """A classifier with a Laplace approximation: a Gaussian around the most probable weights.

    Inputs are standardized. ``partial_fit`` adds the given rows to the Gaussian, as for
    ``LaplaceRegressor``.

    Approximate: as for ``LaplaceRegressor``, and the mean of the softmax over Gaussian outputs by
        the
    probit approximation.

    Args:
        hidden_layer_sizes: number of units of each hidden layer; an empty tuple gives a linear
            model. Default: ``(64, 64)``.
        activation: activation function after each hidden layer: ``"relu"`` (default),
            ``"leaky_relu"``, ``"tanh"``, ``"sigmoid"``, ``"softplus"``, ``"gelu"``, ``"silu"`` or
            ``"elu"``.
        structure: ``"diagonal"``, a Gaussian over all weights with diagonal covariance, or
            ``"last_layer"``, over the last layer with full covariance. Default: ``"diagonal"``.
        prior_precision: prior precision of the weights. Default: that of maximum evidence.
        lr: initial learning rate, decreased to zero over a fit (cosine schedule). Default: 0.01.
        epochs: number of passes over the data in ``fit``. Default: about 1,500 steps, but at least
            20 and at most 100 epochs.
        batch_size: rows per step. Default: 32.
        class_weight: ``"balanced"`` or a dict from labels to weights, by which predicted
            probabilities are multiplied. Default: None.
        random_state: seed of all random numbers, as in scikit-learn. Default: None.
        verbose: 1 shows a progress bar. Default: 0.

    References:
        E. Daxberger et al., "Laplace redux: effortless Bayesian deep learning", NeurIPS 2021.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LaplaceClassifier((16,), random_state=0).fit(X, y)
    >>> model.predict_proba(X).shape, bool(model.score(X, y) > 0.9)
    ((150, 3), True)
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

    @override
    def _likelihood(self, n_classes: int) -> Softmax:
        return Softmax(n_classes)
