"""A small causal transformer with a key-value cache."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tractable.errors import InvalidInput


class TransformerBlock(nn.Module):
    """Causal self-attention and a feed-forward layer, both with pre-norm and a residual connection.

    Args:
        d_model: number of features of a token.
        n_heads: number of attention heads.
    """

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.attention_norm = nn.LayerNorm(d_model)
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.projection = nn.Linear(d_model, d_model)
        self.feedforward_norm = nn.LayerNorm(d_model)
        self.feedforward = nn.Sequential(
            nn.Linear(d_model, 4 * d_model), nn.GELU(), nn.Linear(4 * d_model, d_model)
        )
        self.cache: tuple[Any, Any] | None = None
        """Keys and values of the previous tokens, while the cache is on."""
        self.uses_cache = False

    def forward(self, x: Tensor) -> Tensor:
        """Return the features of the tokens; each depends on itself and the tokens before it.

        Args:
            x: ``[rows, steps, d_model]``.
        """
        x = x + self.projection(self._attention(self.attention_norm(x)))
        z: Tensor = x + self.feedforward(self.feedforward_norm(x))
        return z

    def _attention(self, x: Tensor) -> Tensor:
        rows, n_new, d_model = x.shape
        shape = (rows, n_new, 3, self.n_heads, d_model // self.n_heads)
        # Each of q, k, v: [rows, heads, new tokens, features of a head]
        q, k, v = self.qkv(x).reshape(shape).permute(2, 0, 3, 1, 4).unbind(0)
        if self.uses_cache:
            if self.cache is not None:
                k, v = (torch.cat(pair, -2) for pair in zip(self.cache, (k, v), strict=True))
            self.cache = k, v
        n_keys = k.shape[-2]
        mask = torch.ones(n_new, n_keys, dtype=torch.bool, device=x.device).tril(n_keys - n_new)
        z = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return z.transpose(1, 2).reshape(rows, n_new, d_model)


class CausalTransformer(nn.Module):
    """A transformer whose output at each step depends on the tokens up to this step.

    The outputs at a step parameterize the distribution of the next token.

    Args:
        vocab_size: number of different tokens.
        n_outputs: number of outputs at each step: the ``outputs`` of the likelihood of a step.
            Default: ``vocab_size``, for ``Softmax``; ``Categorical`` needs one less.
        d_model: number of features of a token.
        n_heads: number of attention heads, a divisor of ``d_model``.
        n_layers: number of blocks.
        context_length: maximum number of tokens of a sequence.

    >>> net = CausalTransformer(5, d_model=8, n_heads=2, n_layers=1, context_length=4)
    >>> net(torch.tensor([[0, 3, 1]])).shape
    torch.Size([1, 3, 5])
    """

    def __init__(
        self,
        vocab_size: int,
        n_outputs: int | None = None,
        *,
        d_model: int = 64,
        n_heads: int = 4,
        n_layers: int = 2,
        context_length: int = 64,
    ) -> None:
        super().__init__()
        if d_model % n_heads:
            raise ValueError(f"n_heads must divide d_model: got {n_heads} and {d_model}")
        self.vocab_size, self.context_length = vocab_size, context_length
        self.token_embedding = nn.Embedding(vocab_size, d_model)
        self.position_embedding = nn.Embedding(context_length, d_model)
        self.blocks = nn.ModuleList([TransformerBlock(d_model, n_heads) for _ in range(n_layers)])
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab_size if n_outputs is None else n_outputs)
        self.n_cached: int | None = None
        """Number of tokens in the cache; None while the cache is off."""

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the outputs at each step, ``[rows, steps, n_outputs]``.

        Args:
            tokens: integers, ``[rows, steps]``.

        Raises:
            InvalidInput: there are no tokens, or more than ``context_length``.
        """
        if tokens.ndim != 2 or not tokens.shape[1]:
            raise InvalidInput(
                f"tokens must have shape (rows, steps) with at least one step, got "
                f"{tuple(tokens.shape)}"
            )
        start = self.n_cached or 0
        end = start + tokens.shape[1]
        if end > self.context_length:
            raise InvalidInput(
                f"a sequence can have at most context_length={self.context_length} tokens, "
                f"got {end}"
            )
        if self.n_cached is not None:
            self.n_cached = end
        positions = torch.arange(start, end, device=tokens.device)
        x = self.token_embedding(tokens) + self.position_embedding(positions)
        for block in self.blocks:
            x = block(x)
        z: Tensor = self.head(self.norm(x))
        return z

    @contextmanager
    def kv_cache(self) -> Iterator[None]:
        """Within this block keys and values are cached, and each call continues the sequence.

        Blocks may be nested: the inner one begins with an empty cache, and the outer one continues
        with its own cache afterwards.
        """
        blocks = [block for block in self.blocks if isinstance(block, TransformerBlock)]
        before = self.n_cached, [(block.uses_cache, block.cache) for block in blocks]
        try:
            self.n_cached = 0
            for block in blocks:
                block.uses_cache, block.cache = True, None
            yield
        finally:
            self.n_cached = before[0]
            for block, (uses_cache, cache) in zip(blocks, before[1], strict=True):
                block.uses_cache, block.cache = uses_cache, cache
