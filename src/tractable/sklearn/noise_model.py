"""Models of the noise: noise that depends on the inputs, and noise with heavy tails.

Both are fitted to the errors at held-out rows, after the variances are calibrated
(``tractable.sklearn.calibration``), and change predictions only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from scipy import special
from torch import Tensor

from tractable.likelihoods import Likelihood
from tractable.likelihoods.base import HeldOut
from tractable.likelihoods.outliers import OUTLIER_THRESHOLD, robust_chi2

MIN_HELD_OUT_ROWS = 60
"""With fewer held-out rows, the noise is normal and the same everywhere."""
STANDARD_ERRORS = 2.0
"""Standard errors by which a noise that depends on the inputs must be better."""
N_SCALES = 8
"""Number of equally probable factors that represent heavy tails."""
DEGREES_OF_FREEDOM = (20, 10, 6, 4, 3)
"""Degrees of freedom of Student's t that are tried."""

_MAX_FEATURE = 3.0  # standard deviations at which features are clipped, to bound the extrapolation
_MAX_NEWTON_STEPS = 50
_MAX_STEP = 1.0  # largest change of a coefficient in a Newton step
_AIC_PENALTY = 2  # nats for two selected numbers
_LOG_SCALES = torch.linspace(-2.0, 0.5, 26, dtype=torch.float64)


@dataclass(frozen=True)
class NoiseModel:
    """Factors on the noise variance of every row and target: a log-linear model.

    The noise variance is multiplied by

        exp(b0 + b . u(x)),    u = the predicted mean and every column, standardized

    (Harvey, "Estimating regression models with multiplicative heteroscedasticity", 1976). The
    coefficients have a normal prior of variance 1 / (number of columns), and u is clipped at three
    standard deviations, so that the noise is bounded away from the data.

    Approximate: the maximum of the posterior density of the coefficients.

    Attributes:
        coefficients: one for a constant, the predicted mean and every column,
            ``[targets, 2 + columns]``.
    """

    coefficients: Tensor

    def factors(self, mean: Tensor, x: Tensor) -> Tensor:
        """Return the factor for each row and target, ``[rows, targets]``.

        Args:
            mean: predicted means, standardized, ``[rows, targets]``.
            x: standardized inputs, ``[rows, columns]``.
        """
        pairs = zip(mean.unbind(1), self.coefficients, strict=True)
        return torch.stack([(_features(m, x) @ b).exp() for m, b in pairs], dim=1)


@dataclass(frozen=True)
class Residuals:
    """Errors of one target at held-out rows.

    Attributes:
        square: squared errors, ``[rows]``.
        variance: predicted variances without the noise, ``[rows]``.
        noise: noise variances, ``[rows]``.
        mean: predicted means, ``[rows]``.
        x: standardized inputs, ``[rows, columns]``.
    """

    square: Tensor
    variance: Tensor
    noise: Tensor
    mean: Tensor
    x: Tensor

    @classmethod
    def joined(cls, parts: Sequence[Residuals]) -> Residuals:
        """Return the residuals of several fits together."""
        names = ("square", "variance", "noise", "mean", "x")
        return cls(*(torch.cat([getattr(part, n) for part in parts]).double() for n in names))

    def at(self, rows: Tensor) -> Residuals:
        """Return those of some of the rows."""
        return Residuals(
            self.square[rows], self.variance[rows], self.noise[rows], self.mean[rows], self.x[rows]
        )

    def log_probs(self, coefficients: Tensor, *, gate: bool = True) -> Tensor:
        """Return the log density of each row under a noise model, up to a constant, ``[rows]``.

        Args:
            coefficients: those of the noise model, ``[2 + columns]``.
            gate: whether outliers are down-weighted.
        """
        factors = (_features(self.mean, self.x) @ coefficients).exp()
        total = self.variance + self.noise * factors
        chi2 = self.square / total
        return -0.5 * ((robust_chi2(chi2) if gate else chi2) + total.log())

    def log_probs_of_mixture(self, scales: Tensor) -> Tensor:
        """Return the log density of each row with equally probable factors on the noise."""
        total = self.variance + self.noise * scales[:, None]
        parts = -0.5 * (self.square / total + total.log())
        return parts.logsumexp(0) - math.log(len(scales))


def residuals_of(
    held_out: Sequence[HeldOut], x: Sequence[Tensor], likelihood: Likelihood
) -> list[Residuals]:
    """Return the residuals of every target.

    Args:
        held_out: targets, and means and variances of the outputs, for each fold.
        x: standardized inputs of each fold.
        likelihood: with the calibrated noise.
    """
    found: list[list[Residuals]] = []
    for (_, y, mean, variance), inputs in zip(held_out, x, strict=True):
        noise = likelihood.predictive(mean, variance).aleatoric
        columns = zip((y - mean).square().T, variance.T, noise.T, mean.T, strict=True)
        found.append([Residuals(*column, inputs) for column in columns])
    return [Residuals.joined(parts) for parts in zip(*found, strict=True)]


# --- noise that depends on the inputs ----------------------------------------------------------


def select_noise_model(residuals: Sequence[Residuals], seed: int) -> NoiseModel | None:
    """Return the noise model for held-out rows; None if the noise is the same everywhere.

    The model is accepted if one half of the rows is predicted better by the model of the other half
    than by a constant, by two standard errors. Outliers hardly change the coefficients, but count
    in full in this comparison: where large errors are rare but real, a model that makes the noise
    small elsewhere must not be accepted.

    Args:
        residuals: residuals of every target.
        seed: seed of the split into halves.
    """
    if len(residuals[0].square) < MIN_HELD_OUT_ROWS:
        return None
    found = [_select_coefficients(target, seed) for target in residuals]
    if all(bool((b[1:] == 0).all()) for b in found):
        return None
    return NoiseModel(torch.stack(found))


def _select_coefficients(residuals: Residuals, seed: int) -> Tensor:
    """Return coefficients; only the constant differs from zero if the noise is constant."""
    order = torch.randperm(len(residuals.square), generator=torch.Generator().manual_seed(seed))
    halves = order.chunk(2)
    gains = []
    for train, test in (halves, halves[::-1]):
        fitted, new = residuals.at(train), residuals.at(test)
        varying, constant = fit_coefficients(fitted), fit_coefficients(fitted, constant=True)
        gains.append(new.log_probs(varying, gate=False) - new.log_probs(constant, gate=False))
    gain = torch.cat(gains)
    is_better = bool(gain.mean() > STANDARD_ERRORS * gain.std() / len(gain) ** 0.5)
    return fit_coefficients(residuals, constant=not is_better)


def fit_coefficients(residuals: Residuals, *, constant: bool = False) -> Tensor:
    """Return the coefficients of maximum posterior density, ``[2 + columns]``.

    Newton's method with the expected curvature, and a line search.

    Args:
        residuals: held-out rows.
        constant: whether one factor serves all rows; the other coefficients are then zero.
    """
    u = _features(residuals.mean, residuals.x)
    if constant:
        u = u * torch.eye(1, u.shape[1], dtype=u.dtype, device=u.device)
    prior = torch.full((u.shape[1],), float(residuals.x.shape[1]), dtype=u.dtype, device=u.device)
    prior[0] = 1e-6  # the constant is free
    b = torch.zeros_like(prior)

    def loss(b: Tensor) -> Tensor:
        return -residuals.log_probs(b).sum() + 0.5 * (prior * b * b).sum()

    for _ in range(_MAX_NEWTON_STEPS):
        noise = residuals.noise * (u @ b).exp()
        total = residuals.variance + noise
        chi2 = residuals.square / total
        share = noise / total
        # Beyond the edge of the gate, -2 log p increases by edge / chi2 per unit of chi2.
        weight = (OUTLIER_THRESHOLD**2 / chi2).clamp(max=1)
        gradient = u.T @ (0.5 * share * (1 - weight * chi2)) + prior * b
        curvature = (u * (0.5 * share * share)[:, None]).T @ u + torch.diag(prior)
        step = -torch.linalg.solve(curvature, gradient)
        step = step * (_MAX_STEP / step.abs().amax().clamp_min(_MAX_STEP))
        current = loss(b)
        while float(loss(b + step)) > float(current) and float(step.abs().amax()) > 1e-9:
            step = step / 2
        b = b + step
        if float(step.abs().amax()) < 1e-6:
            break
    return b


def _features(mean: Tensor, x: Tensor) -> Tensor:
    """Return a constant, the mean and the columns, clipped, ``[rows, 2 + columns]``."""
    rest = torch.cat([mean.double()[:, None], x.double()], dim=1)
    rest = rest.clamp(-_MAX_FEATURE, _MAX_FEATURE)
    return torch.cat([torch.ones_like(rest[:, :1]), rest], dim=1)


# --- noise with heavy tails --------------------------------------------------------------------


def student_t_scales(degrees: float) -> Tensor:
    """Return factors on the variance whose normal mixture approximates Student's t.

    Student's t with k degrees of freedom is a normal distribution whose variance is multiplied by
    k / u, with u ~ chi-squared of k (Andrews & Mallows, "Scale mixtures of normal distributions",
    1974). Here u takes the middle values of ``N_SCALES`` equally probable intervals.

    Approximate: the interval of the largest factors has one value, so that the tails end like those
    of a normal distribution.

    Args:
        degrees: degrees of freedom k.

    Returns:
        Factors in descending order, ``[N_SCALES]``.
    """
    levels = (torch.arange(N_SCALES, dtype=torch.float64) + 0.5) / N_SCALES
    return degrees / (2 * torch.from_numpy(special.gammaincinv(degrees / 2, levels.numpy())))


def select_noise_scales(residuals: Sequence[Residuals], model: NoiseModel | None) -> Tensor | None:
    """Return factors on the noise for heavy tails; None if a normal distribution suffices.

    Errors in real tables are mostly small and sometimes large. A normal noise is then too wide for
    most rows and too narrow for the others. The density becomes a mixture,

        p(y | x) = 1 / N_SCALES  sum_j  N(y; m(x), v(x) + s (k / u_j) noise(x)),

    whose degrees of freedom k and scale s maximize the log-likelihood of the held-out rows. The
    noise stays normal unless the log-likelihood gains more than two nats, the penalty of Akaike's
    criterion for two parameters.

    Approximate: the networks of an ensemble count as one normal distribution.

    Args:
        residuals: residuals of every target.
        model: the noise model; None if the noise is the same everywhere.

    Returns:
        ``[N_SCALES]``, or None.
    """
    if len(residuals[0].square) < MIN_HELD_OUT_ROWS:
        return None
    if model is not None:
        residuals = [_with_noise_of(target, model, k) for k, target in enumerate(residuals)]
    candidates = [
        student_t_scales(k) * scale for k in DEGREES_OF_FREEDOM for scale in _LOG_SCALES.exp()
    ]
    normal = _log_lik(residuals, torch.ones(1, dtype=torch.float64))
    gains = torch.stack([_log_lik(residuals, scales) for scales in candidates]) - normal
    return candidates[int(gains.argmax())] if float(gains.max()) > _AIC_PENALTY else None


def _log_lik(residuals: Sequence[Residuals], scales: Tensor) -> Tensor:
    """Return the log-likelihood of all rows and targets, up to a constant."""
    parts = torch.stack([target.log_probs_of_mixture(scales) for target in residuals])
    return parts.sum(0).sum()


def _with_noise_of(residuals: Residuals, model: NoiseModel, target: int) -> Residuals:
    """Return residuals with the noise that a model predicts for one target."""
    own = NoiseModel(model.coefficients[target : target + 1])
    factors = own.factors(residuals.mean[:, None], residuals.x)[:, 0]
    return replace(residuals, noise=residuals.noise * factors)
