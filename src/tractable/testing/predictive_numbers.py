"""Checks of predictions of numbers: integrals of the density, quantiles and samples."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tractable.predictive import Predictive
from tractable.testing.predictive_case import (
    SHARES,
    STANDARD_ERRORS,
    Density,
    PredictiveCase,
    compare,
    is_angle,
    is_supported,
    result_or_none,
)

_EDGES = (1e-6, 1e-4, 1e-3, *SHARES[::2], 0.999, 1 - 1e-4, 1 - 1e-6)
"""Quantiles between which the density is integrated."""
_GROWTH, _STEPS_OUT = 4.0, 13
"""Intervals beyond the outermost quantiles grow by this factor, that many of them."""
_MAX_SPLITS = 8
"""How often an interval is halved where the quadrature has not converged."""
_MAX_COUNTS = 3000
"""Counts are summed one by one if there are at most so many between the outermost quantiles."""
_KRONROD = (
    (0.0, 0.209482141084728, 0.417959183673469),
    (0.207784955007898, 0.204432940075298, 0.0),
    (0.405845151377397, 0.190350578064785, 0.381830050505119),
    (0.586087235467691, 0.169004726639267, 0.0),
    (0.741531185599394, 0.140653259715525, 0.279705391489277),
    (0.864864423359769, 0.104790010322250, 0.0),
    (0.949107912342759, 0.063092092629979, 0.129484966168870),
    (0.991455371120813, 0.022935322010529, 0.0),
)
"""Nodes of the 15-point Gauss-Kronrod rule on [-1, 1] that are not negative, their weights, and
the weights of the 7-point Gauss rule that shares some of them."""


# --- numbers ---------------------------------------------------------------------------------


def check_numbers(case: PredictiveCase, reference: Density | None) -> None:
    """Density, moments, distribution function, quantiles, mode and samples agree."""
    p = case.p
    if not bool((p.std > 0).all()):
        raise ValueError("check_predictive needs predictions with a positive variance")
    has_quantile = is_supported(p.quantile, 0.5)
    density = case.density()
    if reference is not None:
        _check_reference(case, reference)
    if has_quantile:
        _check_quantiles(case)
        if density is not None:
            look = _check_counts if p.is_discrete else _check_density
            highest = look(case, density)
            if case.check_mode and case.single and is_supported(lambda: p.mode):
                at_mode = p.log_prob(p.mode).reshape(p.mean.shape)
                short = (highest - at_mode).clamp_min(0)
                zero = torch.zeros_like(short)
                compare(case, "a value is more probable than mode", short, zero, case.tolerance)
            each = result_or_none(p.elementwise_log_prob, p.quantile(0.3)) if case.single else None
            if each is not None:
                own = density(p.quantile(0.3))
                compare(
                    case, "elementwise_log_prob is not log_prob", each, own, 1e-6 * (1 + own.abs())
                )
    drawn = case.sample(p)
    compare(case, "the same generator gives other samples", case.sample(p), drawn, 0.0)
    check_samples(case, drawn, has_quantile)
    if density is None or not case.single:
        _check_joint_density(case)


def _check_reference(case: PredictiveCase, reference: Density) -> None:
    """``log_prob`` equals a log density from elsewhere, at samples."""
    generator = torch.Generator().manual_seed(case.seed + 1)
    for y in case.p.sample(8, generator):
        got, want = case.p.log_prob(y), reference(y)
        compare(case, "log_prob is not the reference", got, want, case.tolerance * (1 + want.abs()))


def _check_quantiles(case: PredictiveCase) -> None:
    """Quantiles increase, invert ``cdf`` and are the ends of ``interval``."""
    p = case.p
    edges = torch.stack([p.quantile(q) for q in SHARES])
    zero = torch.zeros_like(edges[1:])
    compare(case, "quantiles decrease", edges.diff(dim=0).clamp(max=0), zero, 1e-12 * p.std)
    for own in (case.given, p):
        ends = torch.stack(own.interval(0.9))
        expected = torch.stack([own.quantile((1 - 0.9) / 2), own.quantile((1 + 0.9) / 2)])
        compare(case, "interval(0.9) is not two quantiles", ends, expected, 1e-6 * p.std)
    if not is_supported(p.cdf, edges[0]):
        return
    for q, at in zip(SHARES, edges, strict=True):
        share = p.cdf(at)
        if not p.is_discrete:
            want = torch.full_like(share, q)
            compare(case, f"cdf(quantile({q:g}))", share, want, case.tolerance)
            continue
        below = p.cdf(at - 1)
        least = torch.full_like(share, q)
        compare(case, f"cdf(quantile({q:g}))", torch.minimum(share, least), least, case.tolerance)
        compare(case, f"cdf below quantile({q:g})", torch.maximum(below, least), least, 1e-9)


def _check_density(case: PredictiveCase, density: Density) -> Tensor:
    """Compare integrals of the density with ``cdf`` and the moments; return its greatest value."""
    p, tolerance = case.p, case.tolerance
    low, high = _intervals(p)
    found = _Integral(p, density, tolerance)
    moments = found.over(low, high)
    compare(case, "the density integrates to", moments[0].sum(0), torch.ones(1), 2 * tolerance)
    if is_supported(p.cdf, p.mean):
        share = torch.stack([p.cdf(at) for at in (*low, high[-1])]).diff(dim=0)
        note = " (interval, then row)"
        compare(case, "mass of an interval by cdf", share, moments[0], tolerance, note)
    _check_moments(case, *moments[1:].sum(1))
    return found.highest


def _check_moments(case: PredictiveCase, first: Tensor, second: Tensor) -> None:
    """Mean and variance against standardized moments around ``mean``."""
    p, tolerance = case.p, case.tolerance
    finite = p.variance.isfinite()
    zero = torch.zeros_like(first)
    compare(case, "mean, in standard deviations", torch.where(finite, first, 0), zero, tolerance)
    one = torch.ones_like(second)
    second = torch.where(finite, second, 1)
    compare(case, "variance by density over variance", second, one, 10 * tolerance)


def _intervals(p: Predictive) -> tuple[Tensor, Tensor]:
    """Intervals that cover the support: between quantiles, and ever wider ones outside."""
    edges = torch.stack([p.quantile(q).double() for q in _EDGES])
    growth = _GROWTH ** torch.arange(1, _STEPS_OUT + 1, dtype=torch.float64) - 1
    growth = growth.reshape(-1, *[1] * (edges.ndim - 1))
    least = 1e-3 * p.std.double()
    left = edges[0] - torch.maximum(edges[1] - edges[0], least) * growth.flip(0)
    right = edges[-1] + torch.maximum(edges[-1] - edges[-2], least) * growth
    edges = torch.cat([left, edges, right])
    if is_angle(p):
        mean, turn = p.mean.double(), (1 - 1e-12) * math.pi  # the ends are one and the same angle
        edges = edges.clamp(mean - turn, mean + turn)
    return edges[:-1], edges[1:]


class _Integral:
    """Gauss-Kronrod sums over intervals, which are halved where the two rules disagree."""

    def __init__(self, p: Predictive, density: Density, tolerance: float) -> None:
        self.density, self.tolerance = density, tolerance
        self.mean, self.std = p.mean.double(), p.std.double()
        self.angle = is_angle(p)
        self.highest = torch.full_like(self.mean, -math.inf)

    def over(self, low: Tensor, high: Tensor) -> Tensor:
        """Mass and first two standardized moments of every interval, intervals second."""
        found = [self._sum(*ends, _MAX_SPLITS) for ends in zip(low, high, strict=True)]
        return torch.stack(found, 1)

    def _sum(self, low: Tensor, high: Tensor, splits: int) -> Tensor:
        middle, half = (low + high) / 2, (high - low) / 2
        total, change = torch.zeros(2, 3, *low.shape, dtype=torch.float64)
        for node, weight, coarse in _KRONROD:
            for way in (1, -1) if node else (1,):
                term = half * self._terms(middle + way * node * half)
                total, change = total + weight * term, change + (weight - coarse) * term
        if splits == 0 or not bool((change.abs() > 1e-2 * self.tolerance).any()):
            return total
        return self._sum(low, middle, splits - 1) + self._sum(middle, high, splits - 1)

    def _terms(self, y: Tensor) -> Tensor:
        """Density, and its products with the standardized target and its square."""
        log_density = self.density(y).double()
        self.highest = torch.maximum(self.highest, log_density)
        mass, t = log_density.exp(), (y - self.mean) / self.std
        # The mean of an angle is the direction of the mean vector.
        first = torch.sin(y - self.mean) / self.std if self.angle else t
        return torch.stack([mass, mass * first, mass * t * t]).nan_to_num(0.0, 0.0, 0.0)


def _check_counts(case: PredictiveCase, density: Density) -> Tensor:
    """Compare sums of probabilities with ``cdf`` and the moments; return the greatest."""
    p, tolerance = case.p, case.tolerance
    low = (p.quantile(1e-9) - 1).double()
    number = int((p.quantile(1 - 1e-9).double() - low).max()) + 1
    highest = torch.full_like(low, -math.inf)
    if number > _MAX_COUNTS:  # too many to sum: differences of cdf at some of them
        for q in SHARES:
            k = p.quantile(q).double()
            log_p = density(k).double()
            highest = torch.maximum(highest, log_p)
            share = p.cdf(k) - p.cdf(k - 1)
            compare(case, "probability of a count by cdf", share, log_p.exp(), tolerance)
        return highest
    mean, std = p.mean.double(), p.std.double()
    share = p.cdf(low).double()
    first, second = torch.zeros_like(low), torch.zeros_like(low)
    for step in range(1, number + 1):
        k = low + step
        log_p = density(k).double()
        highest = torch.maximum(highest, log_p)
        t, mass = (k - mean) / std, log_p.exp()
        share, first, second = share + mass, first + mass * t, second + mass * t * t
        if step % max(number // 20, 1) == 0:
            compare(case, "cdf of a count", p.cdf(k), share, tolerance)
    compare(case, "the probabilities sum to", share, torch.ones(1), 2 * tolerance)
    tail = torch.where(second > 0.99, 1.0, 0.0)  # heavy tails end beyond the last count
    _check_moments(case, first * tail, torch.where(tail > 0, second, 1.0))
    return highest


# --- samples ---------------------------------------------------------------------------------


def check_samples(case: PredictiveCase, drawn: Tensor, has_quantile: bool) -> None:
    """Mean of the samples, and shares of them below quantiles."""
    p = case.p
    expected = (case.n_samples, *p.mean.shape)
    if drawn.shape != expected:
        raise AssertionError(f"{case.name}: sample has shape {tuple(drawn.shape)}, not {expected}")
    variance = p.variance.double()
    error = STANDARD_ERRORS * (variance / case.n_samples).sqrt()
    # An angle has the direction of the mean vector as its mean.
    off = drawn - p.mean.double()
    middle = (torch.sin(off) if is_angle(p) else off).mean(0)
    middle = torch.where(variance.isfinite(), middle, 0)
    compare(case, "mean of samples minus mean", middle, torch.zeros_like(middle), error)
    if not has_quantile:
        return
    slack = 1e-9 if is_supported(p.cdf, p.mean) else 0.02  # quantiles without cdf are of samples
    for q in SHARES:
        at = p.quantile(q).double()
        share = STANDARD_ERRORS * math.sqrt(q * (1 - q) / case.n_samples) + case.tolerance + slack
        above = (drawn <= at).double().mean(0)
        below = (drawn < at).double().mean(0)
        want = torch.full_like(above, q)
        compare(case, f"share of samples up to quantile({q:g})", above.clamp(max=q), want, share)
        compare(case, f"share of samples below quantile({q:g})", below.clamp(min=q), want, share)


def _check_joint_density(case: PredictiveCase) -> None:
    """Samples of whole rows have the density ``log_prob``.

    For samples y of a density p and any other density q the mean of q(y) / p(y) is 1; here q is
    normal, with half the covariance of the samples.
    """
    p = case.p
    if p.is_discrete:
        return
    generator = torch.Generator().manual_seed(case.seed + 2)
    drawn = p.sample(min(case.n_samples, 4000), generator)
    rows = drawn.double().flatten(2).transpose(0, 1)  # rows, draws, outputs
    center = rows.mean(1, keepdim=True)
    off = rows - center
    covariance = 0.5 * off.transpose(1, 2) @ off / rows.shape[1]
    factor = torch.linalg.cholesky(covariance)
    white = torch.linalg.solve_triangular(factor, off.transpose(1, 2), upper=False)
    log_q = -0.5 * white.square().sum(1) - factor.diagonal(dim1=1, dim2=2).log().sum(1, True)
    log_q = log_q - 0.5 * rows.shape[2] * math.log(2 * math.pi)
    log_p = torch.stack([p.log_prob(y) for y in drawn], 1).double()
    ratio = (log_q - log_p).exp()
    error = STANDARD_ERRORS * ratio.std(1) / math.sqrt(ratio.shape[1])
    compare(case, "samples against log_prob", ratio.mean(1), torch.ones(1), error + 1e-6)
