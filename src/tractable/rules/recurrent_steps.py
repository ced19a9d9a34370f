"""Recurrent layers computed step by step, where each state is a node of the graph.

Slower than ``tractable.rules.recurrent``, which computes all steps of a layer at once.  It is used
for what that does not support (moments by integration, projected outputs) and when the states
themselves are requested, whose messages include those of later steps (``tractable.infer``).

Exact: what the parts are exact in; the limit of zero variance is torch's result.
Approximate: the gates of one state are treated as independent, and so are the uses of a weight at
different steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tractable.gaussian import Gaussian
from tractable.moments import activation as act
from tractable.moments.recurrent import bounded_gate
from tractable.rules.activation import current_mode, elementwise

Step = Callable[..., Any]
States = list[list[tuple[Any, ...]]]
"""For each layer and direction, the state after each step."""

_recorded: ContextVar[States | None] = ContextVar("recurrent_states", default=None)


@contextmanager
def unroll_recurrent() -> Iterator[States]:
    """Within this block recurrent layers are computed step by step, and their states are recorded.

    Yields:
        The states, for each layer and direction after each step.
    """
    found: States = []
    token = _recorded.set(found)
    try:
        yield found
    finally:
        _recorded.reset(token)


def is_recording() -> bool:
    """Return whether the states are recorded."""
    return _recorded.get() is not None


def _gate(linear: act.Linearized, function: Any) -> Callable[[Any], Any]:
    """Return a gate whose variance is bounded as in ``tractable.moments.recurrent``."""

    def kernel(mu: Tensor, var: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        value, slope = linear(mu)
        return bounded_gate(value, slope, var)

    def gate(z: Any) -> Any:
        if isinstance(z, Gaussian) and current_mode() == "auto":
            return elementwise(z, kernel)
        return function(z)

    return gate


sigmoid, tanh = _gate(act.sigmoid, torch.sigmoid), _gate(act.tanh, torch.tanh)


def _bias(weights: list[Any], i: int) -> Any:
    return weights[i] if len(weights) > i else None


def simple(activation: Any) -> Step:
    """Return the step function of a plain recurrent layer (``nn.RNN``)."""

    def step(x: Any, state: tuple[Any, ...], w: list[Any]) -> tuple[Any, ...]:
        (h,) = state
        return (activation(F.linear(x, w[0], _bias(w, 2)) + F.linear(h, w[1], _bias(w, 3))),)

    return step


def gru(x: Any, state: tuple[Any, ...], w: list[Any]) -> tuple[Any, ...]:
    """Return the state after a step of a GRU."""
    (h,) = state
    r_x, z_x, n_x = F.linear(x, w[0], _bias(w, 2)).chunk(3, -1)
    r_h, z_h, n_h = F.linear(h, w[1], _bias(w, 3)).chunk(3, -1)
    r, z = sigmoid(r_x + r_h), sigmoid(z_x + z_h)
    n = tanh(n_x + r * n_h)
    after: Any = torch.lerp(n, h, z)  # one function, so that n counts once
    spread = n.variance + h.variance if isinstance(h, Gaussian) else n.variance
    product = (z.variance * spread).detach()  # of second order, as in eq. (14)
    return (Gaussian.wrap(after.loc, after.variance + product),)


def lstm(x: Any, state: tuple[Any, ...], w: list[Any]) -> tuple[Any, ...]:
    """Return the state after a step of an LSTM."""
    h, c = state
    w = list(w)
    projected = w.pop() if len(w) in (3, 5) else None
    gates = F.linear(x, w[0], _bias(w, 2)) + F.linear(h, w[1], _bias(w, 3))
    i, f, g, o = gates.chunk(4, -1)
    c = sigmoid(f) * c + sigmoid(i) * tanh(g)
    h = sigmoid(o) * tanh(c)
    return (h if projected is None else F.linear(h, projected)), c


def run(step: Step, x: Any, state: tuple[Any, ...], w: list[Any]) -> list[tuple[Any, ...]]:
    """Return the state after each step of one layer."""
    found = []
    for x_t in x.unbind(0):
        state = step(x_t, state, w)
        found.append(state)
    recorded = _recorded.get()
    if recorded is not None:
        recorded.append(found)
    return found
