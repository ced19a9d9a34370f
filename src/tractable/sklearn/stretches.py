"""How fast error bars should grow off the data: measured on stretches of it that are held out.

Away from the training rows the variance grows by the squared slope of the fitted function times the
square of the distance (``tractable.learners.off_data.support``), which is right if the function
goes on as it did.  Where it does not, as between the corners of a grid, a factor is wanted.  It is
found by cutting stretches out of the data: copies are fitted without the rows of a slab across the
inputs, and the factor is the one under which those rows are most likely.

* A slab is a window of a quarter of the rows in the order of one column (drawn half of the time by
  how steep the function is along it), or of a random direction weighed by the slopes, in turns.
* The factor is a power of two, 1 at least: slabs may be kinder than what lies beyond all data.
* It must not cost rows held out at random more than 0.01 nats.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tractable.likelihoods import Normal
from tractable.sklearn.choosing import Fit, Setting, Trials, Wanted
from tractable.sklearn.seen import Seen
from tractable.training import holdout

SLABS = 8
FACTORS = tuple(2.0**k for k in range(11))
COST = 0.01
"""Nats a row that growth may cost among the data."""
_WIDTH = 0.25  # of a slab, as a share of the rows
_MOST_ROWS = 1_000  # that copies learn from
_FEWEST_ROWS = 40  # below, there is nothing to cut out
_SEED = 32_452_843
_FIRST = 100  # number of the first slab among all selections of rows

Errors = tuple[Tensor, Tensor, Tensor]
"""Their squares, variances without growth, and growth: of each row and output."""


def growth(
    trials: Trials,
    setting: Setting,
    judged: Fit,
    inside: Sequence[Seen],
    *,
    doubt: float,
    seed: int,
) -> float:
    """The factor on the growth of the variance off the data.

    Args:
        trials: the rows, and how to fit them.
        setting: how the network is made and taught.
        judged: a fit from which some of ``trials.parts`` were held out.
        inside: what such fits say of those rows.
        doubt: factor on the variance within networks.
        seed: seed of the slabs.
    """
    rows = torch.arange(len(trials.x))
    if len(rows) < _FEWEST_ROWS or judged.learner.support is None:
        return 1.0
    generator = torch.Generator().manual_seed(seed + _SEED)
    factor = holdout.noise_scale(judged.learner, [part.heldout(doubt) for part in inside])
    steep = judged.slopes(trials.x)
    some = rows[torch.randperm(len(rows), generator=generator)[:_MOST_ROWS]]
    slabs = [some[_slab(trials.x[some], k, steep, generator)] for k in range(SLABS)]
    fits = trials.fits(
        [
            Wanted(
                setting,
                some[~torch.isin(some, slab)],
                number,
                distance_aware=True,
                start=judged.weights,
            )
            for number, slab in enumerate(slabs, _FIRST)
        ]
    )
    out = [
        fit.seen(trials.rows.at(slab), trials.y[slab])
        for fit, slab in zip(fits, slabs, strict=True)
    ]
    stretches, among = ([_errors(part, doubt, factor) for part in of] for of in (out, inside))
    allowed = _mean_log(among, 1.0) - COST
    allowed_factors = [c for c in FACTORS if c == 1 or _mean_log(among, c) >= allowed]
    return max(allowed_factors, key=lambda c: _mean_log(stretches, c))


def _slab(x: Tensor, number: int, steep: Tensor, generator: torch.Generator) -> Tensor:
    """Numbers of the rows of one slab."""
    columns = x.shape[1]
    if number % 2 == 0:
        by_slope = steep.square() if number % 4 == 0 else torch.ones(columns, dtype=torch.float64)
        drawn = torch.multinomial(by_slope + 1e-12, 1, generator=generator)
        along = x[:, int(drawn)].double()
    else:
        direction = torch.randn(columns, generator=generator, dtype=torch.float64) * steep
        along = x.double() @ direction
    # Rows with the same value in one column come in the order of chance.
    chance = torch.randperm(len(x), generator=generator)
    order = chance[along[chance].argsort(stable=True)]
    length = max(int(_WIDTH * len(x)), 1)
    start = int((number + float(torch.rand(1, generator=generator))) / SLABS * (len(x) - length))
    window = order[start : start + length]
    # A value that is in the slab is not outside as well, unless there are too few values for that.
    whole = (along >= along[window].amin()) & (along <= along[window].amax())
    return whole.nonzero().squeeze(1) if int(whole.sum()) <= len(x) // 2 else window


def _errors(seen: Seen, doubt: float, factor: float) -> Errors:
    noise = seen.likelihood
    if not isinstance(noise, Normal):
        raise TypeError(f"growth is measured under a Normal likelihood, got {noise!r}")
    # Where all rows of a fit are alike, distances have no scale and nothing grows.
    extra = torch.zeros_like(seen.variance) if seen.growth is None else seen.growth
    return (
        (seen.y - seen.mean).double().square(),
        seen.doubted(doubt).double() + factor * noise.noise_mean.to(seen.mean.device),
        extra.double(),
    )


def _mean_log(errors: Sequence[Errors], factor: float) -> float:
    """Mean log density of all rows, up to a constant."""
    total = []
    for square, variance, extra in errors:
        spread = variance + factor * extra
        total.append(-0.5 * (square / spread + spread.log()).mean())
    return float(torch.stack(total).mean())
