"""Estimators with closed-form learning: no gradients, no learning rate, online updates.

The steps of a fit are in ``tractable.sklearn.tagi_base``.
"""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import override

from tractable.likelihoods import Categorical, Ordinal
from tractable.likelihoods.categorical import Link
from tractable.sklearn.class_labels import Ordered, class_likelihood
from tractable.sklearn.classifier import Classifier
from tractable.sklearn.tagi_base import TAGIEstimator, TAGIRegressorBase
from tractable.sklearn.targets import NORMAL


class TAGIRegressor(TAGIRegressorBase):
    """A regressor with closed-form Bayesian learning: a small ensemble of TAGI networks.

    Inputs and targets are standardized. Held-out rows select the number of epochs, a network or a
    linear model, and whether features are multiplied by their relevance
    (``tractable.sklearn.model_selection``). Then the noise, which is inferred together with the
    weights, is scaled on these rows, because data that are used many times make the posterior too
    narrow; where it is too wide, the variance of the weights is scaled as well
    (``tractable.sklearn.calibration``). With fewer than 2,000 rows, tenths of them are held out of
    copies in turn; with more, one tenth is held out of the networks themselves.

    The noise may depend on the inputs and have heavy tails (``tractable.sklearn.noise_model``), if
    held-out rows are predicted better. Prediction intervals widen away from the training rows, at a
    rate estimated on contiguous blocks of held-out rows. Single outlying targets do little harm
    (``robust`` of ``tractable.TAGI``): ``learner_.outliers`` lists them.

    ``partial_fit`` is an online update in closed form. Its rows are not needed again, and the noise
    is inferred without held-out rows.

    Exact: the moments of each linear layer, given those of its inputs and weights. Approximate:
    weights and units are independent Gaussians, and activations are linearized at their mean (see
    ``tractable.TAGI``).

    Args:
        hidden_layer_sizes: number of units of each hidden layer; an empty tuple gives a linear
            model. Default: ``(64, 64)``, or a linear model if held-out rows show no difference.
        activation: activation function after each hidden layer: ``"relu"`` (default),
            ``"leaky_relu"``, ``"tanh"``, ``"sigmoid"``, ``"softplus"``, ``"gelu"``, ``"silu"`` or
            ``"elu"``. The first four run in the compiled kernel.
        likelihood: distribution of the targets: ``"normal"`` (default), ``"heteroscedastic"``,
            ``"laplace"``, ``"student_t"``, ``"mixture"``, ``"poisson"``, ``"negative_binomial"``
            or ``"von_mises"`` (see ``tractable.sklearn.targets``). The calibration of error bars,
            the detection of outliers and the noise models apply to ``"normal"`` only. With
            likelihoods that the kernel does not have (laplace, student_t, mixture, von_mises), at
            most 40 epochs are tried, in batches of 32, and the relevance is not estimated.
        gain: factor on the prior variance 1 / fan_in of the weights. Default: 0.25.
        epoch_forgetting: share of the information of an epoch that is forgotten in the next one,
            decreasing to zero in the last; does not apply to ``partial_fit``. Default: 0.3.
        n_estimators: number of networks with different initial weights, whose predictions are
            averaged. Default: 5.
        epochs: number of passes over the data in ``fit``. Default: selected on held-out rows (many
            suit targets with little noise); without such rows, 25,000 rows in total, but at least
            40 and at most 100 epochs.
        batch_size: rows per update. Default: about a hundred updates per epoch with at most 32 rows
            each, and 32 rows in ``partial_fit``.
        calibrate: whether to hold out rows for model selection and calibration, if there are 20
            rows or more. ``"cv"`` holds them out of copies only, and fits to all rows, for any
            number of rows. Default: True.
        relevance: whether to multiply features by factors that express their relevance. Default:
            None, if held-out rows are predicted better.
        memory_rows: number of past rows that ``partial_fit`` effectively remembers, for data that
            change over time. Default: None, all rows.
        log_target: whether to learn the logarithm of the target, which must be positive. Default:
            None, if there is one target and held-out rows are predicted better.
        random_state: seed of the initial means and the order of the rows, as in scikit-learn.
            Default: None.
        verbose: 1 shows a progress bar. Default: 0.

    References:
        J.-A. Goulet, L. H. Nguyen and S. Amiri, "Tractable approximate Gaussian inference for
        Bayesian neural networks", JMLR 22 (2021).

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


class TAGIClassifier(TAGIEstimator, Classifier):
    """A classifier with closed-form Bayesian learning: a small ensemble of TAGI networks.

    Classes are the leaves of a binary tree of decisions. Inputs are standardized. Held-out rows
    select the number of epochs, a network or a linear model, and whether features are multiplied by
    their relevance, as for ``TAGIRegressor``; they also calibrate the noise of the decisions.
    ``partial_fit`` is an online update in closed form.

    Exact: the evidence of a label, given Gaussian outputs (``link="probit"``). Approximate: as for
    ``TAGIRegressor``.

    Args:
        hidden_layer_sizes: number of units of each hidden layer; an empty tuple gives a linear
            model. Default: ``(64, 64)``, or a linear model if held-out rows show no difference.
        activation: activation function after each hidden layer: ``"relu"`` (default),
            ``"leaky_relu"``, ``"tanh"``, ``"sigmoid"``, ``"softplus"``, ``"gelu"``, ``"silu"`` or
            ``"elu"``. The first four run in the compiled kernel.
        link: ``"probit"`` (default), a model of class labels, with better probabilities where
            classes overlap; or ``"normal"``, as published, which treats labels as numbers and
            learns faster where they do not overlap (digits, images). See
            ``tractable.likelihoods.Categorical``.
        ordered: whether the classes have an order (grades, stages), learned with
            ``tractable.likelihoods.Ordinal``, without ``link``. True takes the order of sorting, a
            list of all labels gives the order from the lowest. Default: False.
        gain: factor on the prior variance 1 / fan_in of the weights. Default: 0.25.
        epoch_forgetting: share of the information of an epoch that is forgotten in the next one,
            decreasing to zero in the last; does not apply to ``partial_fit``. Default: 0, the
            published method, which is slightly better for classes.
        n_estimators: number of networks with different initial weights, whose predictions are
            averaged. Default: 5.
        epochs: number of passes over the data in ``fit``. Default: selected on held-out rows (many
            suit targets with little noise); without such rows, 25,000 rows in total, but at least
            40 and at most 100 epochs.
        batch_size: rows per update. Default: about a hundred updates per epoch with at most 32 rows
            each, and 32 rows in ``partial_fit``.
        calibrate: whether to hold out rows for model selection and calibration, if there are 20
            rows or more. ``"cv"`` holds them out of copies only, and fits to all rows, for any
            number of rows. Default: True.
        relevance: whether to multiply features by factors that express their relevance. Default:
            None, if held-out rows are predicted better.
        memory_rows: number of past rows that ``partial_fit`` effectively remembers, for data that
            change over time. Default: None, all rows.
        class_weight: ``"balanced"`` or a dict from labels to weights, by which predicted
            probabilities are multiplied. Default: None.
        random_state: seed of the initial means and the order of the rows, as in scikit-learn.
            Default: None.
        verbose: 1 shows a progress bar. Default: 0.

    References:
        J.-A. Goulet, L. H. Nguyen and S. Amiri, "Tractable approximate Gaussian inference for
        Bayesian neural networks", JMLR 22 (2021).

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

    @override
    def _likelihood(self, n_classes: int) -> Categorical | Ordinal:
        return class_likelihood(n_classes, self.ordered, Categorical(n_classes, link=self.link))
