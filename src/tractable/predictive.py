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

    def pooled(self, draws: int) -> Predictive:
        """The even mixture of ``draws`` predictions, whose rows stand here one after the other."""
        raise TypeError(f"{type(self).__name__} does not say how its draws are mixed")


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

    def pooled(self, draws: int) -> NormalMixturePredictive:
        """See ``Predictive``."""
        parts = (self.location, self.epistemic, self.aleatoric)
        return NormalMixturePredictive(*(part.unflatten(0, (draws, -1)) for part in parts))


@dataclass(frozen=True)
class NormalMixturePredictive(Predictive):
    """An even mixture of normals, one per draw of the weights (or per member of an ensemble).

    Args:
        draws: the mean that each draw predicts, draws stacked in front of the rows.
        within: variance that a draw itself is unsure of; zero when a draw is one set of weights.
        noise: variance of the observation noise in each draw.
    """

    draws: Tensor
    within: Tensor
    noise: Tensor

    @property
    def mean(self) -> Tensor:
        """Mean over the draws."""
        return self.draws.mean(0)

    @property
    def epistemic(self) -> Tensor:
        """Variance between the draws, plus what they are unsure of themselves."""
        return self.draws.var(0, correction=0) + self.within.mean(0)

    @property
    def aleatoric(self) -> Tensor:
        """Mean variance of the noise."""
        return self.noise.mean(0)

    @property
    def variance(self) -> Tensor:
        """Epistemic plus aleatoric: the law of total variance."""
        return self.epistemic + self.aleatoric

    def log_prob(self, y: Tensor) -> Tensor:
        """Log of the mean over draws of the density of each row, eq. (20)."""
        y = _like(y, self.draws[0])
        total = self.within + self.noise
        density = -0.5 * ((y - self.draws) ** 2 / total + total.log() + math.log(2 * math.pi))
        if density.ndim > 2:
            density = density.flatten(2).sum(2)
        return density.logsumexp(0) - math.log(len(density))

    def quantile(self, q: float) -> Tensor:
        """The root of the mixture's distribution function, by Newton steps inside a bracket."""
        if not 0 < q < 1:
            raise ValueError(f"q must lie between 0 and 1, got {q}")
        std = (self.within + self.noise).sqrt().clamp_min(torch.finfo(self.draws.dtype).tiny)
        score = torch.special.ndtri(torch.tensor(q, dtype=torch.float64)).item()
        parts = self.draws + score * std
        low, high = parts.amin(0), parts.amax(0)  # the mixture's quantile lies among its parts'
        at = parts.mean(0)
        tolerance = 4 * torch.finfo(at.dtype).eps
        for _ in range(100):
            t = (at - self.draws) / std
            miss = torch.special.ndtr(t).mean(0) - q
            density = ((-0.5 * t * t).exp() / std).mean(0) / math.sqrt(2 * math.pi)
            low, high = torch.where(miss < 0, at, low), torch.where(miss < 0, high, at)
            newton = at - miss / density
            inside = (newton >= low) & (newton <= high)
            step = torch.where(inside, newton, (low + high) / 2)
            done = ((step - at).abs() <= tolerance * (at.abs() + high - low)) | (miss == 0)
            at = step
            if bool(done.all()):
                break
        return at

    def sample(self, n: int = 1, generator: torch.Generator | None = None) -> Tensor:
        """Draws of noisy targets: first a set of weights (the same for all rows), then noise."""
        device = self.draws.device
        which = torch.randint(len(self.draws), (n,), generator=generator, device=device)
        std = (self.within + self.noise).sqrt()[which]
        noise = torch.randn(std.shape, generator=generator, dtype=std.dtype, device=device)
        return self.draws[which] + std * noise

    def flat(self) -> NormalMixturePredictive:
        """One number per row instead of a column."""
        if self.draws.ndim != 3 or self.draws.shape[2] != 1:
            return self
        parts = (self.draws, self.within, self.noise)
        return NormalMixturePredictive(*(part.squeeze(2) for part in parts))

    def rescaled(self, mean: Tensor | float, scale: Tensor | float) -> NormalMixturePredictive:
        """The predictive of ``mean + scale * target``: back to the units of the data."""
        square = scale * scale
        return NormalMixturePredictive(
            mean + scale * self.draws, self.within * square, self.noise * square
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

    def pooled(self, draws: int) -> CategoricalPredictive:
        """Mean probabilities: for classes, the mixture is of the same kind."""
        return CategoricalPredictive(
            self.probabilities.unflatten(0, (draws, -1)).mean(0), self.binary
        )


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


def mixture(parts: list[Predictive]) -> Predictive:
    """The even mixture of several predictives of the same rows, for example of an ensemble.

    A part that is a mixture itself counts with as many draws as it has.
    """
    if not parts:
        raise ValueError("a mixture needs at least one predictive")
    first = parts[0]
    if all(isinstance(part, CategoricalPredictive) for part in parts):
        assert isinstance(first, CategoricalPredictive)
        return CategoricalPredictive(torch.stack([p.probs for p in parts]).mean(0), first.binary)
    draws = [part.pooled(1) if isinstance(part, NormalPredictive) else part for part in parts]
    if all(isinstance(part, NormalMixturePredictive) for part in draws):
        fields = ("draws", "within", "noise")
        return NormalMixturePredictive(
            *(torch.cat([getattr(part, field) for part in draws]) for field in fields)
        )
    kinds = ", ".join(sorted({type(part).__name__ for part in parts}))
    raise TypeError(f"cannot mix predictives of these kinds: {kinds}")
