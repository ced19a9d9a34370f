"""Targets of every step of a sequence, some of which may be missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from tractable.errors import InvalidInput, InvalidTarget
from tractable.likelihoods.base import (
    HeldOut,
    Likelihood,
    Messages,
    refuse_gaussian_targets,
    require_type,
)
from tractable.likelihoods.composite import Composite, from_config, to_config
from tractable.predictive import StepsPredictive
from tractable.predictive.steps import NO_LABEL, is_observed


class PerStep(Composite):
    """One likelihood for each step of a sequence, independent given the outputs.

    The network returns ``[rows, steps, outputs of a step]``; several dimensions of steps (the
    pixels of an image) are as good.  Targets are ``[rows, steps]``, or ``[rows, steps, ...]`` where
    a step has several.  A step whose target is NaN, or the label -100 (torch's own for "ignore"),
    is missing: it sends no message and counts for nothing, which is what padding is.

    Exact: as its part is.

    Args:
        likelihood: the likelihood of a step.

    >>> from tractable.likelihoods import Categorical
    >>> steps = PerStep(Categorical(4))
    >>> y = steps.targets(torch.tensor([[0, 3, -100]]), torch.Size([1, 3, 3]))
    >>> steps.messages(y, torch.zeros(1, 3, 3), torch.ones(1, 3, 3))[0].abs().sum(-1) > 0
    tensor([[ True,  True, False]])
    """

    def __init__(
        self,
        likelihood: Likelihood | None = None,
        *,
        part: Likelihood | Mapping[str, Any] | None = None,
    ) -> None:
        given = likelihood if part is None else part
        if given is None:
            raise TypeError("PerStep needs the likelihood of a step")
        found = from_config(given)
        if isinstance(found, PerStep):
            raise TypeError("PerStep takes several dimensions of steps: there is no need of two")
        super().__init__([found])

    @property
    def part(self) -> Likelihood:
        """The likelihood of a step."""
        return self.part_list[0]

    @property
    def outputs(self) -> int:
        """Outputs of the network at each step."""
        return self.part.outputs_needed

    @property
    def takes_members(self) -> bool:
        """Which steps are missing differs from member to member."""
        return False

    def targets(self, y: Tensor, outputs: torch.Size) -> Tensor:
        """See ``Likelihood``; missing steps stay marked."""
        refuse_gaussian_targets(y)
        if len(outputs) < 3:
            raise InvalidTarget(
                f"PerStep needs outputs of shape (rows, steps, outputs of a step), the network "
                f"gives {tuple(outputs)}: it may have kept the last step only"
            )
        steps = len(outputs) - 1
        if y.shape[:steps] != outputs[:-1]:
            raise InvalidTarget(
                f"targets must have one entry for each of the {tuple(outputs[:-1])} rows and "
                f"steps, got shape {tuple(y.shape)}"
            )
        flat = y.flatten(0, steps - 1)
        there = is_observed(flat, partly=self.part.takes_missing)
        if not bool(there.any()):
            raise InvalidTarget(f"all targets are missing, from row 0 to {len(y) - 1}")
        try:
            own = self.part.targets(flat[there], torch.Size([int(there.sum()), outputs[-1]]))
        except ValueError as error:
            missing = int((~there).sum())
            note = f" (steps counted without {missing} missing ones)" if missing else ""
            raise InvalidTarget(f"step by step, {error}{note}") from error
        empty = torch.nan if own.is_floating_point() else NO_LABEL
        full = own.new_full((len(flat), *own.shape[1:]), empty)
        full[there] = own
        return full.reshape(*outputs[:-1], *own.shape[1:])

    # --- steps as rows -----------------------------------------------------------------------

    def _rows(self, y: Tensor, *outputs: Tensor) -> tuple[Tensor | None, Tensor, list[Tensor]]:
        """Which steps are there (None: all), their targets and their outputs."""
        steps = outputs[0].ndim - 1
        flat = y.flatten(0, steps - 1)
        each = [z.flatten(0, -2) for z in outputs]
        there = is_observed(flat, partly=self.part.takes_missing)
        if bool(there.all()):
            return None, flat, each
        found = torch.nonzero(there).flatten()
        return found, flat[found], [z[found] for z in each]

    def _summed(self, y: Tensor, ask: Callable[..., Tensor], *outputs: Tensor) -> Tensor:
        there, own, each = self._rows(y, *outputs)
        shape = outputs[0].shape[:-1]
        if not len(own):
            return outputs[0].new_zeros(shape[0])
        found = ask(own, *each)
        if there is not None:
            found = found.new_zeros(shape.numel()).index_put((there,), found)
        return found.reshape(shape[0], -1).sum(1)

    def log_prob(self, y: Tensor, z: Tensor) -> Tensor:
        """Sum over the steps that are there."""
        return self._summed(y, self.part.log_prob, z)

    def log_evidence(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Sum over the steps that are there."""
        return self._summed(y, self.part.log_evidence, mean, variance)

    def curvature(self, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """The part's own at every step, in blocks; zero where a step is missing."""
        there, own, (mine,) = self._rows(y, z)
        rows, size = len(z), z.shape[-1]
        blocks = z.new_zeros(z.shape[:-1].numel(), size, size)
        first = z.new_zeros(z.shape[:-1].numel(), size)
        if len(own):
            slope, bend = self.part.curvature(own, mine)
            at = slice(None) if there is None else there
            first[at], blocks[at] = slope, bend
        steps = len(blocks) // rows
        second = z.new_zeros(rows, steps, size, steps, size)
        same = torch.arange(steps, device=z.device)
        second[:, same, :, same] = blocks.reshape(rows, steps, size, size).transpose(0, 1)
        return first.reshape(rows, -1), second.reshape(rows, steps * size, steps * size)

    def messages(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Those of the part; nothing where a step is missing."""
        heard = self.hear(y, mean, variance)
        return heard.d_mu, heard.d_var

    def hear(
        self,
        y: Tensor,
        mean: Tensor,
        variance: Tensor,
        *,
        weight: Tensor | None = None,
        memory_rows: float | None = None,
    ) -> Messages:
        """See ``Likelihood``."""
        there, own, each = self._rows(y, mean, variance)
        if not len(own):
            nothing = torch.zeros_like(mean)
            return Messages(nothing, nothing, nothing, {})
        heard = self.part.hear(own, *each, memory_rows=memory_rows)
        d_mu, d_var, believed = (
            _spread(d, there, mean) for d in (heard.d_mu, heard.d_var, heard.unweighted_d_var)
        )
        noise = {f"parts.0.{name}": value for name, value in heard.noise.items()}
        return Messages(d_mu, d_var, believed, noise)

    def update_noise(
        self, y: Tensor, mean: Tensor, variance: Tensor, *, memory_rows: float | None = None
    ) -> dict[str, Tensor]:
        """The part's own."""
        return self.hear(y, mean, variance, memory_rows=memory_rows).noise

    # --- noise -------------------------------------------------------------------------------

    @property
    def has_learnable_noise(self) -> bool:
        """Whether the part learns one."""
        return self.part.has_learnable_noise

    def sufficient_statistics(self, y: Tensor, z: Tensor) -> Tensor | None:
        """Of the steps that are there."""
        y = y.repeat(len(z) // len(y), *[1] * (y.ndim - 1))
        _, own, (outputs,) = self._rows(y, z)
        return self.part.sufficient_statistics(own, outputs) if len(own) else None

    def m_step(self, statistics: Tensor) -> None:
        """The part's own."""
        self.part.m_step(statistics)

    @property
    def can_calibrate(self) -> bool:
        """Whether the part can."""
        return self.part.can_calibrate

    def held_out_scale(self, held_out: list[HeldOut], *, outliers: bool = False) -> float:
        """Of the steps that are there."""
        found: list[HeldOut] = []
        for likelihood, y, mean, variance in held_out:
            part = require_type(likelihood, PerStep).part
            _, own, (m, v) = self._rows(y, mean, variance)
            found.append((part, own, m, v))
        return self.part.held_out_scale(found, outliers=outliers)

    def rescale(self, scale: float) -> None:
        """The part's own."""
        self.part.rescale(scale)

    def predictive(self, mean: Tensor, variance: Tensor) -> StepsPredictive:
        """What the part predicts for every step."""
        if not mean.shape[1:-1].numel():
            raise InvalidInput(
                f"sequences must have at least one step, got outputs of shape {tuple(mean.shape)}"
            )
        found = self.part.predictive(mean.flatten(0, -2), variance.flatten(0, -2))
        return StepsPredictive(found, tuple(mean.shape[1:-1]))

    def config(self) -> dict[str, Any]:
        """See ``Likelihood``."""
        return {"part": to_config(self.part)}


def _spread(messages: Tensor, there: Tensor | None, like: Tensor) -> Tensor:
    """Messages of the steps that are there, among those that are not."""
    if there is None:
        return messages.reshape(like.shape)
    full = like.new_zeros(like.shape[:-1].numel(), like.shape[-1])
    full[there] = messages.reshape(len(there), -1).to(full.dtype)
    return full.reshape(like.shape)
