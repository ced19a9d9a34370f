"""Estimators without a posterior: ordinary networks with one set of weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from typing_extensions import override

from tractable.learners import Backprop, Learner
from tractable.likelihoods import Likelihood, Ordinal, Softmax
from tractable.sklearn.base import as_python
from tractable.sklearn.class_labels import Ordered, class_likelihood
from tractable.sklearn.classifier import Classifier
from tractable.sklearn.gradient import GradientEstimator, as_prior
from tractable.sklearn.regressor import Regressor
from tractable.sklearn.targets import NORMAL


class _BackpropEstimator(GradientEstimator):
    """Estimators with a ``Backprop`` learner."""

    prior: Any

    @override
    def _new_learner(self, net: nn.Module, likelihood: Likelihood, n_rows: int) -> Learner:
        return Backprop(
            net,
            likelihood,
            prior=as_prior(self.prior),
            lr=as_python(self.lr),
            dtype=torch.float64,
            seed=self._seed,
        )


class BackpropRegressor(_BackpropEstimator, Regressor):
    """A regressor with one set of weights and one noise: an ordinary network.

    It has no epistemic uncertainty: its prediction intervals have the same width everywhere. Inputs
    and targets are standardized. The noise is inferred, and then scaled on a tenth of the rows that
    are held out of a first fit (with 2,000 rows or more, out of the only fit).

    ``partial_fit`` makes one pass of gradient steps over the given rows.

    Args:
        hidden_layer_sizes: number of units of each hidden layer; an empty tuple gives a linear
            model. Default: ``(64, 64)``.
        activation: activation function after each hidden layer: ``"relu"`` (default),
            ``"leaky_relu"``, ``"tanh"``, ``"sigmoid"``, ``"softplus"``, ``"gelu"``, ``"silu"`` or
            ``"elu"``.
        likelihood: distribution of the targets: ``"normal"`` (default), ``"heteroscedastic"``,
            ``"laplace"``, ``"student_t"``, ``"mixture"``, ``"poisson"``, ``"negative_binomial"``
            or ``"von_mises"`` (see ``tractable.sklearn.targets``).
        prior: prior of the weights: a standard deviation of a normal prior (an L2 penalty), one of
            ``tractable.priors``, or None for maximum likelihood. Default: 1.0.
        lr: initial learning rate, decreased to zero over a fit (cosine schedule). Default: 0.01.
        epochs: number of passes over the data in ``fit``. Default: about 1,500 steps, but at least
            20 and at most 100 epochs.
        batch_size: rows per step. Default: 32.
        calibrate: whether to scale the noise on held-out rows, if there are 40 rows or more.
            Default: True.
        random_state: seed of all random numbers, as in scikit-learn. Default: None.
        verbose: 1 shows a progress bar. Default: 0.

    See Also:
        ``sklearn.neural_network.MLPRegressor``, which predicts no intervals.

    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 100).reshape(-1, 1)
    >>> model = BackpropRegressor((16,), random_state=0).fit(X, 3 * X[:, 0])
    >>> mean, std = model.predict([[0.5]], return_std=True)
    >>> bool(abs(mean[0] - 1.5) < 0.3)
    True
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


class BackpropClassifier(_BackpropEstimator, Classifier):
    """A classifier with one set of weights: an ordinary network with a softmax.

    It has no epistemic uncertainty. Inputs are standardized.

    ``partial_fit`` makes one pass of gradient steps over the given rows.

    Args:
        hidden_layer_sizes: number of units of each hidden layer; an empty tuple gives a linear
            model. Default: ``(64, 64)``.
        activation: activation function after each hidden layer: ``"relu"`` (default),
            ``"leaky_relu"``, ``"tanh"``, ``"sigmoid"``, ``"softplus"``, ``"gelu"``, ``"silu"`` or
            ``"elu"``.
        ordered: whether the classes have an order (grades, stages), learned with
            ``tractable.likelihoods.Ordinal``. True takes the order of sorting, a list of all labels
            gives the order from the lowest. Default: False.
        prior: prior of the weights: a standard deviation of a normal prior (an L2 penalty), one of
            ``tractable.priors``, or None for maximum likelihood. Default: 1.0.
        lr: initial learning rate, decreased to zero over a fit (cosine schedule). Default: 0.01.
        epochs: number of passes over the data in ``fit``. Default: about 1,500 steps, but at least
            20 and at most 100 epochs.
        batch_size: rows per step. Default: 32.
        class_weight: ``"balanced"`` or a dict from labels to weights, by which predicted
            probabilities are multiplied. Default: None.
        random_state: seed of all random numbers, as in scikit-learn. Default: None.
        verbose: 1 shows a progress bar. Default: 0.

    See Also:
        ``sklearn.neural_network.MLPClassifier``.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = BackpropClassifier((16,), random_state=0).fit(X, y)
    >>> model.predict_proba(X).shape, bool(model.score(X, y) > 0.9)
    ((150, 3), True)
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

    @override
    def _likelihood(self, n_classes: int) -> Ordinal | Softmax:
        return class_likelihood(n_classes, self.ordered, Softmax(n_classes))
