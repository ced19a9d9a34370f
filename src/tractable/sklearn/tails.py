"""Tails of the noise: how often held-out rows are missed by far more than usual.

Errors of real tables are seldom normal: most are small and some are large.  A normal noise that
suits both is too wide for most rows and too narrow for the rest.  Student's t with k degrees of
freedom is a normal whose variance is k / u, with u ~ chi-squared of k (Andrews & Mallows, "Scale
mixtures of normal distributions", 1974).  Here u takes the middles of ``NODES`` equally likely
parts of its range:

    p(y | x) = 1 / NODES  sum_j  N(y; m(x), v(x) + s (k / u_j) noise(x)),

so predictions stay mixtures of normals, with all their quantiles and moments.  k is chosen among
``DEGREES`` and s with it, by the likelihood of held-out rows.  A normal noise stays unless their
log-likelihood, in all, gains more than the two numbers that were chosen (Akaike's criterion).

Approximate: networks that differ count as one normal of their joint variance; the outermost part
of the chi-squared has one node, so tails end as those of a normal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from scipy import special
from torch import Tensor

from tractable.sklearn.noise import Missed, NoiseModel

NODES = 8
DEGREES = (20, 10, 6, 4, 3)
"""Of freedom that are tried."""
FEWEST_ROWS = 60
"""Held out, below which the noise is normal."""
_CHOSEN = 2  # numbers
_LOG_SCALES = torch.linspace(-2.0, 0.5, 26, dtype=torch.float64)


def factors(degrees: float) -> Tensor:
    """The k / u at the middles of equally likely parts of u ~ chi-squared of k, largest first."""
    shares = (torch.arange(NODES, dtype=torch.float64) + 0.5) / NODES
    return degrees / (2 * torch.from_numpy(special.gammaincinv(degrees / 2, shares.numpy())))


def choose(missed: Sequence[Missed], model: NoiseModel | None) -> Tensor | None:
    """Factors on the noise that suit held-out rows; None if they are too few, or normal.

    Args:
        missed: held-out rows, of every target.
        model: what the noise depends on, if it does.
    """
    if len(missed[0].square) < FEWEST_ROWS:
        return None
    if model is not None:
        missed = [_scaled(target, model, k) for k, target in enumerate(missed)]
    candidates = [factors(k) * scale for k in DEGREES for scale in _LOG_SCALES.exp()]
    usual = _log_probs(missed, torch.ones(1, dtype=torch.float64)).sum()
    gains = torch.stack([_log_probs(missed, tails).sum() for tails in candidates]) - usual
    return candidates[int(gains.argmax())] if float(gains.max()) > _CHOSEN else None


def _log_probs(missed: Sequence[Missed], tails: Tensor) -> Tensor:
    """Log density of every row, summed over its targets, up to a constant."""
    return torch.stack([target.log_probs_of(tails) for target in missed]).sum(0)


def _scaled(missed: Missed, model: NoiseModel, target: int) -> Missed:
    """The noise that a model says one target has."""
    own = NoiseModel(model.coefficients[target : target + 1])
    return replace(missed, noise=missed.noise * own.factors(missed.mean[:, None], missed.x)[:, 0])
