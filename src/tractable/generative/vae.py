"""Variational autoencoders as models of rows, trained by gradients, alone or as an ensemble."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from typing_extensions import override

from tractable.errors import InvalidModelFile, Unsupported
from tractable.generative.autoencoder import Autoencoder, Estimator, Objective, sample_bernoulli
from tractable.generative.learner_model import LearnerModel, members_of
from tractable.generative.predictive import Density, repeat_context
from tractable.generative.torch_random import seeded
from tractable.learners import TAGI, Backprop, Learner
from tractable.learners import serialization as learner_files
from tractable.likelihoods import Likelihood, LogDensity
from tractable.persistence import model_file, module_json
from tractable.persistence.validation import require_type

_BATCH_SIZE = 100
_N_CHAIN_STEPS = 50  # steps of the Markov chain of an imputed sample


class VAE(LearnerModel):
    """A density of rows with a latent Gaussian, for any encoder, decoder and likelihood.

    The objective is described in ``tractable.generative.autoencoder``. Constant columns are modeled
    as well: the networks take whole rows.

    Approximate: ``log_prob`` is a lower bound of the log density, estimated from
    ``n_importance_samples`` latent samples for each row and each weight sample.

    Args:
        encoder: from rows (followed by the context) to ``2 latent_dim`` numbers: means and log
            variances of the latent variables.
        decoder: from ``latent_dim`` numbers (followed by the context) to the likelihood's outputs.
        likelihood: likelihood of rows given the decoder's outputs. The noise of ``Normal()`` is
            learned together with the weights.
        latent_dim: number of latent variables.
        beta: weight of the divergence in the objective.
        n_latent_samples: number of latent samples per row in training.
        objective: ``"elbo"``, or ``"iwae"`` for the importance-weighted bound.
        estimator: ``"reparameterized"``, ``"score"``, or ``"doubly_reparameterized"`` for
            ``"iwae"``.
        binarize: treat rows as probabilities, and sample 0 or 1 in every pass (gray-scale images).
        learner: ``Backprop`` or ``BayesByBackprop``.
        n_estimators: number of networks in an ensemble; 1 for one.
        learner_kwargs: further arguments of the learner, such as ``{"lr": 1e-3}``.
        standardize: scale columns to mean 0 and variance 1. Default: for likelihoods of real
            numbers.
        common: further arguments of ``GenerativeModel``.

    >>> x = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
    >>> from tractable.likelihoods import Normal
    >>> vae = VAE(nn.Linear(3, 2), nn.Linear(1, 3), Normal(outputs=3), latent_dim=1)
    >>> p = vae.fit(x, epochs=2).predict()
    >>> p.log_prob(x[:5]).shape, p.sample(7).shape
    (torch.Size([5]), torch.Size([7, 3]))
    """

    is_continuous: ClassVar[bool] = False
    keeps_constant_columns: ClassVar[bool] = True

    def __init__(
        self,
        encoder: nn.Module,
        decoder: nn.Module,
        likelihood: Likelihood,
        *,
        latent_dim: int,
        beta: float = 1.0,
        n_latent_samples: int = 1,
        objective: Objective = "elbo",
        estimator: Estimator = "reparameterized",
        binarize: bool = False,
        learner: type[Learner] = Backprop,
        n_estimators: int = 1,
        learner_kwargs: dict[str, Any] | None = None,
        standardize: bool | None = None,
        **common: Any,
    ) -> None:
        for name, part in (("encoder", encoder), ("decoder", decoder)):
            if not isinstance(part, nn.Module):
                raise TypeError(f"{name} must be a torch.nn.Module, got {type(part).__name__}")
        if isinstance(learner, type) and issubclass(learner, TAGI):
            raise Unsupported(
                "an autoencoder has no closed form: its bound is not a likelihood of outputs. Use "
                "learner=tr.Backprop or tr.BayesByBackprop, or generative.LatentDecoder, which "
                "trains a decoder with TAGI"
            )
        self.autoencoder: dict[str, Any] = {
            "latent_dim": latent_dim, "beta": beta, "n_latent_samples": n_latent_samples,
            "objective": objective, "estimator": estimator, "binarize": binarize,
        }  # fmt: skip
        Autoencoder(encoder, decoder, likelihood, **self.autoencoder)  # checks the arguments
        if standardize is None:
            standardize = likelihood.traits.supports_extra_variance and not binarize
        super().__init__(
            learner=learner,
            n_estimators=n_estimators,
            learner_kwargs=learner_kwargs,
            standardize=standardize,
            **common,
        )
        self.encoder, self.decoder, self.likelihood = encoder, decoder, likelihood

    # --- fitting and predicting ------------------------------------------------------------

    @override
    def _fit(
        self,
        x: Tensor,
        context: Tensor | None,
        *,
        progress: bool | None,
        epochs: int | None = None,
        batch_size: int | None = None,
        validation: Any = None,
        **options: Any,
    ) -> None:
        """Fit to rows in the units of the model.

        Args:
            x: rows.
            context: contexts.
            progress: show a progress bar.
            epochs: number of passes over the rows.
            batch_size: rows per update. Default: 100, fewer for less than 2,000 rows.
            validation: rows ``X``, or ``(X, context)``, in the units of the data, whose negative
                bound (in these units) is recorded in every epoch.
            options: further arguments of the learner's ``fit``, such as ``callbacks``.
        """
        learner = self.make_learner(self.build_network(None), LogDensity())
        size = max(min(_BATCH_SIZE, len(x) // 20), 1) if batch_size is None else batch_size
        options = self.learner_fit_options(validation, _pairs, options)
        learner.fit(
            *_pairs(x, context), epochs=epochs, batch_size=size, progress=progress,
            distance_aware=False, **options,
        )  # fmt: skip
        self.learner_ = learner

    @override
    def _density(
        self,
        context: Tensor | None,
        *,
        n_importance_samples: int = 100,
        n_weight_samples: int | None = None,
    ) -> AutoencoderDensity:
        """Return the fitted distribution.

        Args:
            context: rows of context in the units of the model.
            n_importance_samples: number of latent samples in the importance-weighted bound of a
                row; 1 is the bound of a single sample, on average the evidence lower bound.
            n_weight_samples: number of weight samples, for learners that sample.
        """
        if n_importance_samples < 1:
            raise ValueError(f"n_importance_samples must be at least 1, got {n_importance_samples}")
        self.fitted_scaler()
        return AutoencoderDensity(
            self.learner_, context, n_importance_samples, n_weight_samples, self.seed
        )

    def to_module(self, *, generator: torch.Generator | None = None) -> Autoencoder:
        """Return the trained autoencoder as a separate module, e.g. to encode and decode.

        Args:
            generator: random generator of the weight sample, if weights are uncertain; of an
                ensemble the first network is returned. Default: one with seed 0.

        Raises:
            NotFitted: the model is not fitted.
        """
        if self.learner_ is None:
            raise self._not_fitted()
        if generator is None:
            generator = torch.Generator().manual_seed(0)
        method, state = members_of(self.learner_)[0]
        net = self.build_network(None).to(self.dtype)
        weights = next(method.weights(state, 1, generator))
        by_name = dict(zip(method.network.shapes, weights, strict=True))
        with torch.no_grad():
            for name, parameter in net.named_parameters():
                parameter.copy_(by_name[name])
            for name, buffer in net.named_buffers():
                buffer.copy_(state.buffers[name])
        net.eval()
        return net

    # --- files -----------------------------------------------------------------------------

    @override
    def build_network(self, net: nn.Module | None) -> Autoencoder:
        parts = copy.deepcopy((self.encoder, self.decoder, self.likelihood))
        return Autoencoder(*parts, **self.autoencoder)

    @override
    def config(self) -> dict[str, Any]:
        return {
            "encoder": module_json.describe(self.encoder),
            "decoder": module_json.describe(self.decoder),
            "likelihood": {"name": type(self.likelihood).__name__, **self.likelihood.config()},
            **self.autoencoder,
            **self.learner_config(),
        }

    @classmethod
    @override
    def from_config(cls, config: dict[str, Any], net: nn.Module | None) -> Self:
        given = dict(config)
        specs = [given.pop("encoder"), given.pop("decoder")]
        likelihood = learner_files.likelihood_of(
            dict(require_type(given.pop("likelihood"), dict, "likelihood")), {}
        )
        given["learner"] = learner_files.learner_class(given["learner"])
        if net is not None:
            parts = list(net.children())
            if len(parts) != 2:
                raise InvalidModelFile("net must be nn.ModuleList([encoder, decoder])")
            return cls(parts[0], parts[1], likelihood, **given)
        if None in specs:
            raise InvalidModelFile(
                "the networks are not in the file, because they do not consist of plain torch.nn "
                "layers: use load(path, net=nn.ModuleList([encoder, decoder]))"
            )
        model = cls(nn.Identity(), nn.Identity(), likelihood, **given)
        model.specs_ = specs
        return model

    specs_: Any = None
    """Descriptions of the networks in a file, until its tensors are known."""

    @override
    def unpack(
        self, path: Path, tensors: dict[str, Tensor], header: dict[str, Any], net: nn.Module | None
    ) -> None:
        if self.specs_ is not None:
            limit = model_file.count_numbers(tensors)  # no networks larger than the file
            self.encoder, self.decoder = (module_json.build(s, limit) for s in self.specs_)
            self.specs_ = None
        super().unpack(path, tensors, header, net)


def _pairs(x: Tensor, context: Tensor | None) -> tuple[Any, Tensor]:
    """Return inputs of the autoencoder, and targets, which are ignored."""
    return (x if context is None else (x, context)), torch.zeros(len(x), 1)


class AutoencoderDensity(Density):
    """The distribution of rows under an autoencoder, in the units of the model.

    Args:
        learner: trained learner.
        context: rows of context, or None.
        n_importance_samples: number of latent samples in a log density.
        n_weight_samples: number of weight samples; None for the learner's own.
        seed: seed of the weight samples, and of latent samples without a generator.
    """

    def __init__(
        self,
        learner: Learner,
        context: Tensor | None,
        n_importance_samples: int,
        n_weight_samples: int | None,
        seed: int,
    ) -> None:
        self.learner, self.context, self.seed = learner, context, seed
        self.n_importance_samples = n_importance_samples
        self.n_weight_samples = n_weight_samples

    def networks(self) -> Iterator[Autoencoder]:
        """Yield the autoencoder with each weight sample, or each network of an ensemble."""
        for method, state in members_of(self.learner):
            generator = torch.Generator().manual_seed(self.seed)
            count = self.n_weight_samples
            count = method.options.n_weight_samples if count is None else count
            for weights in method.weights(state, count, generator):
                with method.holding(weights, state.buffers), torch.no_grad():
                    method.network.module.train(False)
                    yield method.network.module

    @override
    def log_prob_by_weights(self, z: Tensor) -> Tensor:
        context = repeat_context(self.context, len(z))
        found = []
        for net in self.networks():
            with seeded(self.seed):
                rows = sample_bernoulli(z) if net.binarize else z
                found.append(net.iwae(rows, context, n_samples=self.n_importance_samples))
        return torch.stack(found)

    @override
    def log_prob(self, z: Tensor) -> Tensor:
        found = self.log_prob_by_weights(z)
        return found.logsumexp(0) - math.log(len(found))

    @override
    def sample(self, n_samples: int, generator: torch.Generator) -> Tensor:
        context = self.context
        n_networks = max(self._count_networks(), 1)
        samples = []
        for k, net in enumerate(self.networks()):
            count = n_samples // n_networks + (k < n_samples % n_networks)
            if not count:
                break
            given = None if context is None else context.repeat(count, 1)
            rows = net.prior_sample(count if given is None else len(given), generator, given)
            rows = rows.flatten(1)
            samples.append(rows if context is None else rows.unflatten(0, (count, len(context))))
        found = torch.cat(samples)
        return found[torch.randperm(n_samples, generator=generator)] if n_networks > 1 else found

    @override
    def impute(
        self, z: Tensor, known: Tensor, n_samples: int, generator: torch.Generator
    ) -> Tensor:
        """Return samples from a Markov chain whose stationary distribution is the conditional one.

        Metropolis within Gibbs (Mattei & Frellsen, "Leveraging the exact likelihood of deep latent
        variable models", 2018): the encoder proposes latent variables, which are accepted with the
        probability of the exact densities; then missing values are sampled given them. Approximate:
        the result after 50 steps.
        """
        n_networks = self._count_networks()
        z = torch.where(known, z, math.nan)
        found = []
        for k, net in enumerate(self.networks()):
            count = n_samples // n_networks + (k < n_samples % n_networks)
            if count:
                rows = z.repeat(count, *[1] * (z.ndim - 1))
                context = repeat_context(self.context, len(z))
                context = None if context is None else context.repeat(count, 1)
                with seeded(int(torch.randint(2**62, (), generator=generator))):
                    samples = _run_chain(net, rows, context, generator)
                found.append(samples.unflatten(0, (count, len(z))))
        return torch.cat(found)

    def _count_networks(self) -> int:
        return sum(1 for _ in self.networks())


def _run_chain(
    net: Autoencoder, rows: Tensor, context: Tensor | None, generator: torch.Generator
) -> Tensor:
    """Return rows whose missing values (NaN) are sampled by the Markov chain."""
    missing = rows.isnan()
    start = net.prior_sample(len(rows), generator, context).flatten(1)
    x = torch.where(missing, start, rows)
    z: Tensor | None = None

    def log_ratio(q: Any, latent: Tensor) -> Tensor:
        """Log density of row and latent variables over that of the proposal."""
        log_joint = net.reconstruction_log_prob(x, latent.unsqueeze(0), context)[0]
        log_joint = log_joint - 0.5 * latent.square().sum(-1)
        return log_joint - q.log_prob(latent).sum(-1)

    for _ in range(_N_CHAIN_STEPS):
        q = net.encode(x, context)
        proposal = q.sample()
        log_new = log_ratio(q, proposal)
        if z is None:
            z = proposal
        else:
            accepted = torch.rand_like(log_new).log() < log_new - log_ratio(q, z)
            z = torch.where(accepted.unsqueeze(1), proposal, z)
        filled = net.decode(z, context).sample(1, generator)[0].flatten(1).to(x.dtype)
        x = torch.where(missing, filled, rows)
    return x
