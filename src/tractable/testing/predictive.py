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

import torch

from tractable.predictive import Predictive
from tractable.testing.predictive_case import (
    SHARES,
    STANDARD_ERRORS,
    Density,
    PredictiveCase,
    compare,
    is_supported,
    result_or_none,
)
from tractable.testing.predictive_numbers import check_numbers, check_samples


def check_predictive(
    predictive: Predictive,
    *,
    reference: Density | None = None,
    tolerance: float = 1e-4,
    n_samples: int = 20_000,
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
        n_samples: number of samples that are compared, within 5 standard errors.
        seed: seed of the samples.
        transformations: also check what ``rescaled``, ``with_noise_scaled``, ... return.
        check_mode: also check that no point that was looked at is more probable than ``mode``.

    Raises:
        AssertionError: two members disagree; the message names them, the row and both values.

    >>> from tractable.predictive import NormalPredictive
    >>> zero, one = torch.zeros(2, 1), torch.ones(2, 1)
    >>> check_predictive(NormalPredictive(zero, one, one))
    """
    case = PredictiveCase(predictive, tolerance, n_samples, seed, check_mode)
    _check_parts(predictive)
    if predictive.has_classes:
        _check_classes(case, reference)
    else:
        check_numbers(case, reference)
    _check_precision(case)
    if transformations:
        _check_copies(case)
        _check_transformations(case)


# --- parts of the uncertainty ----------------------------------------------------------------


def _check_parts(p: Predictive) -> None:
    """Both parts of the uncertainty are non-negative and add up."""
    case = PredictiveCase(p, 0.0, 0, 0, False)
    total = p.entropy if p.has_classes else p.variance
    known = total.isfinite()
    eps = 10 * torch.finfo(total.dtype).eps
    name = "entropy" if p.has_classes else "variance"
    zero = torch.zeros_like(total)
    parts = torch.where(known, p.epistemic + p.aleatoric, total)
    compare(case, f"epistemic + aleatoric is not {name}", parts, total, eps * (1 + total.abs()))
    for part in ("epistemic", "aleatoric"):
        value = torch.where(known, getattr(p, part), zero)
        compare(case, f"{part} is negative", value.clamp(max=0), zero, eps * total.abs())
    if not p.has_classes:
        square = torch.where(known, p.std.square(), total)
        compare(case, "the square of std is not variance", square, total, eps * total.abs())


# --- classes ---------------------------------------------------------------------------------


def _check_classes(case: PredictiveCase, reference: Density | None) -> None:
    """Probabilities, labels, samples, log probabilities and entropy agree."""
    p = case.p
    probs = p.probs.double()
    one = torch.ones(1)
    compare(case, "probs sum to", probs.sum(-1), one, 1e-6)
    compare(case, "probs are negative", probs.clamp(max=0), torch.zeros(1), 0.0)
    compare(case, "labels", p.labels.double(), probs.argmax(-1).double(), 0.0)
    compare(case, "entropy", p.entropy, torch.special.entr(probs).sum(-1), 1e-6)
    whole = p.mean.shape == p.probs.shape
    mean = probs if whole else probs[..., 1]
    compare(case, "mean is not the probability", p.mean, mean, 1e-6)
    compare(case, "variance is not p (1 - p)", p.variance, mean * (1 - mean), 1e-6)
    drawn = p.sample(case.n_samples, torch.Generator().manual_seed(case.seed))
    tiny = math.log(torch.finfo(p.probs.dtype).tiny)
    total = torch.zeros_like(probs[..., 0])
    for k in range(probs.shape[-1]):
        labels = torch.full(probs.shape[:-1], k)
        want = probs[..., k].log().clamp_min(tiny)
        want = want.flatten(1).sum(1) if want.ndim > 1 else want
        got = p.log_prob(labels)
        compare(case, f"log_prob of class {k}", got, want, 1e-5 * (1 + want.abs()))
        if reference is not None:
            truth = reference(labels)
            compare(case, f"log_prob of class {k} is not the reference", got, truth, case.tolerance)
        share = (drawn == k).double().mean(0)
        spread = (probs[..., k] * (1 - probs[..., k]) / case.n_samples).sqrt()
        error = STANDARD_ERRORS * spread + 1.0 / case.n_samples
        compare(case, f"share of samples of class {k}", share, probs[..., k], error)
        total = total + probs[..., k]
        if is_supported(p.cdf, labels):
            compare(case, f"cdf of level {k}", p.cdf(labels), total, 1e-6)
    if is_supported(p.quantile, 0.5):
        for q in SHARES:
            level = p.quantile(q)
            under = (probs.cumsum(-1) < q - 1e-9).sum(-1)
            compare(case, f"quantile({q:g}) of levels", level, under, 0.0)


# --- precision and transformations -------------------------------------------------------------

_MEMBERS = ("mean", "variance", "epistemic", "aleatoric", "std")


def _check_precision(case: PredictiveCase) -> None:
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
        compare(case, f"{name} in single precision", got, want, allowed)
    if not given.has_classes:
        _check_rounded(case)


def _check_rounded(case: PredictiveCase) -> None:
    """The rest of what numbers offer in single precision."""
    given, p = case.given, case.p
    eps = torch.finfo(given.mean.dtype).eps
    size = (p.mean.abs() + p.std).double()
    has_quantile = is_supported(p.quantile, 0.5)
    for q in SHARES[::3] if has_quantile else ():
        at = p.quantile(q)
        rounded = given.quantile(q)
        allowed = 1e-3 * p.std.double() + 20 * eps * size + p.is_discrete
        compare(case, f"quantile({q:g}) in single precision", rounded, at, allowed)
        y = at.to(given.mean.dtype)
        slack = 1e-4 + 20 * eps * float((size / p.std.double()).max())
        if is_supported(p.cdf, at):
            compare(case, "cdf in single precision", given.cdf(y), p.cdf(y.double()), slack)
        want = p.log_prob(y.double())
        allowed = 10 * slack * (1 + want.abs())
        compare(case, "log_prob in single precision", given.log_prob(y), want, allowed)
        each = result_or_none(p.elementwise_log_prob, y.double())
        if each is not None:
            got, allowed = given.elementwise_log_prob(y), 10 * slack * (1 + each.abs())
            compare(case, "elementwise_log_prob in single precision", got, each, allowed)
    mode = result_or_none(lambda: p.mode) if case.check_mode and case.single else None
    if mode is not None:  # a flat peak: its height matters, not its place
        short = p.log_prob(mode) - p.log_prob(given.mode.double())
        compare(case, "height of mode in single precision", short, torch.zeros(1), 1e-3)
    check_samples(case, case.sample(given), has_quantile)


def _check_copies(case: PredictiveCase) -> None:
    """``with_novelty``, ``squeezed`` and ``mixture_over_draws(1)`` change no number."""
    given = case.given
    marked = given.with_novelty(torch.arange(len(given.mean), dtype=given.mean.dtype))
    flat, double = marked.squeezed(), result_or_none(marked.double)
    same = given.mixture_over_draws(1)
    for name in _MEMBERS:
        own = getattr(given, name)
        for what, changed in (
            ("with_novelty", marked),
            ("squeezed", flat),
            ("mixture_over_draws(1)", same),
        ):
            value = getattr(changed, name).reshape(own.shape)
            compare(case, f"{name} after {what}", value, own, 1e-6 * own.abs().double())
    for what, copy in (("with_novelty", marked), ("squeezed", flat), ("double", double)):
        if copy is not None and copy.novelty is None:
            raise AssertionError(f"{case.name}: novelty is lost by {what}")
    if not given.has_classes and is_supported(given.quantile, 0.5):
        own = given.quantile(0.7)
        for what, changed in (("squeezed", flat), ("mixture_over_draws(1)", same)):
            allowed = 1e-6 * own.abs().double()
            value = changed.quantile(0.7).reshape(own.shape)
            compare(case, f"quantile after {what}", value, own, allowed)
        log_prob, y = given.log_prob(own), own.reshape(flat.mean.shape)
        compare(case, "log_prob after squeezed", flat.log_prob(y), log_prob, 1e-6)


def _check_transformations(case: PredictiveCase) -> None:
    """What other methods return is a distribution by itself, and the one that was asked for."""
    if case.p.has_classes:
        return
    p = case.given.with_novelty(torch.zeros_like(case.given.mean))
    shape, ones = p.mean.shape, torch.ones_like(p.mean)
    factors = 1 + torch.arange(p.mean.numel(), dtype=ones.dtype).reshape(shape) % 4
    extra = p.variance.nan_to_num(1.0, 1.0, 1.0) * factors
    tails = torch.tensor([0.25, 1.0, 4.0], dtype=ones.dtype)
    half = result_or_none(p.mixture_over_draws, 2) if len(p.mean) % 2 == 0 else None
    results: dict[str, Predictive | None] = {
        "rescaled(3, 2)": result_or_none(p.rescaled, 3.0, 2.0),
        "rescaled(3, -0.5)": result_or_none(p.rescaled, 3.0, -0.5),
        "with_noise_scaled": result_or_none(p.with_noise_scaled, factors),
        "with_noise_mixture": result_or_none(p.with_noise_mixture, tails),
        "with_extra_variance": result_or_none(p.with_extra_variance, extra),
        "mixture_over_draws(2)": half,
    }
    for what, result in results.items():
        if result is None or (p.is_discrete and "rescaled" in what):  # no whole numbers then
            continue
        try:
            if result.novelty is None and what != "mixture_over_draws(2)":
                raise AssertionError(f"{case.name}: novelty is lost")
            check_predictive(
                result, tolerance=case.tolerance, n_samples=case.n_samples, seed=case.seed,
                transformations=False, check_mode=case.check_mode,
            )  # fmt: skip
        except AssertionError as error:
            raise AssertionError(f"after {what} of {case.name}: {error}") from error
    for what, scale in (("rescaled(3, 2)", 2.0), ("rescaled(3, -0.5)", -0.5)):
        moved = result_or_none(case.given.rescaled, 3.0, scale)
        if moved is not None:
            _check_rescaled(case, what, moved, scale)


def _check_rescaled(case: PredictiveCase, what: str, other: Predictive, scale: float) -> None:
    """``3 + scale * target``: moments, quantiles, density."""
    p = case.given
    eps = 100 * torch.finfo(p.mean.dtype).eps
    size = eps * (3 + abs(scale) * (p.mean.abs() + p.std)) / (abs(scale) * p.std)
    compare(case, f"mean of {what}", other.mean, 3 + scale * p.mean, eps * (1 + p.mean.abs()))
    for name in ("variance", "epistemic", "aleatoric"):
        want = scale * scale * getattr(p, name)
        allowed = eps * scale * scale * p.variance
        compare(case, f"{name} of {what}", getattr(other, name), want, allowed)
    if not is_supported(p.cdf, p.mean):
        return
    own, end = p.quantile(0.2), 0.2 if scale > 0 else 0.8
    allowed = (case.tolerance + size) * abs(scale) * p.std
    compare(case, f"quantile of {what}", other.quantile(end), 3 + scale * own, allowed)
    change = 0.0 if p.is_discrete else math.log(abs(scale)) * p.mean[0].numel()
    got, want = other.log_prob(3 + scale * own), p.log_prob(own) - change
    compare(case, f"log_prob of {what}", got, want, (1e-6 + float(size.max())) * (1 + want.abs()))
