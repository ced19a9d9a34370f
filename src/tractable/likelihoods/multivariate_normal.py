"""Several numbers whose errors go together.

With a diagonal ``V`` of output variances and the noise covariance ``R`` the evidence is
``N(y; mean, V + R)``, and with ``P = (V + R)^-1`` the messages are ``P (y - mean)`` and
``-diag P``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from tractable.likelihoods.base import Likelihood, real_targets
from tractable.likelihoods.learnt import FIRST_ROWS, remembered
from tractable.predictive import NormalPredictive, PooledPredictive, Predictive
from tractable.predictive.shapes import like

_LEAST_VARIANCE = 1e-8


class MultivariateNormal(Likelihood):
    """``y = z + v`` with ``v ~ N(0, R)``: noise that the outputs of a row share.

    Exact: the evidence, the messages and the expected statistic of ``R``.
    Approximate: ``R`` is a point, without a posterior of its own.

    Args:
        outputs: number of targets in a row, at least two.
        covariance: R, if it is known; None learns it (for targets of about unit scale).
    """

    covariance: Tensor
    rows: Tensor

    def __init__(self, outputs: int, covariance: list[list[float]] | None = None) -> None:
        super().__init__()
        if outputs < 2:
            raise ValueError(f"outputs must be at least 2 (else use Normal), got {outputs}")
        self.outputs, self.given = outputs, covariance
        start = torch.eye(outputs, dtype=torch.float64)
        if covariance is not None:
            start = torch.as_tensor(covariance, dtype=torch.float64)
            square = start.shape == (outputs, outputs) and torch.equal(start, start.T)
            if not square or int(torch.linalg.cholesky_ex(start)[1]):
                raise ValueError(
                    f"covariance must be a symmetric, positive definite matrix of {outputs} rows"
                )
        self.register_buffer("covariance", start)
        self.register_buffer("rows", torch.tensor(FIRST_ROWS, dtype=torch.float64))

    @property
    def outputs_needed(self) -> int:
        """See ``Likelihood``."""
        return self.outputs

    @property
    def targets_needed(self) -> int:
        """See ``Likelihood``."""
        return self.outputs

    @property
    def learns(self) -> bool:
        """Whether the covariance is learnt from the data."""
        return self.given is None

    @property
    def has_learnable_noise(self) -> bool:
        """A covariance that is given stays."""
        return self.learns

    @property
    def can_widen(self) -> bool:
        """See ``Likelihood``."""
        return True

    def targets(self, y: Tensor, outputs: torch.Size) -> Tensor:
        """See ``Likelihood``."""
        if tuple(outputs[1:]) != (self.outputs,):
            raise ValueError(
                f"the likelihood has {self.outputs} outputs per row, the network gives "
                f"{tuple(outputs[1:])}"
            )
        return real_targets(y, outputs)

    def log_prob(self, y: Tensor, z: Tensor) -> Tensor:
        """See ``Likelihood``."""
        return self.log_evidence(y, z, torch.zeros_like(z))

    def log_evidence(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """``log N(y; mean, V + R)``."""
        return _log_normal(y, mean, variance, self.covariance)

    def messages(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """``P (y - mean)`` and ``-diag P``."""
        precision = torch.linalg.inv(torch.diag_embed(variance.double()) + self.covariance)
        e = (y.double() - mean.double()).unsqueeze(-1)
        d_mu, d_var = (precision @ e).squeeze(-1), -precision.diagonal(dim1=-2, dim2=-1)
        return d_mu.to(mean.dtype), d_var.to(mean.dtype)

    # --- noise -----------------------------------------------------------------------------

    def expected(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Mean over the rows of ``E[v v^T]`` of the noise, given the targets."""
        gain = self.covariance @ torch.linalg.inv(torch.diag_embed(variance) + self.covariance)
        v = (gain @ (y - mean).unsqueeze(-1)).squeeze(-1)
        left = self.covariance - gain.mean(0) @ self.covariance
        return v.T @ v / len(v) + left

    def update_noise(
        self, y: Tensor, mean: Tensor, variance: Tensor, *, memory: float | None = None
    ) -> dict[str, Tensor]:
        """The covariance with a batch in it: online EM, as in ``tractable.likelihoods.learnt``."""
        if not self.learns:
            return {}
        rows = remembered(self.rows, memory)
        gain = len(y) / (rows + len(y))
        seen = self.expected(y.double(), mean.double(), variance.double())
        return {
            "covariance": _even(self.covariance + gain * (seen - self.covariance)),
            "rows": rows + len(y),
        }

    def sufficient_statistics(self, y: Tensor, z: Tensor) -> Tensor | None:
        """Summed products of residuals, and the number of rows."""
        if not self.learns:
            return None
        e = (y.repeat(len(z) // len(y), 1) - z).double()
        return torch.cat([(e.T @ e).flatten(), e.new_tensor([len(e)])])

    def m_step(self, statistics: Tensor) -> None:
        """The mean product of residuals."""
        square = (self.outputs, self.outputs)
        self.covariance = _even((statistics[:-1] / statistics[-1]).reshape(square))
        self.rows = statistics[-1].clone()

    def check_buffers(self, values: dict[str, Tensor]) -> None:
        """A covariance is symmetric and positive definite."""
        super().check_buffers(values)
        covariance = values["covariance"]
        if not torch.equal(covariance, covariance.T):
            raise ValueError("the covariance is not symmetric")
        if int(torch.linalg.cholesky_ex(covariance)[1]):
            raise ValueError("the covariance is not positive definite")
        if not bool(values["rows"] > 0):
            raise ValueError("rows must be positive")

    def predictive(self, mean: Tensor, variance: Tensor) -> CorrelatedPredictive:
        """See ``Likelihood``."""
        noise = self.covariance.diagonal().to(mean.dtype).expand_as(mean)
        return CorrelatedPredictive(mean, variance, noise, covariance=self.covariance.clone())

    def config(self) -> dict[str, Any]:
        """See ``Likelihood``."""
        return {"outputs": self.outputs, "covariance": self.given}


@dataclass(frozen=True)
class CorrelatedPredictive(NormalPredictive):
    """Normal targets whose noise is correlated within a row.

    Args:
        covariance: covariance of the noise, one for all rows or one for each; its diagonal is
            ``noise``.
    """

    covariance: Tensor = field(default_factory=lambda: torch.zeros(0, 0))

    def log_prob(self, y: Tensor) -> Tensor:
        """Log density of each row."""
        return _log_normal(like(y, self.location), self.location, self.within, self.covariance)

    def sample(self, n: int = 1, generator: torch.Generator | None = None) -> Tensor:
        """Draws of noisy targets."""
        total = torch.diag_embed(self.within.double()) + self.covariance
        shape = (n, *self.location.shape)
        noise = torch.randn(shape, generator=generator, dtype=torch.float64).to(total.device)
        drawn = (torch.linalg.cholesky(total) @ noise.unsqueeze(-1)).squeeze(-1)
        return self.location + drawn.to(self.location.dtype)

    def flat(self) -> CorrelatedPredictive:
        """As it is: there are several outputs."""
        return self

    def double(self) -> CorrelatedPredictive:
        """See ``Predictive``."""
        plain = super().double()
        return CorrelatedPredictive(
            plain.location, plain.within, plain.noise, plain.novelty, self.covariance
        )

    def rescaled(self, mean: Tensor | float, scale: Tensor | float) -> CorrelatedPredictive:
        """See ``Predictive``."""
        size = torch.as_tensor(scale, dtype=torch.float64).expand(self.covariance.shape[-1])
        square = scale * scale
        return replace(
            self,
            location=mean + scale * self.location,
            within=self.within * square,
            noise=self.noise * square,
            covariance=self.covariance * torch.outer(size, size).to(self.covariance),
        )

    def noisier(self, factors: Tensor) -> CorrelatedPredictive:
        """See ``Predictive``; the correlations of the noise stay."""
        root = factors.to(self.covariance).expand(self.location.shape).sqrt()
        covariance = self.covariance * root.unsqueeze(-1) * root.unsqueeze(-2)
        return replace(self, noise=self.noise * factors, covariance=covariance)

    def tailed(self, tails: Tensor) -> PooledPredictive:  # type: ignore[override]
        """See ``Predictive``; the outputs of a row share a factor, so that correlations stay."""
        parts = tuple(self.noisier(factor.expand_as(self.noise)) for factor in tails.to(self.noise))
        weights = self.location.new_full((len(parts), len(self.location)), 1 / len(parts))
        draws = (1,) * len(parts)
        return PooledPredictive(parts, draws, weights, self.within, self.novelty)

    def pooled(self, draws: int) -> Predictive:  # type: ignore[override]
        """See ``Predictive``."""
        return self if draws == 1 else PooledPredictive((self,), (draws,))


def _even(matrix: Tensor) -> Tensor:
    """Exactly symmetric, and no direction without noise."""
    floor = _LEAST_VARIANCE * torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
    return 0.5 * (matrix + matrix.T) + floor


def _log_normal(y: Tensor, mean: Tensor, variance: Tensor, covariance: Tensor) -> Tensor:
    total = torch.diag_embed(variance.double()) + covariance
    factor = torch.linalg.cholesky(total)
    e = (y - mean).double().unsqueeze(-1)
    white = torch.linalg.solve_triangular(factor, e, upper=False).squeeze(-1)
    log_root = factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    size = 0.5 * y.shape[-1] * math.log(2 * math.pi)
    return (-0.5 * (white * white).sum(-1) - log_root - size).to(mean.dtype)
