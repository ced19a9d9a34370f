"""What the batteries of tests for learners ask for, and the data that they use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

import tractable as tr


def regression(rows: int = 60, seed: int = 0) -> tuple[Tensor, Tensor]:
    """A noisy plane."""
    generator = torch.Generator().manual_seed(seed)
    x = 2 * torch.rand(rows, 2, generator=generator) - 1
    y = x[:, 0] - 0.5 * x[:, 1] + 0.1 * torch.randn(rows, generator=generator)
    return x, y


def classes(rows: int = 60, seed: int = 0) -> tuple[Tensor, Tensor]:
    """The same, cut into three classes."""
    x, y = regression(rows, seed)
    return x, (y > 0).long() + (y > 0.5).long()


class LearnerCase(ABC):
    """How the learner that is tested is made."""

    dropout: ClassVar[float] = 0.0
    class_outputs: ClassVar[int] = 3

    linear: ClassVar[bool] = True
    """Whether a network of one linear layer can be learned.  Its draws show its weights, which are
    compared with the posterior; False leaves that out."""

    output_error: ClassVar[float] = 0.02
    """Allowed error of ``outputs`` of a linear network against many drawn functions, relative to
    their standard deviation.  Larger where ``outputs`` are themselves an average of a few draws."""

    @abstractmethod
    def make(self, net: nn.Module, likelihood: tr.likelihoods.Likelihood, **options: Any) -> Any:
        """A new learner."""

    def classes_likelihood(self) -> tr.likelihoods.Likelihood:
        """Of three classes."""
        return tr.likelihoods.Softmax(3)

    def net(self, outputs: int = 1) -> nn.Sequential:
        """A small network."""
        drop = [nn.Dropout(self.dropout)] if self.dropout else []
        return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), *drop, nn.Linear(8, outputs))

    @pytest.fixture
    def model(self) -> Any:
        """A learner before any data."""
        return self.make(self.net(), tr.likelihoods.Normal(0.1), seed=1)

    @pytest.fixture
    def fitted(self, model: Any) -> Any:
        """A learner after some."""
        return model.fit(*regression(), epochs=3, batch_size=16)

    @staticmethod
    def state(model: Any) -> dict[str, bytes]:
        """Everything that training changes, as bytes."""
        return {n: t.detach().cpu().numpy().tobytes() for n, t in model.state_dict().items()}
