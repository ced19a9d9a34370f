"""Exact count of the linear regions of a network with piecewise linear activations.

Such a network is affine on each cell of a partition of its inputs.  Layer by layer, a cell is
divided where the pre-activation of a unit, which is affine there, crosses a kink of the activation.
Cells are intervals in one dimension and convex polygons in two; more dimensions are not supported.

Exact: to rounding; cells thinner than about 1e-9 of the box are omitted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from tractable.diagnostics.result import Cell, DiagnosticResult
from tractable.layer_iteration import layers
from tractable.plots.style import COLORS, get_axes, style_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Kinks = Mapping[type[nn.Module], Sequence[float]]
MAX_CELLS = 200_000
"""Maximum number of cells."""
_THIN = 1e-9  # cells thinner than this fraction of the box are omitted
_PASS = (nn.Identity, nn.Dropout, nn.Flatten)


@dataclass(frozen=True)
class Regions(DiagnosticResult):
    """Linear regions of a network in a box.

    Attributes:
        n_regions: number of cells with different patterns of active units.
        n_pieces: number of cells after joining adjacent ones with the same affine output (in one
            dimension); None in two.
        breakpoints: inputs where the output has a kink or a jump, in one dimension.
        slopes: slope of the first output on each piece, from left to right.
        sizes: length or area of each cell.
        upper_bound: upper bound of ``n_regions`` for networks with these layers; None for two or
            more hidden layers in two dimensions.
        polygons: corners of each cell, in two dimensions.
        box: lower and upper end of each input.
    """

    n_regions: int
    n_pieces: int | None
    breakpoints: tuple[float, ...]
    slopes: tuple[float, ...]
    sizes: tuple[float, ...]
    upper_bound: int | None
    polygons: tuple[tuple[tuple[float, float], ...], ...]
    box: tuple[tuple[float, float], ...]

    def table_header(self) -> list[str]:
        """Return the names of the table's columns."""
        return ["", "value"]

    def table_rows(self) -> list[list[Cell]]:
        """Return the rows of the table."""
        return [
            ["linear regions", self.n_regions],
            ["pieces of the output", self.n_pieces],
            ["upper bound", self.upper_bound],
            ["smallest, fraction of the box", min(self.sizes) / sum(self.sizes)],
            ["largest, fraction of the box", max(self.sizes) / sum(self.sizes)],
        ]

    def recommendation(self) -> str:
        """Return the number of regions and its upper bound."""
        if self.upper_bound is None:
            return f"The network is affine on each of {self.n_regions} cells of the box."
        return (
            f"The network uses {self.n_regions} of at most {self.upper_bound} linear regions in "
            "the box."
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the output in one dimension, or the cells in two."""
        ax = get_axes(ax)
        if len(self.box) == 1:
            low, high = self.box[0]
            places = [low, *self.breakpoints, high]
            heights = [0.0]
            for slope, a, b in zip(self.slopes, places[:-1], places[1:], strict=True):
                heights.append(heights[-1] + slope * (b - a))
            ax.plot(places, heights, color=COLORS[0], linewidth=1.8)
            ax.plot(places[1:-1], heights[1:-1], "o", color=COLORS[1], markersize=4)
            return style_axes(ax, xlabel="input", ylabel="output minus its value at the left end")
        from matplotlib.collections import PolyCollection

        colors = [COLORS[i % len(COLORS)] for i in range(len(self.polygons))]
        ax.add_collection(
            PolyCollection(
                [list(o) for o in self.polygons],
                facecolors=colors,
                alpha=0.35,
                edgecolors="#333333",
                linewidths=0.5,
            )
        )
        (left, right), (bottom, top) = self.box
        ax.set_xlim(left, right)
        ax.set_ylim(bottom, top)
        return style_axes(ax, xlabel="first input", ylabel="second input", grid=False)


def regions(net: nn.Module, box: Any, *, kinks: Kinks | None = None) -> Regions:
    """Count the linear regions of a network in a box of one or two inputs.

    Args:
        net: a chain of linear layers and piecewise linear activations (``nn.Sequential``).
        box: lower and upper end, ``(-1, 1)``; for two inputs ``[(-1, 1), (-1, 1)]``.
        kinks: positions of the kinks or jumps of additional activations, by class.

    Returns:
        The regions.

    Raises:
        ValueError: there are more than two inputs, or a layer is not piecewise linear.
    """
    ends = torch.as_tensor(box, dtype=torch.float64)
    ends = ends[None] if ends.ndim == 1 else ends
    if ends.ndim != 2 or ends.shape[1] != 2 or not bool((ends[:, 0] < ends[:, 1]).all()):
        raise ValueError(f"box must be pairs (low, high) with low < high, got {box!r}")
    known = {**KINKS, **(kinks or {})}
    chain = [layer for layer in layers(net) if not isinstance(layer.module, _PASS)]
    first = next((la.module for la in chain if isinstance(la.module, nn.Linear)), None)
    if first is None:
        raise ValueError("the network has no linear layer")
    inputs = first.in_features
    if inputs > 2 or len(ends) > 2:
        raise ValueError(
            f"regions are counted for one or two inputs, not {max(inputs, len(ends))}: restrict "
            f"the network to a plane with nn.Sequential(nn.Linear(2, {inputs}), net)"
        )
    if len(ends) != inputs:
        raise ValueError(
            f"the network has {inputs} inputs, and the box {len(ends)}: pass one pair for each"
        )
    cells = [_Cell.whole(ends)]
    widths = []
    for layer in chain:
        module = layer.module
        if isinstance(module, nn.Linear):
            widths.append(module.out_features)
            cells = [cell.mapped(module) for cell in cells]
            continue
        layer_kinks = _kinks_of(module, known)
        if layer_kinks is None:
            raise ValueError(
                f"{layer.description} is not known to be piecewise linear; supported are "
                f"{', '.join(sorted(k.__name__ for k in known))}; pass "
                f"kinks={{{type(module).__name__}: (0.0,)}} if it has a kink at 0"
            )
        scale = float((ends[:, 1] - ends[:, 0]).max())
        for kink in layer_kinks:
            for unit in range(widths[-1]):
                cells = [part for cell in cells for part in cell.cut(unit, kink, scale)]
                if len(cells) > MAX_CELLS:
                    raise ValueError(f"there are more than {MAX_CELLS} regions: use a smaller box")
        cells = [cell.activated(module) for cell in cells]
    return _make_regions(cells, ends, _upper_bound(inputs, widths[:-1]))


def _kinks_of(module: nn.Module, known: Mapping[type[nn.Module], Any]) -> Sequence[float] | None:
    found = known.get(type(module))
    return found(module) if callable(found) else found


KINKS: dict[type[nn.Module], Any] = {
    nn.ReLU: (0.0,),
    nn.LeakyReLU: (0.0,),
    nn.PReLU: (0.0,),
    nn.RReLU: (0.0,),
    nn.ReLU6: (0.0, 6.0),
    nn.Hardtanh: lambda m: (m.min_val, m.max_val),
    nn.Hardsigmoid: (-3.0, 3.0),
    nn.Threshold: lambda m: (m.threshold,),
    nn.Hardshrink: lambda m: (-m.lambd, m.lambd),
    nn.Softshrink: lambda m: (-m.lambd, m.lambd),
}
"""Kinks or jumps of the piecewise linear activations of torch."""


def max_regions(inputs: int, widths: Sequence[int]) -> int:
    """Return the largest number of linear regions that is known to be attained.

    For one hidden layer ``sum_j C(D, j)`` over ``j <= inputs``, which is the maximum; for K layers
    of D units the book's eq. 4.17, ``(D // inputs + 1)^(inputs (K - 1)) sum_j C(D, j)``, which
    special weights attain.

    Args:
        inputs: number of inputs.
        widths: number of units of each hidden layer.

    >>> max_regions(2, [3]), max_regions(1, [5] * 10)
    (7, 60466176)
    """
    if inputs < 1 or not widths or min(widths) < 1:
        raise ValueError(f"inputs and widths must be 1 or more, got {inputs} and {widths}")
    found = sum(math.comb(widths[-1], j) for j in range(inputs + 1))
    for width in widths[:-1]:
        found *= (width // inputs + 1) ** inputs
    return found


def _upper_bound(inputs: int, widths: Sequence[int]) -> int | None:
    if not widths:
        return 1
    if inputs == 1:  # every unit of a layer may add one kink in every existing region
        return math.prod(width + 1 for width in widths)
    return max_regions(inputs, widths) if len(widths) == 1 else None


@dataclass(frozen=True)
class _Cell:
    """Convex cell: its corners, and the affine map ``A x + c`` on it."""

    corners: Tensor  # [corners, inputs]: two ends, or a polygon in order
    A: Tensor
    c: Tensor

    @classmethod
    def whole(cls, ends: Tensor) -> _Cell:
        if len(ends) == 1:
            corners = ends[0][:, None]
        else:
            (a, b), (c, d) = ends.tolist()
            corners = torch.tensor([[a, c], [b, c], [b, d], [a, d]], dtype=torch.float64)
        n = len(ends)
        return cls(corners, torch.eye(n, dtype=torch.float64), torch.zeros(n, dtype=torch.float64))

    def mapped(self, layer: nn.Linear) -> _Cell:
        w = layer.weight.detach().double().cpu()
        b = torch.zeros(len(w)) if layer.bias is None else layer.bias.detach().cpu()
        return _Cell(self.corners, w @ self.A, w @ self.c + b.double())

    def cut(self, unit: int, kink: float, scale: float) -> list[_Cell]:
        """Return both sides of the line where a unit crosses a kink, or the cell itself."""
        height = self.corners @ self.A[unit] + (self.c[unit] - kink)
        reach = float(self.A[unit].norm()) * scale * _THIN
        if bool((height <= reach).all()) or bool((height >= -reach).all()):
            return [self]
        if self.corners.shape[1] == 1:
            middle = self.corners[0] - height[0] * (self.corners[1] - self.corners[0]) / (
                height[1] - height[0]
            )
            halves = [
                torch.stack([self.corners[0], middle]),
                torch.stack([middle, self.corners[1]]),
            ]
        else:
            halves = [_half(self.corners, height), _half(self.corners, -height)]
        return [_Cell(part, self.A, self.c) for part in halves]

    def activated(self, module: nn.Module) -> _Cell:
        """Apply the activation, which is affine here, given by value and slope at the center."""
        middle = self.corners.mean(0)
        z = (self.A @ middle + self.c).requires_grad_()
        with torch.enable_grad():
            was, value = module.training, module.eval()(z)
            module.train(was)
            (slope,) = (
                torch.autograd.grad(value.sum(), z, materialize_grads=True)
                if value.requires_grad
                else (torch.zeros_like(z),)
            )
        a = slope[:, None] * self.A
        return _Cell(self.corners, a, value.detach() - a @ middle)

    @property
    def size(self) -> float:
        if self.corners.shape[1] == 1:
            return float(self.corners[1, 0] - self.corners[0, 0])
        x, y = self.corners.T
        return float(0.5 * (x * y.roll(-1) - y * x.roll(-1)).sum().abs())


def _half(corners: Tensor, height: Tensor) -> Tensor:
    """Return the part of a polygon where the height is not positive (Sutherland and Hodgman)."""
    kept = []
    n = len(corners)
    for i in range(n):
        j = (i + 1) % n
        if height[i] <= 0:
            kept.append(corners[i])
        if (height[i] < 0) != (height[j] < 0) and height[i] != 0 and height[j] != 0:
            share = height[i] / (height[i] - height[j])
            kept.append(corners[i] + share * (corners[j] - corners[i]))
    return torch.stack(kept)


def _make_regions(cells: list[_Cell], ends: Tensor, upper_bound: int | None) -> Regions:
    box = tuple((float(low), float(high)) for low, high in ends)
    if len(box) == 2:
        polygons = tuple(tuple((float(x), float(y)) for x, y in cell.corners) for cell in cells)
        sizes = tuple(cell.size for cell in cells)
        return Regions(len(cells), None, (), (), sizes, upper_bound, polygons, box)
    cells = sorted(cells, key=lambda cell: float(cell.corners[0, 0]))
    breakpoints, slopes = [], [float(cells[0].A[0, 0])]
    size = max(float(cell.A.abs().max()) for cell in cells) + 1e-300
    for before, after in pairwise(cells):
        place = after.corners[0]
        jump = (after.A @ place + after.c) - (before.A @ place + before.c)
        bend = (after.A - before.A).abs().max()
        if float(bend) > 1e-9 * size or float(jump.abs().max()) > 1e-9 * size:
            breakpoints.append(float(place))
            slopes.append(float(after.A[0, 0]))
    return Regions(
        len(cells), len(breakpoints) + 1, tuple(breakpoints), tuple(slopes),
        tuple(cell.size for cell in cells), upper_bound, (), box,
    )  # fmt: skip
