"""Flows, and any other module that returns a distribution over rows, as models of rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Distribution, Independent, Normal
from torch.distributions.transforms import Transform

from tractable.errors import InvalidInput, MissingExtra, Unsupported
from tractable.generative.learnt import Learnt, generator_of, parts
from tractable.generative.predictive import Density, row_by_row
from tractable.generative.transforms.base import log_det_of
from tractable.learners import TAGI, Backprop, Laplace, Learner
from tractable.learners.network.rng import PREDICTION_SEED
from tractable.likelihoods import LogDensity
from tractable.persistence import validation
from tractable.training.inputs import MultiInput
from tractable.training.progress import Progress

_REFUSED = (TAGI, Laplace)


class ChainDistribution(Distribution):
    """The distribution of rows whose transforms have a standard normal distribution.

    Args:
        transforms: from rows to the base, in order.
        columns: number of columns of a row.
        like: a tensor whose precision and place to use.
    """

    arg_constraints = {}  # noqa: RUF012

    def __init__(self, transforms: Sequence[Transform], columns: int, like: Tensor) -> None:
        super().__init__(event_shape=torch.Size([columns]), validate_args=False)
        self.transforms = transforms
        zero = like.new_zeros(columns)
        self.base = Independent(Normal(zero, zero + 1), 1)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density of each row (E 16.6): of the base, plus all log determinants."""
        total = torch.zeros(value.shape[:-1], dtype=value.dtype, device=value.device)
        for transform in self.transforms:
            value, log_det = log_det_of(transform, value)
            total = total + log_det
        return self.base.log_prob(value) + total

    def rsample(self, sample_shape: Any = torch.Size()) -> Tensor:  # noqa: B008
        """Rows, by the inverse of every transform, last first."""
        z = self.base.sample(sample_shape)
        for transform in reversed(self.transforms):
            z = transform.inv(z)
        return z


class Chain(nn.Module):
    """Transforms one after the other on a standard normal base: a module that is a distribution.

    Args:
        transforms: modules that return a ``Transform`` from rows to the base: those of
            ``tractable.generative.transforms``, and zuko's.
        columns: number of columns of a row.

    >>> from tractable.generative.transforms import Planar
    >>> Chain([Planar(2), Planar(2)], 2)().log_prob(torch.zeros(5, 2)).shape
    torch.Size([5])
    """

    def __init__(self, transforms: Sequence[nn.Module], columns: int) -> None:
        super().__init__()
        self.transforms, self.columns = nn.ModuleList(transforms), columns
        self.register_buffer("like", torch.zeros(()), persistent=False)

    def forward(self, context: Tensor | None = None) -> ChainDistribution:
        """The distribution, given a context for those transforms that look at one."""
        like: Any = self.like
        return ChainDistribution([t(context) for t in self.transforms], self.columns, like)


class DensityModule(nn.Module):
    """A module that returns a distribution, as a network from rows to their log density.

    Args:
        net: called with a context or nothing, returns a ``torch.distributions.Distribution``.
    """

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        """Log density of each row, as a column."""
        return self.distribution(context).log_prob(x).reshape(len(x), 1)

    def distribution(self, context: Tensor | None) -> Distribution:
        """What the module returns, if it is a distribution."""
        found = self.net() if context is None else self.net(context)
        if not isinstance(found, Distribution):
            raise InvalidInput(
                f"the module must return a torch.distributions.Distribution, and returned a "
                f"{type(found).__name__}. One that returns numbers is learnt with a likelihood "
                f"that says what they mean: tr.Backprop(net, likelihood).fit(inputs, targets), or "
                f"generative.Autoregressive and generative.Diffusion for models of rows"
            )
        return found


class Flow(Learnt):
    """A flow, or any module that returns a distribution over rows, learnt by maximum likelihood.

    Exact: the density and samples, given the weights.  Approximate: the learner.

    Args:
        net: a module called with a context or nothing that returns a distribution over rows: any
            flow of zuko, a ``Chain``, your own.  By default a neural spline flow of zuko (extra
            ``generative``).
        learner: ``Backprop`` or ``BayesByBackprop``.  ``TAGI`` has no message for a density that is
            itself uncertain, and ``Laplace`` no curvature.
        members: size of an ensemble, whose densities are averaged; 1 for a single flow.
        options: further arguments of the learner.
        hidden: widths of the hidden layers of the default flow.
        transforms: transforms of the default flow.
        common: ``standardize``, ``dequantize``, ``held_out``, ``dtype``, ``seed``; see
            ``Generative``.
    """

    def __init__(
        self,
        net: nn.Module | None = None,
        *,
        learner: type[Learner] = Backprop,
        members: int = 1,
        options: dict[str, Any] | None = None,
        hidden: Sequence[int] = (64, 64),
        transforms: int = 3,
        **common: Any,
    ) -> None:
        super().__init__(learner=learner, members=members, options=options, **common)
        if issubclass(learner, _REFUSED):
            raise Unsupported(
                f"{learner.__name__} cannot learn a module that returns a distribution: its "
                f"likelihood is the exponential of an uncertain output, which has no Gaussian "
                f"message and no curvature. Use Backprop or BayesByBackprop, or a density that "
                f"reduces to regression: generative.Autoregressive or generative.Diffusion"
            )
        if net is not None and not isinstance(net, nn.Module):
            raise TypeError(f"net must be a torch.nn.Module, got {type(net).__name__}")
        self.net, self.hidden, self.transforms = net, tuple(hidden), transforms

    # --- learning --------------------------------------------------------------------------

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
            batch_size: rows of an update; by default 128, fewer below 2,560 rows.
            validation: rows ``X``, or ``(context, X)``, in the units of the data, whose negative
                log density (in these units) is recorded in every epoch.
            options: further arguments of the learner's ``fit``, such as ``callbacks``.
        """
        columns, told = x.shape[1], 0 if context is None else context.shape[1]
        learner = self.made(DensityModule(self._module(columns, told)), LogDensity())
        if batch_size is None:
            batch_size = min(128, max(16, len(x) // 20))
        options = self.fit_options(
            validation, lambda z, about: (_inputs(z, about), z.new_zeros(len(z), 1)), options
        )
        learner.fit(
            _inputs(x, context), x.new_zeros(len(x), 1), epochs=epochs, batch_size=batch_size,
            distance_aware=False, progress=progress, **options,
        )  # fmt: skip
        self.learner_ = learner

    def _module(self, columns: int, context: int) -> nn.Module:
        if self.net is not None:
            return self.net
        return flow(columns, context, hidden=self.hidden, transforms=self.transforms)

    # --- predicting ------------------------------------------------------------------------

    def density(self, context: Tensor | None, *, draws: int | None = None) -> FlowDensity:
        """The distribution that was learnt.

        Args:
            context: rows to condition on.
            draws: draws of the weights, for learners that draw.
        """
        self.fitted_columns()
        return FlowDensity(self.learner_, context, draws)

    # --- files -----------------------------------------------------------------------------

    def config(self) -> dict[str, Any]:
        """See ``Generative``."""
        return {
            "hidden": list(self.hidden), "transforms": self.transforms, **self.learnt_config()
        }  # fmt: skip

    def network(self, net: nn.Module | None) -> nn.Module:
        """See ``Learnt``: the default flow is made again, and another must be given."""
        columns = self.fitted_columns().modelled
        told = 0 if self.context_columns_ is None else self.context_columns_.modelled
        if net is None:
            net = self._module(columns, told)
        return DensityModule(net)

    def pack(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """See ``Generative``."""
        tensors, header = super().pack()
        return tensors, {**header, "own": self.net is not None}

    def unpack(self, path: Any, tensors: Any, header: Any, net: nn.Module | None) -> None:
        """See ``Generative``."""
        held = dict(header)
        if held.pop("own") and net is None:
            raise ValueError("the flow in the file is the user's own: give load(path, net=...)")
        if net is None:
            columns = self.fitted_columns().modelled
            validation.check_network_size(
                [columns, *self.hidden, columns], self.transforms, tensors
            )
        super().unpack(path, tensors, held, net)


def flow(
    columns: int, context: int = 0, *, hidden: Sequence[int] = (64, 64), transforms: int = 3
) -> nn.Module:
    """A neural spline flow of zuko (Durkan and others, 2019).

    Args:
        columns: number of columns of a row.
        context: columns of the context; 0 without one.
        hidden: widths of the hidden layers.
        transforms: autoregressive transforms one after the other.

    Raises:
        MissingExtra: zuko is not installed.
    """
    try:
        import zuko
    except ImportError as error:
        raise MissingExtra(
            "the default flow is zuko's: pip install 'tractable[generative]', or give a module of "
            "your own, such as generative.Chain"
        ) from error
    built: nn.Module = zuko.flows.NSF(
        columns, context, transforms=transforms, hidden_features=tuple(hidden)
    )
    return built


class FlowDensity(Density):
    """The even mixture of the distributions that draws of the weights (or members) return."""

    def __init__(self, learner: Any, context: Tensor | None, draws: int | None) -> None:
        self.learner, self.context, self.draws = learner, context, draws

    def log_prob(self, z: Tensor) -> Tensor:
        """Log of the mean density."""
        found = self.log_prob_draws(z)
        return found.logsumexp(0) - math.log(len(found))

    def log_prob_draws(self, z: Tensor) -> Tensor:
        """See ``Density``."""
        given = _inputs(z, row_by_row(self.context, len(z)))
        options = {} if self.draws is None else {"n_weight_samples": self.draws}
        found = [
            method.outputs(state, given, batch_size=1024, **options).values[..., 0]
            for method, state in parts(self.learner)
        ]
        return torch.cat(found)

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """See ``Density``; each row comes from one draw of the weights."""
        every = list(self._weights(n))
        chosen = torch.randint(len(every), (n,), generator=generator)
        found: list[Tensor] = []
        for k, (method, state, weights) in enumerate(every):
            number = int((chosen == k).sum())
            if not number:
                continue
            with method.chance.seeded(generator), method.holding(weights, state.buffers):
                method.network.module.eval()
                distribution = method.network.module.distribution(self.context)
                found.append(distribution.sample((number,)).detach())
        order = torch.randperm(n, generator=generator)
        return torch.cat(found)[order]

    def _weights(self, n: int) -> Iterator[tuple[Any, Any, list[Tensor]]]:
        for method, state in parts(self.learner):
            draws = method.options.n_weight_samples if self.draws is None else self.draws
            drawing = generator_of(state.seed + PREDICTION_SEED)
            for weights in method.weights(state, min(draws, n), drawing):
                yield method, state, weights


def _inputs(x: Tensor, context: Tensor | None) -> Any:
    return x if context is None else MultiInput((x, context))


# --- towards a density that is known up to a factor ----------------------------------------------


def reverse_fit(
    net: nn.Module,
    log_density: Callable[[Tensor], Tensor],
    *,
    steps: int = 1_000,
    batch_size: int = 256,
    lr: float = 5e-3,
    seed: int = 0,
    progress: bool | None = None,
) -> list[float]:
    """Bring a module's distribution close to a density known up to a factor, by the reverse KL.

    Minimises the mean over samples x of ``log q(x) - log p(x)``, with the log determinant: without
    it nothing keeps the samples apart, and they collapse to a mode of p (B 16.11).  The module is
    changed in place.

    Args:
        net: a module that returns a distribution with ``rsample``.
        log_density: log of the density that is aimed at, of each row, up to a constant.
        steps: steps of Adam, with a learning rate that falls to zero.
        batch_size: samples in each.
        lr: learning rate at the start.
        seed: seed of the samples.
        progress: show a progress bar.

    Returns:
        The objective of every step: an upper bound on minus the log of the unknown factor.
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
