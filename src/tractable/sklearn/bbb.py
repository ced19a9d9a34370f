"""Estimators with a variational Gaussian posterior, by Bayes by Backprop."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from typing_extensions import override

from tractable.learners import BayesByBackprop, Learner
from tractable.likelihoods import Likelihood, Ordinal, Softmax
from tractable.sklearn.base import as_python
from tractable.sklearn.class_labels import Ordered, class_likelihood
from tractable.sklearn.classifier import Classifier
from tractable.sklearn.gradient import GradientEstimator, as_prior
from tractable.sklearn.regressor import Regressor
from tractable.sklearn.targets import NORMAL


class _BBBEstimator(GradientEstimator):
    """Estimators with a ``BayesByBackprop`` learner."""

    prior: Any
    kl_weight: float
    n_train_samples: int
    n_weight_samples: int

    @override
    def _new_learner(self, net: nn.Module, likelihood: Likelihood, n_rows: int) -> Learner:
        # The learner expects the weight of a batch; "uniform" is its word for 1 per epoch.
        kl_weight = as_python(self.kl_weight)
        batch_weight = kl_weight * self._batch_size(n_rows) / n_rows
        return BayesByBackprop(
            net,
            likelihood,
            prior=as_prior(self.prior),
            kl_weight="uniform" if kl_weight == 1 else batch_weight,
            n_train_samples=as_python(self.n_train_samples),
            estimator="local",
            init="he",
            lr=as_python(self.lr),
            n_weight_samples=as_python(self.n_weight_samples),
            dtype=torch.float64,
            seed=self._seed,
        )


class BBBRegressor(_BBBEstimator, Regressor):
    """A regressor with a variational Gaussian posterior of the weights, by Bayes by Backprop.

    Inputs and targets are standardized. The noise is inferred, and then scaled on a tenth of the
    rows that are held out of a first fit (with 2,000 rows or more, out of the only fit).

    ``partial_fit`` makes one pass of gradient steps over the given rows.

    Approximate: independent Gaussian weights; gradients and predictions by weight samples; unless
    ``kl_weight=1``, a posterior that is narrower than the data justify.

    Args:
        hidden_layer_sizes: number of units of each hidden layer; an empty tuple gives a linear
            model. Default: ``(64, 64)``.
        activation: activation function after each hidden layer: ``"relu"`` (default),
            ``"leaky_relu"``, ``"tanh"``, ``"sigmoid"``, ``"softplus"``, ``"gelu"``, ``"silu"`` or
            ``"elu"``.
        likelihood: distribution of the targets: ``"normal"`` (default), ``"heteroscedastic"``,
            ``"laplace"``, ``"student_t"``, ``"mixture"``, ``"poisson"``, ``"negative_binomial"``
            or ``"von_mises"`` (see ``tractable.sklearn.targets``).
        prior: prior of the weights: a standard deviation of a normal prior, or one of
            ``tractable.priors``. Default: 0.3.
        kl_weight: factor on the Kullback-Leibler divergence from the prior in the objective of
            ``fit``. 1 is the evidence lower bound, with which networks of this size underfit small
            data sets. ``partial_fit`` uses 1; the weight of a batch decreases with the number of
            rows. Default: 0.1.
        n_train_samples: weight samples per training step. Default: 1.
        n_weight_samples: weight samples that a prediction averages. Default: 50.
        lr: initial learning rate, decreased to zero over a fit (cosine schedule). Default: 0.01.
        epochs: number of passes over the data in ``fit``. Default: about 1,500 steps, but at least
            20 and at most 100 epochs.
        batch_size: rows per step. Default: 32.
        calibrate: whether to scale the noise on held-out rows, if there are 40 rows or more.
            Default: True.
        random_state: seed of all random numbers, as in scikit-learn. Default: None.
        verbose: 1 shows a progress bar. Default: 0.

    References:
        C. Blundell, J. Cornebise, K. Kavukcuoglu and D. Wierstra, "Weight uncertainty in neural
        networks", ICML 2015.

    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 100).reshape(-1, 1)
    >>> model = BBBRegressor((16,), random_state=0).fit(X, 3 * X[:, 0])
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


class BBBClassifier(_BBBEstimator, Classifier):
    """A classifier with a variational Gaussian posterior of the weights, by Bayes by Backprop.

    The probabilities are a softmax, averaged over weight samples. Inputs are standardized.

    ``partial_fit`` makes one pass of gradient steps over the given rows.

    Approximate: as for ``BBBRegressor``.

    Args:
        hidden_layer_sizes: number of units of each hidden layer; an empty tuple gives a linear
            model. Default: ``(64, 64)``.
        activation: activation function after each hidden layer: ``"relu"`` (default),
            ``"leaky_relu"``, ``"tanh"``, ``"sigmoid"``, ``"softplus"``, ``"gelu"``, ``"silu"`` or
            ``"elu"``.
        ordered: whether the classes have an order (grades, stages), learned with
            ``tractable.likelihoods.Ordinal``. True takes the order of sorting, a list of all labels
            gives the order from the lowest. Default: False.
        prior: prior of the weights: a standard deviation of a normal prior, or one of
            ``tractable.priors``. Default: 0.3.
        kl_weight: factor on the Kullback-Leibler divergence from the prior in the objective of
            ``fit``. 1 is the evidence lower bound, with which networks of this size underfit small
            data sets. ``partial_fit`` uses 1; the weight of a batch decreases with the number of
            rows. Default: 0.1.
        n_train_samples: weight samples per training step. Default: 1.
        n_weight_samples: weight samples that a prediction averages. Default: 50.
        lr: initial learning rate, decreased to zero over a fit (cosine schedule). Default: 0.01.
        epochs: number of passes over the data in ``fit``. Default: about 1,500 steps, but at least
            20 and at most 100 epochs.
        batch_size: rows per step. Default: 32.
        class_weight: ``"balanced"`` or a dict from labels to weights, by which predicted
            probabilities are multiplied. Default: None.
        random_state: seed of all random numbers, as in scikit-learn. Default: None.
        verbose: 1 shows a progress bar. Default: 0.

    References:
        C. Blundell, J. Cornebise, K. Kavukcuoglu and D. Wierstra, "Weight uncertainty in neural
        networks", ICML 2015.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = BBBClassifier((16,), random_state=0).fit(X, y)
    >>> model.predict_proba(X).shape, bool(model.score(X, y) > 0.9)
    ((150, 3), True)
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

    @override
    def _likelihood(self, n_classes: int) -> Ordinal | Softmax:
        return class_likelihood(n_classes, self.ordered, Softmax(n_classes))
