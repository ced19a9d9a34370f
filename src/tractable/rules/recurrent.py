"""Rules of the recurrent layers and cells, step by step from the rules of their parts.

Exact: what the parts are exact in; the zero-variance limit is torch's own result.
Approximate: gates that come from one state are taken as independent, and so are the uses of a
weight at different steps.  Dropout between layers is left out: the weights are uncertain already.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from tractable.errors import NoMomentRule
from tractable.gaussian import moment_rule

Step = Callable[..., Any]


def _bias(weights: list[Any], i: int) -> Any:
    return weights[i] if len(weights) > i else None


def _simple(activation: Any) -> Step:
    def step(x: Any, state: tuple[Any, ...], w: list[Any]) -> tuple[Any, ...]:
        (h,) = state
        return (activation(F.linear(x, w[0], _bias(w, 2)) + F.linear(h, w[1], _bias(w, 3))),)

    return step


def _gru(x: Any, state: tuple[Any, ...], w: list[Any]) -> tuple[Any, ...]:
    (h,) = state
    r_x, z_x, n_x = F.linear(x, w[0], _bias(w, 2)).chunk(3, -1)
    r_h, z_h, n_h = F.linear(h, w[1], _bias(w, 3)).chunk(3, -1)
    r, z = torch.sigmoid(r_x + r_h), torch.sigmoid(z_x + z_h)
    n = torch.tanh(n_x + r * n_h)
    return (torch.lerp(n, h, z),)  # one function, so that n counts once


def _lstm(x: Any, state: tuple[Any, ...], w: list[Any]) -> tuple[Any, ...]:
    h, c = state
    projected = w.pop() if len(w) in (3, 5) else None
    gates = F.linear(x, w[0], _bias(w, 2)) + F.linear(h, w[1], _bias(w, 3))
    i, f, g, o = gates.chunk(4, -1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    h = torch.sigmoid(o) * torch.tanh(c)
    return (h if projected is None else F.linear(h, projected)), c


def _run(
    step: Step, x: Any, state: tuple[Any, ...], w: list[Any], reverse: bool
) -> tuple[Any, tuple[Any, ...]]:
    """One layer in one direction: all outputs, and the last state."""
    outputs = []
    steps = range(x.shape[0])
    for t in reversed(steps) if reverse else steps:
        state = step(x[t], state, list(w))
        outputs.append(state[0])
    return torch.stack(outputs[::-1] if reverse else outputs), state


def _layers(step: Step, several: bool) -> Any:
    def rule(
        input: Any,
        hx: Any,
        flat_weights: Any,
        bias: Any,
        num_layers: Any,
        dropout: Any,
        training: Any,
        bidirectional: Any,
        batch_first: Any,
    ) -> Any:
        if isinstance(bias, list | tuple):  # where the sizes of batches shift all arguments by one
            raise NoMomentRule("no moment rule for 'packed sequences': pad them instead")
        x = input.transpose(0, 1) if batch_first else input
        hx = tuple(hx) if several else (hx,)
        directions = 2 if bidirectional else 1
        size = len(flat_weights) // (num_layers * directions)
        last: list[tuple[Any, ...]] = []
        for layer in range(num_layers):
            outputs = []
            for direction in range(directions):
                k = layer * directions + direction
                w = list(flat_weights[k * size : (k + 1) * size])
                z, state = _run(step, x, tuple(h[k] for h in hx), w, direction == 1)
                outputs.append(z)
                last.append(state)
            x = outputs[0] if directions == 1 else torch.cat(outputs, -1)
        final = tuple(torch.stack([state[i] for state in last]) for i in range(len(hx)))
        return (x.transpose(0, 1) if batch_first else x, *final)

    return rule


def _cell(step: Step, several: bool) -> Any:
    def rule(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
        w = [w_ih, w_hh] if b_ih is None else [w_ih, w_hh, b_ih, b_hh]
        state = step(input, tuple(hx) if several else (hx,), w)
        return state if several else state[0]

    return rule


for _name, _step, _several in (
    ("rnn_tanh", _simple(torch.tanh), False),
    ("rnn_relu", _simple(torch.relu), False),
    ("gru", _gru, False),
    ("lstm", _lstm, True),
):
    moment_rule(getattr(torch, _name))(_layers(_step, _several))
    moment_rule(getattr(torch, f"{_name}_cell"))(_cell(_step, _several))
