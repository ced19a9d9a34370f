"""Check that all members of a prediction describe the same distribution.

    from tractable.testing import check_predictive

    p = likelihood.predictive(mean, variance)
    check_predictive(p)
    check_predictive(p, reference=lambda y: likelihood.log_evidence(y, mean, variance))

The density (or probability of each count) is integrated numerically; mass, mean, variance, ``cdf``,
``quantile``, ``mode`` and ``sample`` must agree with the integral, and so must the results of
``rescaled``, ``with_noise_scaled``, ``with_noise_mixture``, ``with_extra_variance``,
``with_novelty``, ``squeezed``, ``double`` and ``mixture_over_draws``.
Members that do not apply are skipped: they raise a ``TypeError`` whose message contains "cannot",
"no ..." or "does not".
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from tractable.predictive import Predictive

Density = Callable[[Tensor], Tensor]
Found = TypeVar("Found")

STANDARD_ERRORS = 5
_SHARES = (0.01, 0.05, *(k / 20 for k in range(2, 19)), 0.95, 0.99)
"""Shares of the probability at which quantiles are checked."""
_EDGES = (1e-6, 1e-4, 1e-3, *_SHARES[::2], 0.999, 1 - 1e-4, 1 - 1e-6)
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
_DECLINES = re.compile(r"cannot|\bno\b|does not|whole rows only")


def check_predictive(
    predictive: Predictive,
    *,
    reference: Density | None = None,
    tolerance: float = 1e-4,
    draws: int = 20_000,
    seed: int = 0,
    transformations: bool = True,
    check_mode: bool = True,
) -> None:
    """Raise ``AssertionError`` unless all members of a prediction describe one distribution.

    Args:
        predictive: the prediction of a few rows (3 to 10 rows take about a second).
        reference: log density of each row given targets, from elsewhere: for example the evidence
            of a likelihood. ``log_prob`` must equal it. Default: no comparison.
        tolerance: allowed absolute error of probabilities, and error of the mean relative to the
            standard deviation; variances may be off by ten times as much.
        draws: number of samples that are compared, within 5 standard errors.
        seed: seed of the samples.
        transformations: also check what ``rescaled``, ``with_noise_scaled``, ... return.
        check_mode: also check that no point that was looked at is more probable than ``mode``.

    Raises:
        AssertionError: two members disagree; the message names them, the row and both values.

    >>> from tractable.predictive import NormalPredictive
    >>> zero, one = torch.zeros(2, 1), torch.ones(2, 1)
    >>> check_predictive(NormalPredictive(zero, one, one))
    """
    case = _Case(predictive, tolerance, draws, seed, check_mode)
    _check_parts(predictive)
    if predictive.has_classes:
        _check_classes(case, reference)
    else:
        _check_numbers(case, reference)
    _check_precision(case)
    if transformations:
        _check_copies(case)
        _check_transformations(case)


class _Case:
    """A prediction, in double precision if possible, and the tolerances of the checks."""

    def __init__(
        self, given: Predictive, tolerance: float, draws: int, seed: int, check_mode: bool
    ) -> None:
        self.given, self.tolerance = given, tolerance
        self.draws, self.seed, self.check_mode = draws, seed, check_mode
        exact = _offered(given.double)
        self.p = given if exact is None else exact

    def of(self, predictive: Predictive) -> _Case:
        """Return the same case for another prediction."""
        return _Case(predictive, self.tolerance, self.draws, self.seed, self.check_mode)

    @property
    def single(self) -> bool:
        """Whether a row is one number."""
        return self.p.mean[0].numel() == 1

    @property
    def name(self) -> str:
        """Class of the prediction, for messages."""
        return type(self.p).__name__

    def density(self) -> Density | None:
        """Return the log density of every number by itself, or None if there is none."""
        if self.single:
            return lambda y: self.p.log_prob(y).reshape(self.p.mean.shape)
        return (
            self.p.elementwise_log_prob
            if _offers(self.p.elementwise_log_prob, self.p.mean)
            else None
        )

    def sample(self, predictive: Predictive) -> Tensor:
        """Return samples; angles are within half a turn of the mean."""
        generator = torch.Generator().manual_seed(self.seed)
        drawn: Tensor = self.p.unwrapped(predictive.sample(self.draws, generator)).double()
        return drawn


def _offered(ask: Callable[..., Found], *arguments: object) -> Found | None:
    """Return the result of a member, or None if it does not apply."""
    try:
        return ask(*arguments)
    except TypeError as error:
        if _DECLINES.search(str(error)):
            return None
        raise


def _offers(ask: Callable[..., Tensor], *arguments: object) -> bool:
    return _offered(ask, *arguments) is not None


def _agree(
    case: _Case, what: str, got: Tensor, want: Tensor, allowed: Tensor | float, note: str = ""
) -> None:
    """Raise unless two tensors differ by at most ``allowed``."""
    got, want = torch.broadcast_tensors(got.double(), want.double())
    allowed = torch.as_tensor(allowed, dtype=torch.float64).expand_as(got)
    wrong = ~(((got - want).abs() <= allowed) | (got == want) | (got.isnan() & want.isnan()))
    if bool(wrong.any()):
        at = tuple(int(k) for k in torch.nonzero(wrong)[0])
        values = (float(got[at]), float(want[at]), float(allowed[at]))
        raise AssertionError(
            f"{case.name}: {what}: {values[0]:.8g} but expected {values[1]:.8g} within "
            f"{values[2]:.2g}, at {at}{note} ({int(wrong.sum())} of {wrong.numel()} differ)"
        )


# --- parts of the uncertainty ----------------------------------------------------------------


def _check_parts(p: Predictive) -> None:
    """Both parts of the uncertainty are non-negative and add up."""
    case = _Case(p, 0.0, 0, 0, False)
    total = p.entropy if p.has_classes else p.variance
    known = total.isfinite()
    eps = 10 * torch.finfo(total.dtype).eps
    name = "entropy" if p.has_classes else "variance"
    zero = torch.zeros_like(total)
    parts = torch.where(known, p.epistemic + p.aleatoric, total)
    _agree(case, f"epistemic + aleatoric is not {name}", parts, total, eps * (1 + total.abs()))
    for part in ("epistemic", "aleatoric"):
        value = torch.where(known, getattr(p, part), zero)
        _agree(case, f"{part} is negative", value.clamp(max=0), zero, eps * total.abs())
    if not p.has_classes:
        square = torch.where(known, p.std.square(), total)
        _agree(case, "the square of std is not variance", square, total, eps * total.abs())


# --- numbers ---------------------------------------------------------------------------------


def _check_numbers(case: _Case, reference: Density | None) -> None:
    """Density, moments, distribution function, quantiles, mode and samples agree."""
    p = case.p
    if not bool((p.std > 0).all()):
        raise ValueError("check_predictive needs predictions with a positive variance")
    has_quantile = _offers(p.quantile, 0.5)
    density = case.density()
    if reference is not None:
        _check_reference(case, reference)
    if has_quantile:
        _check_quantiles(case)
        if density is not None:
            look = _check_counts if p.is_discrete else _check_density
            highest = look(case, density)
            if case.check_mode and case.single and _offers(lambda: p.mode):
                at_mode = p.log_prob(p.mode).reshape(p.mean.shape)
                short = (highest - at_mode).clamp_min(0)
                zero = torch.zeros_like(short)
                _agree(case, "a value is more probable than mode", short, zero, case.tolerance)
            each = _offered(p.elementwise_log_prob, p.quantile(0.3)) if case.single else None
            if each is not None:
                own = density(p.quantile(0.3))
                _agree(
                    case, "elementwise_log_prob is not log_prob", each, own, 1e-6 * (1 + own.abs())
                )
    drawn = case.sample(p)
    _agree(case, "the same generator gives other samples", case.sample(p), drawn, 0.0)
    _check_samples(case, drawn, has_quantile)
    if density is None or not case.single:
        _check_joint_density(case)


def _check_reference(case: _Case, reference: Density) -> None:
    """``log_prob`` equals a log density from elsewhere, at samples."""
    generator = torch.Generator().manual_seed(case.seed + 1)
    for y in case.p.sample(8, generator):
        got, want = case.p.log_prob(y), reference(y)
        _agree(case, "log_prob is not the reference", got, want, case.tolerance * (1 + want.abs()))


def _check_quantiles(case: _Case) -> None:
    """Quantiles increase, invert ``cdf`` and are the ends of ``interval``."""
    p = case.p
    edges = torch.stack([p.quantile(q) for q in _SHARES])
    zero = torch.zeros_like(edges[1:])
    _agree(case, "quantiles decrease", edges.diff(dim=0).clamp(max=0), zero, 1e-12 * p.std)
    for own in (case.given, p):
        ends = torch.stack(own.interval(0.9))
        wanted = torch.stack([own.quantile((1 - 0.9) / 2), own.quantile((1 + 0.9) / 2)])
        _agree(case, "interval(0.9) is not two quantiles", ends, wanted, 1e-6 * p.std)
    if not _offers(p.cdf, edges[0]):
        return
    for q, at in zip(_SHARES, edges, strict=True):
        share = p.cdf(at)
        if not p.is_discrete:
            want = torch.full_like(share, q)
            _agree(case, f"cdf(quantile({q:g}))", share, want, case.tolerance)
            continue
        below = p.cdf(at - 1)
        least = torch.full_like(share, q)
        _agree(case, f"cdf(quantile({q:g}))", torch.minimum(share, least), least, case.tolerance)
        _agree(case, f"cdf below quantile({q:g})", torch.maximum(below, least), least, 1e-9)


def _check_density(case: _Case, density: Density) -> Tensor:
    """Compare integrals of the density with ``cdf`` and the moments; return its greatest value."""
    p, tolerance = case.p, case.tolerance
    low, high = _intervals(p)
    found = _Integral(p, density, tolerance)
    moments = found.over(low, high)
    _agree(case, "the density integrates to", moments[0].sum(0), torch.ones(1), 2 * tolerance)
    if _offers(p.cdf, p.mean):
        share = torch.stack([p.cdf(at) for at in (*low, high[-1])]).diff(dim=0)
        note = " (interval, then row)"
        _agree(case, "mass of an interval by cdf", share, moments[0], tolerance, note)
    _check_moments(case, *moments[1:].sum(1))
    return found.highest


def _check_moments(case: _Case, first: Tensor, second: Tensor) -> None:
    """Mean and variance against standardized moments around ``mean``."""
    p, tolerance = case.p, case.tolerance
    finite = p.variance.isfinite()
    zero = torch.zeros_like(first)
    _agree(case, "mean, in standard deviations", torch.where(finite, first, 0), zero, tolerance)
    one = torch.ones_like(second)
    second = torch.where(finite, second, 1)
    _agree(case, "variance by density over variance", second, one, 10 * tolerance)


def _intervals(p: Predictive) -> tuple[Tensor, Tensor]:
    """Intervals that cover the support: between quantiles, and ever wider ones outside."""
    edges = torch.stack([p.quantile(q).double() for q in _EDGES])
    growth = _GROWTH ** torch.arange(1, _STEPS_OUT + 1, dtype=torch.float64) - 1
    growth = growth.reshape(-1, *[1] * (edges.ndim - 1))
    least = 1e-3 * p.std.double()
    left = edges[0] - torch.maximum(edges[1] - edges[0], least) * growth.flip(0)
    right = edges[-1] + torch.maximum(edges[-1] - edges[-2], least) * growth
    edges = torch.cat([left, edges, right])
    if _is_angle(p):
        mean, turn = p.mean.double(), (1 - 1e-12) * math.pi  # the ends are one and the same angle
        edges = edges.clamp(mean - turn, mean + turn)
    return edges[:-1], edges[1:]


def _is_angle(p: Predictive) -> bool:
    """Whether a full turn changes nothing."""
    turned: Tensor = p.unwrapped(p.mean + 2 * math.pi)
    return bool(torch.isclose(turned, p.mean, atol=1e-5).all())


class _Integral:
    """Gauss-Kronrod sums over intervals, which are halved where the two rules disagree."""

    def __init__(self, p: Predictive, density: Density, tolerance: float) -> None:
        self.density, self.tolerance = density, tolerance
        self.mean, self.std = p.mean.double(), p.std.double()
        self.angle = _is_angle(p)
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


def _check_counts(case: _Case, density: Density) -> Tensor:
    """Compare sums of probabilities with ``cdf`` and the moments; return the greatest."""
    p, tolerance = case.p, case.tolerance
    low = (p.quantile(1e-9) - 1).double()
    number = int((p.quantile(1 - 1e-9).double() - low).max()) + 1
    highest = torch.full_like(low, -math.inf)
    if number > _MAX_COUNTS:  # too many to sum: differences of cdf at some of them
        for q in _SHARES:
            k = p.quantile(q).double()
            log_p = density(k).double()
            highest = torch.maximum(highest, log_p)
            share = p.cdf(k) - p.cdf(k - 1)
            _agree(case, "probability of a count by cdf", share, log_p.exp(), tolerance)
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
            _agree(case, "cdf of a count", p.cdf(k), share, tolerance)
    _agree(case, "the probabilities sum to", share, torch.ones(1), 2 * tolerance)
    tail = torch.where(second > 0.99, 1.0, 0.0)  # heavy tails end beyond the last count
    _check_moments(case, first * tail, torch.where(tail > 0, second, 1.0))
    return highest


# --- samples ---------------------------------------------------------------------------------


def _check_samples(case: _Case, drawn: Tensor, has_quantile: bool) -> None:
    """Mean of the samples, and shares of them below quantiles."""
    p = case.p
    wanted = (case.draws, *p.mean.shape)
    if drawn.shape != wanted:
        raise AssertionError(f"{case.name}: sample has shape {tuple(drawn.shape)}, not {wanted}")
    variance = p.variance.double()
    error = STANDARD_ERRORS * (variance / case.draws).sqrt()
    # An angle has the direction of the mean vector as its mean.
    off = drawn - p.mean.double()
    middle = (torch.sin(off) if _is_angle(p) else off).mean(0)
    middle = torch.where(variance.isfinite(), middle, 0)
    _agree(case, "mean of samples minus mean", middle, torch.zeros_like(middle), error)
    if not has_quantile:
        return
    slack = 1e-9 if _offers(p.cdf, p.mean) else 0.02  # quantiles without cdf are of samples
    for q in _SHARES:
        at = p.quantile(q).double()
        share = STANDARD_ERRORS * math.sqrt(q * (1 - q) / case.draws) + case.tolerance + slack
        above = (drawn <= at).double().mean(0)
        below = (drawn < at).double().mean(0)
        want = torch.full_like(above, q)
        _agree(case, f"share of samples up to quantile({q:g})", above.clamp(max=q), want, share)
        _agree(case, f"share of samples below quantile({q:g})", below.clamp(min=q), want, share)


def _check_joint_density(case: _Case) -> None:
    """Samples of whole rows have the density ``log_prob``.

    For samples y of a density p and any other density q the mean of q(y) / p(y) is 1; here q is
    normal, with half the covariance of the samples.
    """
    p = case.p
    if p.is_discrete:
        return
    generator = torch.Generator().manual_seed(case.seed + 2)
    drawn = p.sample(min(case.draws, 4000), generator)
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
    _agree(case, "samples against log_prob", ratio.mean(1), torch.ones(1), error + 1e-6)


# --- classes ---------------------------------------------------------------------------------


def _check_classes(case: _Case, reference: Density | None) -> None:
    """Probabilities, labels, samples, log probabilities and entropy agree."""
    p = case.p
    probs = p.probs.double()
    one = torch.ones(1)
    _agree(case, "probs sum to", probs.sum(-1), one, 1e-6)
    _agree(case, "probs are negative", probs.clamp(max=0), torch.zeros(1), 0.0)
    _agree(case, "labels", p.labels.double(), probs.argmax(-1).double(), 0.0)
    _agree(case, "entropy", p.entropy, torch.special.entr(probs).sum(-1), 1e-6)
    whole = p.mean.shape == p.probs.shape
    mean = probs if whole else probs[..., 1]
    _agree(case, "mean is not the probability", p.mean, mean, 1e-6)
    _agree(case, "variance is not p (1 - p)", p.variance, mean * (1 - mean), 1e-6)
    drawn = p.sample(case.draws, torch.Generator().manual_seed(case.seed))
    tiny = math.log(torch.finfo(p.probs.dtype).tiny)
    total = torch.zeros_like(probs[..., 0])
    for k in range(probs.shape[-1]):
        labels = torch.full(probs.shape[:-1], k)
        want = probs[..., k].log().clamp_min(tiny)
        want = want.flatten(1).sum(1) if want.ndim > 1 else want
        got = p.log_prob(labels)
        _agree(case, f"log_prob of class {k}", got, want, 1e-5 * (1 + want.abs()))
        if reference is not None:
            truth = reference(labels)
            _agree(case, f"log_prob of class {k} is not the reference", got, truth, case.tolerance)
        share = (drawn == k).double().mean(0)
        spread = (probs[..., k] * (1 - probs[..., k]) / case.draws).sqrt()
        error = STANDARD_ERRORS * spread + 1.0 / case.draws
        _agree(case, f"share of samples of class {k}", share, probs[..., k], error)
        total = total + probs[..., k]
        if _offers(p.cdf, labels):
            _agree(case, f"cdf of level {k}", p.cdf(labels), total, 1e-6)
    if _offers(p.quantile, 0.5):
        for q in _SHARES:
            level = p.quantile(q)
            under = (probs.cumsum(-1) < q - 1e-9).sum(-1)
            _agree(case, f"quantile({q:g}) of levels", level, under, 0.0)


# --- precision and transformations -------------------------------------------------------------

_MEMBERS = ("mean", "variance", "epistemic", "aleatoric", "std")


def _check_precision(case: _Case) -> None:
    """In single precision all members are those in double precision, but for rounding."""
    given, exact = case.given, case.p
    if given is exact or given.mean.dtype == exact.mean.dtype:
        return
    for name in _MEMBERS:
        got, want = getattr(given, name), getattr(exact, name)
        if got.dtype != given.mean.dtype:
            raise AssertionError(f"{case.name}: {name} is {got.dtype}, mean {given.mean.dtype}")
        allowed = 1e-3 * want.abs().double() + 1e-7
        if name in ("epistemic", "aleatoric"):  # a difference of two others
            allowed = allowed + 1e-5 * exact.aleatoric.double() + 1e-5 * exact.epistemic.double()
        elif name == "mean" and not given.has_classes:
            allowed = 1e-5 * (want.abs() + exact.std).double()
        _agree(case, f"{name} in single precision", got, want, allowed)
    if not given.has_classes:
        _check_rounded(case)


def _check_rounded(case: _Case) -> None:
    """The rest of what numbers offer in single precision."""
    given, p = case.given, case.p
    eps = torch.finfo(given.mean.dtype).eps
    size = (p.mean.abs() + p.std).double()
    has_quantile = _offers(p.quantile, 0.5)
    for q in _SHARES[::3] if has_quantile else ():
        at = p.quantile(q)
        rounded = given.quantile(q)
        allowed = 1e-3 * p.std.double() + 20 * eps * size + p.is_discrete
        _agree(case, f"quantile({q:g}) in single precision", rounded, at, allowed)
        y = at.to(given.mean.dtype)
        slack = 1e-4 + 20 * eps * float((size / p.std.double()).max())
        if _offers(p.cdf, at):
            _agree(case, "cdf in single precision", given.cdf(y), p.cdf(y.double()), slack)
        want = p.log_prob(y.double())
        allowed = 10 * slack * (1 + want.abs())
        _agree(case, "log_prob in single precision", given.log_prob(y), want, allowed)
        each = _offered(p.elementwise_log_prob, y.double())
        if each is not None:
            got, allowed = given.elementwise_log_prob(y), 10 * slack * (1 + each.abs())
            _agree(case, "elementwise_log_prob in single precision", got, each, allowed)
    mode = _offered(lambda: p.mode) if case.check_mode and case.single else None
    if mode is not None:  # a flat peak: its height matters, not its place
        short = p.log_prob(mode) - p.log_prob(given.mode.double())
        _agree(case, "height of mode in single precision", short, torch.zeros(1), 1e-3)
    _check_samples(case, case.sample(given), has_quantile)


def _check_copies(case: _Case) -> None:
    """``with_novelty``, ``squeezed`` and ``mixture_over_draws(1)`` change no number."""
    given = case.given
    marked = given.with_novelty(torch.arange(len(given.mean), dtype=given.mean.dtype))
    flat, double = marked.squeezed(), _offered(marked.double)
    same = given.mixture_over_draws(1)
    for name in _MEMBERS:
        own = getattr(given, name)
        for what, changed in (
            ("with_novelty", marked),
            ("squeezed", flat),
            ("mixture_over_draws(1)", same),
        ):
            value = getattr(changed, name).reshape(own.shape)
            _agree(case, f"{name} after {what}", value, own, 1e-6 * own.abs().double())
    for what, copy in (("with_novelty", marked), ("squeezed", flat), ("double", double)):
        if copy is not None and copy.novelty is None:
            raise AssertionError(f"{case.name}: novelty is lost by {what}")
    if not given.has_classes and _offers(given.quantile, 0.5):
        own = given.quantile(0.7)
        for what, changed in (("squeezed", flat), ("mixture_over_draws(1)", same)):
            allowed = 1e-6 * own.abs().double()
            value = changed.quantile(0.7).reshape(own.shape)
            _agree(case, f"quantile after {what}", value, own, allowed)
        log_prob, y = given.log_prob(own), own.reshape(flat.mean.shape)
        _agree(case, "log_prob after squeezed", flat.log_prob(y), log_prob, 1e-6)


def _check_transformations(case: _Case) -> None:
    """What other methods return is a distribution by itself, and the one that was asked for."""
    if case.p.has_classes:
        return
    p = case.given.with_novelty(torch.zeros_like(case.given.mean))
    shape, ones = p.mean.shape, torch.ones_like(p.mean)
    factors = 1 + torch.arange(p.mean.numel(), dtype=ones.dtype).reshape(shape) % 4
    extra = p.variance.nan_to_num(1.0, 1.0, 1.0) * factors
    tails = torch.tensor([0.25, 1.0, 4.0], dtype=ones.dtype)
    half = _offered(p.mixture_over_draws, 2) if len(p.mean) % 2 == 0 else None
    results: dict[str, Predictive | None] = {
        "rescaled(3, 2)": _offered(p.rescaled, 3.0, 2.0),
        "rescaled(3, -0.5)": _offered(p.rescaled, 3.0, -0.5),
        "with_noise_scaled": _offered(p.with_noise_scaled, factors),
        "with_noise_mixture": _offered(p.with_noise_mixture, tails),
        "with_extra_variance": _offered(p.with_extra_variance, extra),
        "mixture_over_draws(2)": half,
    }
    for what, result in results.items():
        if result is None or (p.is_discrete and "rescaled" in what):  # no whole numbers then
            continue
        try:
            if result.novelty is None and what != "mixture_over_draws(2)":
                raise AssertionError(f"{case.name}: novelty is lost")
            check_predictive(
                result, tolerance=case.tolerance, draws=case.draws, seed=case.seed,
                transformations=False, check_mode=case.check_mode,
            )  # fmt: skip
        except AssertionError as error:
            raise AssertionError(f"after {what} of {case.name}: {error}") from error
    for what, scale in (("rescaled(3, 2)", 2.0), ("rescaled(3, -0.5)", -0.5)):
        moved = _offered(case.given.rescaled, 3.0, scale)
        if moved is not None:
            _check_rescaled(case, what, moved, scale)


def _check_rescaled(case: _Case, what: str, other: Predictive, scale: float) -> None:
    """``3 + scale * target``: moments, quantiles, density."""
    p = case.given
    eps = 100 * torch.finfo(p.mean.dtype).eps
    size = eps * (3 + abs(scale) * (p.mean.abs() + p.std)) / (abs(scale) * p.std)
    _agree(case, f"mean of {what}", other.mean, 3 + scale * p.mean, eps * (1 + p.mean.abs()))
    for name in ("variance", "epistemic", "aleatoric"):
        want = scale * scale * getattr(p, name)
        allowed = eps * scale * scale * p.variance
        _agree(case, f"{name} of {what}", getattr(other, name), want, allowed)
    if not _offers(p.cdf, p.mean):
        return
    own, end = p.quantile(0.2), 0.2 if scale > 0 else 0.8
    allowed = (case.tolerance + size) * abs(scale) * p.std
    _agree(case, f"quantile of {what}", other.quantile(end), 3 + scale * own, allowed)
    change = 0.0 if p.is_discrete else math.log(abs(scale)) * p.mean[0].numel()
    got, want = other.log_prob(3 + scale * own), p.log_prob(own) - change
    _agree(case, f"log_prob of {what}", got, want, (1e-6 + float(size.max())) * (1 + want.abs()))
