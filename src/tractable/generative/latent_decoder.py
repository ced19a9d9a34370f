"""A decoder without an encoder: the latent variables of a row are inferred like any hidden state.

``z ~ N(0, I)`` is the input of a network with Gaussian weights, and a row is an observation of its
outputs. The posterior of ``z`` is ``infer.states`` at the input, and the weights are trained on
samples from it (data augmentation: Tanner & Wong, 1987): an autoencoder without an encoder and
without gradients.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from typing_extensions import override

from tractable.errors import Unsupported
from tractable.gaussian import Gaussian
from tractable.generative.column_scaler import as_matrix
from tractable.generative.learner_model import LearnerModel
from tractable.generative.predictive import Density
from tractable.infer import states
from tractable.learners import TAGI, Learner
from tractable.learners.methods.base import BatchPosition
from tractable.likelihoods import Likelihood, Normal
from tractable.persistence import module_json
from tractable.training.progress import Progress

_CHUNK_ROWS = 1 << 16  # rows in one call of the network
_N_PROPOSALS = 30  # proposed latent samples, of which one is drawn by its weight
_PROPOSAL_SCALE = 1.5  # of the inferred std: wider than the posterior, as importance sampling needs


class LatentDecoder(LearnerModel):
    """A density of rows with a latent Gaussian and a decoder, trained in closed form by ``TAGI``.

    Exact: the log density of the trained decoder, including the uncertainty of its weights row by
    row, up to the error of importance sampling with the inferred latent distribution as proposal.
    Approximate: training. The inferred latent variables of a row are independent and linearized at
    the prior; one of 30 samples is drawn by its importance weight, which corrects most of that.

    Args:
        decoder: from ``latent_dim`` numbers to the likelihood's outputs; layers with moment rules.
        likelihood: likelihood of rows given the decoder's outputs. Default: ``Normal`` with learned
            noise for every column.
        latent_dim: number of latent variables.
        learner: ``TAGI``.
        n_estimators: 1; ensembles are not supported.
        learner_kwargs: further arguments of the learner, such as ``{"gain": 0.5}``.
        standardize: scale columns to mean 0 and variance 1.
        common: further arguments of ``GenerativeModel``.

    >>> x = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
    >>> p = LatentDecoder(nn.Linear(1, 3), latent_dim=1).fit(x, epochs=2).predict()
    >>> p.log_prob(x[:5]).shape, p.sample(7).shape
    (torch.Size([5]), torch.Size([7, 3]))
    """

    is_continuous: ClassVar[bool] = False
    keeps_constant_columns: ClassVar[bool] = True

    def __init__(
        self,
        decoder: nn.Module,
        likelihood: Likelihood | None = None,
        *,
        latent_dim: int,
        learner: type[Learner] = TAGI,
        n_estimators: int = 1,
        learner_kwargs: dict[str, Any] | None = None,
        standardize: bool = True,
        **common: Any,
    ) -> None:
        if not isinstance(decoder, nn.Module):
            raise TypeError(f"decoder must be a torch.nn.Module, got {type(decoder).__name__}")
        if latent_dim < 1:
            raise ValueError(f"latent_dim must be at least 1, got {latent_dim}")
        if n_estimators != 1 or not (isinstance(learner, type) and issubclass(learner, TAGI)):
            raise Unsupported(
                "LatentDecoder infers latent variables by messages, which only TAGI has, for one "
                "network at a time: use generative.VAE with other learners or an ensemble"
            )
        super().__init__(
            learner=learner,
            n_estimators=n_estimators,
            learner_kwargs=learner_kwargs,
            standardize=standardize,
            **common,
        )
        self.decoder, self.likelihood, self.latent_dim = decoder, likelihood, latent_dim

    # --- fitting ---------------------------------------------------------------------------

    @override
    def _fit(
        self,
        x: Tensor,
        context: Tensor | None,
        *,
        progress: bool | None,
        epochs: int = 20,
        batch_size: int = 16,
        **options: Any,
    ) -> None:
        if options:
            raise TypeError(f"LatentDecoder.fit has no arguments {', '.join(options)}")
        if context is not None:
            raise Unsupported("LatentDecoder does not support a context: use generative.VAE")
        for name, value in (("epochs", epochs), ("batch_size", batch_size)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        likelihood = Normal(outputs=x.shape[1]) if self.likelihood is None else self.likelihood
        model = self.make_learner(self.decoder, likelihood)
        assert isinstance(model, TAGI)
        model.checks.data(x.new_zeros(1, self.latent_dim), x[:1])
        generator = torch.Generator().manual_seed(self.seed)
        n_batches = math.ceil(len(x) / batch_size)
        with Progress(epochs * n_batches, type(self).__name__, progress) as bar:
            for epoch in range(epochs):
                batches = torch.randperm(len(x), generator=generator).split(batch_size)
                for number, at in enumerate(batches):
                    share, done = len(at) / len(x), epoch / epochs
                    position = BatchPosition(share, done, number, n_batches)
                    latent = self._sample_latent(model, x[at], generator)
                    z, targets = model.checks.data(latent, x[at])
                    model.learn_batch(z, targets, position)
                    bar.advance(1)
                model.method.end_epoch(model.state)
        self.learner_ = model

    def _sample_latent(self, model: TAGI, x: Tensor, generator: torch.Generator) -> Tensor:
        """Return a sample of the latent variables of rows; from the prior before the first update.

        A sample, not the mean: outputs at the mean would leave out the variance of the latent
        variables, so that the weights would grow and the noise shrink in every epoch.
        """
        if not model.fitted:
            return torch.randn(len(x), self.latent_dim, generator=generator, dtype=x.dtype)
        density = LatentDecoderDensity(model, self.latent_dim, _N_PROPOSALS, self.seed)
        z, log_weights = density.weighted_samples(x, generator)
        chosen = torch.multinomial(log_weights.softmax(0).T, 1, generator=generator)[:, 0]
        return z[chosen, torch.arange(len(x))]

    # --- predicting ------------------------------------------------------------------------

    def infer(self, rows: Any) -> Gaussian:
        """Return the inferred latent variables of rows in the units of the data.

        Args:
            rows: ``[m, columns]``.

        Returns:
            Independent Gaussians, ``[m, latent_dim]``.
        """
        density = self.predict().density
        assert isinstance(density, LatentDecoderDensity)
        scaler = self.fitted_scaler()
        x = as_matrix(rows, "rows", self.dtype, len(scaler.steps))
        return density.posterior(scaler.to_model(x, self.dtype))

    @override
    def _density(
        self, context: Tensor | None, *, n_importance_samples: int = 200
    ) -> LatentDecoderDensity:
        """Return the fitted distribution.

        Args:
            context: None.
            n_importance_samples: number of latent samples in the log density of a row.
        """
        if n_importance_samples < 1:
            raise ValueError(f"n_importance_samples must be at least 1, got {n_importance_samples}")
        self.fitted_scaler()
        return LatentDecoderDensity(self.learner_, self.latent_dim, n_importance_samples, self.seed)

    # --- files -----------------------------------------------------------------------------

    @override
    def config(self) -> dict[str, Any]:
        given = self.likelihood
        named = None if given is None else {"name": type(given).__name__, **given.config()}
        return {
            "decoder": module_json.describe(self.decoder),
            "likelihood": named, "latent_dim": self.latent_dim, **self.learner_config(),
        }  # fmt: skip

    @classmethod
    @override
    def from_config(cls, config: dict[str, Any], net: nn.Module | None) -> Any:
        # The learner's part of the file has the decoder and the likelihood.
        decoder = nn.Identity() if net is None else net
        model = super().from_config({**config, "decoder": decoder, "likelihood": None}, None)
        model.from_file_, model.own_likelihood_ = True, config["likelihood"] is not None
        return model

    from_file_: bool = False
    """Whether decoder and likelihood are to be taken from the learner."""
    own_likelihood_: bool = False
    """Whether the likelihood was given to the constructor."""

    @override
    def unpack(
        self, path: Path, tensors: dict[str, Tensor], header: dict[str, Any], net: nn.Module | None
    ) -> None:
        super().unpack(path, tensors, header, net)
        if self.from_file_:
            self.decoder = self.learner_.net
            if self.own_likelihood_:
                self.likelihood = self.learner_.method.likelihood


class LatentDecoderDensity(Density):
    """The distribution of rows under a decoder with Gaussian weights, in the units of the model.

    Args:
        model: trained learner.
        latent_dim: number of latent variables.
        n_importance_samples: number of latent samples in a log density.
        seed: seed of these samples.
    """

    def __init__(self, model: TAGI, latent_dim: int, n_importance_samples: int, seed: int) -> None:
        self.model, self.latent_dim, self.seed = model, latent_dim, seed
        self.n_importance_samples = n_importance_samples

    def posterior(self, x: Tensor) -> Gaussian:
        """Return the Gaussian posterior of the latent variables of each row."""
        zero = x.new_zeros(len(x), self.latent_dim)
        return states(self.model, Gaussian(zero, torch.ones_like(zero)), x)["input"]

    @override
    def log_prob(self, z: Tensor) -> Tensor:
        size = max(_CHUNK_ROWS // self.n_importance_samples, 1)
        return torch.cat([self._log_prob(part) for part in z.split(size)])

    def _log_prob(self, x: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(self.seed)
        log_weights = self.weighted_samples(x, generator)[1]
        return log_weights.logsumexp(0) - math.log(self.n_importance_samples)

    def weighted_samples(self, x: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return latent samples from a widened posterior, and their log importance weights.

        Weighted, they follow the posterior of the latent variables; the mean weight is the density.
        """
        known = self.posterior(x)
        std = _PROPOSAL_SCALE * known.variance.sqrt().clamp_min(1e-3)
        count = self.n_importance_samples
        noise = torch.randn(count, *known.shape, generator=generator, dtype=x.dtype)
        z = known.loc + std * noise
        ratio = (0.5 * (noise**2 - z**2) + std.log()).sum(-1)
        targets = x.expand(count, *x.shape).flatten(0, 1)
        log_p = self._predictive(z.flatten(0, 1)).log_prob(targets).reshape(count, len(x))
        return z, log_p + ratio

    def _predictive(self, z: Tensor) -> Any:
        return self.model.outputs(self.model.checks.inputs(z)).predictive()

    @override
    def sample(self, n_samples: int, generator: torch.Generator) -> Tensor:
        shape = (n_samples, self.latent_dim)
        z = torch.randn(shape, generator=generator, dtype=self.model.dtype)
        rows: Tensor = self._predictive(z).sample(1, generator)[0]
        return rows.reshape(n_samples, -1).to(z.dtype)
