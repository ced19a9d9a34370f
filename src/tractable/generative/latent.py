"""A decoder alone: the latent of each row is inferred, as any other state of the network is.

``z ~ N(0, I)`` is the input of a network whose weights are Gaussian, and a row what is observed of
its outputs.  The posterior of ``z`` is ``infer.states`` at the input, and the weights learn the row
at a draw from it (data augmentation: Tanner & Wong, 1987): an autoencoder without an encoder and
without gradients.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from tractable.errors import Unsupported
from tractable.gaussian import Gaussian
from tractable.generative.columns import as_rows
from tractable.generative.learnt import Learnt
from tractable.generative.predictive import Density
from tractable.infer import states
from tractable.learners import TAGI, Learner
from tractable.learners.methods.base import BatchPosition
from tractable.likelihoods import Likelihood, Normal
from tractable.persistence import module_json
from tractable.training.progress import Progress

_AT_ONCE = 1 << 16  # rows of the network at once
_PROPOSED = 30  # draws of a latent, of which one is chosen by its weight


class Latent(Learnt):
    """A density of rows by a latent Gaussian and a decoder, learnt in closed form.

    Exact: that the log density, by importance sampling with the inferred latent as proposal, is
    that of the decoder as it was learnt (its weights' doubt included, row by row), up to the
    error of sampling.  Approximate: learning.  Coordinates of the latent are independent in the
    inferred posterior of a row, linearised at the prior; one of 30 draws from it is chosen by its
    weight, which mends most of that.

    Args:
        decoder: from ``latent`` numbers to what the likelihood takes; layers with moment rules.
        likelihood: how rows depend on the decoder's outputs; by default ``Normal`` with a noise for
            every column, which is inferred.
        latent: number of latent coordinates.
        learner: ``TAGI``.
        members: size of an ensemble: 1.
        options: further arguments of the learner, such as ``{"gain": 0.5}``.
        standardize: bring columns to mean 0 and variance 1.
        common: further arguments of ``Generative``.

    >>> x = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
    >>> model = Latent(nn.Linear(1, 3), latent=1).fit(x, epochs=2)
    >>> model.predict().log_prob(x[:5]).shape, model.predict().sample(7).shape
    (torch.Size([5]), torch.Size([7, 3]))
    """

    continuous: ClassVar[bool] = False
    whole_rows: ClassVar[bool] = True

    def __init__(
        self,
        decoder: nn.Module,
        likelihood: Likelihood | None = None,
        *,
        latent: int,
        learner: type[Learner] = TAGI,
        members: int = 1,
        options: dict[str, Any] | None = None,
        standardize: bool = True,
        **common: Any,
    ) -> None:
        if not isinstance(decoder, nn.Module):
            raise TypeError(f"decoder must be a torch.nn.Module, got {type(decoder).__name__}")
        if latent < 1:
            raise ValueError(
                f"latent must be at least 1, got {latent}: with none, all rows are one"
            )
        if members != 1 or not (isinstance(learner, type) and issubclass(learner, TAGI)):
            raise Unsupported(
                "the latent of a row is inferred by messages, which TAGI alone has, one network at "
                "a time; generative.VAE learns an encoder with the other learners"
            )
        super().__init__(
            learner=learner, members=members, options=options, standardize=standardize, **common
        )
        self.decoder, self.likelihood, self.latent = decoder, likelihood, latent

    # --- learning --------------------------------------------------------------------------

    def learn(
        self,
        x: Tensor,
        context: Tensor | None,
        *,
        progress: bool | None,
        epochs: int = 20,
        batch_size: int = 16,
        **options: Any,
    ) -> None:
        """See ``Generative``."""
        if options:
            raise TypeError(f"a latent model has no such options of fit: {', '.join(options)}")
        if context is not None:
            raise Unsupported("a latent model takes no context: give generative.VAE one")
        for name, value in (("epochs", epochs), ("batch_size", batch_size)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        likelihood = Normal(outputs=x.shape[1]) if self.likelihood is None else self.likelihood
        model = self.made(self.decoder, likelihood)
        assert isinstance(model, TAGI)
        model.checked(x.new_zeros(1, self.latent), x[:1])
        order = torch.Generator().manual_seed(self.seed)
        batches = math.ceil(len(x) / batch_size)
        with Progress(epochs * batches, type(self).__name__, progress) as bar:
            for epoch in range(epochs):
                rows = torch.randperm(len(x), generator=order).split(batch_size)
                for number, at in enumerate(rows):
                    position = BatchPosition(len(at) / len(x), epoch / epochs, number, batches)
                    z, seen = model.checked(self._latent(model, x[at], order), x[at])
                    model.learn_batch(z, seen, position)
                    bar.advance(1)
                model.method.end_epoch(model.state)
        self.learner_ = model

    def _latent(self, model: TAGI, x: Tensor, generator: torch.Generator) -> Tensor:
        """A draw of the latent of rows, given them; of its prior before anything was learnt.

        A draw, and not the Gaussian: outputs at its mean would leave out that the latent varies
        around it, and weights grow and the noise shrinks from pass to pass.
        """
        if not model.fitted:
            return torch.randn(len(x), self.latent, generator=generator, dtype=x.dtype)
        density = DecoderDensity(model, self.latent, _PROPOSED, self.seed)
        z, log_weight = density.weighted(x, generator)
        chosen = torch.multinomial(log_weight.softmax(0).T, 1, generator=generator)[:, 0]
        return z[chosen, torch.arange(len(x))]

    # --- predicting ------------------------------------------------------------------------

    def infer(self, rows: Any) -> Gaussian:
        """The latent of rows, in the units of the data, given what was learnt."""
        density = self.predict().density
        assert isinstance(density, DecoderDensity)
        columns = self.fitted_columns()
        x = as_rows(rows, "rows", self.dtype, len(columns.steps))
        return density.posterior(columns.inward(x, self.dtype))

    def density(self, context: Tensor | None, *, bound: int = 200) -> DecoderDensity:
        """The distribution that was learnt.

        Args:
            context: None.
            bound: draws of the latent that the log density of a row averages.
        """
        if bound < 1:
            raise ValueError(f"bound must be a number of draws from 1, got {bound}")
        self.fitted_columns()
        return DecoderDensity(self.learner_, self.latent, bound, self.seed)

    # --- files -----------------------------------------------------------------------------

    def config(self) -> dict[str, Any]:
        """See ``Generative``."""
        given = self.likelihood
        named = None if given is None else {"name": type(given).__name__, **given.config()}
        return {
            "decoder": module_json.describe(self.decoder),
            "likelihood": named, "latent": self.latent, **self.learnt_config(),
        }  # fmt: skip

    @classmethod
    def rebuilt(cls, config: dict[str, Any], net: nn.Module | None) -> Any:
        """See ``Generative``; the learner's file has the decoder and the likelihood."""
        decoder = nn.Identity() if net is None else net
        model = super().rebuilt({**config, "decoder": decoder, "likelihood": None}, None)
        model.from_file_, model.own_likelihood_ = True, config["likelihood"] is not None
        return model

    from_file_: bool = False
    own_likelihood_: bool = False

    def unpack(
        self, path: Path, tensors: dict[str, Tensor], header: dict[str, Any], net: nn.Module | None
    ) -> None:
        """See ``Generative``."""
        super().unpack(path, tensors, header, net)
        if self.from_file_:
            self.decoder = self.learner_.net
            if self.own_likelihood_:
                self.likelihood = self.learner_.method.likelihood


class DecoderDensity(Density):
    """The distribution of rows under a decoder with Gaussian weights, in the model's units.

    Args:
        model: what was learnt.
        latent: number of latent coordinates.
        draws: draws of the latent that a log density averages.
        seed: seed of them.
    """

    def __init__(self, model: TAGI, latent: int, draws: int, seed: int) -> None:
        self.model, self.latent, self.draws, self.seed = model, latent, draws, seed

    def posterior(self, x: Tensor) -> Gaussian:
        """The latent of rows."""
        zero = x.new_zeros(len(x), self.latent)
        return states(self.model, Gaussian(zero, torch.ones_like(zero)), x)["input"]

    def log_prob(self, z: Tensor) -> Tensor:
        """By importance sampling."""
        size = max(_AT_ONCE // self.draws, 1)
        return torch.cat([self._log_prob(part) for part in z.split(size)])

    def _log_prob(self, x: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(self.seed)
        return self.weighted(x, generator)[1].logsumexp(0) - math.log(self.draws)

    def weighted(self, x: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draws of the latent around what is inferred, half as wide again, and log weights.

        Weighted, they follow the posterior of the latent; the mean weight is the density.
        """
        known = self.posterior(x)
        std = 1.5 * known.variance.sqrt().clamp_min(1e-3)
        noise = torch.randn(self.draws, *known.shape, generator=generator, dtype=x.dtype)
        z = known.loc + std * noise
        ratio = (0.5 * (noise**2 - z**2) + std.log()).sum(-1)
        seen = x.expand(self.draws, *x.shape).flatten(0, 1)
        log_p = self._at(z.flatten(0, 1)).log_prob(seen).reshape(self.draws, len(x))
        return z, log_p + ratio

    def _at(self, z: Tensor) -> Any:
        return self.model.outputs(self.model.inputs(z)).predictive()

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """See ``Density``."""
        z = torch.randn(n, self.latent, generator=generator, dtype=self.model.dtype)
        drawn: Tensor = self._at(z).sample(1, generator)[0]
        return drawn.reshape(n, -1).to(z.dtype)
