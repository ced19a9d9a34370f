"""A noise parameter that is learned with the weights, by online EM.

A likelihood with a scale, a total count or a concentration has a sufficient statistic for it, whose
mean over the rows gives the parameter of maximum likelihood.  For Gaussian outputs the statistic is
its expectation under their posterior.  TAGI averages it over the rows in their order (Cappe &
Moulines, "On-line expectation-maximization algorithm for latent data models", 2009); the
gradient-based learners sum it over an epoch with sampled outputs.

Exact: the expected statistic and the parameter that follows from it.
Approximate: the parameter is a point estimate, without a posterior distribution.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import replace

import torch
from torch import Tensor
from typing_extensions import override

from tractable.likelihoods.base import HeldOut, Likelihood, Traits
from tractable.likelihoods.calibration import calibrated_scale
from tractable.likelihoods.noise import repeat_targets
from tractable.likelihoods.targets import real_targets

PRIOR_ROWS = 10.0
"""Number of rows that the initial value counts as."""
MAX_ROWS = 1000.0
"""Largest effective number of rows of an average: outputs of earlier rows were less accurate."""


def effective_rows(rows: Tensor, memory_rows: float | None) -> Tensor:
    """Return how many rows an average over ``rows`` rows still counts.

    Args:
        rows: rows that were averaged so far.
        memory_rows: effective number of rows that the noise remembers.  Default: ``MAX_ROWS``.
    """
    return rows.clamp(max=MAX_ROWS if memory_rows is None else min(memory_rows, MAX_ROWS))


class OnlineEM(Likelihood):
    """One noise parameter per output, which is fixed or learned.

    A subclass implements ``expected_statistic``, ``parameter_from_statistic``,
    ``statistic_from_parameter`` and ``rescale``, besides what a ``Likelihood`` needs.

    Args:
        fixed_value: the parameter.  None: it is learned.
        outputs: number of targets per row, each with its own parameter.
        statistic: initial value of the statistic.
        name: name of the parameter, an argument of the constructor.
    """

    traits = Traits(supports_calibration=True)
    statistic: Tensor
    parameter: Tensor
    rows: Tensor

    def __init__(
        self, fixed_value: float | None, outputs: int, statistic: float, name: str
    ) -> None:
        super().__init__()
        if fixed_value is not None and not (math.isfinite(fixed_value) and fixed_value > 0):
            raise ValueError(f"{name} must be a positive number, got {fixed_value}")
        if outputs < 1:
            raise ValueError(f"outputs must be at least 1, got {outputs}")
        self.fixed_value, self.outputs, self.parameter_name = fixed_value, outputs, name
        self.traits = replace(self.traits, learns_noise=fixed_value is None)
        start = torch.full((outputs,), statistic, dtype=torch.float64)
        self.register_buffer("statistic", start)
        if fixed_value is None:
            value = self.parameter_from_statistic(start)
        else:
            value = torch.full_like(start, fixed_value)
        self.register_buffer("parameter", value)
        self.register_buffer("rows", torch.tensor(PRIOR_ROWS, dtype=torch.float64))

    # --- to implement ----------------------------------------------------------------------

    @abstractmethod
    def expected_statistic(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Return the statistic of every target, expected under the posterior of the outputs."""

    @abstractmethod
    def parameter_from_statistic(self, statistic: Tensor) -> Tensor:
        """Return the parameter of maximum likelihood, given the mean of the statistic.

        Args:
            statistic: mean of the statistic over the rows, ``[outputs]``.
        """

    @abstractmethod
    def statistic_from_parameter(self, parameter: Tensor) -> Tensor:
        """Return the inverse of ``parameter_from_statistic``.

        Args:
            parameter: the noise parameter, ``[outputs]``.
        """

    @abstractmethod
    def rescale(self, scale: float) -> None:
        """Multiply the noise variance, by means of ``set_parameter``."""

    # --- learning --------------------------------------------------------------------------

    @property
    def noise(self) -> dict[str, Tensor]:
        """The parameter of each output."""
        return {self.parameter_name: self.parameter}

    @property
    def targets_needed(self) -> int:
        """Number of targets per row."""
        return self.outputs

    def check_outputs(self, outputs: torch.Size) -> None:
        """Raise ``ValueError`` if the network's outputs do not have a parameter each."""
        if self.traits.learns_noise and outputs[-1] != self.outputs:
            raise ValueError(
                f"the network has {outputs[-1]} outputs and the likelihood {self.outputs}: "
                f"give {type(self).__name__}(outputs={outputs[-1]})"
            )

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
        if not self.traits.learns_noise:
            return {}
        statistic = self.expected_statistic(y.double(), mean.double(), variance.double())
        return self.online_average(statistic, memory_rows=memory_rows)

    def online_average(
        self,
        statistic: Tensor,
        *,
        responsibility: Tensor | None = None,
        memory_rows: float | None = None,
    ) -> dict[str, Tensor]:
        """Return the buffers after the statistics of a batch were added to the average.

        Args:
            statistic: expected statistic of every target, ``[rows, ..., outputs]``.
            responsibility: share of each row that this likelihood explains, as a component of a
                mixture.  Default: 1.
            memory_rows: effective number of rows that the noise remembers.  Default: all.
        """
        by_row = statistic.reshape(-1, statistic.shape[-1])
        if responsibility is None:
            number = torch.full_like(self.rows, len(by_row))
            mean = by_row.mean(0)
        else:
            share = responsibility.double().reshape(-1, *[1] * (statistic.ndim - 1))
            share = share.expand_as(statistic).reshape(by_row.shape)[:, :1]
            number = share.sum()
            mean = (share * by_row).sum(0) / number.clamp_min(1e-30)
        rows = effective_rows(self.rows, memory_rows)
        gain = number / (rows + number)
        average = self.statistic + gain * (mean.expand_as(self.statistic) - self.statistic)
        return {
            "statistic": average,
            "parameter": self.parameter_from_statistic(average),
            "rows": rows + number,
        }

    def sufficient_statistics(self, y: Tensor, z: Tensor) -> Tensor | None:
        """Return the statistics summed over the rows, and the number of rows."""
        if not self.traits.learns_noise:
            return None
        y, z = repeat_targets(y, z).double(), z.double()
        by_row = self.expected_statistic(y, z, torch.zeros_like(z)).reshape(-1, self.outputs)
        return torch.cat([by_row.sum(0), by_row.new_tensor([len(by_row)])])

    def m_step(self, statistics: Tensor) -> None:
        """Set the parameter of maximum expected likelihood, and the number of rows behind it."""
        self.statistic = statistics[:-1] / statistics[-1]
        self.parameter = self.parameter_from_statistic(self.statistic)
        self.rows = statistics[-1].clone()  # so that a later online row weighs no more than others

    # --- held-out rows ---------------------------------------------------------------------

    def held_out_scale(self, held_out: list[HeldOut], *, outliers: bool = False) -> float:
        """Return the factor of maximum held-out likelihood; ``outliers`` has no effect."""
        return calibrated_scale(held_out)

    def held_out_log_prob(
        self, y: Tensor, mean: Tensor, variance: Tensor, *, outliers: bool = False
    ) -> Tensor:
        """Return the log evidence of each row, which is the log density of its prediction."""
        return self.log_evidence(y, mean.double(), variance.double())

    def set_parameter(self, parameter: Tensor) -> None:
        """Set the parameter together with its statistic, so that later updates start from it."""
        self.parameter = parameter
        self.statistic = self.statistic_from_parameter(parameter)

    def check_buffers(self, values: dict[str, Tensor]) -> None:
        """Check in addition that the noise parameter and the number of rows are positive."""
        super().check_buffers(values)
        for name in ("parameter", "rows"):
            if bool((values[name] <= 0).any()):
                raise ValueError(f"{name} of the noise must be positive")


class OnlineScale(OnlineEM):
    """Real numbers around their outputs, with a scale that is fixed or learned."""

    traits = Traits(supports_calibration=True, supports_extra_variance=True)

    @property
    def scale(self) -> Tensor:
        """Scale of each output."""
        return self.parameter

    @override
    def check_targets(self, y: Tensor, outputs: torch.Size) -> Tensor:
        self.check_outputs(outputs)
        return real_targets(y, outputs)

    def rescale(self, scale: float) -> None:
        """Multiply the noise variance, that is, the square of the scale."""
        self.set_parameter(self.parameter * scale**0.5)
