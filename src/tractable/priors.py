"""Prior distributions of the weights, independent for each weight.

A prior has a log density, its derivative (the *score*), and, if there is a closed form, the
Kullback-Leibler divergence of a Gaussian ``N(mu, sigma^2)`` from it.  A ``torch.distributions``
object over single numbers can be used as well.

Source: "Weight uncertainty in neural networks" (a replication of Bayes by Backprop), section 2.4.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class Prior(ABC):
    """The prior distribution of every weight."""

    closed_form: bool = False
    """Whether ``divergence`` and ``divergence_gradient`` are implemented."""

    @abstractmethod
    def log_prob(self, w: Tensor) -> Tensor:
        """Return the log density of each weight, in the shape of ``w``."""

    def score(self, w: Tensor, out: Tensor | None = None) -> Tensor:
        """Return the derivative of ``log_prob`` at each weight, written to ``out`` if given."""
        with torch.enable_grad():
            leaf = w.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(self.log_prob(leaf).sum(), leaf)
        return gradient if out is None else out.copy_(gradient)

    def divergence(self, mu: Tensor, sigma: Tensor) -> Tensor:
        """Return ``KL(N(mu, sigma^2) || prior)`` of each weight, in closed form."""
        raise NotImplementedError(f"{self!r} has no closed-form KL divergence")

    def divergence_gradient(self, mu: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor]:
        """Return the derivatives of ``divergence`` in ``mu`` and in ``sigma``."""
        raise NotImplementedError(f"{self!r} has no closed-form KL divergence")

    def add_divergence_gradient(
        self, mu: Tensor, sigma: Tensor, weight: float, d_mu: Tensor, d_sigma: Tensor
    ) -> None:
        """Add ``weight`` times the gradient to ``d_mu`` and ``d_sigma``, in place."""
        more_mu, more_sigma = self.divergence_gradient(mu, sigma)
        d_mu.add_(more_mu, alpha=weight)
        d_sigma.add_(more_sigma, alpha=weight)

    @property
    @abstractmethod
    def variance(self) -> float:
        """Variance of a weight; may be infinite."""

    @abstractmethod
    def config(self) -> dict[str, Any] | None:
        """Return name and arguments as JSON values; None if a file cannot hold them."""

    def __repr__(self) -> str:
        arguments = dict(self.config() or {})
        name = arguments.pop("name", type(self).__name__)
        return f"{name}({', '.join(f'{k}={v!r}' for k, v in arguments.items())})"


class Normal(Prior):
    """``w ~ N(mean, sigma^2)``; as a penalty, L2.

    Args:
        sigma: standard deviation.
        mean: mean of the weights.
    """

    closed_form = True

    def __init__(self, sigma: float = 1.0, mean: float = 0.0) -> None:
        self.sigma, self.mean = _positive("sigma", sigma), _finite("mean", mean)

    @override
    def log_prob(self, w: Tensor) -> Tensor:
        return -0.5 * ((w - self.mean) / self.sigma) ** 2 - math.log(self.sigma) - _HALF_LOG_2PI

    @override
    def score(self, w: Tensor, out: Tensor | None = None) -> Tensor:
        return torch.sub(w, self.mean, out=out).mul_(-1 / self.sigma**2)

    def divergence(self, mu: Tensor, sigma: Tensor) -> Tensor:
        """Return ``log(s/sigma) + (sigma^2 + (mu - m)^2) / (2 s^2) - 1/2``."""
        ratio = sigma / self.sigma
        return 0.5 * (ratio**2 + ((mu - self.mean) / self.sigma) ** 2 - 1) - ratio.log()

    @override
    def divergence_gradient(self, mu: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor]:
        precision = 1 / self.sigma**2
        return (mu - self.mean) * precision, sigma * precision - 1 / sigma

    def add_divergence_gradient(
        self, mu: Tensor, sigma: Tensor, weight: float, d_mu: Tensor, d_sigma: Tensor
    ) -> None:
        """Add the gradient in place, without temporary vectors: these cost more than the sums."""
        alpha = weight / self.sigma**2
        d_mu.add_(mu, alpha=alpha)
        if self.mean:
            d_mu.sub_(alpha * self.mean)
        d_sigma.add_(sigma, alpha=alpha).addcdiv_(sigma.new_ones(()), sigma, value=-weight)

    @property
    @override
    def variance(self) -> float:
        return self.sigma**2

    @override
    def config(self) -> dict[str, Any]:
        return {"name": "Normal", "sigma": self.sigma, "mean": self.mean}


class NormalEach(Prior):
    """``w_i ~ N(mean_i, sigma_i^2)``: a mean and standard deviation for every weight.

    The posterior of another fit is such a prior (``BayesByBackprop(prior=posterior)``).

    Args:
        mean: mean of each weight, a flat vector.
        sigma: standard deviation of each weight, a flat vector.
    """

    closed_form = True

    def __init__(self, mean: Tensor, sigma: Tensor) -> None:
        if mean.ndim != 1 or mean.shape != sigma.shape:
            raise ValueError(
                f"mean and sigma must be vectors of one length, got {tuple(mean.shape)} and "
                f"{tuple(sigma.shape)}"
            )
        if not bool(torch.isfinite(mean).all()) or not bool(((sigma > 0) & sigma.isfinite()).all()):
            raise ValueError(
                "mean and sigma of a prior must be finite, and sigma positive (no pruned weights)"
            )
        self.mean, self.sigma = mean.detach().clone(), sigma.detach().clone()

    @override
    def log_prob(self, w: Tensor) -> Tensor:
        mean, sigma = self._like(w)
        return -0.5 * ((w - mean) / sigma) ** 2 - sigma.log() - _HALF_LOG_2PI

    @override
    def score(self, w: Tensor, out: Tensor | None = None) -> Tensor:
        mean, sigma = self._like(w)
        return torch.sub(mean, w, out=out).div_(sigma * sigma)

    def divergence(self, mu: Tensor, sigma: Tensor) -> Tensor:
        """Return the divergence of each weight; see ``Normal``."""
        m, s = self._like(mu)
        ratio = sigma / s
        return 0.5 * (ratio**2 + ((mu - m) / s) ** 2 - 1) - ratio.log()

    @override
    def divergence_gradient(self, mu: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor]:
        m, s = self._like(mu)
        precision = 1 / (s * s)
        return (mu - m) * precision, sigma * precision - 1 / sigma

    def _like(self, w: Tensor) -> tuple[Tensor, Tensor]:
        if w.shape != self.mean.shape:
            raise ValueError(f"the prior has {len(self.mean)} weights, the network {w.numel()}")
        if self.mean.dtype != w.dtype or self.mean.device != w.device:
            self.mean, self.sigma = self.mean.to(w), self.sigma.to(w)
        return self.mean, self.sigma

    @property
    def variance(self) -> float:
        """Mean variance over the weights."""
        return float(self.sigma.double().square().mean())

    def config(self) -> None:
        """Return None: a file does not hold it, pass it to ``load``."""
        return


class Laplace(Prior):
    """``p(w) = exp(-|w - mean| / scale) / (2 scale)``, eq. (15); as a penalty, L1.

    Args:
        scale: b in the equation.
        mean: mean of the weights.
    """

    closed_form = True

    def __init__(self, scale: float = 1.0, mean: float = 0.0) -> None:
        self.scale, self.mean = _positive("scale", scale), _finite("mean", mean)

    @override
    def log_prob(self, w: Tensor) -> Tensor:
        return -(w - self.mean).abs() / self.scale - math.log(2 * self.scale)

    def score(self, w: Tensor, out: Tensor | None = None) -> Tensor:
        """Return the derivative, zero at the kink."""
        return torch.sub(w, self.mean, out=out).sign_().mul_(-1 / self.scale)

    def divergence(self, mu: Tensor, sigma: Tensor) -> Tensor:
        """Return ``log 2b + E|w - m| / b - log sigma - log(2 pi e) / 2`` by a folded normal."""
        d = mu - self.mean
        t = d / sigma
        size = sigma * math.sqrt(2 / math.pi) * (-0.5 * t * t).exp() + d * _erf(t)
        return size / self.scale + (math.log(2 * self.scale) - _HALF_LOG_2PI - 0.5) - sigma.log()

    @override
    def divergence_gradient(self, mu: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor]:
        t = (mu - self.mean) / sigma
        d_mu = _erf(t) / self.scale
        d_sigma = (-0.5 * t * t).exp() * (math.sqrt(2 / math.pi) / self.scale)
        return d_mu, d_sigma - 1 / sigma

    @property
    @override
    def variance(self) -> float:
        return 2 * self.scale**2

    @override
    def config(self) -> dict[str, Any]:
        return {"name": "Laplace", "scale": self.scale, "mean": self.mean}


class ScaleMixture(Prior):
    """``pi N(0, sigma1^2) + (1 - pi) N(0, sigma2^2)``: spike and slab, eq. (14).

    The log density is a log-sum-exp, finite wherever ``w^2`` is.

    Args:
        pi: weight of the first part, between 0 and 1.
        sigma1: standard deviation of the first part.
        sigma2: standard deviation of the second part.

    >>> ScaleMixture(0.5, 1.0, 0.002).log_prob(torch.tensor([0.0, 50.0]))
    tensor([    4.6045, -1251.6121])
    """

    def __init__(self, pi: float = 0.5, sigma1: float = 1.0, sigma2: float = math.exp(-6)) -> None:
        if not 0 < pi < 1:
            raise ValueError(f"pi, the weight of the first part, must lie in (0, 1), got {pi}")
        self.pi = float(pi)
        self.sigma1, self.sigma2 = _positive("sigma1", sigma1), _positive("sigma2", sigma2)
        # log of the ratio of the parts: constant + w^2 times a coefficient
        self._offset = math.log(pi / (1 - pi)) + math.log(self.sigma2 / self.sigma1)
        self._curve = 0.5 * (self.sigma2**-2 - self.sigma1**-2)

    @override
    def log_prob(self, w: Tensor) -> Tensor:
        square = -0.5 * w * w
        first = square / self.sigma1**2 + (math.log(self.pi / self.sigma1) - _HALF_LOG_2PI)
        second = square / self.sigma2**2 + (math.log((1 - self.pi) / self.sigma2) - _HALF_LOG_2PI)
        return torch.logaddexp(first, second)

    def score(self, w: Tensor, out: Tensor | None = None) -> Tensor:
        """Return ``-w`` times the mean precision, weighted by responsibilities."""
        square = torch.mul(w, w, out=out)
        responsibility = square.mul_(self._curve).add_(self._offset).sigmoid_()
        slab, spike = self.sigma1**-2, self.sigma2**-2
        return responsibility.mul_(spike - slab).sub_(spike).mul_(w)

    @property
    @override
    def variance(self) -> float:
        return self.pi * self.sigma1**2 + (1 - self.pi) * self.sigma2**2

    @override
    def config(self) -> dict[str, Any]:
        return {
            "name": "ScaleMixture",
            "pi": self.pi,
            "sigma1": self.sigma1,
            "sigma2": self.sigma2,
        }


class DistributionPrior(Prior):
    """A prior from ``torch.distributions``, over single real numbers with one set of parameters."""

    def __init__(self, distribution: torch.distributions.Distribution) -> None:
        if distribution.batch_shape or distribution.event_shape:
            raise ValueError(
                "a prior is over one weight at a time: give a distribution without batch or event "
                f"shape, not {distribution}"
            )
        self.distribution = distribution

    @override
    def log_prob(self, w: Tensor) -> Tensor:
        return self.distribution.log_prob(w)

    @property
    @override
    def variance(self) -> float:
        try:
            value = float(self.distribution.variance)
        except NotImplementedError:
            return math.inf
        return math.inf if math.isnan(value) else value

    def config(self) -> dict[str, Any] | None:
        """Return name and parameters if the class is torch's own and its parameters are numbers."""
        kind = type(self.distribution)
        if getattr(torch.distributions, kind.__name__, None) is not kind:
            return None
        names = list(kind.arg_constraints)
        values = {name: getattr(self.distribution, name, None) for name in names}
        numbers = {k: float(v) for k, v in values.items() if isinstance(v, Tensor | float | int)}
        if len(numbers) != len(names):
            return None
        return {"name": f"torch.distributions.{kind.__name__}", **numbers}


_KINDS: dict[str, type[Prior]] = {kind.__name__: kind for kind in (Normal, Laplace, ScaleMixture)}


def as_prior(given: Any) -> Prior:
    """Return a prior from one of several specifications.

    Args:
        given: a ``Prior``, a ``torch.distributions`` object, or the result of ``Prior.config``.
    """
    if isinstance(given, Prior):
        return given
    if isinstance(given, torch.distributions.Distribution):
        return DistributionPrior(given)
    if isinstance(given, dict):
        arguments = dict(given)
        name = str(arguments.pop("name", ""))
        if name in _KINDS:
            return _KINDS[name](**arguments)
        kind = getattr(torch.distributions, name.removeprefix("torch.distributions."), None)
        base = torch.distributions.Distribution
        if isinstance(kind, type) and issubclass(kind, base) and kind.log_prob is not base.log_prob:
            # Other libraries (zuko) disable the check of arguments for all distributions.
            return DistributionPrior(kind(**arguments, validate_args=True))
        raise ValueError(f"unknown prior {name!r}")
    raise TypeError(
        "prior must be one of tractable.priors or a torch.distributions object, got "
        f"{type(given).__name__}"
    )


def _erf(t: Tensor) -> Tensor:
    return torch.erf(t * math.sqrt(0.5))


def _positive(name: str, value: float) -> float:
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a positive number, got {value}")
    if not 1e-100 < value < 1e100:
        raise ValueError(f"{name} must have a square that is a number, got {value}")
    return float(value)


def _finite(name: str, value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {value}")
    return float(value)
