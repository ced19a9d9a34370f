"""What a subclass of the learner tests implements, and the data that the tests use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

import tractable as tr


def regression(rows: int = 60, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return inputs ``[rows, 2]`` and targets of a noisy plane."""
    generator = torch.Generator().manual_seed(seed)
    x = 2 * torch.rand(rows, 2, generator=generator) - 1
    y = x[:, 0] - 0.5 * x[:, 1] + 0.1 * torch.randn(rows, generator=generator)
    return x, y


def classes(rows: int = 60, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return the inputs of ``regression`` with three classes."""
    x, y = regression(rows, seed)
    return x, (y > 0).long() + (y > 0.5).long()


class LearnerCase(ABC):
    """The learner under test; a subclass implements ``make``."""

    dropout: ClassVar[float] = 0.0
    """Dropout probability of the networks; 0 for none."""

    class_outputs: ClassVar[int] = 3
    """Number of network outputs for three classes."""

    linear: ClassVar[bool] = True
    """Whether a network of one linear layer can be learned: its samples show the weights and are
    then compared with the posterior."""

    output_error: ClassVar[float] = 0.02
    """Allowed error of ``outputs`` of a linear network against many drawn functions, relative to
    their standard deviation.  Larger where ``outputs`` are themselves an average of a few draws."""

    @abstractmethod
    def make(self, net: nn.Module, likelihood: tr.likelihoods.Likelihood, **options: Any) -> Any:
        """Return a new learner."""

    def classes_likelihood(self) -> tr.likelihoods.Likelihood:
        """Return a likelihood of three classes."""
        return tr.likelihoods.Softmax(3)

    def net(self, outputs: int = 1) -> nn.Sequential:
        """Return a small network."""
        drop = [nn.Dropout(self.dropout)] if self.dropout else []
        return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), *drop, nn.Linear(8, outputs))

    @pytest.fixture
    def model(self) -> Any:
        """Return an untrained learner."""
        return self.make(self.net(), tr.likelihoods.Normal(0.1), seed=1)

    @pytest.fixture
    def fitted(self, model: Any) -> Any:
        """Return a learner after three epochs."""
        return model.fit(*regression(), epochs=3, batch_size=16)

    @staticmethod
    def state(model: Any) -> dict[str, bytes]:
        """Return everything that training changes, as bytes."""
        return {n: t.detach().cpu().numpy().tobytes() for n, t in model.state_dict().items()}
