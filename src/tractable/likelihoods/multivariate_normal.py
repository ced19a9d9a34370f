"""Several numbers with correlated noise.

With a diagonal ``V`` of output variances and the noise covariance ``R`` the evidence is
``N(y; mean, V + R)``, and with ``P = (V + R)^-1`` the messages are ``P (y - mean)`` and
``-diag P``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, distributions
from typing_extensions import override

from tractable.likelihoods.base import Likelihood, Traits
from tractable.likelihoods.noise import repeat_targets
from tractable.likelihoods.online_em import PRIOR_ROWS, effective_rows
from tractable.likelihoods.targets import real_targets
from tractable.predictive.multivariate_normal import (
    MultivariateNormalPredictive,
    log_normal_density,
)

_MIN_VARIANCE = 1e-8


class MultivariateNormal(Likelihood):
    """``y = z + v`` with ``v ~ N(0, R)``: noise that is correlated between the targets of a row.

    Exact: the evidence, the messages and the expected statistic of ``R``.
    Approximate: ``R`` is a point, without a posterior of its own.

    Args:
        outputs: number of targets in a row, at least two.
        covariance: R.  Default: learned (for targets of about unit scale).
    """

    covariance: Tensor
    rows: Tensor

    def __init__(self, outputs: int, covariance: list[list[float]] | None = None) -> None:
        super().__init__()
        if outputs < 2:
            raise ValueError(f"outputs must be at least 2 (else use Normal), got {outputs}")
        self.outputs, self.fixed_value = outputs, covariance
        self.traits = Traits(learns_noise=covariance is None, supports_extra_variance=True)
        start = torch.eye(outputs, dtype=torch.float64)
        if covariance is not None:
            start = torch.as_tensor(covariance, dtype=torch.float64)
            square = start.shape == (outputs, outputs) and torch.equal(start, start.T)
            if not square or int(torch.linalg.cholesky_ex(start)[1]):
                raise ValueError(
                    f"covariance must be a symmetric, positive definite matrix of {outputs} rows"
                )
        self.register_buffer("covariance", start)
        self.register_buffer("rows", torch.tensor(PRIOR_ROWS, dtype=torch.float64))

    @property
    @override
    def targets_needed(self) -> int:
        return self.outputs

    @override
    def check_targets(self, y: Tensor, outputs: torch.Size) -> Tensor:
        if tuple(outputs[1:]) != (self.outputs,):
            raise ValueError(
                f"the likelihood has {self.outputs} outputs per row, the network gives "
                f"{tuple(outputs[1:])}"
            )
        return real_targets(y, outputs)

    @property
    def noise(self) -> dict[str, Tensor]:
        """Covariance matrix of the noise."""
        return {"covariance": self.covariance}

    @override
    def conditional(self, z: Tensor) -> distributions.MultivariateNormal:
        covariance = self.covariance.to(z.dtype)
        return distributions.MultivariateNormal(z, covariance, validate_args=False)

    @override
    def log_prob(self, y: Tensor, z: Tensor) -> Tensor:
        return self.log_evidence(y, z, torch.zeros_like(z))

    def log_evidence(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Return ``log N(y; mean, V + R)``."""
        return log_normal_density(y, mean, variance, self.covariance)

    def messages(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``P (y - mean)`` and ``-diag P``."""
        precision = torch.linalg.inv(torch.diag_embed(variance.double()) + self.covariance)
        e = (y.double() - mean.double()).unsqueeze(-1)
        d_mu, d_var = (precision @ e).squeeze(-1), -precision.diagonal(dim1=-2, dim2=-1)
        return d_mu.to(mean.dtype), d_var.to(mean.dtype)

    # --- noise -----------------------------------------------------------------------------

    def expected_statistic(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Return the mean over the rows of ``E[v v^T]`` of the noise, given the targets."""
        gain = self.covariance @ torch.linalg.inv(torch.diag_embed(variance) + self.covariance)
        v = (gain @ (y - mean).unsqueeze(-1)).squeeze(-1)
        left = self.covariance - gain.mean(0) @ self.covariance
        return v.T @ v / len(v) + left

    def update_noise(
        self,
        y: Tensor,
        mean: Tensor,
        variance: Tensor,
        *,
        weight: Tensor | None = None,
        memory_rows: float | None = None,
    ) -> dict[str, Tensor]:
        """Return the covariance after a batch (online EM, ``likelihoods.online_em``)."""
        if not self.traits.learns_noise:
            return {}
        rows = effective_rows(self.rows, memory_rows)
        gain = len(y) / (rows + len(y))
        statistic = self.expected_statistic(y.double(), mean.double(), variance.double())
        return {
            "covariance": _symmetrized(self.covariance + gain * (statistic - self.covariance)),
            "rows": rows + len(y),
        }

    def sufficient_statistics(self, y: Tensor, z: Tensor) -> Tensor | None:
        """Return the summed products of residuals, and the number of rows."""
        if not self.traits.learns_noise:
            return None
        e = (repeat_targets(y, z) - z).double()
        return torch.cat([(e.T @ e).flatten(), e.new_tensor([len(e)])])

    def m_step(self, statistics: Tensor) -> None:
        """Set the covariance to the mean product of residuals."""
        square = (self.outputs, self.outputs)
        self.covariance = _symmetrized((statistics[:-1] / statistics[-1]).reshape(square))
        self.rows = statistics[-1].clone()

    def check_buffers(self, values: dict[str, Tensor]) -> None:
        """Check also that the covariance is symmetric and positive definite."""
        super().check_buffers(values)
        covariance = values["covariance"]
        if not torch.equal(covariance, covariance.T):
            raise ValueError("the covariance is not symmetric")
        if int(torch.linalg.cholesky_ex(covariance)[1]):
            raise ValueError("the covariance is not positive definite")
        if not bool(values["rows"] > 0):
            raise ValueError("rows must be positive")

    @override
    def predictive(self, mean: Tensor, variance: Tensor) -> MultivariateNormalPredictive:
        noise = self.covariance.diagonal().to(mean.dtype).expand_as(mean)
        return MultivariateNormalPredictive(
            mean, variance, noise, covariance=self.covariance.clone()
        )

    @override
    def config(self) -> dict[str, Any]:
        return {"outputs": self.outputs, "covariance": self.fixed_value}


def _symmetrized(matrix: Tensor) -> Tensor:
    """Return the matrix exactly symmetric, with noise in every direction."""
    floor = _MIN_VARIANCE * torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
    return 0.5 * (matrix + matrix.T) + floor
