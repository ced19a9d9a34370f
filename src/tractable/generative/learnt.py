"""Models of rows whose network is learnt by a learner: any of them, alone or as an ensemble."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tractable.errors import NotFitted
from tractable.generative.base import Generative
from tractable.learners import Ensemble, Learner
from tractable.learners import serialization as learner_files
from tractable.likelihoods import Likelihood


class Learnt(Generative):
    """A model of rows with one learner inside.

    Args:
        learner: class of learners: ``TAGI``, ``BayesByBackprop``, ``Backprop``, ``Laplace``.
        members: size of an ensemble of it; 1 for a single one.
        options: further arguments of the learner.
        common: arguments of ``Generative``.

    Attributes:
        learner_: the learner, once fitted.
    """

    def __init__(
        self,
        *,
        learner: type[Learner],
        members: int = 1,
        options: dict[str, Any] | None = None,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        if not (isinstance(learner, type) and issubclass(learner, Learner)):
            raise TypeError(f"learner must be a class such as tr.Backprop, got {learner!r}")
        if isinstance(members, bool) or not isinstance(members, int) or members < 1:
            raise ValueError(f"members must be a whole number from 1, got {members!r}")
        self.learner, self.members, self.options = learner, members, dict(options or {})
        self.learner_: Any = None

    def made(self, net: nn.Module, likelihood: Likelihood) -> Learner:
        """A new learner of this network."""
        shared: dict[str, Any] = {"dtype": self.dtype, "seed": self.seed, **self.options}
        if self.members == 1:
            return self.learner(net, likelihood, **shared)
        return Ensemble(net, likelihood, n_estimators=self.members, learner=self.learner, **shared)

    @property
    def history(self) -> list[dict[str, float]]:
        """One record per epoch of the last ``fit``."""
        if self.learner_ is None:
            raise NotFitted(f"this {type(self).__name__} has seen no rows: fit it first")
        return list(self.learner_.history)

    def fit_options(
        self,
        validation: Any,
        pairs: Callable[[Tensor, Tensor | None], tuple[Any, Tensor]],
        options: dict[str, Any],
        *,
        density: bool = True,
    ) -> dict[str, Any]:
        """Return options of ``Learner.fit`` with the validation rows as the learner takes them.

        Args:
            validation: rows in the units of the data: ``X``, ``(X,)`` or ``(context, X)``; None
                for no validation.
            pairs: makes the learner's inputs and targets from rows and contexts in the model's
                units.
            options: further options of ``Learner.fit``.
            density: whether the learner's score is the negative log density of a row. It is then
                recorded in the units of the data, where it equals the negative mean of
                ``predict().log_prob``; any other score has no units and is recorded unchanged.
        """
        if validation is None:
            return options
        x, context = self.validation_rows(validation)
        found = {**options, "validation": pairs(x, context)}
        if density:
            assert self.columns_ is not None
            units = _DataUnits(self.columns_.log_scale)
            found["callbacks"] = [units, *options.get("callbacks", ())]
        return found

    def learnt_config(self) -> dict[str, Any]:
        """The arguments of this class as JSON values, for ``config``."""
        return {
            "learner": learner_files.learner_name(self.learner),
            "members": self.members,
            "options": self.options,
        }

    @classmethod
    def rebuilt(cls, config: dict[str, Any], net: nn.Module | None) -> Any:
        """See ``Generative``; the file's learner is one that is known here."""
        config = {**config, "learner": learner_files.learner_class(config["learner"])}
        return super().rebuilt(config, net)

    def pack(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The learner as a file has it."""
        self.fitted_columns()
        return learner_files.pack(self.learner_)

    def unpack(
        self, path: Path, tensors: dict[str, Tensor], header: dict[str, Any], net: nn.Module | None
    ) -> None:
        """See ``Generative``."""
        self.learner_ = learner_files.unpack(
            path, tensors, header, self.network(net), None, device=None
        )
        if not isinstance(self.learner_, self.learner if self.members == 1 else Ensemble):
            raise ValueError("the file holds another learner than it says")

    def network(self, net: nn.Module | None) -> nn.Module | None:
        """The learner's network, where a file cannot say it; given the one the caller gave."""
        return net


class _DataUnits:
    """Callback that converts the validation score from the model's units to those of the data.

    It is called before all others, so that they and the history see the converted score.
    """

    def __init__(self, log_scale: float) -> None:
        self.log_scale = log_scale

    def __call__(self, learner: Learner, record: dict[str, float]) -> None:
        """Add the log-Jacobian of the standardization."""
        record["validation_nll"] += self.log_scale


def parts(learner: Learner) -> list[tuple[Any, Any]]:
    """Method and state of a learner; of an ensemble, of each of its members."""
    if isinstance(learner, Ensemble):
        return [(learner.method.member, state) for state in learner.state.members]
    return [(learner.method, learner.state)]


def generator_of(seed: int) -> torch.Generator:
    """A new generator with a seed."""
    return torch.Generator().manual_seed(seed)
