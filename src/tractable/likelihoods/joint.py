"""Several targets of different kinds at once, some of which may be missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from tractable.errors import InvalidTarget
from tractable.likelihoods.base import Likelihood, Messages, refuse_gaussian_targets
from tractable.likelihoods.composite import Composite, from_config, to_config
from tractable.likelihoods.per_step import PerStep
from tractable.predictive.joint import JointPredictive
from tractable.predictive.steps import is_observed


class Joint(Composite):
    """Targets side by side, each with a likelihood of its own, independent given the outputs.

    Targets are the columns of one array, in the order of the parts; the outputs of the network as
    well.  A target that is NaN is missing: it sends no message and counts for nothing, so rows may
    have some targets and not others (several tasks, labels for a few rows).

    Exact: as its parts are.

    Args:
        likelihoods: the parts.
        parts: the same, for a file.
    """

    def __init__(
        self, *likelihoods: Likelihood, parts: Sequence[Likelihood | Mapping[str, Any]] = ()
    ) -> None:
        found = [from_config(part) for part in (*likelihoods, *parts)]
        if len(found) < 2:
            raise ValueError(f"Joint needs at least two likelihoods, got {len(found)}")
        if any(isinstance(part, PerStep) for part in found):
            raise ValueError(
                "a part of Joint must be a likelihood of rows, got PerStep: give "
                "PerStep(Joint(...)) for several targets at every step"
            )
        super().__init__(found)

    @property
    def outputs_needed(self) -> int:
        """See ``Likelihood``."""
        return sum(part.outputs_needed for part in self.part_list)

    @property
    def targets_needed(self) -> int:
        """See ``Likelihood``."""
        return sum(part.targets_needed for part in self.part_list)

    @property
    def takes_missing(self) -> bool:
        """See ``Likelihood``."""
        return True

    @property
    def takes_members(self) -> bool:
        """Which targets are missing differs from member to member."""
        return False

    def targets(self, y: Tensor, outputs: torch.Size) -> Tensor:
        """See ``Likelihood``."""
        refuse_gaussian_targets(y)
        if tuple(outputs[1:]) != (self.outputs_needed,):
            raise ValueError(
                f"the parts need {self.outputs_needed} outputs per row, the network gives "
                f"{tuple(outputs[1:])}"
            )
        if y.shape != (outputs[0], self.targets_needed):
            raise InvalidTarget(
                f"the parts have {self.targets_needed} targets per row, got shape {tuple(y.shape)} "
                f"for {outputs[0]} rows"
            )
        y = y if y.is_floating_point() else y.to(torch.get_default_dtype())
        if not bool((~y.isnan()).any()):
            raise InvalidTarget(f"all targets are missing, from row 0 to {len(y) - 1}")
        for part, rows, own, _ in self._pieces(y, torch.zeros(outputs, device=y.device)):
            try:
                self._checked(part, own)
            except ValueError as error:
                missing = len(rows) - len(own)
                note = f" (rows counted without {missing} missing ones)" if missing else ""
                raise InvalidTarget(f"{type(part).__name__}: {error}{note}") from error
        return y

    def _pieces(
        self, y: Tensor, *outputs: Tensor
    ) -> Iterator[tuple[Likelihood, Tensor, Tensor, list[Tensor]]]:
        """For each part: itself, which rows are there, their targets and their outputs."""
        column = first = 0
        for part in self.part_list:
            own = y[:, column : column + part.targets_needed]
            there = is_observed(own, partly=part.takes_missing)
            slices = [z[:, first : first + part.outputs_needed] for z in outputs]
            column, first = column + part.targets_needed, first + part.outputs_needed
            yield part, there, own[there], [z[there] for z in slices]

    def _checked(self, part: Likelihood, own: Tensor) -> Tensor:
        """Targets as the part takes them: labels become whole numbers again."""
        return part.targets(own, torch.Size([len(own), part.outputs_needed]))

    def _summed(
        self, y: Tensor, ask: Callable[..., Tensor], like: Tensor, *outputs: Tensor
    ) -> Tensor:
        total = like.new_zeros(len(y))
        for part, there, own, mine in self._pieces(y, *outputs):
            if len(own):
                found = ask(part, self._checked(part, own), *mine).to(like.dtype)
                total = total.index_add(0, torch.nonzero(there).flatten(), found)
        return total

    def log_prob(self, y: Tensor, z: Tensor) -> Tensor:
        """Sum over the targets that are there."""
        return self._summed(y, lambda part, *at: part.log_prob(*at), z, z)

    def log_evidence(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Sum over the targets that are there."""
        return self._summed(y, lambda part, *at: part.log_evidence(*at), mean, mean, variance)

    def curvature(self, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """Each part's own, in blocks; zero where a target is missing."""
        first = torch.zeros_like(z)
        second = z.new_zeros(*z.shape, z.shape[1])
        column = 0
        for part, there, own, (mine,) in self._pieces(y, z):
            if len(own):
                slope, bend = part.curvature(self._checked(part, own), mine)
                rows = torch.nonzero(there)
                columns = torch.arange(column, column + mine.shape[1], device=z.device)
                first[rows, columns] = slope
                second[rows.unsqueeze(2), columns.unsqueeze(1), columns] = bend
            column += part.outputs_needed
        return first, second

    def messages(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Each part's own; nothing where a target is missing."""
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
        first, second = torch.zeros_like(mean), torch.zeros_like(mean)
        noise: dict[str, Tensor] = {}
        column = 0
        for k, (part, there, own, (m, v)) in enumerate(self._pieces(y, mean, variance)):
            if len(own):
                heard = part.hear(self._checked(part, own), m, v, memory_rows=memory_rows)
                rows = torch.nonzero(there)
                columns = torch.arange(column, column + m.shape[1], device=m.device)
                first[rows, columns], second[rows, columns] = heard.d_mu, heard.d_var
                noise |= {f"parts.{k}.{name}": value for name, value in heard.noise.items()}
            column += part.outputs_needed
        return Messages(first, second, second, noise)

    def update_noise(
        self, y: Tensor, mean: Tensor, variance: Tensor, *, memory_rows: float | None = None
    ) -> dict[str, Tensor]:
        """The parts' own."""
        return self.hear(y, mean, variance, memory_rows=memory_rows).noise

    # --- noise -----------------------------------------------------------------------------

    @property
    def has_learnable_noise(self) -> bool:
        """Whether a part learns one."""
        return any(part.has_learnable_noise for part in self.part_list)

    def sufficient_statistics(self, y: Tensor, z: Tensor) -> Tensor | None:
        """The parts' statistics one after the other."""
        if not self.has_learnable_noise:
            return None
        y = y.repeat(len(z) // len(y), 1)
        found = []
        for part, _, own, (mine,) in self._pieces(y, z):
            if not part.has_learnable_noise:
                continue
            empty = self._empty(part)
            seen = part.sufficient_statistics(self._checked(part, own), mine) if len(own) else None
            found.append((empty if seen is None else seen).flatten().double().to(z.device))
        return torch.cat(found)

    def _empty(self, part: Likelihood) -> Tensor:
        """No statistics of a part, in their shape."""
        y = self._checked(part, torch.zeros(1, part.targets_needed))
        seen = part.sufficient_statistics(y, torch.zeros(1, part.outputs_needed))
        assert seen is not None
        return torch.zeros_like(seen, dtype=torch.float64)

    def m_step(self, statistics: Tensor) -> None:
        """Each part's own; one whose targets were all missing keeps its noise."""
        start = 0
        for part in self.part_list:
            if part.has_learnable_noise:
                shape = self._empty(part).shape
                mine = statistics[start : start + shape.numel()]
                start += shape.numel()
                if bool(mine.any()):
                    part.m_step(mine.reshape(shape))

    def predictive(self, mean: Tensor, variance: Tensor) -> JointPredictive:
        """The parts' predictions, side by side."""
        found, first = [], 0
        for part in self.part_list:
            columns = slice(first, first + part.outputs_needed)
            found.append(part.predictive(mean[:, columns], variance[:, columns]))
            first += part.outputs_needed
        return JointPredictive(tuple(found), tuple(part.targets_needed for part in self.part_list))

    def config(self) -> dict[str, Any]:
        """See ``Likelihood``."""
        return {"parts": [to_config(part) for part in self.part_list]}
