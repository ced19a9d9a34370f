"""Generative adversarial networks: a generator, and a discriminator between it and the data."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from typing_extensions import override

from tractable.errors import InvalidInput, InvalidModelFile
from tractable.generative.base import GenerativeModel
from tractable.generative.column_scaler import as_matrix
from tractable.generative.gan_training import (
    AdversarialTrainer,
    Loss,
    scores_of,
    truncated_normal,
    with_context,
)
from tractable.generative.predictive import Density, no_density_error
from tractable.generative.torch_random import seeded
from tractable.persistence import model_file, module_json, validation
from tractable.training.progress import Progress

_CHUNK_ROWS = 10_000  # rows in one call of the generator


class GAN(GenerativeModel):
    """Samples of rows from a generator that is trained against a discriminator.

    ``"logistic"`` is the loss of Goodfellow et al. (2014; UDL E 15.1–15.9), ``"wasserstein"`` that
    of Arjovsky, Chintala & Bottou (2017; E 15.15–15.17) with the gradient penalty of Gulrajani et
    al. (2017), or with clipped weights. Samples may be sharp. There is no density, so there is no
    ``log_prob`` and no ``novelty_share``, and missing modes remain unnoticed: compare the samples
    with the data by ``metrics.two_sample``.

    Args:
        generator: from ``latent_dim`` numbers (followed by the context) to a row.
        discriminator: from a row (followed by the context) to one score.
        latent_dim: number of standard normal latent variables.
        loss: ``"logistic"`` or ``"wasserstein"``.
        gradient_penalty: weight of the gradient penalty. Default: 1 for ``"wasserstein"`` without
            ``weight_clip``, else 0. The paper uses 10, for images; on tables that slows the critic.
        weight_clip: bound of the absolute weights of the critic, for ``"wasserstein"``.
        n_critic: discriminator steps per generator step. Default: 1, or 5 for ``"wasserstein"``.
        saturating: use the saturating loss of the generator; see ``generator_loss``.
        lr: initial learning rate of Adam for both networks; it decreases to zero by a cosine.
        ema_decay: decay of the exponential moving average of the generator's weights (smaller in
            the first steps). Samples come from the average, because the weights themselves
            oscillate; 0 for none.
        common: arguments of ``GenerativeModel``.

    Attributes:
        generator_: trained generator.
        discriminator_: trained discriminator.
        history_: losses of every epoch.

    >>> x = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
    >>> model = GAN(nn.Linear(2, 2), nn.Linear(2, 1), latent_dim=2).fit(x, epochs=2)
    >>> model.predict().sample(5).shape
    torch.Size([5, 2])
    """

    is_continuous: ClassVar[bool] = False
    keeps_constant_columns: ClassVar[bool] = True

    def __init__(
        self,
        generator: nn.Module,
        discriminator: nn.Module,
        *,
        latent_dim: int,
        loss: Loss = "logistic",
        gradient_penalty: float | None = None,
        weight_clip: float | None = None,
        n_critic: int | None = None,
        saturating: bool = False,
        lr: float = 2e-3,
        ema_decay: float = 0.99,
        **common: Any,
    ) -> None:
        common.setdefault("validation_fraction", 0.0)
        super().__init__(**common)
        for name, part in (("generator", generator), ("discriminator", discriminator)):
            if not isinstance(part, nn.Module):
                raise TypeError(f"{name} must be a torch.nn.Module, got {type(part).__name__}")
        if latent_dim < 1:
            raise ValueError(f"latent_dim must be at least 1, got {latent_dim}")
        if loss not in ("logistic", "wasserstein"):
            raise ValueError(f"loss must be 'logistic' or 'wasserstein', got {loss!r}")
        if weight_clip is not None and (loss != "wasserstein" or not weight_clip > 0):
            raise ValueError(
                f"weight_clip must be positive, for loss='wasserstein', got {weight_clip}"
            )
        if gradient_penalty is not None and not (
            math.isfinite(gradient_penalty) and gradient_penalty >= 0
        ):
            raise ValueError(
                f"gradient_penalty must be a finite number from 0, got {gradient_penalty}"
            )
        if n_critic is not None and n_critic < 1:
            raise ValueError(f"n_critic must be at least 1, got {n_critic}")
        if not (math.isfinite(lr) and lr > 0):
            raise ValueError(f"lr must be a positive number, got {lr}")
        if not 0 <= ema_decay < 1:
            raise ValueError(f"ema_decay must be from 0 to below 1, got {ema_decay}")
        self.generator, self.discriminator, self.latent_dim = generator, discriminator, latent_dim
        self.loss, self.gradient_penalty, self.weight_clip = loss, gradient_penalty, weight_clip
        self.n_critic, self.saturating = n_critic, bool(saturating)
        self.lr, self.ema_decay = float(lr), float(ema_decay)
        self.generator_: nn.Module | None = None
        self.discriminator_: nn.Module | None = None
        self.history_: list[dict[str, float]] = []

    # --- fitting ---------------------------------------------------------------------------

    @override
    def _fit(
        self,
        x: Tensor,
        context: Tensor | None,
        *,
        progress: bool | None,
        epochs: int = 100,
        batch_size: int = 64,
        **options: Any,
    ) -> None:
        if options:
            raise TypeError(f"GAN.fit has no arguments {', '.join(options)}")
        for name, value in (("epochs", epochs), ("batch_size", batch_size)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        history = []
        # Modules with random numbers, such as dropout, draw from torch's global generator.
        with seeded(self.seed), Progress(epochs, type(self).__name__, progress) as bar:
            trainer = AdversarialTrainer(self, x, context)
            for epoch in range(epochs):
                trainer.set_lr(0.5 * (1 + math.cos(math.pi * epoch / epochs)))
                losses = trainer.run_epoch(min(batch_size, len(x)))
                history.append({"epoch": float(epoch + 1), **losses})
                bar.advance(1)
        if not trainer.n_generator_steps:
            raise ValueError(
                f"the generator was not updated: there were {trainer.n_discriminator_steps} "
                f"discriminator steps, and n_critic={trainer.n_critic}. Use more epochs or smaller "
                f"batches"
            )
        self.generator_ = trainer.average.eval()
        self.discriminator_ = trainer.discriminator.eval()
        self.history_ = history

    # --- predicting ------------------------------------------------------------------------

    @override
    def _density(
        self, context: Tensor | None, *, truncation: float | None = None
    ) -> GeneratorDensity:
        """Return the distribution of samples, which has no density.

        Args:
            context: rows of context in the units of the model.
            truncation: bound of the absolute value of every latent variable (B 15.6): more typical
                rows, and less variety.
        """
        if truncation is not None and not truncation > 0:
            raise ValueError(f"truncation must be positive, got {truncation}")
        if self.generator_ is None:
            raise self._not_fitted()
        return GeneratorDensity(self.generator_, self.latent_dim, context, truncation, self.dtype)

    def score(self, rows: Any, context: Any = None) -> Tensor:
        """Return the discriminator's score: log odds that a row is real, or the critic's value.

        Args:
            rows: rows in the units of the data.
            context: one context for each row, for a model that was fitted with a context.
        """
        scaler, of_context = self.fitted_scaler(), self.context_scaler_
        if self.discriminator_ is None:
            raise self._not_fitted()
        x = as_matrix(rows, "rows", self.dtype, len(scaler.steps))
        z = scaler.to_model(x, self.dtype)
        if (context is None) != (of_context is None):
            raise InvalidInput(
                "this GAN was fitted without a context: leave out the context"
                if of_context is None
                else "this GAN was fitted with a context: use score(rows, context)"
            )
        c = None
        if of_context is not None:
            given = as_matrix(context, "contexts", self.dtype, len(of_context.steps))
            if len(given) != len(z):
                raise InvalidInput(f"there are {len(z)} rows and {len(given)} contexts")
            c = of_context.to_model(given, self.dtype)
        with torch.no_grad():
            return scores_of(self.discriminator_, z, c)

    # --- files -----------------------------------------------------------------------------

    @override
    def config(self) -> dict[str, Any]:
        return {
            "generator": module_json.describe(self.generator),
            "discriminator": module_json.describe(self.discriminator),
            "latent_dim": self.latent_dim, "loss": self.loss,
            "gradient_penalty": self.gradient_penalty, "weight_clip": self.weight_clip,
            "n_critic": self.n_critic, "saturating": self.saturating, "lr": self.lr,
            "ema_decay": self.ema_decay,
        }  # fmt: skip

    @override
    def pack(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        if self.generator_ is None or self.discriminator_ is None:
            raise self._not_fitted()
        modules = {"generator": self.generator_, "discriminator": self.discriminator_}
        tensors = {
            f"{name}/{key}": value.clone()
            for name, module in modules.items()
            for key, value in module.state_dict().items()
        }
        return tensors, {"history": self.history_}

    specs_: Any = None
    """Descriptions of the networks in a file, until its tensors are known."""

    @classmethod
    @override
    def from_config(cls, config: dict[str, Any], net: nn.Module | None) -> Self:
        given = dict(config)
        specs = [given.pop("generator"), given.pop("discriminator")]
        if net is not None:
            parts = list(net.children())
            if len(parts) != 2:
                raise InvalidModelFile("net must be nn.ModuleList([generator, discriminator])")
            return cls(parts[0], parts[1], **given)
        if None in specs:
            raise InvalidModelFile(
                "the networks are not in the file, because they do not consist of plain torch.nn "
                "layers: use load(path, net=nn.ModuleList([generator, discriminator]))"
            )
        model = cls(nn.Identity(), nn.Identity(), **given)
        model.specs_ = specs
        return model

    @override
    def unpack(
        self, path: Path, tensors: dict[str, Tensor], header: dict[str, Any], net: nn.Module | None
    ) -> None:
        if self.specs_ is not None:
            limit = model_file.count_numbers(tensors)  # no networks larger than the file
            generator, discriminator = (module_json.build(s, limit) for s in self.specs_)
            self.generator, self.discriminator = generator, discriminator
            self.specs_ = None
        loaded = []
        for name, module in (("generator", self.generator), ("discriminator", self.discriminator)):
            stored = model_file.under_prefix(tensors, f"{name}/")
            network = copy.deepcopy(module).to(self.dtype)
            validation.check_same_tensors(dict(network.state_dict()), stored, name)
            validation.check_numbers(stored, {})
            network.load_state_dict(stored)
            loaded.append(network.eval())
        self.generator_, self.discriminator_ = loaded
        self.history_ = [
            {str(k): float(v) for k, v in record.items()} for record in header["history"]
        ]


class GeneratorDensity(Density):
    """Samples of a generator, in the units of the model.

    Args:
        generator: trained generator.
        latent_dim: number of latent variables.
        context: rows of context, or None.
        truncation: bound of the latent variables, or None.
        dtype: type of samples.
    """

    def __init__(
        self,
        generator: nn.Module,
        latent_dim: int,
        context: Tensor | None,
        truncation: float | None,
        dtype: torch.dtype,
    ) -> None:
        self.generator, self.latent_dim, self.context = generator, latent_dim, context
        self.truncation, self.dtype = truncation, dtype

    @override
    def log_prob(self, z: Tensor) -> Tensor:
        raise no_density_error(
            "a GAN",
            "a generator has no density. Use a VAE, a flow or a mixture; GAN.score returns the "
            "score of the discriminator",
        )

    @override
    def sample(self, n_samples: int, generator: torch.Generator) -> Tensor:
        rows = n_samples if self.context is None else n_samples * len(self.context)
        shape = (rows, self.latent_dim)
        if self.truncation is None:
            z = torch.randn(shape, generator=generator, dtype=self.dtype)
        else:
            z = truncated_normal(shape, self.truncation, generator, self.dtype)
        if self.context is not None:
            z = with_context(z, self.context.repeat(n_samples, 1))
        samples = torch.cat([self.generator(part).flatten(1) for part in z.split(_CHUNK_ROWS)])
        if self.context is None:
            return samples
        return samples.unflatten(0, (n_samples, len(self.context)))
