"""Back-propagation through time, truncated: messages go back a limited number of steps.

Exact: all values; messages and gradients within a stretch.
Approximate: a state at the end of a stretch is a constant for the next one (its variance stays).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from tractable.gaussian import Gaussian


class Truncated(nn.Module):
    """A recurrent layer whose gradients and messages stop every so many steps.

    Called as the layer itself, with the same results.  Memory and time of a backward pass through
    a long sequence are bounded, and what lies farther back is not learnt from; with ``steps`` of
    the length of the sequence, or more, it is back-propagation through time.

    Args:
        module: ``nn.RNN``, ``nn.GRU`` or ``nn.LSTM``, in one direction.
        steps: length of a stretch.

    >>> layer = Truncated(nn.GRU(1, 2, batch_first=True), steps=8)
    >>> output, last = layer(torch.zeros(3, 20, 1))
    >>> output.shape
    torch.Size([3, 20, 2])
    """

    def __init__(self, module: nn.RNNBase, steps: int) -> None:
        super().__init__()
        if not isinstance(module, nn.RNNBase):
            raise TypeError(f"module must be an nn.RNN, GRU or LSTM, got {type(module).__name__}")
        if module.bidirectional:
            raise ValueError("a layer that reads both ways needs the whole sequence at once")
        if steps < 1:
            raise ValueError(f"steps must be at least 1, got {steps}")
        self.module, self.steps = module, steps

    def forward(self, input: Tensor, hx: Any = None) -> tuple[Tensor, Any]:
        """As the layer's own."""
        if isinstance(input, PackedSequence):
            raise TypeError("Truncated takes padded sequences, not packed ones")
        dim = 1 if self.module.batch_first and input.ndim == 3 else 0
        outputs = []
        for stretch in input.split(self.steps, dim):
            output, hx = self.module(stretch, None if hx is None else cut(hx))
            outputs.append(output)
        return torch.cat(outputs, dim), hx


def cut(state: Any) -> Any:
    """The same state without what it was computed from."""
    if isinstance(state, tuple):
        return tuple(cut(part) for part in state)
    if isinstance(state, Gaussian):
        return Gaussian.wrap(state.loc.detach(), state.variance.detach())
    return state.detach()
