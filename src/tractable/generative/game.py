"""The game of a generator and a discriminator: who learns when, from what, and how fast."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from tractable.errors import InvalidInput, NonFiniteGradient
from tractable.generative import adversaries
from tractable.generative.chance import seeded
from tractable.learners.network.reset import reset_parameters

if TYPE_CHECKING:
    from tractable.generative.gan import GAN

Loss = Literal["logistic", "wasserstein"]
_WARM = 9  # steps until the average keeps as much of itself as it takes of the new weights


class Game:
    """Both networks, their optimizers and their noise, while they learn.

    Args:
        model: what was chosen.
        x: rows.
        context: a row of context for each, or None.

    Attributes:
        kept: the average of the generator's weights.
    """

    def __init__(self, model: GAN, x: Tensor, context: Tensor | None) -> None:
        self.model, self.x, self.context = model, x, context
        self.noise = torch.Generator().manual_seed(model.seed)
        with seeded(model.seed):
            self.generator, self.discriminator = (
                copy.deepcopy(m).to(model.dtype) for m in (model.generator, model.discriminator)
            )
            reset_parameters(self.generator)
            reset_parameters(self.discriminator)
        self.kept = copy.deepcopy(self.generator)
        betas = (0.5, 0.9)
        self.makers, self.judges = (
            torch.optim.Adam(m.parameters(), model.lr, betas=betas)
            for m in (self.generator, self.discriminator)
        )
        far = model.loss == "wasserstein"
        self.steps = model.steps or (5 if far else 1)
        self.weight = model.penalty
        if self.weight is None:
            self.weight = 1.0 if far and model.clip is None else 0.0
        self.judged = self.made = 0
        self._check()

    def _check(self) -> None:
        """Refuse networks whose outputs are not a row and one score."""
        given = None if self.context is None else self.context[:2]
        with torch.no_grad():
            made = self.make(2, given)
            if made.shape != (2, self.x.shape[1]):
                raise InvalidInput(
                    f"the generator must give rows of {self.x.shape[1]} numbers, it gave "
                    f"{tuple(made.shape)} for 2 rows"
                )
            scores_of(self.discriminator, made, given)

    def pace(self, share: float) -> None:
        """Set the learning rate to this share of the first one."""
        for optimizer in (self.makers, self.judges):
            for group in optimizer.param_groups:
                group["lr"] = self.model.lr * max(share, 1e-3)

    def play(self, size: int) -> dict[str, float]:
        """One pass over the rows; the mean losses."""
        order = torch.randperm(len(self.x), generator=self.noise)
        parts = order[: len(order) // size * size].split(size)
        lost, won = [], []
        for part in parts:
            lost.append(self._judge(part))
            self.judged += 1
            if self.judged % self.steps == 0:
                won.append(self._make(size))
        record = {"discriminator": sum(lost) / len(lost)}
        if won:  # in a short epoch the generator may not have had a turn
            record["generator"] = sum(won) / len(won)
        if not all(math.isfinite(value) for value in record.values()):
            raise NonFiniteGradient(
                "the losses are not finite: (a) lower lr, (b) standardize=True, (c) a gradient "
                "penalty"
            )
        return record

    def make(self, rows: int, context: Tensor | None) -> Tensor:
        """Rows of the generator as it is."""
        z = torch.randn(rows, self.model.latent, generator=self.noise, dtype=self.x.dtype)
        return self.generator(beside(z, context)).flatten(1)

    def _judge(self, at: Tensor) -> float:
        real = self.x[at]
        context = None if self.context is None else self.context[at]
        with torch.no_grad():
            made = self.make(len(real), context)
        scores = [scores_of(self.discriminator, rows, context) for rows in (real, made)]
        far = self.model.loss == "wasserstein"
        loss = (adversaries.critic_loss if far else adversaries.discriminator_loss)(*scores)
        total = loss
        if self.weight:
            share = torch.rand(len(real), 1, generator=self.noise, dtype=real.dtype)
            total = loss + self.weight * adversaries.gradient_penalty(
                lambda rows: scores_of(self.discriminator, rows, context), real, made, share
            )
        _step(self.judges, total)
        if self.model.clip is not None:
            _clip(self.discriminator.parameters(), self.model.clip)
        return float(loss.detach())

    def _make(self, rows: int) -> float:
        context = None
        if self.context is not None:
            at = torch.randint(len(self.context), (rows,), generator=self.noise)
            context = self.context[at]
        made = scores_of(self.discriminator, self.make(rows, context), context)
        if self.model.loss == "wasserstein":
            loss = -made.mean()
        else:
            loss = adversaries.generator_loss(made, saturating=self.model.saturating)
        _step(self.makers, loss)
        self.made += 1
        share = min(self.model.average, self.made / (self.made + _WARM))
        with torch.no_grad():
            pairs = zip(self.kept.parameters(), self.generator.parameters(), strict=True)
            for kept, new in pairs:
                kept.lerp_(new, 1 - share)
            buffers = zip(self.kept.buffers(), self.generator.buffers(), strict=True)
            for held, now in buffers:
                held.copy_(now)
        return float(loss.detach())


def scores_of(discriminator: nn.Module, rows: Tensor, context: Tensor | None) -> Tensor:
    """One score a row.

    Raises:
        InvalidInput: the discriminator gives something else.
    """
    found = discriminator(beside(rows, context))
    if found.shape not in ((len(rows),), (len(rows), 1)):
        raise InvalidInput(
            f"the discriminator must give one score a row, it gave {tuple(found.shape)} for "
            f"{len(rows)} rows"
        )
    return found.reshape(-1)


def beside(rows: Tensor, context: Tensor | None) -> Tensor:
    """Rows with their contexts behind them."""
    return rows if context is None else torch.cat([rows, context], 1)


def _step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def _clip(parameters: Iterable[nn.Parameter], most: float) -> None:
    with torch.no_grad():
        for parameter in parameters:
            parameter.clamp_(-most, most)
