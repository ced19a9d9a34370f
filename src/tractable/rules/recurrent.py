"""Moment rules of recurrent layers and cells; a layer in one direction is one node of the graph.

Moments and messages of all steps are in ``tractable.moments.recurrent``.  What that does not cover
is computed step by step (``tractable.rules.recurrent_steps``).  Packed sequences are padded, and
each is read to its own end.

Exact: the limit of zero variance is torch's result, with its gradients.
Approximate: the gates of one state are treated as independent, and so are the uses of a weight at
different steps.  Dropout between layers is ignored, because the weights are uncertain already.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from tractable.errors import InvalidInput
from tractable.gaussian import Gaussian, moment_rule
from tractable.moments import bilinear
from tractable.moments.maps import LinearMap
from tractable.moments.recurrent import (
    ElmanMoments,
    ForwardPass,
    GRUMoments,
    LSTMMoments,
    RecurrentLayer,
    RecurrentWeights,
)
from tractable.rules import recurrent_steps
from tractable.rules.activation import current_mode
from tractable.rules.bilinear import moments_of
from tractable.rules.recurrent_steps import Step


@dataclass(frozen=True)
class RecurrentKind:
    """A kind of recurrent layer.

    Attributes:
        at_once: moments and messages of all steps.
        step: one step, by the rules of its parts.
        states: number of tensors of a state; the LSTM has two.
    """

    at_once: RecurrentLayer
    step: Step
    states: int = 1


class RecurrentFunction(torch.autograd.Function):
    """All steps of one layer in one direction."""

    @staticmethod
    def forward(ctx: Any, layer: RecurrentLayer, bounded: bool, *moments: Tensor | None) -> Any:
        """Return mean and variance of the outputs, and of the cells if there are any.

        ``moments`` are mean and variance of x, of the weights of x and of the previous state, of
        their biases, and of the first state.
        """
        x, vx, w_x, v_x, w_h, v_h, b_x, vb_x, b_h, vb_h, *first = moments
        assert x is not None
        assert w_x is not None
        assert w_h is not None
        projected = _projected((x, vx), (w_x, v_x), (b_x, vb_x))
        hidden = RecurrentWeights(w_h, v_h, b_h, vb_h)
        states = [
            (mean, torch.zeros_like(mean) if var is None else var)
            for mean, var in zip(first[::2], first[1::2], strict=True)
            if mean is not None
        ]
        ran = layer.forward(projected, states, hidden, bounded)
        ctx.layer, ctx.names, ctx.biased = layer, list(ran.kept), b_h is not None
        ctx.save_for_backward(x, w_x, w_h, states[0][0], ran.out[0], *ran.kept.values())
        ctx.set_materialize_grads(False)
        return (*ran.out, *(() if ran.cell is None else ran.cell))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *messages: Tensor | None) -> Any:
        """Return the messages, over all steps."""
        x, w_x, w_h, h0, h, *kept = ctx.saved_tensors
        d_out, d_cell = _both(messages[:2]), _both(messages[2:])
        ran = ForwardPass((h, h), None, dict(zip(ctx.names, kept, strict=True)))
        sent = ctx.layer.backward(ran, d_out, d_cell, RecurrentWeights(w_h, None, None, None))
        needs = ctx.needs_input_grad[2:]
        d_x, dv_x = sent.to_input
        to_mean, to_variance = bilinear.messages(
            LinearMap(), d_x, dv_x, x, w_x, (needs[0], needs[2], needs[6]),
            (needs[1], needs[3], needs[7]),
        )  # fmt: skip
        before = torch.cat([h0.unsqueeze(0), h[:-1]]).flatten(0, 1)
        d_mu, d_var = sent.to_hidden.flatten(1, 2)
        (dx, dw_x, db_x), (dvx, dvw_x, dvb_x) = to_mean, to_variance
        bias = (d_mu.sum(0), d_var.sum(0)) if ctx.biased else (None, None)
        found = (
            dx, dvx, dw_x, dvw_x, d_mu.mT @ before, d_var.mT @ (before * before), db_x, dvb_x,
            *bias, *(part for state in sent.to_state for part in state),
        )  # fmt: skip
        pairs = zip(found, needs, strict=True)
        return None, None, *(message if need else None for message, need in pairs)


def _projected(x: Any, w: Any, b: Any) -> tuple[Tensor, Tensor]:
    """Return mean and variance of the inputs of all steps times the weights."""
    if x[1] is not None or w[1] is not None:
        return bilinear.forward(LinearMap(), x, w, b)
    mean = nn.functional.linear(x[0], w[0], b[0])
    spread = torch.zeros_like(mean)
    return mean, spread if b[1] is None else spread + b[1]


def _both(messages: tuple[Tensor | None, ...]) -> Tensor | None:
    """Return the messages to means and variances, or None if there are none."""
    if all(d is None for d in messages):
        return None
    if any(d is None for d in messages):
        raise RuntimeError(
            "a recurrent layer received only one of the messages to the mean and to the variance"
        )
    return torch.stack([d for d in messages if d is not None])


def _at_once(kind: RecurrentKind, x: Any, first: tuple[Any, ...], w: list[Any]) -> tuple[Any, ...]:
    """Return the outputs of all steps, and the cells if there are any."""
    w_x, w_h, b_x, b_h = w if len(w) == 4 else (*w, None, None)
    given = (x, w_x, w_h, b_x, b_h, *first)
    moments = [part for z in given for part in ((None, None) if z is None else moments_of(z))]
    found = RecurrentFunction.apply(kind.at_once, current_mode() == "auto", *moments)
    return tuple(Gaussian.wrap(*found[i : i + 2]) for i in range(0, len(found), 2))


def _by_steps(kind: RecurrentKind, x: Any, first: tuple[Any, ...], w: list[Any]) -> tuple[Any, ...]:
    found = recurrent_steps.run(kind.step, x, first, w)
    return tuple(torch.stack([state[i] for state in found]) for i in range(kind.states))


def _directed(
    kind: RecurrentKind,
    x: Any,
    first: tuple[Any, ...],
    w: list[Any],
    ends: Tensor | None,
    reverse: bool,
) -> tuple[Any, tuple[Any, ...]]:
    """Return the outputs of one layer in one direction, and the last state of each row."""
    projected = len(w) in (3, 5)
    step_by_step = current_mode() == "exact" or projected or recurrent_steps.is_recording()
    inputs = _reversed(x, ends) if reverse else x
    states = (_by_steps if step_by_step else _at_once)(kind, inputs, first, w)
    out = _reversed(states[0], ends) if reverse else states[0]
    if ends is None:
        return out, tuple(state[-1] for state in states)
    rows = torch.arange(x.shape[1], device=x.device)
    return out, tuple(state[ends - 1, rows] for state in states)


def _reversed(x: Any, ends: Tensor | None) -> Any:
    """Return the steps in reverse order, each row from its own end."""
    if ends is None:
        return x.flip(0)
    step = torch.arange(x.shape[0], device=x.device).unsqueeze(1)
    order = torch.where(step < ends, ends - 1 - step, step)
    return x[order, torch.arange(x.shape[1], device=x.device)]


def _stacked(
    kind: RecurrentKind,
    x: Any,
    hx: tuple[Any, ...],
    weights: Any,
    layers: int,
    directions: int,
    ends: Tensor | None = None,
) -> tuple[Any, tuple[Any, ...]]:
    """Return the outputs of the last layer, and the last states of all layers."""
    size = len(weights) // (layers * directions)
    last: list[tuple[Any, ...]] = []
    for layer in range(layers):
        outputs = []
        for direction in range(directions):
            k = layer * directions + direction
            w = list(weights[k * size : (k + 1) * size])
            first = tuple(h[k] for h in hx)
            out, state = _directed(kind, x, first, w, ends, direction == 1)
            outputs.append(out)
            last.append(state)
        x = outputs[0] if directions == 1 else torch.cat(outputs, -1)
    return x, tuple(torch.stack([state[i] for state in last]) for i in range(kind.states))


def _padded(data: Any, sizes: Tensor) -> tuple[Any, Tensor, Tensor]:
    """Return a packed sequence as steps by rows, the row lengths, and a mask of its entries."""
    sizes = sizes.to(data.device)
    rows = torch.arange(int(sizes[0]), device=data.device)
    there = rows < sizes.unsqueeze(1)
    starts = sizes.cumsum(0) - sizes
    entry = torch.where(there, starts.unsqueeze(1) + rows, 0)
    return data[entry], there.sum(0), there


def _layers(kind: RecurrentKind) -> Any:
    def rule(*arguments: Any) -> Any:
        # Packed sequences have batch sizes as second argument, and so the weights as fourth.
        return (packed if isinstance(arguments[3], list | tuple) else padded)(*arguments)

    def padded(
        input: Any, hx: Any, weights: Any, bias: bool, layers: int, dropout: float,
        training: bool, bidirectional: bool, batch_first: bool,
    ) -> Any:  # fmt: skip
        x = input.transpose(0, 1) if batch_first else input
        hx = tuple(hx) if kind.states > 1 else (hx,)
        _check(x, hx)
        z, last = _stacked(kind, x, hx, weights, layers, 2 if bidirectional else 1)
        return (z.transpose(0, 1) if batch_first else z, *last)

    def packed(
        data: Any, sizes: Tensor, hx: Any, weights: Any, bias: bool, layers: int, dropout: float,
        training: bool, bidirectional: bool,
    ) -> Any:  # fmt: skip
        x, ends, there = _padded(data, sizes)
        hx = tuple(hx) if kind.states > 1 else (hx,)
        _check(x, hx)
        z, last = _stacked(kind, x, hx, weights, layers, 2 if bidirectional else 1, ends)
        return (z[there], *last)

    return rule


def _cell(kind: RecurrentKind) -> Any:
    def rule(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
        w = [w_ih, w_hh] if b_ih is None else [w_ih, w_hh, b_ih, b_hh]
        first = tuple(hx) if kind.states > 1 else (hx,)
        _check(input.unsqueeze(0), tuple(h.unsqueeze(0) for h in first))
        state = kind.step(input, first, w)
        return state if kind.states > 1 else state[0]

    return rule


def _check(x: Any, states: tuple[Any, ...]) -> None:
    """Raise InvalidInput for shapes that torch would fill up or broadcast, or fail on silently."""
    if not x.shape[0]:
        raise InvalidInput(
            f"a recurrent layer needs sequences of at least one step; got inputs of shape "
            f"{tuple(x.shape)}, steps first, with none"
        )
    rows = x.shape[1]
    for state in states:
        if state.shape[1] != rows:
            raise InvalidInput(
                f"the state must have a row for each row of the inputs: got a state of "
                f"{state.shape[1]} rows for inputs of {rows}"
            )


KINDS = {
    "rnn_tanh": RecurrentKind(
        ElmanMoments(relu=False), recurrent_steps.simple(recurrent_steps.tanh)
    ),
    "rnn_relu": RecurrentKind(ElmanMoments(relu=True), recurrent_steps.simple(torch.relu)),
    "gru": RecurrentKind(GRUMoments(), recurrent_steps.gru),
    "lstm": RecurrentKind(LSTMMoments(), recurrent_steps.lstm, states=2),
}
for _name, _kind in KINDS.items():
    moment_rule(getattr(torch, _name))(_layers(_kind))
    moment_rule(getattr(torch, f"{_name}_cell"))(_cell(_kind))


_PACKING: Any = importlib.import_module("torch._VF")  # torch has no public name


@moment_rule(_PACKING._pack_padded_sequence)  # noqa: SLF001
def pack_padded_sequence(input: Any, lengths: Tensor, batch_first: bool) -> tuple[Any, Tensor]:
    """Return the entries of padded sequences, step by step: a selection of rows."""
    rows = torch.arange(input.shape[0] * input.shape[1]).reshape(input.shape[:2])
    at, sizes = nn.utils.rnn.pack_padded_sequence(rows.unsqueeze(-1), lengths, batch_first)[:2]
    return input.flatten(0, 1)[at.flatten().to(input.device)], sizes


@moment_rule(_PACKING._pad_packed_sequence)  # noqa: SLF001
def pad_packed_sequence(
    data: Any, batch_sizes: Tensor, batch_first: bool, padding_value: float, total_length: int
) -> tuple[Any, Tensor]:
    """Return sequences of one length; the padding has no variance."""
    rows = nn.utils.rnn.PackedSequence(torch.arange(len(data)), batch_sizes)
    steps = total_length if total_length > 0 else None
    at, lengths = nn.utils.rnn.pad_packed_sequence(rows, batch_first, -1, steps)
    at = at.to(data.device)
    there = (at >= 0).reshape(*at.shape, *[1] * (data.ndim - 1))
    found = data[at.clamp_min(0)]
    loc = torch.where(there, found.loc, padding_value)
    return Gaussian.wrap(loc, torch.where(there, found.variance, 0)), lengths
