"""Autoregressive models: a product of conditionals, ``p(x) = prod_k p(x_k | x_1 ... x_{k-1})``.

Every conditional is a likelihood on top of a masked network, so the model is a regression of each
column on those before it, and every learner can train it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from tractable.errors import InvalidInput
from tractable.generative.learner_model import LearnerModel, members_of, seeded_generator
from tractable.generative.made import MADE, check_autoregressive
from tractable.generative.predictive import Density, repeat_context
from tractable.learners import TAGI, Learner
from tractable.likelihoods import HeteroscedasticNormal, Likelihood, Mixture, PerStep
from tractable.likelihoods.composite import from_config, to_config
from tractable.persistence import validation
from tractable.training.progress import Progress

_EPOCHS = 20
_CALIBRATION_FRACTION = 0.1  # of the rows
_MIN_CALIBRATION_ROWS = 10
_MIN_ROWS_TO_CALIBRATE = 50
_N_PARTICLES = 64
_CHUNK_ROWS = 1 << 17  # rows, each with the outputs of all columns, in one call of the network


class Autoregressive(LearnerModel):
    """A product of conditionals computed by a masked network.

    The log density of a row is the sum of one term per column, each the learner's own predictive
    density, which includes the uncertainty of the weights.

    Exact: density and samples, given the learner's predictions. Approximate: the learner;
    imputation of values before known columns, by weighted samples.

    Args:
        net: widths of the hidden layers of a ``MADE`` network; or a module from rows (after their
            contexts) to ``[rows, columns, outputs]`` whose outputs of a column depend on the
            columns before it only, which is checked.
        likelihood: likelihood of every column given its outputs. Default: a mixture of three
            normals with predicted variances.
        order: order of the columns, as indices without constant columns. Default: as in the table.
        min_noise: standard deviation of the noise added to standardized rows in training, so that
            no conditional becomes narrower; 0 for none.
        calibrate: fit the scale of the noise on a tenth of the rows, which are not used otherwise.
        learner: class of learners.
        n_estimators: number of networks in an ensemble, whose conditionals are mixed; 1 for one.
        learner_kwargs: further arguments of the learner.
        common: ``standardize``, ``dequantize``, ``validation_fraction``, ``dtype``, ``seed``; see
            ``GenerativeModel``.

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
        min_noise: float = 0.02,
        calibrate: bool = True,
        learner: type[Learner] = TAGI,
        n_estimators: int = 1,
        learner_kwargs: dict[str, Any] | None = None,
        **common: Any,
    ) -> None:
        super().__init__(
            learner=learner, n_estimators=n_estimators, learner_kwargs=learner_kwargs, **common
        )
        if not min_noise >= 0:
            raise ValueError(f"min_noise must be a standard deviation from 0, got {min_noise}")
        self.net: nn.Module | tuple[int, ...] = net if isinstance(net, nn.Module) else tuple(net)
        self.likelihood = (
            Mixture(HeteroscedasticNormal(), 3) if likelihood is None else from_config(likelihood)
        )
        if isinstance(self.likelihood, PerStep) or self.likelihood.targets_needed != 1:
            raise TypeError("likelihood must be that of one number, the value of a column")
        self.order = None if order is None else [int(k) for k in order]
        self.min_noise, self.calibrate = min_noise, calibrate

    # --- fitting ---------------------------------------------------------------------------

    @override
    def _fit(
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
        """Fit to rows in the units of the model.

        Args:
            x: rows.
            context: contexts.
            progress: show a progress bar.
            epochs: number of passes over the rows.
            batch_size: rows per update. Default: 32, fewer for less than 1,600 rows.
            validation: rows ``X``, or ``(X, context)``, in the units of the data, whose negative
                log density (in these units) is recorded in every epoch.
            options: further arguments of the learner's ``fit``.
        """
        generator = seeded_generator(self.seed)
        order = self._column_order(x.shape[1])
        z = x[:, order]
        noisy = z + self.min_noise * torch.randn(z.shape, generator=generator, dtype=z.dtype)
        net = self._make_network(x.shape[1], 0 if context is None else context.shape[1])
        learner = self.make_learner(net, PerStep(self.likelihood))
        train, calibration = self._split(len(x), generator)
        inputs = _inputs(noisy, context)
        self._check_network(learner, inputs[:1], x.shape[1])
        if batch_size is None:
            batch_size = min(32, max(8, len(x) // 50))
        options = self.learner_fit_options(
            validation, lambda z, c: (_inputs(z[:, order], c), z[:, order]), options
        )
        learner.fit(
            inputs[train], noisy[train], epochs=epochs, batch_size=batch_size,
            distance_aware=False, progress=progress, **options,
        )  # fmt: skip
        if len(calibration):
            _calibrate_noise(learner, inputs[calibration], noisy[calibration])
        self.learner_ = learner

    def _split(self, rows: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return the rows for training, and those for the calibration of the noise."""
        order = torch.randperm(rows, generator=generator)
        count = 0
        calibrates = self.calibrate and PerStep(self.likelihood).traits.supports_calibration
        if calibrates and rows >= _MIN_ROWS_TO_CALIBRATE:
            count = max(round(_CALIBRATION_FRACTION * rows), _MIN_CALIBRATION_ROWS)
        return order[count:].sort().values, order[:count]

    def _make_network(self, columns: int, context: int) -> nn.Module:
        if isinstance(self.net, nn.Module):
            return self.net
        return MADE(columns, self.likelihood.outputs_needed, context, self.net)

    def _check_network(self, learner: Learner, row: Tensor, columns: int) -> None:
        """Raise if the outputs of a column depend on that column or a later one."""
        n_context = row.shape[1] - columns
        changed = row.repeat(columns, 1)
        changed[torch.arange(columns), n_context + torch.arange(columns)] += 1.0
        method, state = members_of(learner)[0]
        x = learner.checks.inputs(torch.cat([row, changed]))
        outputs = method.outputs(state, x).moments()[0]
        if outputs.ndim != 3 or outputs.shape[1] != columns:
            raise InvalidInput(
                f"the network must return [rows, {columns} columns, outputs of a column], and "
                f"returned {tuple(outputs.shape)}"
            )
        check_autoregressive(learner.net, n_context, columns, outputs[:1], outputs[1:])

    def _column_order(self, columns: int) -> list[int]:
        order = list(range(columns)) if self.order is None else self.order
        if sorted(order) != list(range(columns)):
            raise InvalidInput(
                f"order must contain every column from 0 to {columns - 1} once, got {order}"
            )
        return order

    # --- predicting ------------------------------------------------------------------------

    @override
    def _density(
        self,
        context: Tensor | None,
        *,
        n_particles: int = _N_PARTICLES,
        n_weight_samples: int | None = None,
        progress: bool | None = None,
    ) -> AutoregressiveDensity:
        """Return the fitted distribution.

        Args:
            context: rows to condition on.
            n_particles: weighted samples for each imputed value before known columns.
            n_weight_samples: number of weight samples, for learners that sample.
            progress: show a progress bar when sampling.
        """
        if n_particles < 1:
            raise ValueError(f"n_particles must be at least 1, got {n_particles}")
        order = torch.tensor(self._column_order(self.fitted_scaler().n_varying))
        return AutoregressiveDensity(
            self.learner_, context, order, n_particles, n_weight_samples, progress
        )

    # --- files -----------------------------------------------------------------------------

    @override
    def config(self) -> dict[str, Any]:
        net = None if isinstance(self.net, nn.Module) else list(self.net)
        return {
            "net": net, "likelihood": to_config(self.likelihood), "order": self.order,
            "min_noise": self.min_noise, "calibrate": self.calibrate, **self.learner_config(),
        }  # fmt: skip

    @classmethod
    @override
    def from_config(cls, config: dict[str, Any], net: nn.Module | None) -> Any:
        given = dict(config)
        if given["net"] is None:
            if net is None:
                raise ValueError("the network is not in the file: use load(path, net=...)")
            given["net"] = ()
        return super().from_config(given, net)

    @override
    def build_network(self, net: nn.Module | None) -> nn.Module | None:
        if net is not None:
            return net
        n_context = 0 if self.context_scaler_ is None else self.context_scaler_.n_varying
        return self._make_network(self.fitted_scaler().n_varying, n_context)

    @override
    def unpack(
        self, path: Path, tensors: dict[str, Tensor], header: dict[str, Any], net: nn.Module | None
    ) -> None:
        columns = self.fitted_scaler().n_varying
        self._column_order(columns)
        if net is None and not isinstance(self.net, nn.Module):
            validation.check_network_size([columns, *self.net, columns], 1, tensors)
        super().unpack(path, tensors, header, net)


def _calibrate_noise(learner: Learner, inputs: Tensor, targets: Tensor) -> None:
    """Fit one factor on the noise of every ensemble member to rows not used in training."""
    for method, state in members_of(learner):
        x = learner.checks.inputs(inputs)
        y = state.likelihood.check_targets(targets, method.output_shape(state, x))
        mean, variance = method.outputs(state, x).moments()
        scale = method.held_out_scale(state, [(state.likelihood, y, mean, variance)])
        method.rescale_noise(state, scale)


class AutoregressiveDensity(Density):
    """The product of the fitted conditionals.

    Args:
        learner: trained learner.
        context: rows to condition on, or None.
        order: order of the columns.
        n_particles: weighted samples for each imputed value.
        n_weight_samples: number of weight samples; None for the learner's own.
        progress: show a progress bar when sampling.
    """

    def __init__(
        self,
        learner: Any,
        context: Tensor | None,
        order: Tensor,
        n_particles: int,
        n_weight_samples: int | None,
        progress: bool | None,
    ) -> None:
        self.learner, self.context, self.order = learner, context, order
        self.n_particles, self.progress = n_particles, progress
        self.options = {} if n_weight_samples is None else {"n_weight_samples": n_weight_samples}

    @override
    def log_prob(self, z: Tensor) -> Tensor:
        context = repeat_context(self.context, len(z))
        return self._conditional_log_prob(z[:, self.order], context).sum(1)

    @override
    def log_prob_by_weights(self, z: Tensor) -> Tensor:
        y = z[:, self.order]
        inputs = self.learner.checks.inputs(_inputs(y, repeat_context(self.context, len(z))))
        found = [
            method.outputs(state, inputs, batch_size=1024, **self.options).predictive().log_prob(y)
            for method, state in members_of(self.learner)
        ]
        return torch.stack(found)

    @override
    def sample(self, n_samples: int, generator: torch.Generator) -> Tensor:
        n_contexts = 1 if self.context is None else len(self.context)
        context = None if self.context is None else self.context.repeat(n_samples, 1)
        rows = torch.zeros(n_samples * n_contexts, len(self.order), dtype=self.learner.dtype)
        known = torch.zeros_like(rows, dtype=torch.bool)
        rows = self._in_table_order(self._filled(rows, known, context, generator)[0])
        return rows if self.context is None else rows.unflatten(0, (n_samples, n_contexts))

    @override
    def impute(
        self, z: Tensor, known: Tensor, n_samples: int, generator: torch.Generator
    ) -> Tensor:
        """Return samples of the unknown columns, weighted by the known columns that come later.

        Approximate: each sample is one of ``n_particles``, drawn with these weights.
        """
        size = max(_CHUNK_ROWS // (n_samples * self.n_particles), 1)
        context = repeat_context(self.context, len(z))
        contexts = [None] * len(z) if context is None else context.split(size)
        chunks = zip(z.split(size), known.split(size), contexts, strict=False)
        return torch.cat([self._imputed(*chunk, n_samples, generator) for chunk in chunks], 1)

    def _imputed(
        self,
        z: Tensor,
        known: Tensor,
        context: Tensor | None,
        n_samples: int,
        generator: torch.Generator,
    ) -> Tensor:
        rows, number = len(z), n_samples * self.n_particles
        y, mask = (part[:, self.order].repeat(number, 1) for part in (z, known))
        context = None if context is None else context.repeat(number, 1)
        filled, log_weight = self._filled(y, mask, context, generator)
        filled = filled.reshape(n_samples, self.n_particles, rows, -1)
        weight = log_weight.reshape(n_samples, self.n_particles, rows).softmax(1).transpose(1, 2)
        chosen = torch.multinomial(weight.reshape(-1, self.n_particles), 1, generator=generator)
        at = chosen.reshape(n_samples, 1, rows, 1).expand(n_samples, 1, rows, filled.shape[-1])
        return self._in_table_order(filled.gather(1, at).squeeze(1))

    def _filled(
        self, y: Tensor, known: Tensor, context: Tensor | None, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Sample unknown values column by column; return rows and log weights of known columns."""
        y = y.clone()
        columns = [k for k in range(y.shape[1]) if not bool(known[:, k].all())]
        with Progress(len(columns), "Sampling", self.progress) as bar:
            for k in columns:
                sample = self._predictive(y, context).sample(1, generator)[0].reshape(y.shape)
                y[:, k] = torch.where(known[:, k], y[:, k], sample[:, k].to(y.dtype))
                bar.advance()
        if not bool(known.any()) or not columns:
            return y, y.new_zeros(len(y))
        found = self._conditional_log_prob(y, context)
        return y, torch.where(known, found, torch.zeros_like(found)).sum(1)

    def _predictive(self, y: Tensor, context: Tensor | None) -> Any:
        inputs = self.learner.checks.inputs(_inputs(y, context))
        return self.learner.outputs(inputs, **self.options).predictive()

    def _conditional_log_prob(self, y: Tensor, context: Tensor | None) -> Tensor:
        """Return the log density of every column given those before it, ``[rows, columns]``."""
        return self._predictive(y, context).step_log_prob(y).reshape(y.shape)

    def _in_table_order(self, y: Tensor) -> Tensor:
        """Return columns in the order of the table."""
        return y[..., torch.argsort(self.order)]


def _inputs(y: Tensor, context: Tensor | None) -> Tensor:
    return y if context is None else torch.cat([context, y], 1)
