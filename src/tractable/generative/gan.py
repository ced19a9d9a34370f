"""Generative adversarial networks: a generator, and a discriminator that tells it from the data."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from tractable.errors import InvalidInput, InvalidModelFile, NotFitted
from tractable.generative import adversaries
from tractable.generative.base import Generative
from tractable.generative.chance import seeded
from tractable.generative.columns import as_rows
from tractable.generative.game import Game, Loss, beside, scores_of
from tractable.generative.predictive import Density, no_density
from tractable.persistence import model_file, module_json, validation
from tractable.training.progress import Progress

_AT_ONCE = 10_000


class GAN(Generative):
    """Rows from a generator that a discriminator cannot tell from the data.

    ``"logistic"`` is the game of Goodfellow et al. (2014; UDL E 15.1–15.9), ``"wasserstein"`` that
    of Arjovsky, Chintala & Bottou (2017; E 15.15–15.17) with the gradient penalty of Gulrajani et
    al. (2017), or with clipped weights.  Its samples may be sharp; it has no density, so there is
    no ``log_prob`` and no ``novelty``, and what it misses it does not say: look at its samples, and
    at ``metrics.two_sample`` of them and the data.

    Args:
        generator: from ``latent`` numbers (and the context, behind them) to a row.
        discriminator: from a row (and the context) to one score.
        latent: number of standard normal coordinates.
        loss: ``"logistic"`` or ``"wasserstein"``.
        penalty: weight of the gradient penalty; by default 1 for ``"wasserstein"`` without
            ``clip``, else none.  The paper has 10, for images; on tables so much holds the critic
            back.
        clip: weights of the critic are kept between minus this and this, for ``"wasserstein"``.
        steps: steps of the discriminator for each of the generator; by default 1, or 5 for
            ``"wasserstein"``.
        saturating: the generator's loss as the book has it first; see ``generator_loss``.
        lr: learning rate of Adam for both, to zero by a cosine.
        average: share that an average of the generator's weights keeps at every step (less in the
            first ones, so that it forgets where it began); samples come from it, because the
            weights themselves circle around; 0 for none.
        common: arguments of ``Generative``.

    Attributes:
        generator_: the generator that was learnt.
        discriminator_: the discriminator that was learnt.
        history_: losses of every epoch.

    >>> x = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
    >>> model = GAN(nn.Linear(2, 2), nn.Linear(2, 1), latent=2).fit(x, epochs=2)
    >>> model.predict().sample(5).shape
    torch.Size([5, 2])
    """

    continuous: ClassVar[bool] = False
    whole_rows: ClassVar[bool] = True

    def __init__(
        self,
        generator: nn.Module,
        discriminator: nn.Module,
        *,
        latent: int,
        loss: Loss = "logistic",
        penalty: float | None = None,
        clip: float | None = None,
        steps: int | None = None,
        saturating: bool = False,
        lr: float = 2e-3,
        average: float = 0.99,
        **common: Any,
    ) -> None:
        common.setdefault("held_out", 0.0)
        super().__init__(**common)
        for name, part in (("generator", generator), ("discriminator", discriminator)):
            if not isinstance(part, nn.Module):
                raise TypeError(f"{name} must be a torch.nn.Module, got {type(part).__name__}")
        if latent < 1:
            raise ValueError(f"latent must be at least 1, got {latent}: there is nothing to draw")
        if loss not in ("logistic", "wasserstein"):
            raise ValueError(f"loss must be 'logistic' or 'wasserstein', got {loss!r}")
        if clip is not None and (loss != "wasserstein" or not clip > 0):
            raise ValueError(f"clip is a positive bound for loss='wasserstein', got {clip}")
        if penalty is not None and not (math.isfinite(penalty) and penalty >= 0):
            raise ValueError(f"penalty must be a number from 0, got {penalty}")
        if steps is not None and steps < 1:
            raise ValueError(f"steps must be at least 1, got {steps}")
        if not (math.isfinite(lr) and lr > 0):
            raise ValueError(f"lr must be a positive number, got {lr}")
        if not 0 <= average < 1:
            raise ValueError(f"average must be a share from 0 to below 1, got {average}")
        self.generator, self.discriminator, self.latent = generator, discriminator, latent
        self.loss, self.penalty, self.clip, self.steps = loss, penalty, clip, steps
        self.saturating, self.lr, self.average = bool(saturating), float(lr), float(average)
        self.generator_: nn.Module | None = None
        self.discriminator_: nn.Module | None = None
        self.history_: list[dict[str, float]] = []

    # --- learning --------------------------------------------------------------------------

    def learn(
        self,
        x: Tensor,
        context: Tensor | None,
        *,
        progress: bool | None,
        epochs: int = 100,
        batch_size: int = 64,
        **options: Any,
    ) -> None:
        """See ``Generative``."""
        if options:
            raise TypeError(f"a GAN has no such options of fit: {', '.join(options)}")
        for name, value in (("epochs", epochs), ("batch_size", batch_size)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        history = []
        # What a network draws itself, as dropout does, is of torch's own generator.
        with seeded(self.seed), Progress(epochs, type(self).__name__, progress) as bar:
            game = Game(self, x, context)
            for epoch in range(epochs):
                game.pace(0.5 * (1 + math.cos(math.pi * epoch / epochs)))
                history.append({"epoch": float(epoch + 1), **game.play(min(batch_size, len(x)))})
                bar.advance(1)
        if not game.made:
            raise ValueError(
                f"the generator never had a turn: the discriminator took {game.judged} steps, and "
                f"has {game.steps} for each of the generator's. More epochs, or smaller batches"
            )
        self.generator_, self.discriminator_ = game.kept.eval(), game.discriminator.eval()
        self.history_ = history

    # --- predicting ------------------------------------------------------------------------

    def density(self, context: Tensor | None, *, truncation: float | None = None) -> GanDensity:
        """What it makes; there is no density.

        Args:
            context: rows of context in the model's units.
            truncation: every latent coordinate is drawn between minus this and this (B 15.6): more
                usual rows, and less variety.
        """
        if truncation is not None and not truncation > 0:
            raise ValueError(f"truncation must be positive, got {truncation}")
        if self.generator_ is None:
            raise NotFitted("this GAN has seen no rows: fit it first")
        return GanDensity(self.generator_, self.latent, context, truncation, self.dtype)

    def score(self, rows: Any, context: Any = None) -> Tensor:
        """What the discriminator says of rows: log odds that they are data, or a critic's value.

        Args:
            rows: in the units of the data.
            context: one row for each of them, for a model that was fitted with a context.
        """
        if self.discriminator_ is None or self.columns_ is None:
            raise NotFitted("this GAN has seen no rows: fit it first")
        z = self.columns_.inward(
            as_rows(rows, "rows", self.dtype, len(self.columns_.steps)), self.dtype
        )
        about, given = self.context_columns_, None
        if (context is None) != (about is None):
            raise InvalidInput(
                "this GAN was fitted without a context, and has none to condition on"
                if about is None
                else "this GAN was fitted with a context: score(rows, context) needs one"
            )
        if about is not None:
            held = as_rows(context, "contexts", self.dtype, len(about.steps))
            if len(held) != len(z):
                raise InvalidInput(f"there are {len(z)} rows and {len(held)} contexts")
            given = about.inward(held, self.dtype)
        with torch.no_grad():
            return scores_of(self.discriminator_, z, given)

    # --- files -----------------------------------------------------------------------------

    def config(self) -> dict[str, Any]:
        """See ``Generative``."""
        return {
            "generator": module_json.describe(self.generator),
            "discriminator": module_json.describe(self.discriminator),
            "latent": self.latent, "loss": self.loss, "penalty": self.penalty, "clip": self.clip,
            "steps": self.steps, "saturating": self.saturating, "lr": self.lr,
            "average": self.average,
        }  # fmt: skip

    def pack(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """See ``Generative``."""
        if self.generator_ is None or self.discriminator_ is None:
            raise NotFitted("this GAN has seen no rows: fit it first")
        parts = {"generator": self.generator_, "discriminator": self.discriminator_}
        tensors = {
            f"{name}/{key}": value.clone()
            for name, module in parts.items()
            for key, value in module.state_dict().items()
        }
        return tensors, {"history": self.history_}

    specs_: Any = None

    @classmethod
    def rebuilt(cls, config: dict[str, Any], net: nn.Module | None) -> Self:
        """See ``Generative``; ``net`` is ``nn.ModuleList([generator, discriminator])``."""
        given = dict(config)
        specs = [given.pop("generator"), given.pop("discriminator")]
        if net is not None:
            both = list(net.children())
            if len(both) != 2:
                raise InvalidModelFile("net must be nn.ModuleList([generator, discriminator])")
            return cls(both[0], both[1], **given)
        if None in specs:
            raise InvalidModelFile(
                "the networks are not in the file (they are not made of plain torch.nn layers): "
                "give load(path, net=nn.ModuleList([generator, discriminator]))"
            )
        model = cls(nn.Identity(), nn.Identity(), **given)
        model.specs_ = specs
        return model

    def unpack(
        self, path: Path, tensors: dict[str, Tensor], header: dict[str, Any], net: nn.Module | None
    ) -> None:
        """See ``Generative``; networks are built of plain layers, no larger than the file."""
        if self.specs_ is not None:
            most = model_file.count_numbers(tensors)
            self.generator, self.discriminator = (module_json.build(s, most) for s in self.specs_)
            self.specs_ = None
        loaded = []
        for name, module in (("generator", self.generator), ("discriminator", self.discriminator)):
            held = model_file.under_prefix(tensors, f"{name}/")
            twin = copy.deepcopy(module).to(self.dtype)
            validation.check_same_tensors(dict(twin.state_dict()), held, name)
            validation.check_numbers(held, {})
            twin.load_state_dict(held)
            loaded.append(twin.eval())
        self.generator_, self.discriminator_ = loaded
        self.history_ = [
            {str(k): float(v) for k, v in record.items()} for record in header["history"]
        ]


class GanDensity(Density):
    """What a generator makes, in the model's units.

    Args:
        generator: the network.
        latent: number of coordinates.
        context: rows of context, or None.
        truncation: bound of every coordinate, or None.
        dtype: precision.
    """

    def __init__(
        self,
        generator: nn.Module,
        latent: int,
        context: Tensor | None,
        truncation: float | None,
        dtype: torch.dtype,
    ) -> None:
        self.generator, self.latent, self.context = generator, latent, context
        self.truncation, self.dtype = truncation, dtype

    def log_prob(self, z: Tensor) -> Tensor:
        """There is none."""
        raise no_density(
            "a GAN",
            "a generator says what it makes and not how likely that is. A VAE, a flow or a mixture "
            "has a density; GAN.score has the discriminator's opinion",
        )

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """See ``Density``."""
        rows = n if self.context is None else n * len(self.context)
        shape = (rows, self.latent)
        if self.truncation is None:
            z = torch.randn(shape, generator=generator, dtype=self.dtype)
        else:
            z = adversaries.truncated_normal(shape, self.truncation, generator, self.dtype)
        context = None if self.context is None else self.context.repeat(n, 1)
        parts = [
            self.generator(beside(z[i : i + _AT_ONCE], None if context is None else
                                   context[i : i + _AT_ONCE])).flatten(1)
            for i in range(0, rows, _AT_ONCE)
        ]  # fmt: skip
        made = torch.cat(parts)
        return made if self.context is None else made.unflatten(0, (n, len(self.context)))
