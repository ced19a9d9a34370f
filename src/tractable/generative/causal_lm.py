"""Language models: the distribution of token sequences of a learner, and samples from it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Self

import torch
from torch import Tensor

from tractable.errors import InvalidInput
from tractable.learners import TAGI, Backprop, Learner
from tractable.likelihoods.per_step import PerStep
from tractable.predictive import StepsPredictive

PADDING = -100
"""The token that marks padding, as in ``torch.nn.functional.cross_entropy``."""


class CausalLM:
    """A language model: a learner of the next token as a distribution of sequences.

    ``log p(t_1 .. t_n) = sum of log p(t_i | bos, t_1 .. t_(i-1))``, where each factor is the
    prediction of the learner at that step, averaged over its weights.

    Exact: the probabilities of all sequences of one length sum to one.
    Approximate: the average over the weights is taken at each step separately, so that the tokens
    of a sequence do not inform about the weights.

    Args:
        learner: any learner with the likelihood ``likelihoods.PerStep`` of a likelihood of classes,
            and a network from tokens ``[rows, steps]`` to outputs for the token after each.
        bos_token: token before the first one (beginning of sequence).

    >>> import tractable as tr
    >>> net = tr.nn.CausalTransformer(3, 2, d_model=8, n_heads=2, n_layers=1, context_length=4)
    >>> model = tr.TAGI(net, tr.likelihoods.PerStep(tr.likelihoods.Categorical(3)))
    >>> lm = CausalLM(model).fit(torch.tensor([[1, 2, 1, 2]] * 8), epochs=20)
    >>> float(lm.log_prob([[1, 2, 1, 2]]).exp()) > 0.5
    True
    """

    def __init__(self, learner: Learner, bos_token: int = 0) -> None:
        likelihood = learner.likelihood
        classes: Any = None
        if isinstance(likelihood, PerStep):
            classes = getattr(likelihood.part, "classes", None)
        if classes is None:
            raise TypeError(
                f"a language model needs likelihoods.PerStep of a likelihood of classes, got "
                f"{likelihood}"
            )
        self.learner = learner
        self.vocab_size = int(classes)
        self.bos_token = self._tokens([[bos_token]])[0, 0]

    @property
    def context_length(self) -> int | None:
        """The maximum number of tokens of a sequence; None if the network has no such attribute."""
        found = getattr(self.learner.net, "context_length", None)
        return found if isinstance(found, int) else None

    def fit(self, tokens: Any, **fit_kwargs: Any) -> Self:
        """Train the learner on sequences and return this object.

        Args:
            tokens: integers, ``[rows, steps]``; -100 marks padding at the end of a row.
            fit_kwargs: arguments of the learner's ``fit``, for example ``epochs``.
        """
        y = self._tokens(tokens, allow_padding=True)
        self.learner.fit(self._shifted(y), y, distance_aware=False, **fit_kwargs)
        return self

    def log_prob(self, tokens: Any) -> Tensor:
        """Return the log probability of each sequence in nats, ``[rows]``.

        Args:
            tokens: integers, ``[rows, steps]``; padding (-100) is ignored.
        """
        return self.step_log_prob(tokens).nansum(1)

    def step_log_prob(self, tokens: Any) -> Tensor:
        """Return the log probability of each token given those before it, ``[rows, steps]``.

        Args:
            tokens: integers, ``[rows, steps]``; the result is NaN at padding (-100).
        """
        y = self._tokens(tokens, allow_padding=True)
        found = self.learner.predict(self._shifted(y))
        assert isinstance(found, StepsPredictive)
        return found.step_log_prob(y)

    def generate(
        self,
        prompt: Any = None,
        max_new_tokens: int = 100,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        use_cache: bool | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Return sequences that continue a prompt, sampled token by token.

        When a sequence exceeds the context length of the network, each further token is predicted
        from the last ``context_length`` tokens.

        Args:
            prompt: integers, ``[rows, tokens]``.  Default: one empty row.
            max_new_tokens: number of tokens to sample.
            temperature: the log probabilities are divided by it: below 1 probable tokens become
                more probable, and 0 selects the most probable token.
            top_k: sample among this many of the most probable tokens.  Default: all.
            use_cache: whether to cache keys and values instead of computing all tokens at every
                step.  Default: if the network has ``kv_cache`` and the learner runs it once per
                prediction (TAGI, Backprop).
            generator: random number generator.  Default: a new one with seed 0.

        Returns:
            ``[rows, tokens + max_new_tokens]``, without the ``bos_token``.
        """
        if temperature < 0:
            raise ValueError(f"temperature must be 0 or above, got {temperature}")
        if top_k is not None and not 1 <= top_k <= self.vocab_size:
            raise ValueError(f"top_k must lie in 1..{self.vocab_size}, got {top_k}")
        tokens = self._tokens([[]] if prompt is None else prompt)
        tokens = torch.cat([self.bos_token.expand(len(tokens), 1), tokens], 1)
        generator = torch.Generator().manual_seed(0) if generator is None else generator
        kv_cache = self._kv_cache(use_cache)
        n_cached = 0
        with kv_cache() if kv_cache else nullcontext():
            for _ in range(max_new_tokens):
                fits = self.context_length is None or tokens.shape[1] <= self.context_length
                if kv_cache and fits:
                    probs = self._next_probs(tokens[:, n_cached:])
                    n_cached = tokens.shape[1]
                else:
                    probs = self._next_probs_uncached(tokens, kv_cache)
                token = sample_token(probs, temperature, top_k, generator)
                tokens = torch.cat([tokens, token.unsqueeze(1)], 1)
        return tokens[:, 1:]

    def _next_probs(self, tokens: Tensor) -> Tensor:
        """Return the probabilities of the token after these, ``[rows, vocab_size]``."""
        found = self.learner.outputs(tokens, batch_size=None).predictive().double()
        return found.probs[:, -1]

    def _next_probs_uncached(self, tokens: Tensor, kv_cache: Any) -> Tensor:
        if self.context_length is not None:
            tokens = tokens[:, -self.context_length :]
        with kv_cache() if kv_cache else nullcontext():  # an empty cache
            return self._next_probs(tokens)

    def _kv_cache(
        self, use_cache: bool | None
    ) -> Callable[[], AbstractContextManager[None]] | None:
        found: Any = getattr(self.learner.net, "kv_cache", None)
        supported = found is not None and isinstance(self.learner, TAGI | Backprop)
        if use_cache and not supported:
            raise TypeError(
                f"use_cache=True needs a network with kv_cache, such as nn.CausalTransformer, and "
                f"a learner that runs it once per prediction (TAGI, Backprop); got "
                f"{type(self.learner.net).__name__} and {type(self.learner).__name__}"
            )
        return found if supported and use_cache is not False else None

    def _shifted(self, y: Tensor) -> Tensor:
        """Return the inputs that predict each token: ``bos_token``, then all but the last token."""
        first = self.bos_token.expand(len(y), 1)
        return torch.cat([first, y[:, :-1].clamp_min(0)], 1)

    def _tokens(self, values: Any, allow_padding: bool = False) -> Tensor:
        tokens = torch.as_tensor(values, device=self.learner.device)
        if tokens.ndim != 2:
            raise InvalidInput(f"tokens must have shape (rows, steps), got {tuple(tokens.shape)}")
        if tokens.numel() and (tokens.is_floating_point() or tokens.dtype == torch.bool):
            raise InvalidInput(f"tokens must be integers, got {tokens.dtype}")
        tokens = tokens.to(torch.int64)
        valid = (tokens >= 0) & (tokens < self.vocab_size)
        if allow_padding:
            if not tokens.shape[1]:
                raise InvalidInput(
                    f"sequences must have at least one token, got shape {tuple(tokens.shape)}"
                )
            valid |= tokens == PADDING
        if not bool(valid.all()):
            first = tokens[~valid][0]
            raise InvalidInput(f"tokens must lie in 0..{self.vocab_size - 1}, got {int(first)}")
        return tokens


def sample_token(
    probs: Tensor, temperature: float, top_k: int | None, generator: torch.Generator
) -> Tensor:
    """Return one token for each row; of equally probable tokens, the first are among the top k.

    >>> sample_token(torch.tensor([[0.2, 0.5, 0.3]]), 0.0, None, torch.Generator())
    tensor([1])
    """
    if temperature == 0:
        return probs.argmax(-1)
    logits = probs.log() / temperature
    if top_k is not None:
        kept = logits.argsort(dim=-1, descending=True, stable=True)[:, :top_k]
        logits = torch.full_like(logits, -torch.inf).scatter(-1, kept, logits.gather(-1, kept))
    weights = torch.softmax(logits, -1).cpu()
    return torch.multinomial(weights, 1, generator=generator)[:, 0].to(probs.device)
