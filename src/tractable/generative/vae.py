"""The model around an ``Autoencoder``: learnt by any gradient learner, alone or as an ensemble."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from tractable.errors import InvalidModelFile, NotFitted, Unsupported
from tractable.generative.autoencoder import Autoencoder, Bound, drawn
from tractable.generative.chance import seeded
from tractable.generative.estimators import Estimator
from tractable.generative.learnt import Learnt, parts
from tractable.generative.predictive import Density, row_by_row
from tractable.learners import TAGI, Backprop, Learner
from tractable.learners import serialization as learner_files
from tractable.likelihoods import Likelihood, LogDensity
from tractable.persistence import model_file, module_json
from tractable.persistence.validation import require_type

_BATCH = 100
_CHAIN = 50  # steps of a Markov chain to a draw of what is missing


class VAE(Learnt):
    """A density of rows by a latent Gaussian: any encoder, any decoder, any likelihood.

    See ``tractable.generative.autoencoder`` for what is learnt.  Constant columns are modelled as
    well: the networks see whole rows.

    Approximate: ``log_prob`` is a lower bound of the log density, by ``bound`` draws of the
    latent for each row and each draw of the weights.

    Args:
        encoder: from rows (and the context, behind them) to ``2 latent`` numbers: the means and
            the log variances of the latent.
        decoder: from ``latent`` numbers (and the context) to what the likelihood takes.
        likelihood: how rows depend on the decoder's outputs.  The noise of ``Normal()`` is learnt
            along with the weights.
        latent: number of latent coordinates.
        beta: weight of the divergence in what is learnt.
        samples: draws of the latent per row when learning.
        bound: ``"elbo"``, or ``"importance"`` for the importance-weighted bound.
        estimator: ``"reparameterised"``, ``"score"``, or ``"doubly"`` for importance weights.
        binarize: take rows as probabilities and draw 0 or 1 anew at every pass (grey images).
        learner: ``Backprop`` or ``BayesByBackprop``.
        members: size of an ensemble; 1 for a single model.
        options: further arguments of the learner, such as ``{"lr": 1e-3}``.
        standardize: bring columns to mean 0 and variance 1; by default where the likelihood is of
            numbers.
        common: further arguments of ``Generative``.

    >>> x = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
    >>> from tractable.likelihoods import Normal
    >>> vae = VAE(nn.Linear(3, 2), nn.Linear(1, 3), Normal(outputs=3), latent=1).fit(x, epochs=2)
    >>> vae.predict().log_prob(x[:5]).shape, vae.predict().sample(7).shape
    (torch.Size([5]), torch.Size([7, 3]))
    """

    continuous: ClassVar[bool] = False
    whole_rows: ClassVar[bool] = True

    def __init__(
        self,
        encoder: nn.Module,
        decoder: nn.Module,
        likelihood: Likelihood,
        *,
        latent: int,
        beta: float = 1.0,
        samples: int = 1,
        bound: Bound = "elbo",
        estimator: Estimator = "reparameterised",
        binarize: bool = False,
        learner: type[Learner] = Backprop,
        members: int = 1,
        options: dict[str, Any] | None = None,
        standardize: bool | None = None,
        **common: Any,
    ) -> None:
        for name, part in (("encoder", encoder), ("decoder", decoder)):
            if not isinstance(part, nn.Module):
                raise TypeError(f"{name} must be a torch.nn.Module, got {type(part).__name__}")
        if isinstance(learner, type) and issubclass(learner, TAGI):
            raise Unsupported(
                "an autoencoder has no closed form: its bound is no likelihood of outputs. "
                "generative.Latent learns a decoder alone with TAGI, or take learner=tr.Backprop "
                "or tr.BayesByBackprop"
            )
        self.autoencoder: dict[str, Any] = {
            "latent": latent, "beta": beta, "samples": samples, "bound": bound,
            "estimator": estimator, "binarize": binarize,
        }  # fmt: skip
        Autoencoder(encoder, decoder, likelihood, **self.autoencoder)  # its checks
        scale = (
            (likelihood.traits.supports_extra_variance and not binarize)
            if standardize is None
            else standardize
        )
        super().__init__(
            learner=learner, members=members, options=options, standardize=scale, **common
        )
        self.encoder, self.decoder, self.likelihood = encoder, decoder, likelihood

    # --- learning and predicting -----------------------------------------------------------

    def learn(
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
        """See ``Generative.fit``.

        Args:
            x: rows.
            context: contexts.
            progress: show a progress bar.
            epochs: passes over the rows.
            batch_size: rows of an update; by default 100, fewer below 2,000 rows.
            validation: rows ``X``, or ``(context, X)``, in the units of the data, the negative of
                whose bound (in these units) is recorded in every epoch.
            options: further arguments of the learner's ``fit``, such as ``callbacks``.
        """
        learner = self.made(self.network(None), LogDensity())
        size = max(min(_BATCH, len(x) // 20), 1) if batch_size is None else batch_size
        options = self.fit_options(validation, _pairs, options)
        learner.fit(
            *_pairs(x, context), epochs=epochs, batch_size=size, progress=progress,
            distance_aware=False, **options,
        )  # fmt: skip
        self.learner_ = learner

    def density(
        self, context: Tensor | None, *, bound: int = 100, draws: int | None = None
    ) -> LatentDensity:
        """The distribution that was learnt.

        Args:
            context: rows of context in the model's units.
            bound: draws of the latent that the importance-weighted bound of a row averages; 1 is
                the bound of a single draw, on average the evidence lower bound.
            draws: draws of the weights, for learners that have several.
        """
        if bound < 1:
            raise ValueError(f"bound must be a number of draws from 1, got {bound}")
        self.fitted_columns()
        return LatentDensity(self.learner_, context, bound, draws, self.seed)

    def module(self, seed: int = 0) -> Autoencoder:
        """The autoencoder as a plain module of its own, to encode, decode or go on from.

        Args:
            seed: seed of the draw of the weights, where they are uncertain; of an ensemble the
                first member.
        """
        if self.learner_ is None:
            raise NotFitted("this VAE has seen no rows: fit it first")
        method, state = parts(self.learner_)[0]
        twin = self.network(None).to(self.dtype)
        drawn_weights = next(method.weights(state, 1, torch.Generator().manual_seed(seed)))
        named = dict(zip(method.network.shapes, drawn_weights, strict=True))
        with torch.no_grad():
            for name, parameter in twin.named_parameters():
                parameter.copy_(named[name])
            for name, buffer in twin.named_buffers():
                buffer.copy_(state.buffers[name])
        twin.eval()
        return twin

    # --- files -----------------------------------------------------------------------------

    def network(self, net: nn.Module | None) -> Autoencoder:
        """The autoencoder, with the first weights of its parts."""
        return Autoencoder(
            *copy.deepcopy((self.encoder, self.decoder, self.likelihood)), **self.autoencoder
        )

    def config(self) -> dict[str, Any]:
        """See ``Generative``."""
        return {
            "encoder": module_json.describe(self.encoder),
            "decoder": module_json.describe(self.decoder),
            "likelihood": {"name": type(self.likelihood).__name__, **self.likelihood.config()},
            **self.autoencoder,
            **self.learnt_config(),
        }

    @classmethod
    def rebuilt(cls, config: dict[str, Any], net: nn.Module | None) -> Self:
        """See ``Generative``; ``net`` is ``nn.ModuleList([encoder, decoder])``."""
        given = dict(config)
        specs = [given.pop("encoder"), given.pop("decoder")]
        likelihood = learner_files.likelihood_of(
            dict(require_type(given.pop("likelihood"), dict, "likelihood")), {}
        )
        given["learner"] = learner_files.learner_class(given["learner"])
        if net is not None:
            both = list(net.children())
            if len(both) != 2:
                raise InvalidModelFile("net must be nn.ModuleList([encoder, decoder])")
            return cls(both[0], both[1], likelihood, **given)
        if None in specs:
            raise InvalidModelFile(
                "the networks are not in the file (they are not made of plain torch.nn layers): "
                "give load(path, net=nn.ModuleList([encoder, decoder]))"
            )
        model = cls(nn.Identity(), nn.Identity(), likelihood, **given)
        model.specs_ = specs
        return model

    specs_: Any = None

    def unpack(
        self, path: Path, tensors: dict[str, Tensor], header: dict[str, Any], net: nn.Module | None
    ) -> None:
        """See ``Generative``; networks are built of plain layers, no larger than the file."""
        if self.specs_ is not None:
            most = model_file.count_numbers(tensors)
            self.encoder, self.decoder = (module_json.build(s, most) for s in self.specs_)
            self.specs_ = None
        super().unpack(path, tensors, header, net)


def _pairs(x: Tensor, context: Tensor | None) -> tuple[Any, Tensor]:
    """Return inputs of the autoencoder, and targets, which are ignored."""
    return (x if context is None else (x, context)), torch.zeros(len(x), 1)


class LatentDensity(Density):
    """The distribution of rows under an autoencoder, in the model's units.

    Args:
        learner: what was learnt.
        context: rows of context, or None.
        bound: draws of the latent that a log density averages.
        draws: draws of the weights, for learners that have several.
        seed: seed of the draws of weights, and of the latent where no generator is given.
    """

    def __init__(
        self, learner: Learner, context: Tensor | None, bound: int, draws: int | None, seed: int
    ) -> None:
        self.learner, self.context, self.bound, self.seed = learner, context, bound, seed
        self.draws = draws

    def networks(self) -> Iterator[Autoencoder]:
        """The autoencoder with each draw of the weights (or member) in turn."""
        for method, state in parts(self.learner):
            generator = torch.Generator().manual_seed(self.seed)
            number = method.options.n_weight_samples if self.draws is None else self.draws
            for weights in method.weights(state, number, generator):
                with method.holding(weights, state.buffers), torch.no_grad():
                    method.network.module.train(False)
                    yield method.network.module

    def log_prob_draws(self, z: Tensor) -> Tensor:
        """See ``Density``."""
        context = row_by_row(self.context, len(z))
        found = []
        for net in self.networks():
            with seeded(self.seed):
                rows = drawn(z) if net.binarize else z
                found.append(net.evidence(rows, context, samples=self.bound))
        return torch.stack(found)

    def log_prob(self, z: Tensor) -> Tensor:
        """The bound of each row, of the mixture over draws of the weights."""
        found = self.log_prob_draws(z)
        return found.logsumexp(0) - math.log(len(found))

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """See ``Density``; draws of the weights take turns."""
        context = self.context
        nets = max(self._number(), 1)
        made = []
        for k, net in enumerate(self.networks()):
            share = n // nets + (k < n % nets)
            if not share:
                break
            given = None if context is None else context.repeat(share, 1)
            rows = net.prior_sample(share if given is None else len(given), generator, given)
            rows = rows.flatten(1)
            made.append(rows if context is None else rows.unflatten(0, (share, len(context))))
        found = torch.cat(made)
        return found[torch.randperm(n, generator=generator)] if nets > 1 else found

    def complete(self, z: Tensor, known: Tensor, draws: int, generator: torch.Generator) -> Tensor:
        """Holes by a Markov chain that leaves their distribution given the rest as it is.

        Metropolis within Gibbs (Mattei & Frellsen, "Leveraging the exact likelihood of deep latent
        variable models", 2018): the encoder proposes a latent, which is taken or left as the exact
        densities say; then holes are drawn given it.  Approximate: after 50 steps.
        """
        nets = self._number()
        z = torch.where(known, z, math.nan)
        found = []
        for k, net in enumerate(self.networks()):
            share = draws // nets + (k < draws % nets)
            if share:
                rows = z.repeat(share, *[1] * (z.ndim - 1))
                given = row_by_row(self.context, len(z))
                given = None if given is None else given.repeat(share, 1)
                with seeded(int(torch.randint(2**62, (), generator=generator))):
                    found.append(_chain(net, rows, given, generator).unflatten(0, (share, len(z))))
        return torch.cat(found)

    def _number(self) -> int:
        return sum(1 for _ in self.networks())


def _chain(
    net: Autoencoder, rows: Tensor, context: Tensor | None, generator: torch.Generator
) -> Tensor:
    holes = rows.isnan()
    start = net.prior_sample(len(rows), generator, context).flatten(1)
    x = torch.where(holes, start, rows)
    z: Tensor | None = None
    for _ in range(_CHAIN):
        q = net.encode(x, context)
        new = q.sample()
        log_new = net.reconstruction(x, new.unsqueeze(0), context)[0] - 0.5 * new.square().sum(-1)
        log_new = log_new - q.log_prob(new).sum(-1)
        if z is None:
            z = new
        else:
            old = net.reconstruction(x, z.unsqueeze(0), context)[0] - 0.5 * z.square().sum(-1)
            old = old - q.log_prob(z).sum(-1)
            taken = torch.rand_like(log_new).log() < log_new - old
            z = torch.where(taken.unsqueeze(1), new, z)
        filled = net.decode(z, context).sample(1, generator)[0].flatten(1).to(x.dtype)
        x = torch.where(holes, filled, rows)
    return x
