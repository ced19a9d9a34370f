"""Distances to the training rows, from which the epistemic variance grows off the data.

A network also predicts in regions without data, and a posterior of independent weights is nearly
as certain there as among the data.  The data determine how steep the function is at the training
rows.  At a distance d from the nearest training rows, in a direction drawn at random, a function
that remains as steep has changed by a square of ``g2 d^2`` in expectation, where ``g2`` is the mean
over rows and columns of its squared slope.  That much is added to the epistemic variance.

A distance in all columns does not see a gap in the few that matter, if rows differ as much in the
others.  So a second distance measures every column by the slope along it, ``g_j``: at a row that
is ``h`` from the nearest in that measure the function, as steep as it was, has changed by ``h``.
Its square is added where it is greater.

* Inputs are measured in standard deviations of each column; columns that do not vary are ignored.
* ``d(x)`` is the root mean square of the Euclidean distances to the three nearest of the rows that
  were kept: at most 1,000, drawn at random.
* Nine of ten training rows are nearer than ``radius`` to the others; up to there nothing is added.

For labels the same is added to the variance of the network's outputs, before they become
probabilities: far away the mean grows as fast as the deviation, and the probability of a decision
stays below that of one deviation, 84 %.

A function may be much flatter around a row than on average, as far out in a column with a long
tail.  There the squared slope is at most 16 times the mean square of the secants between the
nearest kept row and all others.  (Most functions are not limited by this; measured on tables as
the one in ``tests/sklearn/test_long_tails.py``.)

It does not level off, since the mean of a network with rectifiers runs away linearly as well.
Online updates after a fit bring rows of their own: those unlike the rows kept are kept as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from tractable.errors import InvalidModelFile
from tractable.learners.off_data.neighbors import DistanceLimits, NearestDistances
from tractable.persistence import validation

MAX_ROWS = 1_000
"""That are kept."""
MAX_NUMBERS = 1 << 18
"""That are kept: of wide inputs, such as images, fewer rows."""
INSIDE_SHARE = 0.9
"""Share of the training rows that count as inside."""

MAX_LABEL_COLUMNS = 32
"""Columns up to which class probabilities are widened off the data.  With more, as in images, test
rows lie off the data because of the features that distinguish them."""

_FEWEST_ROWS = 2
_FARTHEST = 1e12  # in standard deviations; squares beyond do not fit single precision
_PROBES = 1_000  # pairs of a row and a direction that slopes are measured at
_STEP = 1e-2  # of a difference quotient, in standard deviations
_FEW_COLUMNS = 64  # up to here every column has a slope
_AT_ROWS = 100  # that it is measured at
_COLUMN_STEP = 0.1  # across kinks, along a column
_MOVED = 1 << 21  # numbers in the rows that are moved along some columns at once
_SECANTS = 16.0  # times their mean square is the largest squared slope around a row
_SEED = 15_485_863  # this far from the learner's seed, whose own draws stay as they are


_KEPT = (
    "centre",
    "scale",
    "rows",
    "radius",
    "slope",
    "column_slopes",
    "slope_radius",
    "slope_ratio",
)
_NOT_NEGATIVE = ("scale", "radius", "slope", "column_slopes", "slope_radius", "slope_ratio")


class OffDataDistance(NamedTuple):
    """The distance of rows from the training rows.

    Attributes:
        novelty: how much farther than ``radius`` each row is, in standard deviations of the inputs;
            0 for most rows.
        extra: what is added to the epistemic variance of each output, ``[rows, outputs]``; None
            where nothing is widened.
    """

    novelty: Tensor
    extra: Tensor | None


@dataclass(frozen=True)
class TrainingSupport:
    """A sample of the training rows, and the slopes of the fitted function.

    Attributes:
        event: shape of one row of inputs.
        centre: mean of each column of the kept rows.
        scale: their standard deviation; 0 for a column that does not vary.
        rows: the kept rows, in those units.
        radius: distance within which nine of ten training rows have their neighbors.
        slope: mean squared slope of the predicted mean, for each output (of the outputs' mean,
            for labels); None where nothing is widened.
        steep: root mean square slope along each column; None where nothing is widened, or of many
            columns, such as images.
        slope_radius: as ``radius``, with columns measured by ``column_slopes``.
        slope_ratio: squared slope around each kept row over ``slope``, at most 1,
            ``[rows, outputs]``; None where it is 1 for all.
    """

    event: tuple[int, ...]
    centre: Tensor
    scale: Tensor
    rows: Tensor
    radius: Tensor
    slope: Tensor | None = None
    column_slopes: Tensor | None = None
    slope_radius: Tensor | None = None
    slope_ratio: Tensor | None = None

    @classmethod
    def from_rows(cls, x: Tensor) -> TrainingSupport | None:
        """Return the support of these rows, all kept; None if they are too few or all equal."""
        flat = x.detach().flatten(1)
        if len(flat) < _FEWEST_ROWS:
            return None
        varies = flat.amax(0) > flat.amin(0)
        exact = flat.double()
        centre, scale = exact.mean(0), exact.std(0, correction=0) * varies
        if not bool(varies.any()) or not bool(torch.isfinite(scale).all()):
            return None
        centre, scale = centre.to(flat.dtype), scale.to(flat.dtype)
        bare = cls(tuple(x.shape[1:]), centre, scale, flat[:0], scale.new_zeros(()))
        kept = replace(bare, rows=bare.scaled(x))
        among = NearestDistances(kept.rows).distances(kept.rows, skip=1)
        return replace(kept, radius=torch.quantile(among, INSIDE_SHARE, interpolation="higher"))

    @cached_property
    def _nearest(self) -> NearestDistances:
        """Distances to the kept rows; also scaled by ``column_slopes`` if the function varies."""
        if self.slope is None or self.slope_radius is None or not bool(self.slope.any()):
            return NearestDistances(self.rows, None, DistanceLimits(float(self.radius)))
        share = 1 / float(self.slope.double().mean())
        return NearestDistances(
            self.rows,
            self.column_slopes,
            DistanceLimits(float(self.radius), float(self.slope_radius), share),
        )

    @cached_property
    def _per(self) -> Tensor:
        return torch.where(self.scale > 0, 1 / self.scale, torch.zeros_like(self.scale))

    def takes(self, x: Tensor) -> bool:
        """Return whether these inputs are comparable with the kept rows."""
        return x.is_floating_point() and tuple(x.shape[1:]) == self.event

    def scaled(self, x: Tensor) -> Tensor:
        """Return inputs in standard deviations from the mean, ``[rows, columns]``."""
        return ((x.flatten(1) - self.centre) * self._per).clamp(-_FARTHEST, _FARTHEST)

    def novelty(self, x: Tensor) -> Tensor:
        """Return by how much the distance of each row exceeds ``radius``; 0 for most training rows.

        In standard deviations of the inputs.
        """
        return self._nearest.beyond(self.scaled(x.detach()))

    def distance(self, x: Tensor) -> OffDataDistance:
        """Return how far rows are from the training rows, and how much the variance grows there."""
        scaled = self.scaled(x.detach())
        if self.slope is None:
            return OffDataDistance(self._nearest.beyond(scaled), None)
        novelty, square = self._nearest.growth(scaled)
        extra = square.reshape(-1, *[1] * self.slope.ndim) * self.slope
        return OffDataDistance(
            novelty, extra if self.slope_ratio is None else self._limited(extra, scaled)
        )

    def _limited(self, extra: Tensor, scaled: Tensor) -> Tensor:
        """Return the growth of the variance with the slope around the nearest kept row."""
        if self.slope_ratio is None:
            return extra
        found = extra.clone()
        for some in extra.flatten(1).any(1).nonzero().squeeze(1).split(MAX_ROWS):
            nearest = torch.cdist(scaled[some], self.rows).argmin(1)
            found[some] *= self.slope_ratio[nearest].to(extra)
        return found

    def joined(self, x: Tensor) -> TrainingSupport:
        """Return the support with later rows that differ from the kept ones.

        At the maximum number of rows, they replace the rows kept longest.
        """
        new = self.scaled(x.detach())
        new = new[self._nearest.beyond(new) > 0]
        if not len(new):
            return self
        most = max_kept_rows(self.event)
        found = replace(self, rows=torch.cat([self.rows, new])[-most:])
        if self.slope_ratio is None:
            return found
        ones = self.slope_ratio.new_ones(len(new), *self.slope_ratio.shape[1:])
        return replace(found, slope_ratio=torch.cat([self.slope_ratio, ones])[-most:])

    def with_scaled_growth(self, factor: float) -> TrainingSupport:
        """Return the support with the growth of the variance multiplied by a factor."""
        if self.slope is None:
            return self
        found = replace(self, slope=self.slope * factor)
        if self.column_slopes is None or self.slope_radius is None:
            return found
        return replace(
            found,
            column_slopes=self.column_slopes * factor**0.5,
            slope_radius=self.slope_radius * factor**0.5,
        )

    def with_slope(self, mean: Callable[[Tensor], Tensor], seed: int) -> TrainingSupport:
        """Return the support with the slope of a function of the inputs.

        The mean over columns of the squared slope is the expected square of the derivative along
        a direction drawn uniformly, which difference quotients give without knowing the function:
        exact for a linear function of one column, else within some 5 % by the number of draws.

        Args:
            mean: from rows of inputs to ``[rows, outputs]``; not random.
            seed: seed of the learner.
        """
        at = torch.arange(_PROBES) % len(self.rows)
        shape = (_PROBES, self.rows.shape[1])
        drawn = torch.randn(shape, generator=support_generator(seed + 1), dtype=torch.float64)
        direction = drawn.to(self.rows) * (self.scale > 0)
        direction = direction / direction.norm(dim=1, keepdim=True)
        sides = []
        for step in (-_STEP, _STEP):
            moved = self.rows[at.to(self.rows.device)] + step * direction
            sides.append(mean((self.centre + moved * self.scale).reshape(-1, *self.event)))
        slope = (sides[1] - sides[0]) / (2 * _STEP)
        found = replace(self, slope=slope.double().square().mean(0).to(self.rows.dtype))
        found = found.with_slope_ratio(mean)
        if shape[1] > _FEW_COLUMNS:
            return found
        column_slopes = rms_column_slopes(
            lambda rows: mean((self.centre + rows * self.scale).reshape(-1, *self.event)),
            self.rows[:_AT_ROWS],
            (self.scale > 0).to(self.rows),
        ).to(self.rows.dtype)
        measured = self.rows * column_slopes
        among = NearestDistances(measured).distances(measured, skip=1)
        slope_radius = torch.quantile(among, INSIDE_SHARE, interpolation="higher")
        return replace(found, column_slopes=column_slopes, slope_radius=slope_radius)

    def with_slope_ratio(self, mean: Callable[[Tensor], Tensor]) -> TrainingSupport:
        """Return the same with the slope of a function around each row, if it is small at some."""
        if self.slope is None:
            return self
        values = mean((self.centre + self.rows * self.scale).reshape(-1, *self.event)).double()
        flat, rows = (values - values.mean(0)).flatten(1), self.rows.double()
        # Rows nearer than the step of a difference quotient count as that far apart.
        weight = 1 / torch.cdist(rows, rows).clamp_min(_STEP).square()
        weight.fill_diagonal_(0)
        square = flat.square() * weight.sum(1, keepdim=True) + weight @ flat.square()
        secants = (square - 2 * flat * (weight @ flat)).clamp_min(0) / (len(rows) - 1)
        slope = self.slope.double().reshape(-1)
        ratio = torch.where(slope > 0, _SECANTS * secants / slope, 1).clamp_max(1)
        if not bool((ratio < 1).any()):
            return self
        shape = (len(rows), *self.slope.shape)
        return replace(self, slope_ratio=ratio.to(self.rows.dtype).reshape(shape))

    # --- files -----------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        """Return the support as named tensors, including the kept rows."""
        event = torch.tensor(self.event, dtype=torch.int64)
        named = {name: getattr(self, name) for name in _KEPT}
        return {"event": event, **{name: t for name, t in named.items() if t is not None}}

    @classmethod
    def from_tensors(
        cls, tensors: dict[str, Tensor], dtype: torch.dtype, outputs: Callable[[Tensor], Tensor]
    ) -> TrainingSupport:
        """Return the support that ``tensors`` described, checked.

        Args:
            tensors: as ``tensors`` names them.
            dtype: precision of the learner.
            outputs: the mean that the learner predicts, of which the shape counts.

        Raises:
            InvalidModelFile: a part is missing, has another shape or cannot be.
        """
        given = dict(tensors)
        event = given.pop("event", torch.zeros(0))
        shape = tuple(event.tolist()) if event.dtype is torch.int64 and event.ndim == 1 else ()
        rows = given.get("rows", torch.zeros(0, 0))
        if rows.ndim != 2 or not _FEWEST_ROWS <= len(rows) <= MAX_ROWS:
            raise InvalidModelFile(f"the file keeps {len(rows)} training rows: damaged")
        columns, size = rows.shape[1], 1
        for length in shape:
            size *= validation.require_at_most(length, columns, "a length of the inputs")
        if not shape or size != columns:
            raise InvalidModelFile(f"rows of {columns} numbers are no inputs of shape {shape}")
        like = rows.new_empty((), dtype=dtype)
        expected = {
            "centre": like.new_empty(columns),
            "scale": like.new_empty(columns),
            "rows": like.new_empty(len(rows), columns),
            "radius": like,
        }
        if "slope" in given:
            expected["slope"] = outputs(like.new_zeros(1, *shape))[0]
        if "column_slopes" in given and "slope" not in given:
            raise InvalidModelFile("the file has slopes along columns, but no slope: damaged")
        if "column_slopes" in given:
            expected |= {"column_slopes": like.new_empty(columns), "slope_radius": like}
        if "slope" in expected and "slope_ratio" in given:
            expected["slope_ratio"] = like.new_empty(len(rows), *expected["slope"].shape)
        validation.check_same_tensors(expected, given, "support")
        validation.check_numbers(given, dict.fromkeys(_NOT_NEGATIVE, "non-negative"))
        return cls(shape, **given)

    def to(self, device: torch.device) -> TrainingSupport:
        """Return the support on another device."""
        moved = {n: t.to(device) for n, t in self.tensors().items() if n != "event"}
        return TrainingSupport(self.event, **moved)


def rms_column_slopes(mean: Callable[[Tensor], Tensor], x: Tensor, units: Tensor) -> Tensor:
    """Return the root-mean-square slope of a function along each column, in double precision.

    Args:
        mean: from rows of inputs to outputs, rows first; not random.
        x: the rows to measure at, ``[rows, columns]``.
        units: what counts as one along each column.
    """
    rows, columns = x.shape
    steps, found = _COLUMN_STEP * units.to(x), []
    for some in torch.arange(columns).split(max(_MOVED // max(rows * columns, 1), 1)):
        sides = []
        for sign in (-1.0, 1.0):
            at = x.repeat(len(some), 1, 1)
            at[torch.arange(len(some)), :, some] += sign * steps[some, None]
            sides.append(mean(at.flatten(0, 1)).double().reshape(len(some), rows, -1))
        change = (sides[1] - sides[0]) / (2 * _COLUMN_STEP)
        found.append(change.square().mean(dim=(1, 2)).sqrt())
    return torch.cat(found)


def max_kept_rows(event: tuple[int, ...]) -> int:
    """Return the number of rows of this shape that are kept at most."""
    columns = max(torch.Size(event).numel(), 1)
    return max(min(MAX_ROWS, MAX_NUMBERS // columns), _FEWEST_ROWS)


def sample_rows(x: Tensor, seed: int) -> Tensor:
    """Return a random sample of rows."""
    chosen = torch.randperm(len(x), generator=support_generator(seed))[
        : max_kept_rows(tuple(x.shape[1:]))
    ]
    return x[chosen.to(x.device)]


def support_generator(seed: int) -> torch.Generator:
    """Return a generator that is independent of the learner's own."""
    return torch.Generator().manual_seed(seed + _SEED)
