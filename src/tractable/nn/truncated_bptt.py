"""Truncated backpropagation through time: gradients and messages stop after a number of steps.

Exact: all values; messages and gradients within a segment.
Approximate: the state at the end of a segment is a constant for the next one (its variance is
kept).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from tractable.gaussian import Gaussian


class TruncatedBPTT(nn.Module):
    """A recurrent layer whose gradients and messages stop at the borders of segments.

    It is called like the layer and returns the same values.  Memory and time of a backward pass
    through a long sequence are bounded, but dependencies across segments are not learned.  If
    ``n_steps`` is at least the length of the sequence, it is backpropagation through time.

    Args:
        module: ``nn.RNN``, ``nn.GRU`` or ``nn.LSTM``, unidirectional.
        n_steps: length of a segment.

    >>> layer = TruncatedBPTT(nn.GRU(1, 2, batch_first=True), n_steps=8)
    >>> output, last = layer(torch.zeros(3, 20, 1))
    >>> output.shape
    torch.Size([3, 20, 2])
    """

    def __init__(self, module: nn.RNNBase, n_steps: int) -> None:
        super().__init__()
        if not isinstance(module, nn.RNNBase):
            raise TypeError(f"module must be an nn.RNN, GRU or LSTM, got {type(module).__name__}")
        if module.bidirectional:
            raise ValueError("module must be unidirectional: a bidirectional layer needs all steps")
        if n_steps < 1:
            raise ValueError(f"n_steps must be at least 1, got {n_steps}")
        self.module, self.n_steps = module, n_steps

    def forward(self, input: Tensor, hx: Any = None) -> tuple[Tensor, Any]:
        """Return the outputs and the last state, like the layer.

        Args:
            input: sequences, in the format of the layer.
            hx: first state, in the format of the layer.  Default: zeros.
        """
        if isinstance(input, PackedSequence):
            raise TypeError("TruncatedBPTT takes padded sequences, got a PackedSequence")
        dim = 1 if self.module.batch_first and input.ndim == 3 else 0
        outputs = []
        for segment in input.split(self.n_steps, dim):
            output, hx = self.module(segment, None if hx is None else detached(hx))
            outputs.append(output)
        return torch.cat(outputs, dim), hx


def detached(state: Any) -> Any:
    """Return the same state, detached from its graph."""
    if isinstance(state, tuple):
        return tuple(detached(part) for part in state)
    if isinstance(state, Gaussian):
        return Gaussian.wrap(state.loc.detach(), state.variance.detach())
    return state.detach()
