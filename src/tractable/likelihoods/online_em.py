"""A noise that is learnt beside the weights: online EM.

A likelihood with a scale, a dispersion or a concentration has a sufficient statistic for it, whose
mean over the rows gives the parameter of greatest likelihood.  Given Gaussian outputs the statistic
is expected under their posterior.  TAGI averages it over rows as they come (Cappe & Moulines,
"On-line expectation-maximization algorithm for latent data models", 2009); the gradient learners
sum it over an epoch with drawn outputs.

Exact: the expected statistic and the parameter that belongs to it.
Approximate: the parameter is a point, without a posterior of its own.
"""

from __future__ import annotations

import math
from abc import abstractmethod

import torch
from torch import Tensor

from tractable.likelihoods.base import HeldOut, Likelihood, real_targets
from tractable.likelihoods.calibration import calibrated_scale

PRIOR_ROWS = 10.0
"""Rows that the first guess counts for."""
MAX_ROWS = 1000.0
"""Rows that an average reaches back at most: outputs of long ago were not yet learnt."""


def effective_rows(rows: Tensor, memory_rows: float | None) -> Tensor:
    """How many of the rows seen an average still counts."""
    return rows.clamp(max=MAX_ROWS if memory_rows is None else min(memory_rows, MAX_ROWS))


class OnlineEM(Likelihood):
    """One parameter of the noise per output, given or learnt.

    A subclass implements ``expected_statistic``, ``parameter_from_statistic``,
    ``statistic_from_parameter`` and ``rescale``, besides what a ``Likelihood`` needs.

    Args:
        given: the parameter, or None to learn it.
        outputs: number of targets in a row, each with a parameter of its own.
        first: statistic to begin with.
        name: what the parameter is called.
    """

    statistic: Tensor
    parameter: Tensor
    rows: Tensor

    def __init__(self, given: float | None, outputs: int, first: float, name: str) -> None:
        super().__init__()
        if given is not None and not (math.isfinite(given) and given > 0):
            raise ValueError(f"{name} must be a positive number, got {given}")
        if outputs < 1:
            raise ValueError(f"outputs must be at least 1, got {outputs}")
        self.fixed_value, self.outputs = given, outputs
        start = torch.full((outputs,), first, dtype=torch.float64)
        self.register_buffer("statistic", start)
        value = (
            self.parameter_from_statistic(start) if given is None else torch.full_like(start, given)
        )
        self.register_buffer("parameter", value)
        self.register_buffer("rows", torch.tensor(PRIOR_ROWS, dtype=torch.float64))

    # --- to supply -------------------------------------------------------------------------

    @abstractmethod
    def expected_statistic(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """The statistic of every target, expected under the outputs' posterior."""

    @abstractmethod
    def parameter_from_statistic(self, statistic: Tensor) -> Tensor:
        """The parameter of greatest likelihood, given the mean of the statistic."""

    @abstractmethod
    def statistic_from_parameter(self, parameter: Tensor) -> Tensor:
        """Return the inverse of ``parameter_from_statistic``."""

    # --- what follows ----------------------------------------------------------------------

    @property
    def learns(self) -> bool:
        """Whether the parameter is learnt from the data."""
        return self.fixed_value is None

    @property
    def targets_needed(self) -> int:
        """See ``Likelihood``."""
        return self.outputs

    @property
    def has_learnable_noise(self) -> bool:
        """A parameter that is given stays."""
        return self.learns

    def check_outputs(self, outputs: torch.Size) -> None:
        """Refuse a network whose outputs have no parameter each."""
        if self.learns and outputs[-1] != self.outputs:
            raise ValueError(
                f"the network has {outputs[-1]} outputs and the likelihood {self.outputs}: "
                f"give {type(self).__name__}(outputs={outputs[-1]})"
            )

    def update_noise(
        self,
        y: Tensor,
        mean: Tensor,
        variance: Tensor,
        *,
        weight: Tensor | None = None,
        memory_rows: float | None = None,
    ) -> dict[str, Tensor]:
        """New values of the buffers; ``weight`` says how much each row counts."""
        if not self.learns:
            return {}
        seen = self.expected_statistic(y.double(), mean.double(), variance.double())
        return self.online_average(seen, weight=weight, memory_rows=memory_rows)

    def online_average(
        self, seen: Tensor, *, weight: Tensor | None = None, memory_rows: float | None = None
    ) -> dict[str, Tensor]:
        """The average with the statistics of a batch in it, and the parameter of that."""
        by_row = seen.reshape(-1, seen.shape[-1])
        if weight is None:
            number = torch.full_like(self.rows, len(by_row))
            mean = by_row.mean(0)
        else:
            share = weight.double().reshape(-1, *[1] * (seen.ndim - 1)).expand_as(seen)
            share = share.reshape(by_row.shape)[:, :1]
            number = share.sum()
            mean = (share * by_row).sum(0) / number.clamp_min(1e-30)
        rows = effective_rows(self.rows, memory_rows)
        gain = number / (rows + number)
        statistic = self.statistic + gain * (mean.expand_as(self.statistic) - self.statistic)
        return {
            "statistic": statistic,
            "parameter": self.parameter_from_statistic(statistic),
            "rows": rows + number,
        }

    def sufficient_statistics(self, y: Tensor, z: Tensor) -> Tensor | None:
        """The statistics summed over the rows, and the number of rows."""
        if not self.learns:
            return None
        y = y.repeat(len(z) // len(y), *[1] * (y.ndim - 1)).double()
        z = z.double()
        seen = self.expected_statistic(y, z, torch.zeros_like(z)).reshape(-1, self.outputs)
        return torch.cat([seen.sum(0), seen.new_tensor([len(seen)])])

    def m_step(self, statistics: Tensor) -> None:
        """The parameter of greatest expected likelihood, with the rows that it was learnt from."""
        self.statistic = statistics[:-1] / statistics[-1]
        self.parameter = self.parameter_from_statistic(self.statistic)
        self.rows = statistics[-1].clone()  # so that one row online weighs no more than others

    # --- held-out rows ---------------------------------------------------------------------

    def held_out_scale(self, held_out: list[HeldOut], *, outliers: bool = False) -> float:
        """See ``Likelihood``; tails are the likelihood's own."""
        return calibrated_scale(held_out)

    def held_out_log_prob(
        self, y: Tensor, mean: Tensor, variance: Tensor, *, outliers: bool = False
    ) -> Tensor:
        """See ``Likelihood``; the evidence is the prediction's density."""
        return self.log_evidence(y, mean.double(), variance.double())

    @abstractmethod
    def rescale(self, scale: float) -> None:
        """See ``Likelihood``; by ``set_parameter``."""

    def set_parameter(self, parameter: Tensor) -> None:
        """Set the parameter together with its statistic, so that later updates start from it."""
        self.parameter = parameter
        self.statistic = self.statistic_from_parameter(parameter)

    def check_buffers(self, values: dict[str, Tensor]) -> None:
        """A scale is positive, and so is a number of rows."""
        super().check_buffers(values)
        for name in ("parameter", "rows"):
            if bool((values[name] <= 0).any()):
                raise ValueError(f"{name} of the noise must be positive")


class OnlineScale(OnlineEM):
    """Real numbers that scatter around their outputs, with a scale that is given or learnt."""

    @property
    def scale(self) -> Tensor:
        """The scale of every output."""
        return self.parameter

    @property
    def can_widen(self) -> bool:
        """See ``Likelihood``."""
        return True

    def targets(self, y: Tensor, outputs: torch.Size) -> Tensor:
        """See ``Likelihood``."""
        self.check_outputs(outputs)
        return real_targets(y, outputs)

    def rescale(self, scale: float) -> None:
        """See ``Likelihood``; the square of a scale goes with the variance."""
        self.set_parameter(self.parameter * scale**0.5)
