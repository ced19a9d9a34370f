"""Generative models whose network is trained by a learner, alone or as an ensemble."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from tractable.generative.base import GenerativeModel
from tractable.learners import Ensemble, Learner
from tractable.learners import serialization as learner_files
from tractable.likelihoods import Likelihood


class LearnerModel(GenerativeModel):
    """A generative model around one learner.

    Args:
        learner: class of learners: ``TAGI``, ``BayesByBackprop``, ``Backprop``, ``Laplace``.
        n_estimators: number of networks in an ensemble; 1 for a single network.
        learner_kwargs: further arguments of the learner.
        common: arguments of ``GenerativeModel``.

    Attributes:
        learner_: the trained learner; None before ``fit``.
    """

    def __init__(
        self,
        *,
        learner: type[Learner],
        n_estimators: int = 1,
        learner_kwargs: dict[str, Any] | None = None,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        if not (isinstance(learner, type) and issubclass(learner, Learner)):
            raise TypeError(f"learner must be a class such as tr.Backprop, got {learner!r}")
        if isinstance(n_estimators, bool) or not isinstance(n_estimators, int) or n_estimators < 1:
            raise ValueError(f"n_estimators must be a whole number from 1, got {n_estimators!r}")
        self.learner, self.n_estimators = learner, n_estimators
        self.learner_kwargs = dict(learner_kwargs or {})
        self.learner_: Any = None

    def make_learner(self, net: nn.Module, likelihood: Likelihood) -> Learner:
        """Return an untrained learner of this network."""
        shared: dict[str, Any] = {"dtype": self.dtype, "seed": self.seed, **self.learner_kwargs}
        if self.n_estimators == 1:
            return self.learner(net, likelihood, **shared)
        return Ensemble(
            net, likelihood, n_estimators=self.n_estimators, learner=self.learner, **shared
        )

    @property
    def history(self) -> list[dict[str, float]]:
        """One record per epoch of the last ``fit``."""
        if self.learner_ is None:
            raise self._not_fitted()
        return list(self.learner_.history)

    def learner_fit_options(
        self,
        validation: Any,
        pairs: Callable[[Tensor, Tensor | None], tuple[Any, Tensor]],
        options: dict[str, Any],
        *,
        is_density: bool = True,
    ) -> dict[str, Any]:
        """Return options of ``Learner.fit`` with the validation rows as the learner takes them.

        Args:
            validation: rows in the units of the data: ``X``, ``(X,)`` or ``(X, context)``; None for
                no validation.
            pairs: returns the learner's inputs and targets, from rows and contexts in the units of
                the model.
            options: further options of ``Learner.fit``.
            is_density: whether the learner's score is the negative log density of a row. It is then
                recorded in the units of the data, where it equals the negative mean of
                ``predict().log_prob``; any other score has no units and is recorded unchanged.
        """
        if validation is None:
            return options
        x, context = self.validation_rows(validation)
        found = {**options, "validation": pairs(x, context)}
        if is_density:
            units = _DataUnits(self.fitted_scaler().log_scale)
            found["callbacks"] = [units, *options.get("callbacks", ())]
        return found

    def learner_config(self) -> dict[str, Any]:
        """Return the arguments of this class as JSON values, for ``config``."""
        return {
            "learner": learner_files.learner_name(self.learner),
            "n_estimators": self.n_estimators,
            "learner_kwargs": self.learner_kwargs,
        }

    @classmethod
    @override
    def from_config(cls, config: dict[str, Any], net: nn.Module | None) -> Any:
        config = {**config, "learner": learner_files.learner_class(config["learner"])}
        return super().from_config(config, net)

    @override
    def pack(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        self.fitted_scaler()
        return learner_files.pack(self.learner_)

    @override
    def unpack(
        self, path: Path, tensors: dict[str, Tensor], header: dict[str, Any], net: nn.Module | None
    ) -> None:
        self.learner_ = learner_files.unpack(
            path, tensors, header, self.build_network(net), None, device=None
        )
        if not isinstance(self.learner_, self.learner if self.n_estimators == 1 else Ensemble):
            raise ValueError("the learner in the file differs from the one that the file names")

    def build_network(self, net: nn.Module | None) -> nn.Module | None:
        """Return the learner's network, if its file does not describe it.

        Args:
            net: network of the caller, or None.
        """
        return net


class _DataUnits:
    """Callback that converts the validation score from the units of the model to those of the data.

    It is called before all others, so that they and the history have the converted score.
    """

    def __init__(self, log_scale: float) -> None:
        self.log_scale = log_scale

    def __call__(self, learner: Learner, record: dict[str, float]) -> None:
        """Add the log determinant of the standardization."""
        record["validation_nll"] += self.log_scale


def members_of(learner: Learner) -> list[tuple[Any, Any]]:
    """Return method and state of a learner, or of each network of an ensemble."""
    if isinstance(learner, Ensemble):
        return [(learner.method.member, state) for state in learner.state.members]
    return [(learner.method, learner.state)]


def seeded_generator(seed: int) -> torch.Generator:
    """Return a new generator with this seed."""
    return torch.Generator().manual_seed(seed)
