"""Autoregressive models: a chain of conditionals, ``p(x) = product of p(x_k | x_1 ... x_{k-1})``.

Every conditional is a likelihood behind a masked network, so the model is a regression of each
column on those before it, and every learner can learn it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tractable.errors import InvalidInput
from tractable.generative.learnt import Learnt, generator_of, parts
from tractable.generative.masked import Masked, check_order
from tractable.generative.predictive import Density, row_by_row
from tractable.learners import TAGI, Learner
from tractable.likelihoods import HeteroscedasticNormal, Likelihood, Mixture, PerStep
from tractable.likelihoods.composite import from_config, to_config
from tractable.persistence import validation
from tractable.training.progress import Progress

_EPOCHS = 20
_FOR_SCALE = 0.1
_PARTICLES = 64
_AT_ONCE = 1 << 17  # rows, each with the outputs of all columns


class Autoregressive(Learnt):
    """A chain of conditionals behind a masked network.

    The density of a row is exact given the network: one factor for every column, each the learner's
    own prediction, so that it holds what is not known of the weights.

    Exact: density and samples, given the learner's predictions.  Approximate: the learner; filling
    holes that come before known columns, by weighted draws.

    Args:
        net: a module from rows (after their contexts) to ``[rows, columns, outputs]`` whose outputs
            of a column depend on the columns before it only, which is checked; or widths of the
            hidden layers of a ``Masked`` network.
        likelihood: likelihood of every column, given its outputs; by default a mixture of three
            normals whose widths the network predicts.
        order: order of the chain, as column numbers (constant columns not counted); by default as
            they stand.
        floor: noise that is added to rows in training, in deviations of the columns, so that no
            conditional becomes narrower; 0 for none.
        calibrate: fit the scale of the noise on a tenth of the rows, which are not learnt from.
        learner: any class of learners.
        members: size of an ensemble, whose conditionals are mixed; 1 for a single network.
        options: further arguments of the learner.
        common: ``standardize``, ``dequantize``, ``held_out``, ``dtype``, ``seed``; see
            ``Generative``.

    >>> X = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
    >>> model = Autoregressive((8,)).fit(X, epochs=1)
    >>> model.predict().log_prob(X[:3]).shape
    torch.Size([3])
    """

    def __init__(
        self,
        net: nn.Module | Sequence[int] = (64, 64),
        likelihood: Likelihood | dict[str, Any] | None = None,
        *,
        order: Sequence[int] | None = None,
        floor: float = 0.02,
        calibrate: bool = True,
        learner: type[Learner] = TAGI,
        members: int = 1,
        options: dict[str, Any] | None = None,
        **common: Any,
    ) -> None:
        super().__init__(learner=learner, members=members, options=options, **common)
        if not floor >= 0:
            raise ValueError(f"floor must be a deviation from 0, got {floor}")
        self.net: nn.Module | tuple[int, ...] = net if isinstance(net, nn.Module) else tuple(net)
        self.likelihood = (
            Mixture(HeteroscedasticNormal(), 3) if likelihood is None else from_config(likelihood)
        )
        if isinstance(self.likelihood, PerStep) or self.likelihood.targets_needed != 1:
            raise TypeError("likelihood is that of one column, a number given its outputs")
        self.order = None if order is None else [int(k) for k in order]
        self.floor, self.calibrate = floor, calibrate

    # --- learning --------------------------------------------------------------------------

    def learn(
        self,
        x: Tensor,
        context: Tensor | None,
        *,
        progress: bool | None,
        epochs: int = _EPOCHS,
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
            batch_size: rows of an update; by default 32, fewer below 1,600 rows.
            validation: rows ``X``, or ``(context, X)``, in the units of the data, whose negative
                log density (in these units) is recorded in every epoch.
            options: further arguments of the learner's ``fit``.
        """
        generator = generator_of(self.seed)
        order = self._order(x.shape[1])
        z = x[:, order]
        noisy = z + self.floor * torch.randn(z.shape, generator=generator, dtype=z.dtype)
        likelihood = PerStep(self.likelihood)
        net = self._network(x.shape[1], 0 if context is None else context.shape[1])
        learner = self.made(net, likelihood)
        kept, scale = self._split(len(x), generator)
        given = _inputs(noisy, context)
        self._check(learner, given[:1], x.shape[1])
        if batch_size is None:
            batch_size = min(32, max(8, len(x) // 50))
        options = self.fit_options(
            validation, lambda z, about: (_inputs(z[:, order], about), z[:, order]), options
        )
        learner.fit(
            given[kept], noisy[kept], epochs=epochs, batch_size=batch_size, distance_aware=False,
            progress=progress, **options,
        )  # fmt: skip
        if len(scale):
            _rescale(learner, given[scale], noisy[scale])
        self.learner_ = learner

    def _split(self, rows: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Rows to learn from, and rows to fit the scale of the noise on."""
        order = torch.randperm(rows, generator=generator)
        apart = 0
        if self.calibrate and PerStep(self.likelihood).traits.supports_calibration and rows >= 50:
            apart = max(round(_FOR_SCALE * rows), 10)
        return order[apart:].sort().values, order[:apart]

    def _network(self, columns: int, context: int) -> nn.Module:
        if isinstance(self.net, nn.Module):
            return self.net
        return Masked(columns, self.likelihood.outputs_needed, context, self.net)

    def _check(self, learner: Learner, row: Tensor, columns: int) -> None:
        """See that no column is looked at for its own outputs."""
        told = row.shape[1] - columns
        moved = row.repeat(columns, 1)
        moved[torch.arange(columns), told + torch.arange(columns)] += 1.0
        method, state = parts(learner)[0]
        x = learner.inputs(torch.cat([row, moved]))
        outputs = method.outputs(state, x).moments()[0]
        if outputs.ndim != 3 or outputs.shape[1] != columns:
            raise InvalidInput(
                f"the network must return [rows, {columns} columns, outputs of a column], and "
                f"returned {tuple(outputs.shape)}"
            )
        check_order(learner.net, told, columns, outputs[:1], outputs[1:])

    def _order(self, columns: int) -> list[int]:
        order = list(range(columns)) if self.order is None else self.order
        if sorted(order) != list(range(columns)):
            raise InvalidInput(
                f"order must hold every column from 0 to {columns - 1} once, got {order}"
            )
        return order

    # --- predicting ------------------------------------------------------------------------

    def density(
        self,
        context: Tensor | None,
        *,
        particles: int = _PARTICLES,
        draws: int | None = None,
        progress: bool | None = None,
    ) -> ChainDensity:
        """The distribution that was learnt.

        Args:
            context: rows to condition on.
            particles: weighted draws for each one that fills holes in front of known columns.
            draws: draws of the weights, for learners that draw.
            progress: show a progress bar when sampling.
        """
        if particles < 1:
            raise ValueError(f"particles must be at least 1, got {particles}")
        order = torch.tensor(self._order(self.fitted_columns().modelled))
        return ChainDensity(self.learner_, context, order, particles, draws, progress)

    # --- files -----------------------------------------------------------------------------

    def config(self) -> dict[str, Any]:
        """See ``Generative``."""
        net = None if isinstance(self.net, nn.Module) else list(self.net)
        return {
            "net": net, "likelihood": to_config(self.likelihood), "order": self.order,
            "floor": self.floor, "calibrate": self.calibrate, **self.learnt_config(),
        }  # fmt: skip

    @classmethod
    def rebuilt(cls, config: dict[str, Any], net: nn.Module | None) -> Any:
        """See ``Generative``."""
        given = dict(config)
        if given["net"] is None:
            if net is None:
                raise ValueError("the network in the file is the user's own: give load(..., net=)")
            given["net"] = ()
        return super().rebuilt(given, net)

    def network(self, net: nn.Module | None) -> nn.Module | None:
        """See ``Learnt``."""
        if net is not None:
            return net
        columns = self.fitted_columns().modelled
        told = 0 if self.context_columns_ is None else self.context_columns_.modelled
        return self._network(columns, told)

    def unpack(
        self, path: Path, tensors: dict[str, Tensor], header: dict[str, Any], net: nn.Module | None
    ) -> None:
        """See ``Generative``."""
        assert self.columns_ is not None
        columns = self.columns_.modelled
        self._order(columns)
        if net is None and not isinstance(self.net, nn.Module):
            validation.check_network_size([columns, *self.net, columns], 1, tensors)
        super().unpack(path, tensors, header, net)


def _rescale(learner: Learner, given: Tensor, seen: Tensor) -> None:
    """Fit one factor on the noise of every member to rows that were not learnt from."""
    for method, state in parts(learner):
        x = learner.inputs(given)
        y = state.likelihood.targets(seen, method.output_shape(state, x))
        mean, variance = method.outputs(state, x).moments()
        scale = method.held_out_scale(state, [(state.likelihood, y, mean, variance)])
        method.rescale_noise(state, scale)


class ChainDensity(Density):
    """The product of conditionals that an autoregressive model has learnt."""

    def __init__(
        self,
        learner: Any,
        context: Tensor | None,
        order: Tensor,
        particles: int,
        draws: int | None,
        progress: bool | None,
    ) -> None:
        self.learner, self.context, self.order = learner, context, order
        self.particles, self.progress = particles, progress
        self.options = {} if draws is None else {"n_weight_samples": draws}

    def log_prob(self, z: Tensor) -> Tensor:
        """Sum of the log densities of all columns."""
        return self._conditionals(z[:, self.order], row_by_row(self.context, len(z))).sum(1)

    def log_prob_draws(self, z: Tensor) -> Tensor:
        """Of every member; one, if there is no ensemble."""
        y = z[:, self.order]
        given = self.learner.inputs(_inputs(y, row_by_row(self.context, len(z))))
        found = [
            method.outputs(state, given, batch_size=1024, **self.options).predictive().log_prob(y)
            for method, state in parts(self.learner)
        ]
        return torch.stack(found)

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """See ``Density``; column after column."""
        contexts = 1 if self.context is None else len(self.context)
        context = None if self.context is None else self.context.repeat(n, 1)
        empty = torch.zeros(n * contexts, len(self.order), dtype=self.learner.dtype)
        known = torch.zeros_like(empty, dtype=torch.bool)
        rows = self._back(self._filled(empty, known, context, generator)[0])
        return rows if self.context is None else rows.unflatten(0, (n, contexts))

    def complete(self, z: Tensor, known: Tensor, draws: int, generator: torch.Generator) -> Tensor:
        """Holes drawn from their conditionals, weighted by the known columns that come later.

        Approximate: each draw is one of ``particles``, chosen by these weights.
        """
        size = max(_AT_ONCE // (draws * self.particles), 1)
        context = row_by_row(self.context, len(z))
        contexts = [None] * len(z) if context is None else context.split(size)
        parts = zip(z.split(size), known.split(size), contexts, strict=False)
        return torch.cat([self._completed(*part, draws, generator) for part in parts], 1)

    def _completed(
        self,
        z: Tensor,
        known: Tensor,
        context: Tensor | None,
        draws: int,
        generator: torch.Generator,
    ) -> Tensor:
        rows, number = len(z), draws * self.particles
        given, there = (part[:, self.order].repeat(number, 1) for part in (z, known))
        context = None if context is None else context.repeat(number, 1)
        filled, weight = self._filled(given, there, context, generator)
        filled = filled.reshape(draws, self.particles, rows, -1)
        chance = weight.reshape(draws, self.particles, rows).softmax(1).transpose(1, 2)
        chosen = torch.multinomial(chance.reshape(-1, self.particles), 1, generator=generator)
        at = chosen.reshape(draws, 1, rows, 1).expand(draws, 1, rows, filled.shape[-1])
        return self._back(filled.gather(1, at).squeeze(1))

    def _filled(
        self, y: Tensor, known: Tensor, context: Tensor | None, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Holes filled in the order of the chain, and the log weight of known columns after any."""
        y = y.clone()
        columns = [k for k in range(y.shape[1]) if not bool(known[:, k].all())]
        with Progress(len(columns), "Sampling", self.progress) as bar:
            for k in columns:
                drawn = self._predictive(y, context).sample(1, generator)[0].reshape(y.shape)
                y[:, k] = torch.where(known[:, k], y[:, k], drawn[:, k].to(y.dtype))
                bar.advance()
        if not bool(known.any()) or not columns:
            return y, y.new_zeros(len(y))
        found = self._conditionals(y, context)
        return y, torch.where(known, found, torch.zeros_like(found)).sum(1)

    def _predictive(self, y: Tensor, context: Tensor | None) -> Any:
        given = self.learner.inputs(_inputs(y, context))
        return self.learner.outputs(given, **self.options).predictive()

    def _conditionals(self, y: Tensor, context: Tensor | None) -> Tensor:
        """Log density of every column given those before it."""
        return self._predictive(y, context).step_log_prob(y).reshape(y.shape)

    def _back(self, y: Tensor) -> Tensor:
        """From the order of the chain to that of the table."""
        back = torch.argsort(self.order)
        return y[..., back]


def _inputs(y: Tensor, context: Tensor | None) -> Tensor:
    return y if context is None else torch.cat([context, y], 1)
