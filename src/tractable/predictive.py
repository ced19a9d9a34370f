"""What ``predict`` returns: the same members whatever the learner and the likelihood."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor


class Predictive(ABC):
    """The distribution of the target at each row of the inputs."""

    @property
    @abstractmethod
    def mean(self) -> Tensor:
        """Expected value of the target (of its one-hot code, for classes)."""

    @property
    @abstractmethod
    def variance(self) -> Tensor:
        """Variance of the target (of its one-hot code, for classes)."""

    @property
    def std(self) -> Tensor:
        """Standard deviation of the target."""
        return self.variance.sqrt()

    @abstractmethod
    def log_prob(self, y: Tensor) -> Tensor:
        """Log density (or log probability) of each observed row of ``y``."""

    @abstractmethod
    def sample(self, n: int = 1, generator: torch.Generator | None = None) -> Tensor:
        """``n`` draws of the targets, stacked in front."""

    def quantile(self, q: float) -> Tensor:
        """The value below which a share ``q`` of the probability lies."""
        raise TypeError(f"{type(self).__name__} has no quantiles: classes have no order")

    def interval(self, level: float = 0.9) -> tuple[Tensor, Tensor]:
        """The central interval that holds a share ``level`` of the probability."""
        if not 0 < level < 1:
            raise ValueError(f"level must lie between 0 and 1, got {level}")
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)

    @property
    def probs(self) -> Tensor:
        """Probability of each class."""
        raise TypeError(f"{type(self).__name__} has no classes: use mean, std or interval")

    @property
    def labels(self) -> Tensor:
        """The most probable class."""
        return self.probs.argmax(-1)

    def flat(self) -> Predictive:
        """The same, with a single output per row given flat, as the targets were."""
        return self


@dataclass(frozen=True)
class NormalPredictive(Predictive):
    """A normal target: what the network is unsure of plus what the data hide.

    Args:
        location: predicted means, one row per input.
        epistemic: variance that more data would remove (from the weights and the inputs).
        aleatoric: variance of the observation noise.
    """

    location: Tensor
    epistemic: Tensor
    aleatoric: Tensor

    @property
    def mean(self) -> Tensor:
        """Expected value of the target."""
        return self.location

    @property
    def variance(self) -> Tensor:
        """Epistemic plus aleatoric variance."""
        return self.epistemic + self.aleatoric

    def log_prob(self, y: Tensor) -> Tensor:
        """Log density of each row, summed over the outputs of the row."""
        y = _like(y, self.location)
        variance = self.variance
        density = -0.5 * (
            (y - self.location) ** 2 / variance + variance.log() + math.log(2 * math.pi)
        )
        return density if density.ndim < 2 else density.flatten(1).sum(1)

    def quantile(self, q: float) -> Tensor:
        """Normal quantile."""
        if not 0 < q < 1:
            raise ValueError(f"q must lie between 0 and 1, got {q}")
        score = torch.special.ndtri(torch.tensor(q, dtype=torch.float64)).item()
        return self.location + score * self.std

    def sample(self, n: int = 1, generator: torch.Generator | None = None) -> Tensor:
        """Draws of noisy targets."""
        shape = (n, *self.location.shape)
        noise = torch.randn(
            shape, generator=generator, dtype=self.location.dtype, device=self.location.device
        )
        return self.location + self.std * noise

    def flat(self) -> NormalPredictive:
        """One number per row instead of a column."""
        if self.location.ndim != 2 or self.location.shape[1] != 1:
            return self
        return NormalPredictive(
            self.location.squeeze(1), self.epistemic.squeeze(1), self.aleatoric.squeeze(1)
        )

    def rescaled(self, mean: Tensor | float, scale: Tensor | float) -> NormalPredictive:
        """The predictive of ``mean + scale * target``: back to the units of the data."""
        square = scale * scale
        return NormalPredictive(
            mean + scale * self.location, self.epistemic * square, self.aleatoric * square
        )


@dataclass(frozen=True)
class CategoricalPredictive(Predictive):
    """A class label.

    Args:
        probabilities: one row per input, one column per class; rows sum to one.
        binary: the target is 0 or 1 and ``mean`` is the probability of 1.
    """

    probabilities: Tensor
    binary: bool = False

    @property
    def probs(self) -> Tensor:
        """Probability of each class; of class 1 in the last column when binary."""
        return self.probabilities

    @property
    def mean(self) -> Tensor:
        """Class probabilities; when binary, the probability of class 1."""
        return self.probabilities[..., 1] if self.binary else self.probabilities

    @property
    def variance(self) -> Tensor:
        """``p (1 - p)``."""
        return self.mean * (1 - self.mean)

    def log_prob(self, y: Tensor) -> Tensor:
        """Log probability of each observed label."""
        y = torch.as_tensor(y, device=self.probabilities.device).long()
        y = y.reshape(self.probabilities.shape[:-1])
        chosen = self.probabilities.gather(-1, y.unsqueeze(-1)).squeeze(-1)
        return chosen.clamp_min(torch.finfo(chosen.dtype).tiny).log()

    def sample(self, n: int = 1, generator: torch.Generator | None = None) -> Tensor:
        """Draws of labels."""
        rows = self.probabilities.reshape(-1, self.probabilities.shape[-1])
        draws = torch.multinomial(rows, n, replacement=True, generator=generator)
        return draws.T.reshape(n, *self.probabilities.shape[:-1])


def _like(y: Tensor, reference: Tensor) -> Tensor:
    """``y`` in the shape of ``reference``: a column of one output may be given flat."""
    y = torch.as_tensor(y, dtype=reference.dtype, device=reference.device)
    if y.shape == reference.shape:
        return y
    if y.numel() == reference.numel() and y.shape[:1] == reference.shape[:1]:
        return y.reshape(reference.shape)
    raise ValueError(
        f"targets of shape {tuple(y.shape)} do not fit predictions of shape "
        f"{tuple(reference.shape)}"
    )
