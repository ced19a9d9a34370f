"""A noise that depends on the inputs: how far held-out rows miss, as a function of where they are.

The networks infer one noise for all rows.  Where prices are high they scatter more; so the noise
variance of a row is multiplied by

    exp(b0 + b . u(x)),    u = the predicted mean and every column, in standard deviations,

a log-linear model (Harvey, "Estimating regression models with multiplicative heteroscedasticity",
1976) fitted to the errors of rows that are held out.  The coefficients have a normal prior of
variance 1 / (number of columns), and ``u`` is cut at three deviations, so that the noise stays
bounded beyond the data.  The model is taken if one half of the held-out rows is better predicted
by that of the other half than by a constant, by two standard errors.  Wild errors hardly
move the coefficients, but they count in full when the two are compared: where large errors are
rare but real, a noise that is small elsewhere must not win.

Approximate: coefficients of greatest posterior density, not a posterior.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tractable.likelihoods import Likelihood
from tractable.likelihoods.gate import WIDTH, gated
from tractable.sklearn.seen import Seen

FEWEST_ROWS = 60
"""Held out, below which the noise is taken as one."""
STANDARD_ERRORS = 2.0
"""By which a noise that depends on the inputs must be better."""
_CUT = 3.0
_STEPS = 50  # of Newton's method, at most
_STEEPEST = 1.0  # step of a coefficient, at most


@dataclass(frozen=True)
class NoiseModel:
    """Factors on the noise variance of every target.

    Attributes:
        coefficients: those of a constant, the predicted mean and every column, one line a target.
    """

    coefficients: Tensor

    def factors(self, mean: Tensor, x: Tensor) -> Tensor:
        """The factor of each row and target.

        Args:
            mean: predicted means, standardised, ``[rows, targets]``.
            x: standardised inputs, ``[rows, columns]``.
        """
        pairs = zip(mean.unbind(1), self.coefficients, strict=True)
        return torch.stack([(_features(m, x) @ b).exp() for m, b in pairs], dim=1)


@dataclass(frozen=True)
class Missed:
    """How far a target was missed at rows that a fit had not seen.

    Attributes:
        square: squared errors.
        variance: what was predicted of it without the noise.
        noise: and the noise.
        mean: predicted means.
        x: standardised inputs.
    """

    square: Tensor
    variance: Tensor
    noise: Tensor
    mean: Tensor
    x: Tensor

    @classmethod
    def joined(cls, parts: Sequence[Missed]) -> Missed:
        """Those of several fits."""
        names = ("square", "variance", "noise", "mean", "x")
        return cls(*(torch.cat([getattr(part, n) for part in parts]).double() for n in names))

    def at(self, rows: Tensor) -> Missed:
        """Some of the rows."""
        return Missed(
            self.square[rows], self.variance[rows], self.noise[rows], self.mean[rows], self.x[rows]
        )

    def log_probs(self, coefficients: Tensor, *, gate: bool = True) -> Tensor:
        """Of each row, up to a constant; as a gate believes it, or as it is."""
        factors = (_features(self.mean, self.x) @ coefficients).exp()
        spread = self.variance + self.noise * factors
        chi2 = self.square / spread
        return -0.5 * ((gated(chi2) if gate else chi2) + spread.log())

    def log_probs_of(self, tails: Tensor) -> Tensor:
        """Of each row, up to a constant, with a noise times equally likely factors."""
        spread = self.variance + self.noise * tails[:, None]
        parts = -0.5 * (self.square / spread + spread.log())
        return parts.logsumexp(0) - math.log(len(tails))


def missed_by(
    seen: Sequence[Seen], likelihood: Likelihood, *, doubt: float = 1.0, growth: float = 1.0
) -> list[Missed]:
    """How far each target was missed.

    Args:
        seen: held-out rows.
        likelihood: with the noise that suits them.
        doubt: factor on the variance within the networks.
        growth: factor on its growth off the data.
    """
    found: list[list[Missed]] = []
    for part in seen:
        _, y, mean, variance = part.heldout(doubt, growth)
        noise = likelihood.predictive(mean, variance).aleatoric
        columns = zip((y - mean).square().T, variance.T, noise.T, mean.T, strict=True)
        found.append([Missed(*column, part.x) for column in columns])
    return [Missed.joined(parts) for parts in zip(*found, strict=True)]


def choose(missed: Sequence[Missed], seed: int) -> NoiseModel | None:
    """The noise model that suits held-out rows; None if they are too few, or one noise serves.

    Args:
        missed: held-out rows, of every target.
        seed: seed of the halves.
    """
    if len(missed[0].square) < FEWEST_ROWS:
        return None
    found = [_chosen(target, seed) for target in missed]
    if all(bool((b[1:] == 0).all()) for b in found):
        return None
    return NoiseModel(torch.stack(found))


def _chosen(missed: Missed, seed: int) -> Tensor:
    """Coefficients; only the first is not zero where one noise serves."""
    rows = len(missed.square)
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))
    halves = order.chunk(2)
    gained = []
    for mine, other in (halves, halves[::-1]):
        seen, new = missed.at(mine), missed.at(other)
        varying, one = fitted(seen), fitted(seen, constant=True)
        gained.append(new.log_probs(varying, gate=False) - new.log_probs(one, gate=False))
    gain = torch.cat(gained)
    clearly = bool(gain.mean() > STANDARD_ERRORS * gain.std() / len(gain) ** 0.5)
    return fitted(missed, constant=not clearly)


def fitted(missed: Missed, *, constant: bool = False) -> Tensor:
    """Coefficients of greatest posterior density, by Newton's method with expected curvature.

    Args:
        missed: held-out rows.
        constant: one factor for all rows.
    """
    u = _features(missed.mean, missed.x)
    if constant:
        u = u * torch.eye(1, u.shape[1], dtype=u.dtype, device=u.device)
    prior = torch.full((u.shape[1],), float(missed.x.shape[1]), dtype=u.dtype, device=u.device)
    prior[0] = 1e-6
    b = torch.zeros_like(prior)

    def lost(b: Tensor) -> Tensor:
        return -missed.log_probs(b).sum() + 0.5 * (prior * b * b).sum()

    for _ in range(_STEPS):
        noise = missed.noise * (u @ b).exp()
        spread = missed.variance + noise
        chi2 = missed.square / spread
        share = noise / spread
        # Beyond the edge of the gate -2 log p grows by edge / chi2 for each unit of chi2.
        believed = (WIDTH**2 / chi2).clamp(max=1)
        gradient = u.T @ (0.5 * share * (1 - believed * chi2)) + prior * b
        curvature = (u * (0.5 * share * share)[:, None]).T @ u + torch.diag(prior)
        step = -torch.linalg.solve(curvature, gradient)
        step = step * (_STEEPEST / step.abs().amax().clamp_min(_STEEPEST))
        here = lost(b)
        while float(lost(b + step)) > float(here) and float(step.abs().amax()) > 1e-9:
            step = step / 2
        b = b + step
        if float(step.abs().amax()) < 1e-6:
            break
    return b


def _features(mean: Tensor, x: Tensor) -> Tensor:
    """A one, the mean and the columns, cut at three deviations."""
    rest = torch.cat([mean.double()[:, None], x.double()], dim=1).clamp(-_CUT, _CUT)
    return torch.cat([torch.ones_like(rest[:, :1]), rest], dim=1)
