"""Normalizing flows, and any other module that returns a distribution, as models of rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Distribution, Independent, Normal
from torch.distributions.transforms import Transform
from typing_extensions import override

from tractable.errors import InvalidInput, MissingExtra, Unsupported
from tractable.generative.learner_model import LearnerModel, members_of, seeded_generator
from tractable.generative.predictive import Density, repeat_context
from tractable.generative.transforms.base import log_det_of
from tractable.learners import TAGI, Backprop, Laplace, Learner
from tractable.learners.network.rng import PREDICTION_SEED
from tractable.likelihoods import LogDensity
from tractable.persistence import validation
from tractable.training.inputs import MultiInput
from tractable.training.progress import Progress

_UNSUPPORTED_LEARNERS = (TAGI, Laplace)


class ComposedDistribution(Distribution):
    """The distribution of rows that transforms map to standard normal rows.

    Args:
        transforms: transforms from rows to the base, in order.
        columns: number of columns of a row.
        like: tensor whose dtype and device are used.
    """

    arg_constraints = {}  # noqa: RUF012

    def __init__(self, transforms: Sequence[Transform], columns: int, like: Tensor) -> None:
        super().__init__(event_shape=torch.Size([columns]), validate_args=False)
        self.transforms = transforms
        zero = like.new_zeros(columns)
        self.base = Independent(Normal(zero, zero + 1), 1)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density of each row (E 16.6): of the base, plus all log determinants."""
        total = torch.zeros(value.shape[:-1], dtype=value.dtype, device=value.device)
        for transform in self.transforms:
            value, log_det = log_det_of(transform, value)
            total = total + log_det
        return self.base.log_prob(value) + total

    def rsample(self, sample_shape: Any = torch.Size()) -> Tensor:  # noqa: B008
        """Return samples, by the inverse of every transform, last first."""
        z = self.base.sample(sample_shape)
        for transform in reversed(self.transforms):
            z = transform.inv(z)
        return z


class ComposedFlow(nn.Module):
    """A composition of transforms with a standard normal base, as a module.

    Args:
        transforms: modules that return a ``Transform`` from rows to the base: those of
            ``tractable.generative.transforms``, and zuko's.
        columns: number of columns of a row.

    >>> from tractable.generative.transforms import Planar
    >>> ComposedFlow([Planar(2), Planar(2)], 2)().log_prob(torch.zeros(5, 2)).shape
    torch.Size([5])
    """

    def __init__(self, transforms: Sequence[nn.Module], columns: int) -> None:
        super().__init__()
        self.transforms, self.columns = nn.ModuleList(transforms), columns
        self.register_buffer("like", torch.zeros(()), persistent=False)

    def forward(self, context: Tensor | None = None) -> ComposedDistribution:
        """Return the distribution, given a context for the transforms that use one."""
        like: Any = self.like
        return ComposedDistribution([t(context) for t in self.transforms], self.columns, like)


class DensityModule(nn.Module):
    """A module that returns a distribution, as a network from rows to their log density.

    Args:
        net: called with a context or nothing, returns a ``torch.distributions.Distribution``.
    """

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        """Return the log density of each row, ``[rows, 1]``."""
        return self.distribution(context).log_prob(x).reshape(len(x), 1)

    def distribution(self, context: Tensor | None) -> Distribution:
        """Return the distribution of the module.

        Raises:
            InvalidInput: the module returns something else.
        """
        found = self.net() if context is None else self.net(context)
        if not isinstance(found, Distribution):
            raise InvalidInput(
                f"the module must return a torch.distributions.Distribution, and returned a "
                f"{type(found).__name__}. A module that returns numbers is trained with a "
                f"likelihood: tr.Backprop(net, likelihood).fit(inputs, targets), or as a model of "
                f"rows by generative.Autoregressive or generative.Diffusion"
            )
        return found


class Flow(LearnerModel):
    """A flow, or any module that returns a distribution of rows, trained by maximum likelihood.

    Exact: density and samples, given the weights. Approximate: the learner.

    Args:
        net: a module called with a context or nothing that returns a distribution of rows: a flow
            of zuko, a ``ComposedFlow``, a module of the user. Default: a neural spline flow of zuko
            (extra ``generative``).
        learner: ``Backprop`` or ``BayesByBackprop``. ``TAGI`` has no message for a density that is
            itself uncertain, and ``Laplace`` no curvature.
        n_estimators: number of flows in an ensemble, whose densities are averaged; 1 for one flow.
        learner_kwargs: further arguments of the learner.
        hidden_layer_sizes: widths of the hidden layers of the default flow.
        n_transforms: number of transforms of the default flow.
        common: ``standardize``, ``dequantize``, ``validation_fraction``, ``dtype``, ``seed``; see
            ``GenerativeModel``.
    """

    def __init__(
        self,
        net: nn.Module | None = None,
        *,
        learner: type[Learner] = Backprop,
        n_estimators: int = 1,
        learner_kwargs: dict[str, Any] | None = None,
        hidden_layer_sizes: Sequence[int] = (64, 64),
        n_transforms: int = 3,
        **common: Any,
    ) -> None:
        super().__init__(
            learner=learner, n_estimators=n_estimators, learner_kwargs=learner_kwargs, **common
        )
        if issubclass(learner, _UNSUPPORTED_LEARNERS):
            raise Unsupported(
                f"{learner.__name__} cannot train a module that returns a distribution: its "
                f"likelihood is the exponential of an uncertain output, which has no Gaussian "
                f"message and no curvature. Use Backprop or BayesByBackprop, or a density that "
                f"reduces to regression: generative.Autoregressive or generative.Diffusion"
            )
        if net is not None and not isinstance(net, nn.Module):
            raise TypeError(f"net must be a torch.nn.Module, got {type(net).__name__}")
        self.net, self.hidden_layer_sizes = net, tuple(hidden_layer_sizes)
        self.n_transforms = n_transforms

    # --- fitting ---------------------------------------------------------------------------

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
            batch_size: rows per update. Default: 128, fewer for less than 2,560 rows.
            validation: rows ``X``, or ``(X, context)``, in the units of the data, whose negative
                log density (in these units) is recorded in every epoch.
            options: further arguments of the learner's ``fit``, such as ``callbacks``.
        """
        n_context = 0 if context is None else context.shape[1]
        net = DensityModule(self._make_flow(x.shape[1], n_context))
        learner = self.make_learner(net, LogDensity())
        if batch_size is None:
            batch_size = min(128, max(16, len(x) // 20))
        options = self.learner_fit_options(
            validation, lambda z, c: (_inputs(z, c), z.new_zeros(len(z), 1)), options
        )
        learner.fit(
            _inputs(x, context), x.new_zeros(len(x), 1), epochs=epochs, batch_size=batch_size,
            distance_aware=False, progress=progress, **options,
        )  # fmt: skip
        self.learner_ = learner

    def _make_flow(self, columns: int, context: int) -> nn.Module:
        if self.net is not None:
            return self.net
        return neural_spline_flow(
            columns,
            context,
            hidden_layer_sizes=self.hidden_layer_sizes,
            n_transforms=self.n_transforms,
        )

    # --- predicting ------------------------------------------------------------------------

    @override
    def _density(
        self, context: Tensor | None, *, n_weight_samples: int | None = None
    ) -> FlowDensity:
        """Return the fitted distribution.

        Args:
            context: rows to condition on.
            n_weight_samples: number of weight samples, for learners that sample.
        """
        self.fitted_scaler()
        return FlowDensity(self.learner_, context, n_weight_samples)

    # --- files -----------------------------------------------------------------------------

    @override
    def config(self) -> dict[str, Any]:
        return {
            "hidden_layer_sizes": list(self.hidden_layer_sizes),
            "n_transforms": self.n_transforms,
            **self.learner_config(),
        }

    @override
    def build_network(self, net: nn.Module | None) -> nn.Module:
        columns = self.fitted_scaler().n_varying
        n_context = 0 if self.context_scaler_ is None else self.context_scaler_.n_varying
        return DensityModule(self._make_flow(columns, n_context) if net is None else net)

    @override
    def pack(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors, header = super().pack()
        return tensors, {**header, "own_net": self.net is not None}

    @override
    def unpack(self, path: Any, tensors: Any, header: Any, net: nn.Module | None) -> None:
        learner_header = dict(header)
        if learner_header.pop("own_net") and net is None:
            raise ValueError("the flow is not in the file: use load(path, net=...)")
        if net is None:
            columns = self.fitted_scaler().n_varying
            validation.check_network_size(
                [columns, *self.hidden_layer_sizes, columns], self.n_transforms, tensors
            )
        super().unpack(path, tensors, learner_header, net)


def neural_spline_flow(
    columns: int,
    context: int = 0,
    *,
    hidden_layer_sizes: Sequence[int] = (64, 64),
    n_transforms: int = 3,
) -> nn.Module:
    """Return a neural spline flow of zuko (Durkan and others, 2019).

    Args:
        columns: number of columns of a row.
        context: number of columns of the context; 0 without one.
        hidden_layer_sizes: widths of the hidden layers.
        n_transforms: number of autoregressive transforms.

    Raises:
        MissingExtra: zuko is not installed.
    """
    try:
        import zuko
    except ImportError as error:
        raise MissingExtra(
            "the default flow is that of zuko: pip install 'tractable[generative]', or give "
            "another module, such as generative.ComposedFlow"
        ) from error
    net: nn.Module = zuko.flows.NSF(
        columns, context, transforms=n_transforms, hidden_features=tuple(hidden_layer_sizes)
    )
    return net


class FlowDensity(Density):
    """The average of the densities under weight samples or ensemble members.

    Args:
        learner: trained learner.
        context: rows to condition on, or None.
        n_weight_samples: number of weight samples; None for the learner's own.
    """

    def __init__(self, learner: Any, context: Tensor | None, n_weight_samples: int | None) -> None:
        self.learner, self.context, self.n_weight_samples = learner, context, n_weight_samples

    @override
    def log_prob(self, z: Tensor) -> Tensor:
        found = self.log_prob_by_weights(z)
        return found.logsumexp(0) - math.log(len(found))

    @override
    def log_prob_by_weights(self, z: Tensor) -> Tensor:
        inputs = _inputs(z, repeat_context(self.context, len(z)))
        count = self.n_weight_samples
        options = {} if count is None else {"n_weight_samples": count}
        found = [
            method.outputs(state, inputs, batch_size=1024, **options).values[..., 0]
            for method, state in members_of(self.learner)
        ]
        return torch.cat(found)

    @override
    def sample(self, n_samples: int, generator: torch.Generator) -> Tensor:
        # Each row comes from one weight sample.
        every = list(self._weights(n_samples))
        chosen = torch.randint(len(every), (n_samples,), generator=generator)
        found: list[Tensor] = []
        for k, (method, state, weights) in enumerate(every):
            number = int((chosen == k).sum())
            if not number:
                continue
            with method.forward_rng.seeded(generator), method.holding(weights, state.buffers):
                method.network.module.eval()
                distribution = method.network.module.distribution(self.context)
                found.append(distribution.sample((number,)).detach())
        order = torch.randperm(n_samples, generator=generator)
        return torch.cat(found)[order]

    def _weights(self, n_samples: int) -> Iterator[tuple[Any, Any, list[Tensor]]]:
        """Yield method, state and weights of at most ``n_samples`` weight samples per member."""
        for method, state in members_of(self.learner):
            count = self.n_weight_samples
            count = method.options.n_weight_samples if count is None else count
            generator = seeded_generator(state.seed + PREDICTION_SEED)
            for weights in method.weights(state, min(count, n_samples), generator):
                yield method, state, weights


def _inputs(x: Tensor, context: Tensor | None) -> Any:
    return x if context is None else MultiInput((x, context))


def fit_reverse_kl(
    net: nn.Module,
    log_density: Callable[[Tensor], Tensor],
    *,
    steps: int = 1_000,
    batch_size: int = 256,
    lr: float = 5e-3,
    seed: int = 0,
    progress: bool | None = None,
) -> list[float]:
    """Fit a module's distribution to an unnormalized density, by the reverse KL divergence.

    Minimizes the mean over samples x of ``log q(x) - log p(x)``. The log determinant in ``log q``
    keeps the samples from collapsing to a mode of p (B 16.11). The module is changed in place.

    Args:
        net: a module that returns a distribution with ``rsample``.
        log_density: log of the target density of each row, up to a constant.
        steps: number of steps of Adam, with a learning rate that decreases to zero.
        batch_size: samples per step.
        lr: initial learning rate.
        seed: random seed of the samples.
        progress: show a progress bar. Default: on a terminal only.

    Returns:
        The objective at every step: an upper bound on minus the log normalizing constant.

    Raises:
        ArithmeticError: the objective is not finite.
    """
    optimizer = torch.optim.Adam(net.parameters(), lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    history: list[float] = []
    with torch.random.fork_rng([]), Progress(steps, "Reverse KL", progress) as bar:
        torch.default_generator.manual_seed(seed)
        for _ in range(steps):
            distribution = net()
            x = distribution.rsample((batch_size,))
            loss = (distribution.log_prob(x) - log_density(x)).mean()
            if not bool(torch.isfinite(loss)):
                raise ArithmeticError(f"the objective is {float(loss)} in step {len(history)}")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            history.append(float(loss.detach()))
            bar.advance()
    return history
