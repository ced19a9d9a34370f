"""Moments of recurrent layers over all steps, and their messages: one pass in each direction.

A layer gets the Gaussian projections ``p_t`` of its inputs and propagates a state.  The means are
those of torch's layer; the variances follow from those of the gates, with products as of
independent factors (eq. 14), where ' marks the previous step:

    LSTM  c = f c' + i g        v_c = f^2 v_c' + v_f (c'^2 + v_c') + i^2 v_g + v_i (g^2 + v_g)
          h = o t, t = tanh c   v_h = o^2 v_t + v_o (t^2 + v_t)
    GRU   n = tanh(x_n + r h_n), h = n + z (h' - n)
          v_h = (1 - z)^2 v_n + z^2 v_h' + v_z ((h' - n)^2 + v_n + v_h')
    RNN   h = phi(a)            v_h = J^2 v_a

With ``s`` the slope of a gate at its mean and ``v`` the variance before it, the tangent has the
variance ``s^2 v``, which is unbounded and may overflow over many steps.  A gate is bounded, so its
variance is taken as ``s^2 v / (1 + s v)`` and its slope as ``J = s / sqrt(1 + s v)`` (``J^2 v`` is
the variance).  Then ``f^2 + v_f <= f`` and nothing grows.

Messages: with ``D = d_c + d_h o J_t``, to i, f, g: ``D g J_i, D c' J_f, D i J_g``; to o:
``d_h t J_o``; to c': ``D f``; those of the variances with each factor squared.  Both are propagated
together, as a tensor whose first dimension has size two.

Shapes: projections and gates ``[steps, rows, gates * units]``, states ``[steps, rows, units]``,
messages ``[2, steps, rows, ...]``.  The loops write into preallocated tensors, to save time.

Exact: the means and their messages without variance.
Approximate: gates of one state, and uses of a weight at different steps, are treated as
independent; gates are linearized.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

import torch
from torch import Tensor

Pair = tuple[Tensor, Tensor]
"""Mean and variance."""


@dataclass(frozen=True)
class RecurrentWeights:
    """The weights from the previous state, and their bias; a variance of None marks a constant.

    Attributes:
        weight: ``[gates * units, units]``.
        weight_variance: same shape, or None.
        bias: ``[gates * units]``, or None.
        bias_variance: same shape, or None.
    """

    weight: Tensor
    weight_variance: Tensor | None
    bias: Tensor | None
    bias_variance: Tensor | None

    def spread(self, h: Tensor, base: Tensor) -> Tensor:
        """Return ``base`` plus the variance of ``weight h + bias`` not due to h, in place."""
        if self.weight_variance is not None:
            base.flatten(0, -2).addmm_((h * h).flatten(0, -2), self.weight_variance.mT)
        return base if self.bias_variance is None else base.add_(self.bias_variance)

    @property
    def square(self) -> Tensor:
        """The factor ``E[W^2]`` of the state's variance, transposed, ``[units, gates * units]``."""
        square = self.weight * self.weight
        return (square if self.weight_variance is None else square + self.weight_variance).mT

    @property
    def both(self) -> Tensor:
        """The factors of messages to the previous state, ``[2, gates * units, units]``."""
        return torch.stack([self.weight, self.weight * self.weight])


@dataclass
class ForwardPass:
    """The result of a layer: mean and variance of ``out`` and ``cell``, ``[steps, rows, units]``.

    ``kept`` are the tensors for the backward pass, by name.
    """

    out: Pair
    cell: Pair | None = None
    kept: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class BackwardMessages:
    """Messages to means and variances, stacked in the first dimension.

    Attributes:
        to_input: to the projections of the inputs, ``[2, steps, rows, gates * units]``.
        to_hidden: to the projections of the previous states, of the same shape.
        to_state: to the first state (and cell), each ``[2, rows, units]``.
    """

    to_input: Tensor
    to_hidden: Tensor
    to_state: list[Tensor]


def gate_variance(v: Tensor, slope: Tensor, out: Tensor, bounded: bool) -> Tensor:
    """Write ``J^2 v`` into ``out``, overwrite ``slope``, which is s, by ``J^2``; return ``out``."""
    if bounded:
        limit = torch.addcmul(_one(v), v, slope, out=out)
        slope.mul_(slope).div_(limit)
    else:
        slope.mul_(slope)
    return torch.mul(v, slope, out=out)


@functools.cache
def _one_like(dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.ones((), dtype=dtype, device=device)


def _one(like: Tensor) -> Tensor:
    return _one_like(like.dtype, like.device)


def bounded_gate(mean: Tensor, slope: Tensor, var: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return value, variance and slope of a gate, for the rules that compute step by step."""
    limit = 1 + slope * var
    return mean, slope * slope * var / limit, slope * limit.rsqrt()


def _before(states: Tensor, first: Tensor) -> Tensor:
    """Return the state before each step, ``[steps, rows, units]``."""
    return torch.cat([first.unsqueeze(0), states[:-1]])


def _with_squares(*factors: tuple[Tensor, Tensor]) -> Tensor:
    """Return products and their squares, ``[steps, 2, rows, factors, units]``."""
    steps, rows, units = factors[0][0].shape
    found = factors[0][0].new_empty(steps, 2, rows, len(factors), units)
    once, twice = found.unbind(1)
    for k, (x, y) in enumerate(factors):
        torch.mul(x, y, out=once[:, :, k])
    torch.mul(once, once, out=twice)
    return found


class LSTMMoments:
    """The LSTM: gates i, f, g, o; the state is (h, c)."""

    def forward(
        self, x: Pair, state: list[Pair], w: RecurrentWeights, bounded: bool
    ) -> ForwardPass:
        """Return means and variances of all steps.

        Args:
            x: mean and variance of the projections of the inputs; overwritten.
            state: mean and variance of h and of c, ``[rows, units]`` each.
            w: recurrent weights.
            bounded: whether the variances of gates are bounded.
        """
        (h0, vh0), (c0, vc0) = state
        a, c, t, h = self._means(x[0], h0, c0, w)
        i, f, g, o = a.chunk(4, -1)  # views of a, each [steps, rows, units]
        # s (1 - s) for the sigmoids, 1 - tanh^2 for g and t
        slope, slope_t = a.addcmul(a, a, value=-1), torch.addcmul(_one(t), t, t, value=-1)
        of_gates = slope.chunk(4, -1)
        torch.addcmul(_one(g), g, g, value=-1, out=of_gates[2])
        before = _before(c, c0)
        vh, vc = self._variances(
            w.spread(_before(h, h0), x[1]), (vh0, vc0), w.square, slope, slope_t, a,
            torch.cat([before, i, t], -1).square_(), bounded,
        )  # fmt: skip
        # J times g, c', i, t for the gates, and o J_t for the cell
        factor, to_c = slope.sqrt_(), slope_t.sqrt_().mul_(o)
        for part, other in zip(of_gates, (g, before, i, t), strict=True):
            part.mul_(other)
        return ForwardPass((h, vh), (c, vc), {"factor": factor, "to_c": to_c, "f": f.contiguous()})

    @staticmethod
    def _variances(
        base: Tensor, first: Pair, across: Tensor, slope: Tensor, slope_t: Tensor, gates: Tensor,
        weights: Tensor, bounded: bool,
    ) -> Pair:  # fmt: skip
        """Return the variances of outputs and cells; the slopes are overwritten by ``J^2``.

        ``base`` is the variance of the gates that is not due to the previous state, ``first`` the
        variances of the first h and c, ``weights`` are the squares of c', i and t.
        """
        vh, vc = torch.empty_like(slope_t), torch.empty_like(slope_t)
        va, v, q = (torch.empty_like(base[0]) for _ in range(3))
        vt, part = torch.empty_like(vh[0]), torch.empty_like(weights[0])
        units = len(vt.T)
        # v: variances of the gates, q = gate^2 + v: their second moments, [rows, 4 units]
        vi, q_f, q_g, q_o = v[:, :units], *q.chunk(4, -1)[1:]
        others, (of_f, of_g, of_o) = v[:, units:], part.chunk(3, -1)
        h_now, c_now = first
        every = zip(base, slope, gates, weights, slope_t, vc, vh, strict=True)
        for b, s, a, k, s_t, c_out, h_out in every:
            torch.addmm(b, h_now, across, out=va)
            gate_variance(va, s, v, bounded)
            torch.addcmul(v, a, a, out=q)
            torch.mul(others, k, out=part)  # v_f c'^2, v_g i^2, v_o t^2
            torch.addcmul(of_f, c_now, q_f, out=c_out).addcmul_(vi, q_g).add_(of_g)
            gate_variance(c_out, s_t, vt, bounded)
            torch.addcmul(of_o, vt, q_o, out=h_out)
            h_now, c_now = h_out, c_out
        return vh, vc

    @staticmethod
    def _means(x: Tensor, h0: Tensor, c0: Tensor, w: RecurrentWeights) -> tuple[Tensor, ...]:
        """Return the means of gates, cells, their hyperbolic tangents and outputs of all steps."""
        steps, rows, width = x.shape
        a = x if w.bias is None else x.add_(w.bias)
        c, t, h = (x.new_empty(steps, rows, width // 4) for _ in range(3))
        i, f, g, o = a.chunk(4, -1)
        across, h_now, c_now = w.weight.mT, h0, c0
        for a_t, i_t, f_t, g_t, o_t, c_t, t_t, h_t in zip(a, i, f, g, o, c, t, h, strict=True):
            a_t.addmm_(h_now, across)
            raw = g_t.tanh()
            a_t.sigmoid_()
            g_t.copy_(raw)
            torch.mul(f_t, c_now, out=c_t).addcmul_(i_t, raw)
            torch.tanh(c_t, out=t_t)
            torch.mul(o_t, t_t, out=h_t)
            h_now, c_now = h_t, c_t
        return a, c, t, h

    def backward(
        self, ran: ForwardPass, d_out: Tensor | None, d_cell: Tensor | None, w: RecurrentWeights
    ) -> BackwardMessages:
        """Return the messages to all projections, and to the first state.

        Args:
            ran: result of ``forward``.
            d_out: messages to the outputs, ``[2, steps, rows, units]``, or None; overwritten.
            d_cell: messages to the cells, of the same shape, or None.
            w: recurrent weights.
        """
        kept = ran.kept
        f, factor = kept["f"], kept["factor"]
        one = _one(f)
        outer, inner = _with_squares((kept["to_c"], one), (f, one)).unbind(3)
        steps, rows, units = f.shape
        d = torch.stack([factor, factor * factor])  # factors, overwritten by the messages
        gates = d.view(2, steps, rows, 4, units)
        d3, d_o = gates[..., :3, :].unbind(1), gates[..., 3, :].unbind(1)  # i, f, g; and o
        d_t, to_c, kept_c, back = d.unbind(1), outer.unbind(0), inner.unbind(0), w.both
        outs = _steps(d_out, f)
        dh, dc = outs[-1], f.new_zeros(2, rows, units) if d_cell is None else d_cell[:, -1]
        for t in range(steps - 1, -1, -1):
            d_total = torch.addcmul(dc, dh, to_c[t])  # D
            d3[t].mul_(d_total.unsqueeze(2))
            d_o[t].mul_(dh)
            dc = d_total.mul_(kept_c[t])  # D f
            if d_cell is not None and t:
                dc += d_cell[:, t - 1]
            dh = _added(outs, t, d_t[t], back)
        return BackwardMessages(d, d, [dh, dc])


class GRUMoments:
    """The GRU: gates r, z, n; the state is h."""

    def forward(
        self, x: Pair, state: list[Pair], w: RecurrentWeights, bounded: bool
    ) -> ForwardPass:
        """Return means and variances of all steps; see ``LSTMMoments.forward``."""
        ((h0, vh0),) = state
        a, hidden, h = self._means(x[0], h0, w)
        r, z, n = a.chunk(3, -1)
        slope = torch.addcmul(a, a, a, value=-1)
        torch.sub(1, n * n, out=slope.chunk(3, -1)[2])
        before = _before(h, h0)
        hn = hidden.chunk(3, -1)[2]
        constants = (r * r, hn * hn, (1 - z).square_(), z * z, (before - n).square_())
        base, vx = w.spread(before, torch.zeros_like(a)), x[1]
        units = h.shape[-1]
        gates = 2 * units  # r and z; n is computed after them
        vh = torch.empty_like(h)
        va, both = torch.empty_like(a[0]), torch.empty_like(a[0])
        sum_, inner, v_n = (torch.empty_like(h[0]) for _ in range(3))
        v_rz, va_n = h.new_empty(h.shape[1], gates), va[:, gates:]
        v_r, v_z = v_rz.chunk(2, -1)
        square, now = w.square, vh0
        every = zip(
            base, vx, vx[..., gates:], slope[..., :gates], slope[..., gates:], vh, *constants,
            strict=True,
        )  # fmt: skip
        for b, p, p_n, s, s_n, out, r2, hn2, rest2, z2, gap2 in every:
            torch.addmm(b, now, square, out=va)  # variance of the projected state, [rows, 3 units]
            gate_variance(torch.add(p, va, out=both)[:, :gates], s, v_rz, bounded)
            torch.addcmul(p_n, va_n, torch.add(r2, v_r, out=sum_), out=inner).addcmul_(v_r, hn2)
            gate_variance(inner, s_n, v_n, bounded)
            torch.mul(v_n, torch.add(rest2, v_z, out=sum_), out=out)
            out.addcmul_(now, torch.add(z2, v_z, out=sum_)).addcmul_(v_z, gap2)
            now = out
        kept = {"a": a, "slope": slope.sqrt_(), "before": before, "hn": hn}
        return ForwardPass((h, vh), None, kept)

    @staticmethod
    def _means(x: Tensor, h0: Tensor, w: RecurrentWeights) -> tuple[Tensor, Tensor, Tensor]:
        """Return the means of gates, projections of the states, and outputs of all steps."""
        steps, rows, width = x.shape
        units = width // 3
        a, hidden, h = torch.empty_like(x), torch.empty_like(x), x.new_empty(steps, rows, units)
        across, now = w.weight.mT, h0
        bias = x.new_zeros(width) if w.bias is None else w.bias
        for x_t, a_t, hidden_t, h_t in zip(x, a, hidden, h, strict=True):
            torch.addmm(bias, now, across, out=hidden_t)
            rz, n = a_t[:, : 2 * units], a_t[:, 2 * units :]
            torch.add(x_t[:, : 2 * units], hidden_t[:, : 2 * units], out=rz).sigmoid_()
            torch.addcmul(
                x_t[:, 2 * units :], rz[:, :units], hidden_t[:, 2 * units :], out=n
            ).tanh_()
            torch.lerp(n, now, rz[:, units:], out=h_t)
            now = h_t
        return a, hidden, h

    def backward(
        self, ran: ForwardPass, d_out: Tensor | None, d_cell: Tensor | None, w: RecurrentWeights
    ) -> BackwardMessages:
        """Return the messages to all projections and to the first state."""
        kept = ran.kept
        r, z, n = kept["a"].chunk(3, -1)
        s_r, s_z, s_n = kept["slope"].chunk(3, -1)
        k = (1 - z) * s_n  # dh / d(argument of n)
        to_r, to_z = k * kept["hn"] * s_r, (kept["before"] - n) * s_z
        one = _one(k)
        factors = _with_squares((to_r, one), (to_z, one), (k, one), (k, r), (z, one))
        of_rzn = factors[:, :, :, :3].unbind(0)
        of_hn, direct = (factors[:, :, :, k].unbind(0) for k in (3, 4))
        steps, rows, units = z.shape
        d_x, d_h = (z.new_empty(2, steps, rows, 3 * units) for _ in range(2))
        x_t, h_t = (d.view(2, steps, rows, 3, units).unbind(1) for d in (d_x, d_h))
        flat, back = d_h.unbind(1), w.both
        outs = _steps(d_out, z)
        dh = outs[-1]
        for t in range(steps - 1, -1, -1):
            torch.mul(dh.unsqueeze(2), of_rzn[t], out=x_t[t])
            h_t[t].copy_(x_t[t])
            torch.mul(dh, of_hn[t], out=h_t[t][:, :, 2])
            dh = _added(outs, t, flat[t], back).addcmul_(dh, direct[t])
        return BackwardMessages(d_x, d_h, [dh])


class ElmanMoments:
    """A recurrent layer with one activation function; the state is h.

    Args:
        relu: whether it is the ReLU instead of the hyperbolic tangent.
    """

    def __init__(self, relu: bool) -> None:
        self.relu = relu

    def forward(
        self, x: Pair, state: list[Pair], w: RecurrentWeights, bounded: bool
    ) -> ForwardPass:
        """Return means and variances of all steps; see ``LSTMMoments.forward``."""
        ((h0, vh0),) = state
        given = x[0] if w.bias is None else x[0] + w.bias
        h, now, across = torch.empty_like(given), h0, w.weight.mT
        for x_t, h_t in zip(given, h, strict=True):
            torch.addmm(x_t, now, across, out=h_t)
            now = h_t.clamp_(min=0) if self.relu else h_t.tanh_()
        slope = (h > 0).to(h.dtype) if self.relu else 1 - h * h
        bounded = bounded and not self.relu
        base = w.spread(_before(h, h0), x[1])
        v, va = torch.empty_like(h), torch.empty_like(h[0])
        now, across = vh0, w.square
        for b, s, v_t in zip(base, slope, v, strict=True):
            torch.addmm(b, now, across, out=va)
            now = gate_variance(va, s, v_t, bounded)
        return ForwardPass((h, v), None, {"slope": slope.sqrt_()})

    def backward(
        self, ran: ForwardPass, d_out: Tensor | None, d_cell: Tensor | None, w: RecurrentWeights
    ) -> BackwardMessages:
        """Return the messages to all projections and to the first state."""
        slope = ran.kept["slope"]
        factor, back = _with_squares((slope, _one(slope)))[:, :, :, 0].unbind(0), w.both
        steps, rows, units = slope.shape
        d = slope.new_empty(2, steps, rows, units)
        d_t, outs = d.unbind(1), _steps(d_out, slope)
        dh = outs[-1]
        for t in range(steps - 1, -1, -1):
            torch.mul(dh, factor[t], out=d_t[t])
            dh = _added(outs, t, d_t[t], back)
        return BackwardMessages(d, d, [dh])


RecurrentLayer = LSTMMoments | GRUMoments | ElmanMoments


def _steps(messages: Tensor | None, like: Tensor) -> tuple[Tensor, ...]:
    """Return messages to the state of each step, which are overwritten; zeros if there are none."""
    return (like.new_zeros(2, *like.shape) if messages is None else messages).unbind(1)


def _added(outs: tuple[Tensor, ...], t: int, d: Tensor, back: Tensor) -> Tensor:
    """Return the messages to the state before step t: its own, plus those of the step."""
    return outs[t - 1].baddbmm_(d, back) if t else torch.bmm(d, back)
