"""Diffusion: a density that reduces to regression, so that every learner can learn it.

A row is mixed with noise, and a network is asked what was mixed in: ordinary rows of inputs and
targets with normal errors (UDL, E 18.40).  ``TAGI``
answers in closed form, and knows how unsure it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tractable.errors import InvalidInput
from tractable.generative.diffusion_density import DiffusionDensity, DiffusionPredictive, Reading
from tractable.generative.learnt import Learnt, generator_of
from tractable.generative.predictive import RowPredictive
from tractable.generative.samplers import Guide, Sampler, Variance, Walk
from tractable.generative.schedule import FORMS, Form, Schedule
from tractable.learners import TAGI, Learner
from tractable.likelihoods import Normal
from tractable.nn import mlp

_ROWS_OF_NOISE = 50_000
_EPOCHS = 8
_MOST_MEASURED = 20_000
_MOST_VALIDATED = 5_000  # noised copies: their score is computed in every epoch


class Diffusion(Learnt):
    """Rows from noise, by a network that was taught to see the row in the noise.

    ``log_prob`` is the full bound on the log density, with the term of the prior (E 18.24), at
    noise that is always the same.

    Exact: targets, chains and the bound, given the network.  Approximate: a step back is normal
    with independent columns; the bound is an average over draws of noise; the learner.  The
    variance of a step back is that of the errors of the rows held out; with ``held_out=0`` of the
    rows learnt, and then a little small.

    Args:
        net: a module from ``columns + 4`` inputs (``+ context + 1`` with a context) to ``columns``
            outputs; or widths of the hidden layers of one with ReLU.  The four numbers tell the
            time; the one after the context tells that there is one.  Columns count without
            constant ones.
        steps: number of steps T of the schedule.
        schedule: ``"cosine"``, ``"linear"``, or a ``Schedule``.
        form: what the network predicts: ``"v"``, the ``"noise"`` or the row ``"x"``.
        drop: share of rows whose context is left out in training, so that a prediction can be
            made without it, which ``guidance`` needs.
        learner: any class of learners.
        members: size of an ensemble; 1 for a single network.
        options: further arguments of the learner.
        common: ``standardize``, ``dequantize``, ``held_out``, ``dtype``, ``seed``; see
            ``Generative``.

    >>> X = torch.randn(300, 2, generator=torch.Generator().manual_seed(0))
    >>> model = Diffusion((16,), steps=10).fit(X, epochs=1, copies=5)
    >>> model.predict().sample(3).shape
    torch.Size([3, 2])
    """

    predictive_class = DiffusionPredictive

    def __init__(
        self,
        net: nn.Module | tuple[int, ...] | list[int] = (128, 128),
        *,
        steps: int = 100,
        schedule: str | Schedule = "cosine",
        form: Form = "v",
        drop: float = 0.1,
        learner: type[Learner] = TAGI,
        members: int = 1,
        options: dict[str, Any] | None = None,
        **common: Any,
    ) -> None:
        super().__init__(learner=learner, members=members, options=options, **common)
        if form not in FORMS:
            raise ValueError(f"form must be one of {FORMS}, got {form!r}")
        if not 0 <= drop < 1:
            raise ValueError(f"drop must be a share from 0 to below 1, got {drop!r}")
        self.net: nn.Module | tuple[int, ...] = net if isinstance(net, nn.Module) else tuple(net)
        self.form, self.drop = form, drop
        self.schedule, self._named = _schedule(schedule, steps)
        self.errors_ = torch.empty(0)

    # --- learning --------------------------------------------------------------------------

    def rows(
        self, x: Tensor, context: Tensor | None, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Inputs and targets of the regression, one of each for a row, and their times."""
        t = torch.randint(1, self.schedule.steps + 1, (len(x),), generator=generator)
        noise = torch.randn(x.shape, generator=generator, dtype=x.dtype)
        z = self.schedule.noised(x, noise, t)
        target = self.schedule.target(self.form, x, noise, t)
        told = None
        if context is not None:
            there = torch.rand(len(x), generator=generator) >= self.drop
            told = _told(context, there)
        return inputs_of(self.schedule, z, t, told), target, t

    def learn(
        self,
        x: Tensor,
        context: Tensor | None,
        *,
        progress: bool | None,
        epochs: int = _EPOCHS,
        copies: int | None = None,
        batch_size: int | None = None,
        validation: Any = None,
        **options: Any,
    ) -> None:
        """See ``Generative.fit``.

        Args:
            x: rows.
            context: contexts.
            progress: show a progress bar.
            epochs: passes over the noised rows.
            copies: how often each row is noised; by default to 50,000 rows in all, at least five
                times.
            batch_size: rows of an update.
            validation: rows ``X``, or ``(context, X)``, in the units of the data. They are noised
                as the training rows are, with noise that is the same in every epoch, and the
                negative log-likelihood of the regression is recorded; it is that of standardized
                rows and has no units.
            options: further arguments of the learner's ``fit``.
        """
        if copies is None:
            copies = max(5, math.ceil(_ROWS_OF_NOISE / len(x)))
        if copies < 1:
            raise ValueError(f"copies must be at least 1, got {copies}")
        generator = generator_of(self.seed)
        many = x.repeat(copies, 1)
        told = None if context is None else context.repeat(copies, 1)
        given, target, t = self.rows(many, told, generator)
        learner = self.made(self._network(given.shape[1], x.shape[1]), Normal(outputs=x.shape[1]))
        options = self.fit_options(validation, self._noised, options, density=False)
        learner.fit(
            given, target, epochs=epochs, batch_size=batch_size, distance_aware=False,
            progress=progress, **options,
        )  # fmt: skip
        some = slice(None, _MOST_MEASURED)
        errors = self._measured(learner, given[some], target[some], t[some])
        self.learner_, self.errors_ = learner, errors

    def look_at_held_out(self, x: Tensor, context: Tensor | None) -> None:
        """Errors of the rows held out, in place of those of the rows learnt."""
        self.errors_ = self._measured(self.learner_, *self._copies(x, context, _MOST_MEASURED))

    def _copies(
        self, x: Tensor, context: Tensor | None, number: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return what ``rows`` returns for about ``number`` noised copies of unseen rows."""
        copies = math.ceil(number / len(x))
        told = None if context is None else context.repeat(copies, 1)
        return self.rows(x.repeat(copies, 1), told, generator_of(self.seed + 1))

    def _noised(self, x: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return inputs and targets of the regression for validation rows."""
        given, target, _ = self._copies(x, context, _MOST_VALIDATED)
        return given, target

    def _network(self, inputs: int, outputs: int) -> nn.Module:
        if isinstance(self.net, nn.Module):
            return self.net
        return mlp(inputs, self.net, outputs)

    def _measured(self, learner: Learner, given: Tensor, target: Tensor, t: Tensor) -> Tensor:
        """Mean squared error of the row that the network sees, for every time and column.

        Times are smoothed over their neighbours: some have few rows.
        """
        mean = learner.outputs(given).moments()[0]
        squared = (mean - target).double() ** 2
        steps = self.schedule.steps
        width = max(steps / 50, 0.5)
        every = torch.arange(1, steps + 1).double()
        sums = torch.zeros(steps, squared.shape[1], dtype=torch.float64).index_add_(
            0, t - 1, squared
        )
        counts = torch.zeros(steps, dtype=torch.float64).index_add_(
            0, t - 1, torch.ones(len(t)).double()
        )
        weight = torch.exp(-0.5 * ((every[:, None] - every) / width) ** 2)
        prior = squared.mean(0)  # one row's worth
        smooth = (weight @ sums + prior) / ((weight @ counts).unsqueeze(1) + 1)
        return smooth * self.schedule.row_factor(self.form, every.long()).unsqueeze(1) ** 2

    # --- predicting ------------------------------------------------------------------------

    def predict(self, context: Any = None, **options: Any) -> DiffusionPredictive:
        """See ``Generative.predict``; what may be given besides is in ``density``."""
        found: RowPredictive = super().predict(context, **options)
        assert isinstance(found, DiffusionPredictive)
        return found

    def density(
        self,
        context: Tensor | None,
        *,
        sampler: Sampler = "ddpm",
        steps: int | None = None,
        variance: Variance = "learnt",
        eta: float = 0.0,
        last_noise: bool = False,
        guidance: float = 1.0,
        guide: Guide | None = None,
        guide_scale: float = 1.0,
        noise_draws: int = 1,
        draws: int | None = None,
        progress: bool | None = None,
    ) -> DiffusionDensity:
        """The distribution that was learnt.

        Args:
            context: rows to condition on.
            sampler: ``"ddpm"`` or ``"ddim"``.
            steps: steps of the sampler; at most those of the schedule.
            variance: variance of a step back; see ``Walk``.
            eta: noise of DDIM.
            last_noise: whether the last step has noise as well.
            guidance: how strongly the context is followed: 1 as learnt, more for samples that are
                more typical of it (classifier-free guidance; Ho & Salimans, 2022), 0 for none.
            guide: a function of rows in the units of the data and the time, that gives
                ``log p(label | row)`` of each, differentiable: classifier guidance (E 18.41) at the
                row that the network sees.  Exact for Gaussian rows and a linear function.
                Dequantized columns reach it as they are modelled: not rounded to their values.
            guide_scale: factor on its gradient.
            noise_draws: draws of noise that the bound averages over at every time.
            draws: draws of the weights, for learners that draw.
            progress: show a progress bar when sampling.
        """
        walk = Walk(sampler, steps, variance, eta, last_noise)
        self.schedule.times(steps)
        if not math.isfinite(guidance) or guidance < 0:
            raise ValueError(f"guidance must be a number from 0, got {guidance}")
        if guidance != 1 and context is None:
            raise InvalidInput(
                "guidance needs a context: fit(context, X), and predict(context, guidance=...)"
            )
        if guidance != 1 and not self.drop:
            raise InvalidInput(
                "guidance needs a model that also learnt without its context: drop above 0"
            )
        if noise_draws < 1:
            raise ValueError(f"noise_draws must be at least 1, got {noise_draws}")
        columns = self.fitted_columns()
        reading = Reading(self.schedule, self.form, self.learner_, draws, guidance)
        return DiffusionDensity(
            reading, self.errors_, walk, context, columns=columns, guide=guide,
            guide_scale=guide_scale, noise_draws=noise_draws, seed=self.seed, dtype=self.dtype,
            progress=progress,
        )  # fmt: skip

    # --- files -----------------------------------------------------------------------------

    def config(self) -> dict[str, Any]:
        """See ``Generative``."""
        net = None if isinstance(self.net, nn.Module) else list(self.net)
        own = {"steps": self.schedule.steps, "schedule": self._named or "own"}
        return {"net": net, **own, "form": self.form, "drop": self.drop, **self.learnt_config()}

    @classmethod
    def rebuilt(cls, config: dict[str, Any], net: nn.Module | None) -> Any:
        """See ``Generative``."""
        given = dict(config)
        if given["schedule"] == "own":  # its betas come with what was learnt
            given["schedule"] = "cosine"
        if given["net"] is None:
            given["net"] = ()
        return super().rebuilt(given, net)

    def pack(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """See ``Generative``."""
        tensors, header = super().pack()
        return tensors | {"betas": self.schedule.betas, "errors": self.errors_}, header

    def unpack(
        self, path: Path, tensors: dict[str, Tensor], header: dict[str, Any], net: nn.Module | None
    ) -> None:
        """See ``Generative``."""
        held = dict(tensors)
        betas, errors = held.pop("betas"), held.pop("errors")
        schedule = Schedule(betas)
        if not torch.equal(schedule.betas, self.schedule.betas):
            if schedule.steps != self.schedule.steps:
                raise ValueError("the schedule in the file has another number of steps")
            self.schedule, self._named = schedule, None
        super().unpack(path, held, header, net)
        if errors.shape != (schedule.steps, self.fitted_columns().modelled) or bool(
            (errors < 0).any()
        ):
            raise ValueError("errors in the file are not one for every time and column")
        if not bool(errors.isfinite().all()):
            raise ValueError("errors in the file are not finite")
        self.errors_ = errors
        if self.net == ():
            self.net = self.learner_.net


def inputs_of(schedule: Schedule, z: Tensor, t: Tensor, told: Tensor | None) -> Tensor:
    """What a network is shown: the noised row, the time, and the context."""
    parts = [z, schedule.features(t).to(z.dtype)]
    return torch.cat(parts if told is None else [*parts, told], 1)


def _told(context: Tensor, there: Tensor) -> Tensor:
    """The context, and whether it is there; zeros where it is not."""
    known = there.to(context.dtype).unsqueeze(1)
    return torch.cat([context * known, known], 1)


def _schedule(given: str | Schedule, steps: int) -> tuple[Schedule, str | None]:
    if isinstance(given, Schedule):
        return given, None
    known: dict[str, Callable[[int], Schedule]]
    known = {"cosine": Schedule.cosine, "linear": Schedule.linear}
    if given not in known:
        raise ValueError(f"schedule must be one of {sorted(known)} or a Schedule, got {given!r}")
    return known[given](steps), given
