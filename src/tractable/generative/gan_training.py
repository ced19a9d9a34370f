"""Adversarial training of a generator and a discriminator: losses, optimizers, weight average.

A score is the logit that a row is real (``"logistic"``), or the value of a critic
(``"wasserstein"``).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from tractable.errors import InvalidInput, NonFiniteGradient
from tractable.generative.torch_random import seeded
from tractable.learners.network.reset import reset_parameters

if TYPE_CHECKING:
    from tractable.generative.gan import GAN

Loss = Literal["logistic", "wasserstein"]
_WARM_UP = 9  # steps after which the average keeps half of itself and adds half of the new weights


class AdversarialTrainer:
    """Both networks, their optimizers and their random generator during training.

    Args:
        model: model with the options of the training.
        x: rows.
        context: one context for each row, or None.

    Attributes:
        average: exponential moving average of the generator's weights.
        n_discriminator_steps: steps of the discriminator so far.
        n_generator_steps: steps of the generator so far.
    """

    def __init__(self, model: GAN, x: Tensor, context: Tensor | None) -> None:
        self.model, self.x, self.context = model, x, context
        self.random = torch.Generator().manual_seed(model.seed)
        with seeded(model.seed):
            self.generator, self.discriminator = (
                copy.deepcopy(m).to(model.dtype) for m in (model.generator, model.discriminator)
            )
            reset_parameters(self.generator)
            reset_parameters(self.discriminator)
        self.average = copy.deepcopy(self.generator)
        betas = (0.5, 0.9)  # Gulrajani et al. (2017): less momentum than Adam's default
        self.opt_g, self.opt_d = (
            torch.optim.Adam(m.parameters(), model.lr, betas=betas)
            for m in (self.generator, self.discriminator)
        )
        self.is_wasserstein = model.loss == "wasserstein"
        self.n_critic = model.n_critic or (5 if self.is_wasserstein else 1)
        self.penalty = model.gradient_penalty
        if self.penalty is None:
            self.penalty = 1.0 if self.is_wasserstein and model.weight_clip is None else 0.0
        self.n_discriminator_steps = self.n_generator_steps = 0
        self._check_networks()

    def _check_networks(self) -> None:
        """Raise if the networks do not return rows and one score per row."""
        context = None if self.context is None else self.context[:2]
        with torch.no_grad():
            rows = self.generate(2, context)
            if rows.shape != (2, self.x.shape[1]):
                raise InvalidInput(
                    f"the generator must return rows of {self.x.shape[1]} numbers, it returned "
                    f"{tuple(rows.shape)} for 2 rows"
                )
            scores_of(self.discriminator, rows, context)

    def set_lr(self, factor: float) -> None:
        """Set the learning rate to a factor times the initial one, at least 0.001."""
        for optimizer in (self.opt_g, self.opt_d):
            for group in optimizer.param_groups:
                group["lr"] = self.model.lr * max(factor, 1e-3)

    def run_epoch(self, batch_size: int) -> dict[str, float]:
        """Train on all rows once, and return the mean losses.

        Raises:
            NonFiniteGradient: a loss is not finite.
        """
        order = torch.randperm(len(self.x), generator=self.random)
        batches = order[: len(order) // batch_size * batch_size].split(batch_size)
        losses_d, losses_g = [], []
        for at in batches:
            losses_d.append(self._step_d(at))
            self.n_discriminator_steps += 1
            if self.n_discriminator_steps % self.n_critic == 0:
                losses_g.append(self._step_g(batch_size))
        record = {"discriminator": sum(losses_d) / len(losses_d)}
        if losses_g:  # in a short epoch the generator may have no step
            record["generator"] = sum(losses_g) / len(losses_g)
        if not all(math.isfinite(value) for value in record.values()):
            raise NonFiniteGradient(
                "the losses are not finite: use (a) a lower lr, (b) standardize=True, (c) a "
                "gradient penalty"
            )
        return record

    def generate(self, rows: int, context: Tensor | None) -> Tensor:
        """Return rows of the generator with its current weights."""
        z = torch.randn(rows, self.model.latent_dim, generator=self.random, dtype=self.x.dtype)
        return self.generator(with_context(z, context)).flatten(1)

    def _step_d(self, at: Tensor) -> float:
        """Update the discriminator by a batch, and return its loss."""
        real = self.x[at]
        context = None if self.context is None else self.context[at]
        with torch.no_grad():
            generated = self.generate(len(real), context)
        scores = [scores_of(self.discriminator, rows, context) for rows in (real, generated)]
        loss = (critic_loss if self.is_wasserstein else discriminator_loss)(*scores)
        total = loss
        if self.penalty:
            weight = torch.rand(len(real), 1, generator=self.random, dtype=real.dtype)
            total = loss + self.penalty * gradient_penalty(
                lambda rows: scores_of(self.discriminator, rows, context), real, generated, weight
            )
        _step(self.opt_d, total)
        if self.model.weight_clip is not None:
            _clip(self.discriminator.parameters(), self.model.weight_clip)
        return float(loss.detach())

    def _step_g(self, rows: int) -> float:
        """Update the generator and its average, and return the loss."""
        context = None
        if self.context is not None:
            at = torch.randint(len(self.context), (rows,), generator=self.random)
            context = self.context[at]
        scores = scores_of(self.discriminator, self.generate(rows, context), context)
        if self.is_wasserstein:
            loss = -scores.mean()
        else:
            loss = generator_loss(scores, saturating=self.model.saturating)
        _step(self.opt_g, loss)
        self.n_generator_steps += 1
        steps = self.n_generator_steps
        decay = min(self.model.ema_decay, steps / (steps + _WARM_UP))
        with torch.no_grad():
            pairs = zip(self.average.parameters(), self.generator.parameters(), strict=True)
            for average, new in pairs:
                average.lerp_(new, 1 - decay)
            buffers = zip(self.average.buffers(), self.generator.buffers(), strict=True)
            for old, current in buffers:
                old.copy_(current)
        return float(loss.detach())


def discriminator_loss(real: Tensor, generated: Tensor) -> Tensor:
    """Return ``-E log D(x) - E log(1 - D(x*))`` of logits (UDL E 15.8).

    Its minimum is ``2 log 2 - 2 JS``, with the Jensen–Shannon divergence of real and generated
    rows. It is the binary cross-entropy of the labeled union (E 15.2), with weight 1 for each half.
    """
    return softplus(-real).mean() + softplus(generated).mean()


def generator_loss(generated: Tensor, *, saturating: bool = False) -> Tensor:
    """Return the loss of the generator.

    Args:
        generated: logits of generated rows.
        saturating: minus the generated part of ``discriminator_loss`` (E 15.5), whose gradient
            vanishes where the discriminator is certain. Default: ``-E log D(x*)`` (Goodfellow et
            al., 2014), with the same fixed point.
    """
    return -softplus(generated).mean() if saturating else softplus(-generated).mean()


def critic_loss(real: Tensor, generated: Tensor) -> Tensor:
    """Return ``E f(x*) - E f(x)`` (UDL E 15.16), at best minus the Wasserstein distance."""
    return generated.mean() - real.mean()


def gradient_penalty(
    critic: Callable[[Tensor], Tensor], real: Tensor, generated: Tensor, weight: Tensor
) -> Tensor:
    """Return ``E (|grad f| - 1)^2`` at points between real and generated rows.

    Gulrajani et al., "Improved training of Wasserstein GANs" (2017), eq. 3.

    Args:
        critic: from rows to scores.
        real: rows of the data.
        generated: the same number of generated rows.
        weight: weight of the generated row in each pair, ``[rows, 1]``, from 0 to 1.
    """
    between = (real + weight * (generated - real)).detach().requires_grad_()
    (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    return (slope.flatten(1).norm(dim=1) - 1).square().mean()


def truncated_normal(
    shape: tuple[int, ...], bound: float, generator: torch.Generator, dtype: torch.dtype
) -> Tensor:
    """Return standard normal numbers, conditional on lying between ``-bound`` and ``bound``."""
    end = torch.special.ndtr(torch.tensor(bound, dtype=torch.float64))
    uniform = torch.rand(shape, generator=generator, dtype=torch.float64)
    return torch.special.ndtri((1 - end) + uniform * (2 * end - 1)).to(dtype)


def truncated_mass(bound: float, dim: int = 1) -> float:
    """Return the probability that ``dim`` standard normals lie in ``-bound..bound`` (B 15.6)."""
    inside = torch.special.erf(torch.tensor(bound / 2**0.5, dtype=torch.float64))
    return float(inside**dim)


def scores_of(discriminator: nn.Module, rows: Tensor, context: Tensor | None) -> Tensor:
    """Return one score per row.

    Raises:
        InvalidInput: the discriminator returns something else.
    """
    found = discriminator(with_context(rows, context))
    if found.shape not in ((len(rows),), (len(rows), 1)):
        raise InvalidInput(
            f"the discriminator must return one score per row, it returned {tuple(found.shape)} "
            f"for {len(rows)} rows"
        )
    return found.reshape(-1)


def with_context(rows: Tensor, context: Tensor | None) -> Tensor:
    """Return rows followed by their contexts."""
    return rows if context is None else torch.cat([rows, context], 1)


def _step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def _clip(parameters: Iterable[nn.Parameter], bound: float) -> None:
    with torch.no_grad():
        for parameter in parameters:
            parameter.clamp_(-bound, bound)
