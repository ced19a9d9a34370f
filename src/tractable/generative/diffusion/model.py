"""Diffusion: a density that reduces to regression, so that every learner can train it.

A row is mixed with noise, and a network predicts the noise, or the row: an ordinary regression with
normal errors (UDL E 18.40). ``TAGI`` trains it in closed form, with the uncertainty of the weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from tractable.errors import InvalidInput
from tractable.generative.diffusion.density import Denoiser, DiffusionDensity, DiffusionPredictive
from tractable.generative.diffusion.samplers import (
    GuidanceFunction,
    Sampler,
    SamplerConfig,
    Variance,
)
from tractable.generative.diffusion.schedule import (
    PREDICTION_TYPES,
    NoiseSchedule,
    PredictionType,
)
from tractable.generative.learner_model import LearnerModel, seeded_generator
from tractable.generative.predictive import DensityPredictive
from tractable.learners import TAGI, Learner
from tractable.likelihoods import Normal
from tractable.nn import mlp

_TOTAL_NOISED_ROWS = 50_000
_MIN_NOISE_COPIES = 5
_EPOCHS = 8
_MAX_ERROR_ROWS = 20_000  # noised rows from which the prediction errors are estimated
_MAX_VALIDATION_ROWS = 5_000  # noised validation rows, which are scored in every epoch


class Diffusion(LearnerModel):
    """Samples of rows from noise, by a network that predicts the row in the noise.

    ``log_prob`` is the full bound of the log density, with the divergence of the prior (E 18.24),
    for noise that is always the same.

    Exact: targets, chains and the bound, given the network. Approximate: a denoising step is normal
    with independent columns; the bound is an average over noise samples; the learner. The variance
    of a step is that of the errors of held-out rows; with ``validation_fraction=0`` of training
    rows, which makes it slightly too small.

    Args:
        net: widths of the hidden layers of a network with ReLU; or a module from ``columns + 4``
            inputs (``+ context + 1`` with a context) to ``columns`` outputs. The four inputs encode
            the time; the last one indicates whether there is a context. Constant columns do not
            count.
        steps: number of steps T of the schedule.
        schedule: ``"cosine"``, ``"linear"``, or a ``NoiseSchedule``.
        prediction_type: what the network predicts: ``"v"``, the ``"noise"`` or the row ``"x"``.
        context_dropout: share of rows whose context is left out in training, which predictions with
            ``guidance_scale`` need.
        learner: class of learners.
        n_estimators: number of networks in an ensemble; 1 for one.
        learner_kwargs: further arguments of the learner.
        common: ``standardize``, ``dequantize``, ``validation_fraction``, ``dtype``, ``seed``; see
            ``GenerativeModel``.

    >>> X = torch.randn(300, 2, generator=torch.Generator().manual_seed(0))
    >>> model = Diffusion((16,), steps=10).fit(X, epochs=1, noise_copies=5)
    >>> model.predict().sample(3).shape
    torch.Size([3, 2])
    """

    predictive_class = DiffusionPredictive

    def __init__(
        self,
        net: nn.Module | tuple[int, ...] | list[int] = (128, 128),
        *,
        steps: int = 100,
        schedule: str | NoiseSchedule = "cosine",
        prediction_type: PredictionType = "v",
        context_dropout: float = 0.1,
        learner: type[Learner] = TAGI,
        n_estimators: int = 1,
        learner_kwargs: dict[str, Any] | None = None,
        **common: Any,
    ) -> None:
        super().__init__(
            learner=learner, n_estimators=n_estimators, learner_kwargs=learner_kwargs, **common
        )
        if prediction_type not in PREDICTION_TYPES:
            raise ValueError(
                f"prediction_type must be one of {PREDICTION_TYPES}, got {prediction_type!r}"
            )
        if not 0 <= context_dropout < 1:
            raise ValueError(f"context_dropout must be from 0 to below 1, got {context_dropout!r}")
        self.net: nn.Module | tuple[int, ...] = net if isinstance(net, nn.Module) else tuple(net)
        self.prediction_type, self.context_dropout = prediction_type, context_dropout
        self.schedule, self._schedule_name = _make_schedule(schedule, steps)
        self.errors_ = torch.empty(0)

    # --- fitting ---------------------------------------------------------------------------

    def noised_rows(
        self, x: Tensor, context: Tensor | None, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return inputs and targets of the regression, one for each row, and their times."""
        t = torch.randint(1, self.schedule.steps + 1, (len(x),), generator=generator)
        noise = torch.randn(x.shape, generator=generator, dtype=x.dtype)
        z = self.schedule.q_sample(x, noise, t)
        target = self.schedule.target(self.prediction_type, x, noise, t)
        c = None
        if context is not None:
            has_context = torch.rand(len(x), generator=generator) >= self.context_dropout
            c = _with_flag(context, has_context)
        return network_inputs(self.schedule, z, t, c), target, t

    @override
    def _fit(
        self,
        x: Tensor,
        context: Tensor | None,
        *,
        progress: bool | None,
        epochs: int = _EPOCHS,
        noise_copies: int | None = None,
        batch_size: int | None = None,
        validation: Any = None,
        **options: Any,
    ) -> None:
        """Fit to rows in the units of the model.

        Args:
            x: rows.
            context: contexts.
            progress: show a progress bar.
            epochs: number of passes over the noised rows.
            noise_copies: number of noised copies of each row. Default: 50,000 noised rows in total,
                and at least five copies.
            batch_size: rows per update.
            validation: rows ``X``, or ``(X, context)``, in the units of the data. They are noised
                like the training rows, with noise that is the same in every epoch, and the negative
                log-likelihood of the regression is recorded; it is that of standardized rows and
                has no units.
            options: further arguments of the learner's ``fit``.
        """
        if noise_copies is None:
            noise_copies = max(_MIN_NOISE_COPIES, math.ceil(_TOTAL_NOISED_ROWS / len(x)))
        if noise_copies < 1:
            raise ValueError(f"noise_copies must be at least 1, got {noise_copies}")
        generator = seeded_generator(self.seed)
        copies = x.repeat(noise_copies, 1)
        contexts = None if context is None else context.repeat(noise_copies, 1)
        inputs, target, t = self.noised_rows(copies, contexts, generator)
        net = self._make_network(inputs.shape[1], x.shape[1])
        learner = self.make_learner(net, Normal(outputs=x.shape[1]))
        options = self.learner_fit_options(
            validation, self._validation_pairs, options, is_density=False
        )
        learner.fit(
            inputs, target, epochs=epochs, batch_size=batch_size, distance_aware=False,
            progress=progress, **options,
        )  # fmt: skip
        some = slice(None, _MAX_ERROR_ROWS)
        errors = self._prediction_errors(learner, inputs[some], target[some], t[some])
        self.learner_, self.errors_ = learner, errors

    @override
    def _on_held_out(self, x: Tensor, context: Tensor | None) -> None:
        noised = self._noised_copies(x, context, _MAX_ERROR_ROWS)
        self.errors_ = self._prediction_errors(self.learner_, *noised)

    def _noised_copies(
        self, x: Tensor, context: Tensor | None, number: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return ``noised_rows`` of about ``number`` copies of rows that are not in training."""
        copies = math.ceil(number / len(x))
        contexts = None if context is None else context.repeat(copies, 1)
        return self.noised_rows(x.repeat(copies, 1), contexts, seeded_generator(self.seed + 1))

    def _validation_pairs(self, x: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return inputs and targets of the regression for validation rows."""
        inputs, target, _ = self._noised_copies(x, context, _MAX_VALIDATION_ROWS)
        return inputs, target

    def _make_network(self, inputs: int, outputs: int) -> nn.Module:
        if isinstance(self.net, nn.Module):
            return self.net
        return mlp(inputs, self.net, outputs)

    def _prediction_errors(
        self, learner: Learner, inputs: Tensor, target: Tensor, t: Tensor
    ) -> Tensor:
        """Return the mean squared error of the predicted row, ``[steps, columns]``.

        Times are smoothed over their neighbors, because some have few rows.
        """
        mean = learner.outputs(inputs).moments()[0]
        squared = (mean - target).double() ** 2
        steps = self.schedule.steps
        width = max(steps / 50, 0.5)
        times = torch.arange(1, steps + 1).double()
        sums = torch.zeros(steps, squared.shape[1], dtype=torch.float64).index_add_(
            0, t - 1, squared
        )
        counts = torch.zeros(steps, dtype=torch.float64).index_add_(
            0, t - 1, torch.ones(len(t)).double()
        )
        weight = torch.exp(-0.5 * ((times[:, None] - times) / width) ** 2)
        prior = squared.mean(0)  # with the weight of one row
        smooth = (weight @ sums + prior) / ((weight @ counts).unsqueeze(1) + 1)
        return smooth * self.schedule.dx0(self.prediction_type, times.long()).unsqueeze(1) ** 2

    # --- predicting ------------------------------------------------------------------------

    @override
    def predict(self, context: Any = None, **options: Any) -> DiffusionPredictive:
        """Return the distribution of a new row, or of one for each row of a context.

        Args:
            context: rows to condition on, for a model that was fitted with a context.
            options: options of the sampler, of guidance and of the bound:

                * ``sampler``: ``"ddpm"`` (default) or ``"ddim"``
                * ``steps``: steps of the sampler; at most (and by default) those of the schedule
                * ``variance``: variance of a step, ``"learned"`` (default), ``"posterior"`` or
                  ``"beta"``; see ``SamplerConfig``
                * ``eta``: noise of DDIM (default 0)
                * ``final_noise``: whether the last step adds noise as well (default False)
                * ``guidance_scale``: weight of the context: 1 (default) as trained, more for
                  samples that are more typical of it (classifier-free guidance; Ho & Salimans,
                  2022), 0 for none
                * ``guidance_fn``: a differentiable function of rows in the units of the data and
                  the time that returns ``log p(label | row)``: classifier guidance (E 18.41) at the
                  predicted row. Exact for Gaussian rows and a linear function. Dequantized columns
                  are passed without rounding.
                * ``guidance_fn_scale``: factor on its gradient (default 1)
                * ``n_noise_samples``: noise samples of the bound at every time (default 1)
                * ``n_weight_samples``: number of weight samples, for learners that sample
                * ``progress``: show a progress bar when sampling
        """
        found: DensityPredictive = super().predict(context, **options)
        assert isinstance(found, DiffusionPredictive)
        return found

    @override
    def _density(
        self,
        context: Tensor | None,
        *,
        sampler: Sampler = "ddpm",
        steps: int | None = None,
        variance: Variance = "learned",
        eta: float = 0.0,
        final_noise: bool = False,
        guidance_scale: float = 1.0,
        guidance_fn: GuidanceFunction | None = None,
        guidance_fn_scale: float = 1.0,
        n_noise_samples: int = 1,
        n_weight_samples: int | None = None,
        progress: bool | None = None,
    ) -> DiffusionDensity:
        config = SamplerConfig(sampler, steps, variance, eta, final_noise)
        self.schedule.times(steps)
        if not math.isfinite(guidance_scale) or guidance_scale < 0:
            raise ValueError(f"guidance_scale must be a finite number from 0, got {guidance_scale}")
        if guidance_scale != 1 and context is None:
            raise InvalidInput(
                "guidance_scale needs a context: use fit(X, context) and "
                "predict(context, guidance_scale=...)"
            )
        if guidance_scale != 1 and not self.context_dropout:
            raise InvalidInput(
                "guidance_scale needs a model that was also trained without its context: use "
                "context_dropout above 0"
            )
        if n_noise_samples < 1:
            raise ValueError(f"n_noise_samples must be at least 1, got {n_noise_samples}")
        scaler = self.fitted_scaler()
        denoiser = Denoiser(
            self.schedule, self.prediction_type, self.learner_, n_weight_samples, guidance_scale
        )
        return DiffusionDensity(
            denoiser, self.errors_, config, context, scaler=scaler, guidance_fn=guidance_fn,
            guidance_fn_scale=guidance_fn_scale, n_noise_samples=n_noise_samples, seed=self.seed,
            dtype=self.dtype, progress=progress,
        )  # fmt: skip

    # --- files -----------------------------------------------------------------------------

    @override
    def config(self) -> dict[str, Any]:
        return {
            "net": None if isinstance(self.net, nn.Module) else list(self.net),
            "steps": self.schedule.steps, "schedule": self._schedule_name or "own",
            "prediction_type": self.prediction_type, "context_dropout": self.context_dropout,
            **self.learner_config(),
        }  # fmt: skip

    @classmethod
    @override
    def from_config(cls, config: dict[str, Any], net: nn.Module | None) -> Any:
        given = dict(config)
        if given["schedule"] == "own":  # its betas are stored with the learner
            given["schedule"] = "cosine"
        if given["net"] is None:
            given["net"] = ()
        return super().from_config(given, net)

    @override
    def pack(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors, header = super().pack()
        return tensors | {"betas": self.schedule.betas, "errors": self.errors_}, header

    @override
    def unpack(
        self, path: Path, tensors: dict[str, Tensor], header: dict[str, Any], net: nn.Module | None
    ) -> None:
        of_learner = dict(tensors)
        betas, errors = of_learner.pop("betas"), of_learner.pop("errors")
        schedule = NoiseSchedule(betas)
        if not torch.equal(schedule.betas, self.schedule.betas):
            if schedule.steps != self.schedule.steps:
                raise ValueError("the schedule in the file has another number of steps")
            self.schedule, self._schedule_name = schedule, None
        super().unpack(path, of_learner, header, net)
        if errors.shape != (schedule.steps, self.fitted_scaler().n_varying) or bool(
            (errors < 0).any()
        ):
            raise ValueError("errors in the file must have one variance for every time and column")
        if not bool(errors.isfinite().all()):
            raise ValueError("errors in the file are not finite")
        self.errors_ = errors
        if self.net == ():
            self.net = self.learner_.net


def network_inputs(schedule: NoiseSchedule, z: Tensor, t: Tensor, context: Tensor | None) -> Tensor:
    """Return the inputs of the network: noised rows, features of the time, and contexts."""
    parts = [z, schedule.features(t).to(z.dtype)]
    return torch.cat(parts if context is None else [*parts, context], 1)


def _with_flag(context: Tensor, has_context: Tensor) -> Tensor:
    """Return contexts, zeros where left out, followed by a column that marks the others."""
    flag = has_context.to(context.dtype).unsqueeze(1)
    return torch.cat([context * flag, flag], 1)


def _make_schedule(given: str | NoiseSchedule, steps: int) -> tuple[NoiseSchedule, str | None]:
    """Return a schedule, and its name if it has one."""
    if isinstance(given, NoiseSchedule):
        return given, None
    known: dict[str, Callable[[int], NoiseSchedule]]
    known = {"cosine": NoiseSchedule.cosine, "linear": NoiseSchedule.linear}
    if given not in known:
        raise ValueError(
            f"schedule must be one of {sorted(known)} or a NoiseSchedule, got {given!r}"
        )
    return known[given](steps), given
