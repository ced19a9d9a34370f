"""Targets of every step of a sequence, some of which may be missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution
from typing_extensions import override

from tractable.errors import InvalidInput, InvalidTarget
from tractable.likelihoods.base import HeldOut, Likelihood, Traits, require_type
from tractable.likelihoods.composite import Composite, from_config, to_config
from tractable.likelihoods.noise import repeat_targets
from tractable.likelihoods.targets import refuse_gaussian_targets
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
    >>> y = steps.check_targets(torch.tensor([[0, 3, -100]]), torch.Size([1, 3, 3]))
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
        self.traits = Traits(
            learns_noise=found.traits.learns_noise,
            supports_calibration=found.traits.supports_calibration,
            supports_vmap=False,  # members of an ensemble may miss different steps
        )

    @property
    def part(self) -> Likelihood:
        """The likelihood of a step."""
        return self.part_list[0]

    @property
    def outputs(self) -> int:
        """Outputs of the network at each step."""
        return self.part.outputs_needed

    def check_targets(self, y: Tensor, outputs: torch.Size) -> Tensor:
        """Return checked targets; missing steps are NaN or -100."""
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
        there = is_observed(flat, partly=self.part.traits.supports_missing)
        if not bool(there.any()):
            raise InvalidTarget(f"all targets are missing, from row 0 to {len(y) - 1}")
        try:
            own = self.part.check_targets(flat[there], torch.Size([int(there.sum()), outputs[-1]]))
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
        """Return which steps are observed (None: all), their targets and their outputs."""
        steps = outputs[0].ndim - 1
        flat = y.flatten(0, steps - 1)
        each = [z.flatten(0, -2) for z in outputs]
        there = is_observed(flat, partly=self.part.traits.supports_missing)
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

    def conditional(self, z: Tensor) -> Distribution:
        """Return the distribution of all steps of all rows, one after the other."""
        return self.part.conditional(z.flatten(0, -2))

    def log_prob(self, y: Tensor, z: Tensor) -> Tensor:
        """Return the sum over the observed steps."""
        return self._summed(y, self.part.log_prob, z)

    def log_evidence(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Return the sum over the observed steps."""
        return self._summed(y, self.part.log_evidence, mean, variance)

    def curvature(self, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return the curvature of every step in blocks; zero where a step is missing."""
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

    @override
    def messages(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        return self.messages_and_noise(y, mean, variance)[:2]

    @override
    def update_noise(
        self,
        y: Tensor,
        mean: Tensor,
        variance: Tensor,
        *,
        weight: Tensor | None = None,
        memory_rows: float | None = None,
    ) -> dict[str, Tensor]:
        return self.messages_and_noise(y, mean, variance, memory_rows=memory_rows)[2]

    def messages_and_noise(
        self,
        y: Tensor,
        mean: Tensor,
        variance: Tensor,
        *,
        weight: Tensor | None = None,
        memory_rows: float | None = None,
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Return messages and noise of the steps; zero messages where a step is missing."""
        there, own, each = self._rows(y, mean, variance)
        if not len(own):
            nothing = torch.zeros_like(mean)
            return nothing, nothing, {}
        d_mu, d_var, own_noise = self.part.messages_and_noise(own, *each, memory_rows=memory_rows)
        noise = {f"parts.0.{name}": value for name, value in own_noise.items()}
        return _spread(d_mu, there, mean), _spread(d_var, there, mean), noise

    # --- noise -------------------------------------------------------------------------------

    def sufficient_statistics(self, y: Tensor, z: Tensor) -> Tensor | None:
        """Return the statistics of the observed steps."""
        y = repeat_targets(y, z)
        _, own, (outputs,) = self._rows(y, z)
        return self.part.sufficient_statistics(own, outputs) if len(own) else None

    def m_step(self, statistics: Tensor) -> None:
        """Set the noise of the part."""
        self.part.m_step(statistics)

    def held_out_scale(self, held_out: list[HeldOut], *, outliers: bool = False) -> float:
        """Return the noise factor that maximizes the held-out likelihood of the observed steps."""
        found: list[HeldOut] = []
        for likelihood, y, mean, variance in held_out:
            part = require_type(likelihood, PerStep).part
            _, own, (m, v) = self._rows(y, mean, variance)
            found.append(HeldOut(part, own, m, v))
        return self.part.held_out_scale(found, outliers=outliers)

    def rescale(self, scale: float) -> None:
        """Multiply the noise variance of the part."""
        self.part.rescale(scale)

    def predictive(self, mean: Tensor, variance: Tensor) -> StepsPredictive:
        """Return the predictions of the part for every step."""
        if not mean.shape[1:-1].numel():
            raise InvalidInput(
                f"sequences must have at least one step, got outputs of shape {tuple(mean.shape)}"
            )
        found = self.part.predictive(mean.flatten(0, -2), variance.flatten(0, -2))
        return StepsPredictive(found, tuple(mean.shape[1:-1]))

    @override
    def config(self) -> dict[str, Any]:
        return {"part": to_config(self.part)}


def _spread(messages: Tensor, there: Tensor | None, like: Tensor) -> Tensor:
    """Return messages of all steps, zero for missing ones."""
    if there is None:
        return messages.reshape(like.shape)
    full = like.new_zeros(like.shape[:-1].numel(), like.shape[-1])
    full[there] = messages.reshape(len(there), -1).to(full.dtype)
    return full.reshape(like.shape)
