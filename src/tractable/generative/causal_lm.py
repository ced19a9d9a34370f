"""Language models: what a learner says of whole sequences of tokens, and draws of them."""

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


class CausalLM:
    """A learner of the next token, as a distribution of sequences.

    ``log p(t_1 .. t_n) = sum of log p(t_i | begin, t_1 .. t_(i-1))``, each factor being what the
    learner predicts at that step, averaged over its weights.

    Exact: the probabilities of all sequences of one length sum to one.
    Approximate: the weights are averaged over at every step anew, as if a step said nothing about
    them.

    Args:
        learner: any learner with ``likelihoods.PerStep`` of a likelihood of classes, and a network
            from tokens ``[rows, steps]`` to outputs for the token after each.
        begin: the token before the first.

    >>> import tractable as tr
    >>> net = tr.nn.CausalTransformer(3, 2, width=8, heads=2, layers=1, context=4)
    >>> model = tr.TAGI(net, tr.likelihoods.PerStep(tr.likelihoods.Categorical(3)))
    >>> lm = CausalLM(model).fit(torch.tensor([[1, 2, 1, 2]] * 8), epochs=20)
    >>> float(lm.log_prob([[1, 2, 1, 2]]).exp()) > 0.5
    True
    """

    def __init__(self, learner: Learner, begin: int = 0) -> None:
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
        self.vocabulary = int(classes)
        self.begin = self._tokens([[begin]])[0, 0]

    @property
    def context(self) -> int | None:
        """How many tokens the network can read at once, if it says so."""
        found = getattr(self.learner.net, "context", None)
        return found if isinstance(found, int) else None

    def fit(self, tokens: Any, **options: Any) -> Self:
        """Learn sequences; options are those of the learner's ``fit``.

        Args:
            tokens: ``[rows, steps]``; the label -100 marks padding at the end.
            options: ``epochs``, ``batch_size``, ...
        """
        y = self._tokens(tokens, padded=True)
        self.learner.fit(self._shifted(y), y, off_data=False, **options)
        return self

    def log_prob(self, tokens: Any) -> Tensor:
        """Log probability of each sequence, in nats; padding (-100) counts for nothing."""
        return self.step_log_prob(tokens).nansum(1)

    def step_log_prob(self, tokens: Any) -> Tensor:
        """Log probability of each token given those before it; NaN at padding."""
        y = self._tokens(tokens, padded=True)
        found = self.learner.predict(self._shifted(y))
        assert isinstance(found, StepsPredictive)
        return found.step_log_prob(y)

    def generate(
        self,
        prompt: Any = None,
        steps: int = 100,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        seed: int = 0,
        cache: bool | None = None,
    ) -> Tensor:
        """Sequences that go on from a prompt, token by token.

        Beyond the context of the network the last tokens that fit are read anew at every step.

        Args:
            prompt: ``[rows, tokens]``; by default one row of none.
            steps: tokens to add.
            temperature: log probabilities are divided by it: below 1 the likely ones become more
                likely; 0 takes the most probable.
            top_k: draw from so many of the most probable tokens only.
            seed: seed of the draws.
            cache: whether to remember keys and values instead of reading all tokens at every
                step; by default where it can be done: a network with ``remembering``, and a
                learner that runs it once (TAGI, Backprop).

        Returns:
            ``[rows, tokens + steps]``, without the first ``begin``.
        """
        if temperature < 0:
            raise ValueError(f"temperature must be 0 or above, got {temperature}")
        if top_k is not None and not 1 <= top_k <= self.vocabulary:
            raise ValueError(f"top_k must lie in 1..{self.vocabulary}, got {top_k}")
        read = self._tokens([[]] if prompt is None else prompt)
        first = self.begin.expand(len(read), 1)
        read = torch.cat([first, read], 1)
        generator = torch.Generator().manual_seed(seed)
        remembering = self._remembering(cache)
        fresh = 0  # tokens that the network remembers
        with remembering() if remembering else nullcontext():
            for _ in range(steps):
                fits = self.context is None or read.shape[1] <= self.context
                if remembering and fits:
                    probs = self._next(read[:, fresh:])
                    fresh = read.shape[1]
                else:
                    probs = self._next_of_all(read, remembering)
                token = chosen(probs, temperature, top_k, generator)
                read = torch.cat([read, token.unsqueeze(1)], 1)
        return read[:, 1:]

    def _next(self, tokens: Tensor) -> Tensor:
        """Probabilities of the token after these."""
        found = self.learner.outputs(tokens, batch_size=None).predictive().double()
        return found.probs[:, -1]

    def _next_of_all(self, read: Tensor, remembering: Any) -> Tensor:
        if self.context is not None:
            read = read[:, -self.context :]
        with remembering() if remembering else nullcontext():  # from nothing again
            return self._next(read)

    def _remembering(self, cache: bool | None) -> Callable[[], AbstractContextManager[None]] | None:
        found: Any = getattr(self.learner.net, "remembering", None)
        able = found is not None and isinstance(self.learner, TAGI | Backprop)
        if cache and not able:
            raise TypeError(
                f"cache=True needs a network with 'remembering' (as nn.CausalTransformer) and a "
                f"learner that runs it once; got {type(self.learner.net).__name__} and "
                f"{type(self.learner).__name__}"
            )
        return found if able and cache is not False else None

    def _shifted(self, y: Tensor) -> Tensor:
        """What each token is predicted from: begin, and all but the last."""
        first = self.begin.expand(len(y), 1)
        return torch.cat([first, y[:, :-1].clamp_min(0)], 1)

    def _tokens(self, given: Any, padded: bool = False) -> Tensor:
        tokens = torch.as_tensor(given, device=self.learner.device)
        if tokens.ndim != 2:
            raise InvalidInput(f"tokens must have shape (rows, steps), got {tuple(tokens.shape)}")
        if tokens.numel() and (tokens.is_floating_point() or tokens.dtype == torch.bool):
            raise InvalidInput(f"tokens are whole numbers, got {tokens.dtype}")
        tokens = tokens.to(torch.int64)
        allowed = (tokens >= 0) & (tokens < self.vocabulary)
        if padded:
            if not tokens.shape[1]:
                raise InvalidInput(f"sequences must have a token, got {tuple(tokens.shape)}")
            allowed |= tokens == -100
        if not bool(allowed.all()):
            bad = tokens[~allowed][0]
            raise InvalidInput(f"tokens must lie in 0..{self.vocabulary - 1}, got {int(bad)}")
        return tokens


def chosen(
    probs: Tensor, temperature: float, top_k: int | None, generator: torch.Generator
) -> Tensor:
    """A token for each row; of equally probable ones, the first are among the top k.

    >>> chosen(torch.tensor([[0.2, 0.5, 0.3]]), 0.0, None, torch.Generator())
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
