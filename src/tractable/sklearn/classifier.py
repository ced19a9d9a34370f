"""Classification: labels of any kind, and probabilities that say how sure the network is."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_is_fitted,
    check_X_y,
    column_or_1d,
    validate_data,
)
from torch import Tensor

from tractable.data import Standardizer
from tractable.learners import Learner
from tractable.likelihoods import Categorical, Ordinal, Softmax
from tractable.persistence import validation
from tractable.persistence.model_file import under_prefix
from tractable.predictive import CategoricalPredictive, Predictive
from tractable.sklearn import files
from tractable.sklearn.estimator import FLOATS, Array, Estimator, tensor, torch_generator
from tractable.sklearn.frames import Frame, check_names
from tractable.sklearn.missing import Columns
from tractable.sklearn.ordered import Ordered, ordered_classes, positions
from tractable.sklearn.rows import levels_of, mixed, scaler_of
from tractable.sklearn.weighting import check_streamed, copies, counted, of_classes, reweighted


class Classifier(ClassifierMixin, Estimator):
    """Labels, one per row, of two or more classes.

    Attributes:
        classes_: the labels, sorted or in the order that was stated; columns of
            ``predict_proba`` come in this order.
        class_weights_: factor on the probability of each class in predictions.
        class_counts_: number of rows of each class that were learnt; None in an estimator of a
            file that does not have it, whose probabilities may be zero.
    """

    class_weight: Any
    classes_: Array
    class_weights_: Tensor
    class_counts_: Tensor | None

    @abstractmethod
    def _likelihood(self, classes: int) -> Categorical | Ordinal | Softmax:
        """How labels depend on the outputs of the network."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from data, forgetting whatever was learnt before.

        Args:
            X: inputs, ``(rows, features)``; NaN where a value is missing.
            y: labels, ``(rows,)``: numbers, strings or booleans.
            sample_weight: how much each row counts, ``(rows,)``: whole numbers say how often it
                came, and rows of weight 0 are left out (``tractable.sklearn.weighting``).
        """
        X, y, sample_weight = counted(X, y, sample_weight)
        X, frame = self._first_numbers(X)
        x, labels = self._checked(X, y, reset=True, frame=frame)
        self._draw_seed()
        # A class of next to no weight is known all the same; one without rows is not.
        seen = labels if sample_weight is None else labels[copies(sample_weight, len(x)).numpy()]
        classes = ordered_classes(np.unique(seen), self._ordered())
        weights = of_classes(self.class_weight, labels, classes)
        origin = self._origin(sample_weight, len(x))
        if origin is not None:
            x, labels = x[origin], labels[origin.numpy()]
        codes = positions(labels, classes)
        self._check_classes(classes)
        scaler, rows, columns, counts = self._standardised(x, origin)
        likelihood = self._likelihood(len(classes))
        fit = self._learn(likelihood, likelihood.outputs_needed, rows, torch.from_numpy(codes))
        self.input_scaler_, self.learner_ = scaler.weighted_by(fit.weights), fit.learner
        self.classes_, self.n_clipped_ = classes, counts.numpy()
        self.class_weights_ = weights
        self.class_counts_ = _numbers_of(codes, len(classes))
        self.imputer_, self.encoder_ = columns.scaled(fit.weights), frame
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Learn from more rows, each seen once; earlier rows are not needed again.

        The first call sets the scale of the inputs from its rows, for good.

        Args:
            X: inputs, ``(rows, features)``.
            y: labels, ``(rows,)``.
            classes: all labels that will ever come; needed at the first call only.
        """
        first = not self.__sklearn_is_fitted__()
        known = self._known_classes(classes)
        X, frame = self._first_numbers(X) if first else (X, self.encoder_)
        x, labels = self._checked(X, y, reset=first, frame=frame)
        check_streamed(self.class_weight)
        codes = torch.from_numpy(positions(labels, known))
        if first:
            self._first_rows(len(x))
            scaler, learner = self._begin(x, known)
            columns: Columns | None = Columns.fit(scaler.transform(x), levels_of(x))
        else:
            scaler, learner, columns = self.input_scaler_, self.learner_, self.imputer_
        self._continue(learner, self._stream(scaler.transform(x), columns), codes)
        if first:
            self._streaming(x.shape[1])
            self.imputer_, self.encoder_ = columns, frame
            self.input_scaler_, self.learner_, self.classes_ = scaler, learner, known
            self.class_weights_ = of_classes(self.class_weight, labels, known)
            self.class_counts_ = _numbers_of(codes.numpy(), len(known))
        elif self.class_counts_ is not None:
            self.class_counts_ = self.class_counts_ + _numbers_of(codes.numpy(), len(known))
        return self

    def predictive(self, X: Any) -> Predictive:
        """The distribution of the label at each row, as positions in ``classes_``.

        Where values are missing it is a mixture over what they may be.  Its ``epistemic`` part is
        what more data (and the missing values) would remove, ``aleatoric`` what they hide, in
        nats.
        """
        return self._distribution(self._scaled(X))

    def _distribution(self, x: Tensor) -> Predictive:
        """The distribution of the label at each row of standardized inputs."""
        parts = [self._predicted(rows) for rows in self._completed(x)]
        return parts[0] if len(parts) == 1 else mixed(parts)

    def _predicted(self, x: Tensor) -> Predictive:
        found = self.learner_.predict(x).double()
        if self.class_counts_ is None or not isinstance(found, CategoricalPredictive):
            return found
        return reweighted(found, self.class_weights_, self.class_counts_)

    def predict_proba(self, X: Any) -> Array:
        """Probability of each class, ``(rows, classes)``."""
        return self.predictive(X).probs.numpy()

    def predict(self, X: Any) -> Array:
        """The most probable label of each row."""
        chosen = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[chosen])

    def sample(self, X: Any, n_samples: int = 1, random_state: Any = None) -> Array:
        """Draws of labels, ``(n_samples, rows)``."""
        drawn = self.predictive(X).sample(n_samples, torch_generator(random_state))
        return np.asarray(self.classes_[drawn.numpy()])

    def log_prob(self, X: Any, y: Any) -> Array:
        """Log probability of the label of each row."""
        check_is_fitted(self)
        x, labels = self._checked(X, y, reset=False, frame=self.encoder_)
        codes = torch.from_numpy(positions(labels, self.classes_))
        return self._distribution(self.input_scaler_.transform(x)).log_prob(codes).numpy()

    def score_log_likelihood(self, X: Any, y: Any) -> float:
        """Mean log probability of the labels (the negative of the log loss)."""
        return float(self.log_prob(X, y).mean())

    # --- inside ----------------------------------------------------------------------------

    def _checked(self, X: Any, y: Any, *, reset: bool, frame: Frame | None) -> tuple[Tensor, Array]:
        options: Any = {"dtype": FLOATS, "ensure_all_finite": "allow-nan"}
        check_names(X)
        if frame is None:
            X, y = validate_data(self, X, y, reset=reset, **options)
        else:
            X, y = check_X_y(X if reset else self._numbers(X, frame), y, **options)
        check_classification_targets(y)
        return tensor(X), y

    def _known_classes(self, classes: Any) -> Array:
        """All labels of a stream: as given at the first call, and the same ones later."""
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
        """Refuse to tell one class from none."""
        if len(classes) < 2:
            raise ValueError(
                f"{type(self).__name__} needs labels of at least two classes; the data has only "
                f"one class: {classes.tolist()[0]!r}"
            )

    def _begin(self, x: Tensor, classes: Array) -> tuple[Standardizer, Learner]:
        self._check_classes(classes)
        self._draw_seed()
        likelihood = self._likelihood(len(classes))
        return scaler_of(x), self._begin_learner(likelihood, likelihood.outputs_needed, x)

    def _ordered(self) -> Ordered:
        return getattr(self, "ordered", False)

    def target_state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The labels, their weights and numbers."""
        tensors = {}
        if self.class_counts_ is not None:
            tensors = {
                "classes/weights": self.class_weights_,
                "classes/counts": self.class_counts_,
            }
        return tensors, {"classes": files.labels_to_json(self.classes_)}

    def restore_target_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """See ``Estimator``."""
        stated = not isinstance(self._ordered(), bool | np.bool_)
        self.classes_ = files.labels_from_json(values["classes"], any_order=stated)
        self.class_weights_ = torch.ones(len(self.classes_), dtype=torch.float64)
        self.class_counts_ = None
        held = under_prefix(tensors, "classes/")
        if held:  # files of version 0.1 have none
            like = self.class_weights_
            validation.check_same_tensors({"weights": like, "counts": like}, held, "classes")
            validation.check_numbers(held, {"weights": "non-negative", "counts": "non-negative"})
            if not bool(held["weights"].any()):
                raise ValueError("the weights of the classes in the file are all zero")
            self.class_weights_, self.class_counts_ = held["weights"], held["counts"]

    def check_restored(self) -> None:
        """See ``Estimator``; there are as many labels as classes."""
        super().check_restored()
        likelihood = self.learner_.likelihood
        classes = getattr(likelihood, "classes", getattr(likelihood, "levels", 2))
        if len(self.classes_) != classes:
            raise ValueError(f"the file has {len(self.classes_)} labels of {classes} classes")
        if not np.array_equal(
            ordered_classes(np.sort(self.classes_), self._ordered()), self.classes_
        ):
            raise ValueError("the labels in the file are not in the order that it states")


def _numbers_of(codes: Array, classes: int) -> Tensor:
    return torch.from_numpy(np.bincount(codes, minlength=classes).astype(np.float64))
