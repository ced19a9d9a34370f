"""A small transformer that reads tokens from left to right, with a memory of what it has read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tractable.errors import InvalidInput


class Block(nn.Module):
    """Causal attention and a hidden layer, each with the norm first and added to its input.

    Args:
        width: features of a token.
        heads: heads of the attention.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention = nn.LayerNorm(width)
        self.project = nn.Linear(width, 3 * width)
        self.join = nn.Linear(width, width)
        self.before_hidden = nn.LayerNorm(width)
        self.hidden = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.read: tuple[Any, Any] | None = None
        """Keys and values of the tokens that were read, while they are remembered."""
        self.remembers = False

    def forward(self, x: Tensor) -> Tensor:
        """The tokens, each of which has seen itself and those before it."""
        x = x + self.join(self._attended(self.before_attention(x)))
        hidden: Tensor = x + self.hidden(self.before_hidden(x))
        return hidden

    def _attended(self, x: Tensor) -> Tensor:
        rows, new, width = x.shape
        shape = (rows, new, 3, self.heads, width // self.heads)
        q, k, v = self.project(x).reshape(shape).permute(2, 0, 3, 1, 4).unbind(0)
        if self.remembers:
            if self.read is not None:
                k, v = (torch.cat(pair, -2) for pair in zip(self.read, (k, v), strict=True))
            self.read = k, v
        every = k.shape[-2]
        seen = torch.ones(new, every, dtype=torch.bool, device=x.device).tril(every - new)
        z = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        return z.transpose(1, 2).reshape(rows, new, width)


class CausalTransformer(nn.Module):
    """Outputs for the token that follows each token, from it and those before it.

    A plain module: tokens ``[rows, steps]`` to ``[rows, steps, outputs]``.  Inside
    ``remembering()`` every call goes on from where the last one ended.

    Args:
        vocabulary: number of tokens.
        outputs: outputs for each step: the ``outputs`` of the likelihood of a step (by default
            ``vocabulary``, for ``Softmax``; ``Categorical`` has one less).
        width: features of a token.
        heads: heads of the attention, a divisor of ``width``.
        layers: blocks.
        context: tokens that can be read at once.

    >>> net = CausalTransformer(5, width=8, heads=2, layers=1, context=4)
    >>> net(torch.tensor([[0, 3, 1]])).shape
    torch.Size([1, 3, 5])
    """

    def __init__(
        self,
        vocabulary: int,
        outputs: int | None = None,
        *,
        width: int = 64,
        heads: int = 4,
        layers: int = 2,
        context: int = 64,
    ) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"heads must divide width: got {heads} heads and width {width}")
        self.vocabulary, self.context = vocabulary, context
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(context, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary if outputs is None else outputs)
        self.passed: int | None = None

    def forward(self, tokens: Tensor) -> Tensor:
        """See the class."""
        if tokens.ndim != 2 or not tokens.shape[1]:
            raise InvalidInput(
                f"tokens must have shape (rows, steps) with at least one step, got "
                f"{tuple(tokens.shape)}"
            )
        start = self.passed or 0
        end = start + tokens.shape[1]
        if end > self.context:
            raise InvalidInput(f"the context is {self.context} tokens, got {end}")
        if self.passed is not None:
            self.passed = end
        x = self.tokens(tokens) + self.places(torch.arange(start, end, device=tokens.device))
        for block in self.blocks:
            x = block(x)
        z: Tensor = self.head(self.norm(x))
        return z

    @contextmanager
    def remembering(self) -> Iterator[None]:
        """Within this block keys and values of what was read are kept: calls go on from there."""
        blocks = [block for block in self.blocks if isinstance(block, Block)]
        try:
            self.passed = 0
            for block in blocks:
                block.remembers, block.read = True, None
            yield
        finally:
            self.passed = None
            for block in blocks:
                block.remembers, block.read = False, None
