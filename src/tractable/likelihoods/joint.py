"""Several targets of different kinds at once, some of which may be missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor
from typing_extensions import override

from tractable.errors import InvalidTarget
from tractable.likelihoods.base import Likelihood, Traits
from tractable.likelihoods.composite import Composite, from_config, to_config
from tractable.likelihoods.per_step import PerStep
from tractable.likelihoods.targets import refuse_gaussian_targets
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
        self.traits = Traits(
            learns_noise=any(part.traits.learns_noise for part in found),
            supports_missing=True,
            supports_vmap=False,  # members of an ensemble may miss different targets
        )

    @property
    @override
    def outputs_needed(self) -> int:
        return sum(part.outputs_needed for part in self.part_list)

    @property
    @override
    def targets_needed(self) -> int:
        return sum(part.targets_needed for part in self.part_list)

    @override
    def check_targets(self, y: Tensor, outputs: torch.Size) -> Tensor:
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
        """Yield each part, which rows have its targets, their targets and their outputs."""
        column = first = 0
        for part in self.part_list:
            own = y[:, column : column + part.targets_needed]
            there = is_observed(own, partly=part.traits.supports_missing)
            slices = [z[:, first : first + part.outputs_needed] for z in outputs]
            column, first = column + part.targets_needed, first + part.outputs_needed
            yield part, there, own[there], [z[there] for z in slices]

    def _checked(self, part: Likelihood, own: Tensor) -> Tensor:
        """Return targets as the part expects them: labels become integers again."""
        return part.check_targets(own, torch.Size([len(own), part.outputs_needed]))

    def _summed(
        self, y: Tensor, ask: Callable[..., Tensor], like: Tensor, *outputs: Tensor
    ) -> Tensor:
        total = like.new_zeros(len(y))
        for part, there, own, mine in self._pieces(y, *outputs):
            if len(own):
                found = ask(part, self._checked(part, own), *mine).to(like.dtype)
                total = total.index_add(0, torch.nonzero(there).flatten(), found)
        return total

    def conditional(self, z: Tensor) -> NoReturn:
        """Raise ``TypeError``: the parts have distributions of different kinds."""
        raise TypeError("Joint has no single conditional distribution: ask its part_list")

    def log_prob(self, y: Tensor, z: Tensor) -> Tensor:
        """Return the sum over the observed targets."""
        return self._summed(y, lambda part, *at: part.log_prob(*at), z, z)

    def log_evidence(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Return the sum over the observed targets."""
        return self._summed(y, lambda part, *at: part.log_evidence(*at), mean, mean, variance)

    def curvature(self, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return the curvature of each part in blocks; zero where a target is missing."""
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
        """Return messages and noise of each part; zero messages where a target is missing."""
        first, second = torch.zeros_like(mean), torch.zeros_like(mean)
        noise: dict[str, Tensor] = {}
        column = 0
        for k, (part, there, own, (m, v)) in enumerate(self._pieces(y, mean, variance)):
            if len(own):
                targets = self._checked(part, own)
                d_mu, d_var, own_noise = part.messages_and_noise(
                    targets, m, v, memory_rows=memory_rows
                )
                rows = torch.nonzero(there)
                columns = torch.arange(column, column + m.shape[1], device=m.device)
                first[rows, columns], second[rows, columns] = d_mu, d_var
                noise |= {f"parts.{k}.{name}": value for name, value in own_noise.items()}
            column += part.outputs_needed
        return first, second, noise

    # --- noise -----------------------------------------------------------------------------

    def sufficient_statistics(self, y: Tensor, z: Tensor) -> Tensor | None:
        """Return the statistics of the parts one after the other."""
        if not self.traits.learns_noise:
            return None
        y = y.repeat(len(z) // len(y), 1)
        found = []
        for part, _, own, (mine,) in self._pieces(y, z):
            if not part.traits.learns_noise:
                continue
            empty = self._empty(part)
            own_statistics = None
            if len(own):
                own_statistics = part.sufficient_statistics(self._checked(part, own), mine)
            found.append(
                (empty if own_statistics is None else own_statistics)
                .flatten()
                .double()
                .to(z.device)
            )
        return torch.cat(found)

    def _empty(self, part: Likelihood) -> Tensor:
        """Return zeros in the shape of the statistics of a part."""
        y = self._checked(part, torch.zeros(1, part.targets_needed))
        found = part.sufficient_statistics(y, torch.zeros(1, part.outputs_needed))
        assert found is not None
        return torch.zeros_like(found, dtype=torch.float64)

    def m_step(self, statistics: Tensor) -> None:
        """Set the noise of each part; a part without observed targets keeps its noise."""
        start = 0
        for part in self.part_list:
            if part.traits.learns_noise:
                shape = self._empty(part).shape
                mine = statistics[start : start + shape.numel()]
                start += shape.numel()
                if bool(mine.any()):
                    part.m_step(mine.reshape(shape))

    def predictive(self, mean: Tensor, variance: Tensor) -> JointPredictive:
        """Return the predictions of the parts side by side."""
        found, first = [], 0
        for part in self.part_list:
            columns = slice(first, first + part.outputs_needed)
            found.append(part.predictive(mean[:, columns], variance[:, columns]))
            first += part.outputs_needed
        return JointPredictive(tuple(found), tuple(part.targets_needed for part in self.part_list))

    @override
    def config(self) -> dict[str, Any]:
        return {"parts": [to_config(part) for part in self.part_list]}
