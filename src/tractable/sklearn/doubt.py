"""How much of what networks doubt is to be doubted: a factor on the variances they have themselves.

The noise is scaled to suit held-out rows (``tractable.training.holdout``).  Where there is next to
no noise that is not enough: the variance that comes from the weights, which the independence of
weights and units makes too large where many of them work together, is then wider than the errors,
and no noise is small enough to make up for it.  So a factor a on it is chosen along with the noise,

    p(y | x) = N(y; m(x), a w(x) + b(x) + g(x) + s noise),

where w is the mean variance within the networks, b that between them and g the growth off the data.
a is a power of the square root of 2 from 1/4 to 1, and 1 unless the log-likelihood of the held-out
rows, in all and as the gate believes them, gains more than the one number that was chosen (Akaike's
criterion).  Only predictions are changed: the weights keep their variances, and learn on with them.

The floor of 1/4 and the criterion were chosen among about a dozen rules, on tenths held out of the
training rows of published splits 10 to 19 of the UCI sets (fewer splits of the larger ones):
without a floor, Energy gained another 0.03 nats a row and Concrete lost 0.02.

Approximate: networks that differ count as one normal of their joint variance.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tractable.likelihoods import Normal
from tractable.likelihoods.gate import gated
from tractable.sklearn.seen import Seen

FACTORS = tuple(2.0 ** (-k / 2) for k in range(5))
FEWEST_ROWS = 60
"""Held out, below which the networks are believed."""
_CHOSEN = 1  # number
_LOG_SCALES = torch.linspace(-5, 5, 101, dtype=torch.float64)  # of the noise


def choose(seen: Sequence[Seen]) -> float:
    """The factor that suits held-out rows.

    Args:
        seen: the rows, of numbers with a normal noise.
    """
    if sum(len(part.y) for part in seen) < FEWEST_ROWS:
        return 1.0
    square = torch.cat([(part.y - part.mean).flatten().double().square() for part in seen])
    noise = torch.cat([_noise(part) for part in seen])
    found = torch.tensor([_best(square, _variance(seen, a), noise) for a in FACTORS])
    best = int(found.argmax())
    return FACTORS[best] if float(found[best] - found[0]) > _CHOSEN else 1.0


def _variance(seen: Sequence[Seen], factor: float) -> Tensor:
    return torch.cat([part.heldout(factor)[3].flatten().double() for part in seen])


def _noise(part: Seen) -> Tensor:
    noise = part.likelihood
    if not isinstance(noise, Normal):
        raise TypeError(f"a scale of variances needs a Normal likelihood, got {noise!r}")
    return noise.noise_mean.to(part.mean.device).expand_as(part.mean).flatten()


def _best(square: Tensor, variance: Tensor, noise: Tensor) -> float:
    """The greatest log-likelihood of all rows, up to a constant, over scales of the noise."""
    spread = variance + _LOG_SCALES.to(noise).exp()[:, None] * noise
    return float((-0.5 * (gated(square / spread) + spread.log())).sum(1).amax())
