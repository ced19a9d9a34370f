"""The base class of classifiers: labels of any type, and probabilities of classes."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, check_X_y, column_or_1d, validate_data
from torch import Tensor
from typing_extensions import override

from tractable.learners import Learner
from tractable.likelihoods import Categorical, Ordinal, Softmax
from tractable.persistence import validation
from tractable.persistence.model_file import Header, Tensors, under_prefix
from tractable.predictive import CategoricalPredictive, Predictive
from tractable.sklearn.base import (
    FLOATS,
    Array,
    Estimator,
    as_tensor,
    mixture_of_completions,
    torch_generator,
)
from tractable.sklearn.class_labels import (
    Ordered,
    check_streaming_weight,
    class_indices,
    class_weights,
    ordered_classes,
    reweighted,
)
from tractable.sklearn.imputation import GaussianCopula
from tractable.sklearn.preprocessing import (
    FrameEncoder,
    category_columns,
    check_unique_names,
    repeat_by_weight,
    standardizer_of,
    without_zero_weights,
)
from tractable.sklearn.serialization import labels_from_json, labels_to_json
from tractable.training.standardizer import Standardizer


class Classifier(ClassifierMixin, Estimator):
    """A classifier with one label per row, of two or more classes.

    Attributes:
        classes_: class labels, sorted or in the order of ``ordered``; the columns of
            ``predict_proba`` have this order, ``(n_classes,)``.
        class_weights_: factor on the probability of each class in predictions, ``(n_classes,)``.
        class_counts_: number of training rows of each class, ``(n_classes,)``. None in an estimator
            of a file without it, whose probabilities may be zero.
    """

    class_weight: Any
    classes_: Array
    class_weights_: Tensor
    class_counts_: Tensor | None

    @abstractmethod
    def _likelihood(self, n_classes: int) -> Categorical | Ordinal | Softmax:
        """Return the likelihood of labels given the outputs of the network."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the estimator; results of earlier fits are discarded.

        Args:
            X: inputs, an array or data frame ``(n_samples, n_features)``; NaN marks missing values.
            y: labels, ``(n_samples,)``: numbers, strings or booleans.
            sample_weight: weights of the rows, ``(n_samples,)``. Integers are numbers of copies,
                other weights are relative; rows of weight 0 are left out.

        Returns:
            The estimator.
        """
        X, y, sample_weight = without_zero_weights(X, y, sample_weight)
        X, encoder = self._encode_first(X)
        x, labels = self._checked(X, y, reset=True, encoder=encoder)
        self._draw_seed()
        # A class needs at least one copy of a row; its weight may still be close to zero.
        kept = labels
        if sample_weight is not None:
            kept = labels[repeat_by_weight(sample_weight, len(x)).numpy()]
        classes = ordered_classes(np.unique(kept), self._ordered())
        weights = class_weights(self.class_weight, labels, classes)
        copy_of = self._copies(sample_weight, len(x))
        if copy_of is not None:
            x, labels = x[copy_of], labels[copy_of.numpy()]
        codes = class_indices(labels, classes)
        self._check_classes(classes)
        scaler, rows, imputer, n_clipped = self._fit_inputs(x, copy_of)
        likelihood = self._likelihood(len(classes))
        n_outputs = likelihood.outputs_needed
        fit = self._fit_learner(likelihood, n_outputs, rows, torch.from_numpy(codes))
        self.input_scaler_, self.learner_ = scaler.scaled_by(fit.relevance), fit.learner
        self.classes_, self.n_clipped_ = classes, n_clipped.numpy()
        self.class_weights_ = weights
        self.class_counts_ = _counts(codes, len(classes))
        self.imputer_, self.encoder_ = imputer.scaled(fit.relevance), encoder
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Update the estimator with more rows, each used once; earlier rows are not needed.

        The first call sets the scale of the inputs, which later calls keep.

        Args:
            X: inputs, ``(n_samples, n_features)``.
            y: labels, ``(n_samples,)``.
            classes: all class labels; needed in the first call only.

        Returns:
            The estimator.
        """
        is_first = not self.__sklearn_is_fitted__()
        known = self._known_classes(classes)
        X, encoder = self._encode_first(X) if is_first else (X, self.encoder_)
        x, labels = self._checked(X, y, reset=is_first, encoder=encoder)
        check_streaming_weight(self.class_weight)
        codes = torch.from_numpy(class_indices(labels, known))
        if is_first:
            self._warn_of_one_row(len(x))
            scaler, learner = self._start_stream(x, known)
            imputer: GaussianCopula | None = GaussianCopula.fit(
                scaler.transform(x), category_columns(x)
            )
        else:
            scaler, learner, imputer = self.input_scaler_, self.learner_, self.imputer_
        rows = self._stream_inputs(scaler.transform(x), imputer)
        self._update_in_batches(learner, rows, codes)
        counts = _counts(codes.numpy(), len(known))
        if is_first:
            self.imputer_, self.encoder_ = imputer, encoder
            self.input_scaler_, self.learner_, self.classes_ = scaler, learner, known
            self.class_weights_ = class_weights(self.class_weight, labels, known)
            self.class_counts_ = counts
            self._set_streaming_defaults()
        elif self.class_counts_ is not None:
            self.class_counts_ = self.class_counts_ + counts
        return self

    def predictive(self, X: Any) -> Predictive:
        """Return the predictive distribution of the class of each row, as an index of ``classes_``.

        For rows with missing values it is a mixture over their possible values. ``epistemic`` is
        the part of the entropy that more data (and the missing values) would remove, ``aleatoric``
        the remainder, both in nats.

        Args:
            X: inputs, ``(n_samples, n_features)``.
        """
        return self._predictive(self._standardized(X))

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class, ``(n_samples, n_classes)``.

        Args:
            X: inputs, ``(n_samples, n_features)``.
        """
        return self.predictive(X).probs.numpy()

    def predict(self, X: Any) -> Array:
        """Return the most probable label of each row, ``(n_samples,)``.

        Args:
            X: inputs, ``(n_samples, n_features)``.
        """
        codes = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[codes])

    def sample(self, X: Any, n_samples: int = 1, random_state: Any = None) -> Array:
        """Return samples of the labels, ``(n_samples, rows)``.

        Args:
            X: inputs, ``(rows, n_features)``.
            n_samples: number of samples for each row.
            random_state: seed or generator, as in scikit-learn.
        """
        codes = self.predictive(X).sample(n_samples, torch_generator(random_state))
        return np.asarray(self.classes_[codes.numpy()])

    def log_prob(self, X: Any, y: Any) -> Array:
        """Return the log probability of the label of each row, ``(n_samples,)``.

        Args:
            X: inputs, ``(n_samples, n_features)``.
            y: labels, ``(n_samples,)``.
        """
        check_is_fitted(self)
        x, labels = self._checked(X, y, reset=False, encoder=self.encoder_)
        codes = torch.from_numpy(class_indices(labels, self.classes_))
        return self._predictive(self.input_scaler_.transform(x)).log_prob(codes).numpy()

    def score_log_likelihood(self, X: Any, y: Any) -> float:
        """Return the mean log probability of the labels, the negative of the log loss.

        Args:
            X: inputs, ``(n_samples, n_features)``.
            y: labels, ``(n_samples,)``.
        """
        return float(self.log_prob(X, y).mean())

    # --- fitting and predicting ------------------------------------------------------------

    def _checked(
        self, X: Any, y: Any, *, reset: bool, encoder: FrameEncoder | None
    ) -> tuple[Tensor, Array]:
        """Return inputs and labels after checking them."""
        options: Any = {"dtype": FLOATS, "ensure_all_finite": "allow-nan"}
        check_unique_names(X)
        if encoder is None:
            X, y = validate_data(self, X, y, reset=reset, **options)
        else:
            X, y = check_X_y(X if reset else self._encode(X, encoder), y, **options)
        check_classification_targets(y)
        return as_tensor(X), y

    def _known_classes(self, classes: Any) -> Array:
        """Return the class labels of a stream, given in the first call and the same later."""
        known: Array | None = getattr(self, "classes_", None)
        if classes is None:
            if known is None:
                raise ValueError("classes must be passed on the first call to partial_fit")
            return known
        given = ordered_classes(np.unique(column_or_1d(classes)), self._ordered())
        if known is not None and not np.array_equal(given, known):
            raise ValueError(
                f"classes={given.tolist()} is not the same as on the first call to partial_fit, "
                f"{known.tolist()}"
            )
        return given

    def _check_classes(self, classes: Array) -> None:
        """Raise if there is only one class."""
        if len(classes) < 2:
            raise ValueError(
                f"{type(self).__name__} needs labels of at least two classes; the data has only "
                f"one class: {classes.tolist()[0]!r}"
            )

    def _start_stream(self, x: Tensor, classes: Array) -> tuple[Standardizer, Learner]:
        self._check_classes(classes)
        self._draw_seed()
        likelihood = self._likelihood(len(classes))
        return standardizer_of(x), self._first_learner(likelihood, likelihood.outputs_needed, x)

    def _ordered(self) -> Ordered:
        return getattr(self, "ordered", False)

    def _predictive(self, x: Tensor) -> Predictive:
        """Return the predictive distribution for standardized inputs."""
        parts = [self._predict_complete(rows) for rows in self._completions(x)]
        return parts[0] if len(parts) == 1 else mixture_of_completions(parts)

    def _predict_complete(self, x: Tensor) -> Predictive:
        """Return the predictive distribution for rows without missing values."""
        found = self.learner_.predict(x).double()
        if self.class_counts_ is None or not isinstance(found, CategoricalPredictive):
            return found
        return reweighted(found, self.class_weights_, self.class_counts_)

    # --- files -----------------------------------------------------------------------------

    @override
    def _pack_targets(self) -> tuple[Tensors, Header]:
        tensors = {}
        if self.class_counts_ is not None:
            tensors = {
                "classes/weights": self.class_weights_,
                "classes/counts": self.class_counts_,
            }
        return tensors, {"classes": labels_to_json(self.classes_)}

    @override
    def _unpack_targets(self, tensors: Tensors, values: Header) -> None:
        has_order = not isinstance(self._ordered(), bool | np.bool_)
        self.classes_ = labels_from_json(values["classes"], any_order=has_order)
        self.class_weights_ = torch.ones(len(self.classes_), dtype=torch.float64)
        self.class_counts_ = None
        own = under_prefix(tensors, "classes/")
        if own:  # files of version 0.1 have none
            like = self.class_weights_
            validation.check_same_tensors({"weights": like, "counts": like}, own, "classes")
            validation.check_numbers(own, {"weights": "non-negative", "counts": "non-negative"})
            if not bool(own["weights"].any()):
                raise ValueError("the class weights in the file are all zero")
            self.class_weights_, self.class_counts_ = own["weights"], own["counts"]

    @override
    def _check_loaded(self) -> None:
        super()._check_loaded()
        likelihood = self.learner_.likelihood
        n_classes = getattr(likelihood, "classes", getattr(likelihood, "levels", 2))
        if len(self.classes_) != n_classes:
            raise ValueError(
                f"the file has {len(self.classes_)} class labels, expected {n_classes}"
            )
        expected = ordered_classes(np.sort(self.classes_), self._ordered())
        if not np.array_equal(expected, self.classes_):
            raise ValueError("the class labels in the file are not in the order of ``ordered``")


def _counts(codes: Array, n_classes: int) -> Tensor:
    """Return the number of rows of each class."""
    return torch.from_numpy(np.bincount(codes, minlength=n_classes).astype(np.float64))
