"""The interface of a likelihood, and its messages by differentiation.

The closed-form learner needs one function of a likelihood,

    log_evidence(y, mean, variance) = log of the integral of p(y|z) N(z; mean, variance) dz

because the message to an output is its first and second derivative with respect to ``mean``
(assumed-density filtering: Opper 1998, Minka 2001).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.distributions import Distribution

from tractable.likelihoods.noise import HeldOut, Noise
from tractable.predictive import Predictive

__all__ = ["HeldOut", "Likelihood", "Messages", "Traits"]


@dataclass(frozen=True)
class Traits:
    """Properties of a likelihood that learners ask for."""

    learns_noise: bool = False
    """Whether noise parameters are learned from the data."""
    supports_calibration: bool = False
    """Whether held-out rows can set the scale of the noise (``fit(calibrate=True)``)."""
    supports_extra_variance: bool = False
    """Whether predictions can be made with more epistemic variance, as far from the data."""
    has_labels: bool = False
    """Whether targets are class labels, whose probabilities become more even far from the data."""
    supports_missing: bool = False
    """Whether a row may have NaN for some of its targets and values for others."""
    supports_outliers: bool = False
    """Whether a robust learner gives outlying targets less weight."""
    supports_vmap: bool = True
    """Whether ``torch.vmap`` can run ``log_prob``, so that small ensembles train in one pass."""
    supports_output_averaging: bool = True
    """Whether outputs of several networks may be averaged.  Not where different outputs mean the
    same: permuted components of a mixture, angles that differ by full turns."""


@dataclass(frozen=True)
class Messages:
    """Messages of a batch of observations to the outputs of the network."""

    d_mu: Tensor
    """Messages to the means."""
    d_var: Tensor
    """Messages to the variances, between ``-1 / variance`` and zero."""
    unweighted_d_var: Tensor
    """Messages to the variances if every target had weight 1."""
    noise: dict[str, Tensor]
    """New values of the noise buffers."""


class Likelihood(Noise, ABC):
    """How an observation ``y`` depends on the outputs ``z`` of the network.

    A likelihood implements ``check_targets``, ``conditional``, ``log_evidence``, ``predictive`` and
    ``config``, and declares its ``traits``.  Noise parameters are buffers; see ``Noise``.
    """

    traits: Traits = Traits()

    @property
    def outputs_needed(self) -> int:
        """Number of network outputs per row, for ``Joint``."""
        return int(getattr(self, "outputs", 1))

    @property
    def targets_needed(self) -> int:
        """Number of targets per row, for ``Joint``."""
        return 1

    @abstractmethod
    def check_targets(self, y: Tensor, outputs: torch.Size) -> Tensor:
        """Return ``y``, checked and in the shape that the other methods expect.

        Args:
            y: targets as the user gave them, ``[rows, ...]``.
            outputs: shape of the network's outputs for these rows.

        Raises:
            InvalidTarget: values or shape are impossible for these outputs.
        """

    @abstractmethod
    def conditional(self, z: Tensor) -> Distribution:
        """Return the distribution of the targets given the outputs."""

    def log_prob(self, y: Tensor, z: Tensor) -> Tensor:
        """Return ``log p(y|z)`` of each row, which the gradient-based learners maximize."""
        found = self.conditional(z).log_prob(y)
        return found.flatten(1).sum(1) if found.ndim > 1 else found

    @abstractmethod
    def log_evidence(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Return ``log p(y)`` of each row for independent outputs ``z ~ N(mean, variance)``."""

    @abstractmethod
    def predictive(self, mean: Tensor, variance: Tensor) -> Predictive:
        """Return the distribution of the targets for ``z ~ N(mean, variance)``.

        In single precision a variance above 3e38 is infinite, such as that of a noise of 1e30.
        """

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Return the constructor's arguments as JSON values."""

    # --- messages --------------------------------------------------------------------------

    def messages(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Return messages ``(d_mu, d_var)`` to the outputs: derivatives of ``log_evidence``.

        A positive second derivative (an observation that makes an output *less* certain) counts
        as zero.
        """
        rows = mean.detach().reshape(mean.shape[0], -1)
        with torch.enable_grad():
            leaf = rows.clone().requires_grad_()
            evidence = self.log_evidence(y, leaf.reshape(mean.shape), variance.detach())
            (first,) = torch.autograd.grad(evidence.sum(), leaf, create_graph=True)
            second = torch.stack(
                [
                    torch.autograd.grad(first[:, k].sum(), leaf, retain_graph=True)[0][:, k]
                    if first.requires_grad
                    else torch.zeros_like(first[:, k])
                    for k in range(rows.shape[1])
                ],
                dim=1,
            )
        d_mu, d_var = first.detach(), second.detach().clamp(max=0)
        return d_mu.reshape(mean.shape), d_var.reshape(mean.shape)

    def messages_and_noise(
        self,
        y: Tensor,
        mean: Tensor,
        variance: Tensor,
        *,
        weight: Tensor | None = None,
        memory_rows: float | None = None,
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        (
            """Return ``messages`` and ``update_noise`` of a batch.

        Overridden where both need the same intermediate results.

        Args:
            y: targets.
            mean: mean of the outputs.
            variance: variance of the outputs.
            weight: weight of each target in [0, 1], in double precision; used by likelihoods
                with the trait ``supports_outliers``.  Default: 1.
            memory_rows: effective number of rows that the noise remembers.  Default: all.

        Returns:
            The messages ``d_mu`` and ``d_var``, of the shape of ``mean``, and new values of the
            buffers.
        """
            ""
        )
        d_mu, d_var = self.messages(y, mean, variance)
        noise = self.update_noise(y, mean, variance, weight=weight, memory_rows=memory_rows)
        return d_mu, d_var, noise

    def observe(
        self,
        y: Tensor,
        mean: Tensor,
        variance: Tensor,
        *,
        weight: Tensor | None = None,
        memory_rows: float | None = None,
    ) -> Messages:
        """Return the messages of a batch and the updated noise, as used by learners.

        The messages are limited so that the variance of every output remains positive.

        Args:
            y: targets.
            mean: mean of the outputs.
            variance: variance of the outputs.
            weight: weight of each target in [0, 1], in double precision.  Default: 1.
            memory_rows: effective number of rows that the noise remembers.  Default: all.
        """
        d_mu, d_var, noise = self.messages_and_noise(
            y, mean, variance, weight=weight, memory_rows=memory_rows
        )
        limited = limit_variance_message(d_var, variance)
        if weight is None:
            return Messages(d_mu, limited, limited, noise)
        # A target with several outputs gives them all its weight.
        w = torch.cat([weight] * (mean.shape[-1] // weight.shape[-1]), -1).to(d_mu.dtype)
        return Messages(d_mu * w, limit_variance_message(d_var * w, variance), limited, noise)

    def curvature(self, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradient of ``log p(y|z)`` in the outputs and minus its second derivative.

        Exact: where minus the second derivative is positive semi-definite.  Approximate: elsewhere
        its off-diagonal entries are taken as zero, and its negative diagonal ones.

        Returns:
            ``[rows, outputs of a row]`` and ``[rows, outputs of a row, outputs of a row]``.
        """
        # Double precision: rounding must not make a saturated softmax look curved.
        with torch.enable_grad():
            leaf = z.detach().flatten(1).double().requires_grad_()
            log_prob = self.log_prob(y, leaf.reshape(z.shape)).sum()
            (first,) = torch.autograd.grad(log_prob, leaf, create_graph=True)
            columns = [
                torch.autograd.grad(column.sum(), leaf, retain_graph=True)[0]
                if first.requires_grad
                else torch.zeros_like(leaf)
                for column in first.unbind(1)
            ]
        second = positive_semidefinite(-torch.stack(columns, 1))
        return first.detach().to(z.dtype), second.to(z.dtype)

    # --- for robust learners, model selection and printing ---------------------------------

    def predicted_targets(
        self, y: Tensor, mean: Tensor, variance: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return targets, their predicted mean and their predicted variance, noise included.

        A robust learner weights targets by it; for the trait ``supports_outliers``.

        Returns:
            Tensors in the shape of the targets, the variance in double precision.
        """
        raise TypeError(f"{type(self).__name__} does not weight outliers")

    def held_out_log_prob(
        self, y: Tensor, mean: Tensor, variance: Tensor, *, outliers: bool = False
    ) -> Tensor:
        """Return the log density of each held-out row, to compare fits.

        Args:
            y: targets.
            mean: mean of the outputs.
            variance: variance of the outputs.
            outliers: give outliers less weight, so that a few do not decide.
        """
        return self.predictive(mean, variance).log_prob(y).double()

    def extra_repr(self) -> str:
        """Return the arguments of the constructor as text."""
        return ", ".join(f"{k}={v!r}" for k, v in self.config().items())


def limit_variance_message(d_var: Tensor, variance: Tensor) -> Tensor:
    """Return messages to variances between (nearly) ``-1 / variance`` and zero.

    A message of ``-1 / variance`` leaves no variance, so that no later row could change that
    output, and rounding may exceed it.  Four times the rounding error is left.

    Args:
        d_var: second derivatives of the log evidence in the means of the outputs.
        variance: variance of the outputs.
    """
    limits = torch.finfo(variance.dtype)
    lowest = (4 * limits.eps - 1) / variance.clamp_min(limits.tiny)
    return torch.maximum(d_var.clamp(max=0), lowest)


def positive_semidefinite(second: Tensor) -> Tensor:
    """Return each matrix if it is positive semi-definite, else its diagonal, clamped at zero.

    Args:
        second: ``[rows, n, n]`` symmetric matrices, in double precision.
    """
    diagonal = second.diagonal(dim1=1, dim2=2).clamp(min=0)
    slack = 1e-6 * diagonal.sum(1, keepdim=True) + 1e-12
    raised = second + torch.diag_embed(slack.expand_as(diagonal))
    indefinite = torch.linalg.cholesky_ex(raised)[1] != 0
    return torch.where(indefinite.reshape(-1, 1, 1), torch.diag_embed(diagonal), second)


Kind = TypeVar("Kind", bound=Likelihood)


def require_type(likelihood: Likelihood, kind: type[Kind]) -> Kind:
    """Return a likelihood of held-out rows, which must be of the given type.

    Raises:
        TypeError: it is of another type.
    """
    if not isinstance(likelihood, kind):
        raise TypeError(
            f"held_out must have a {kind.__name__} for each fit, got {type(likelihood).__name__}: "
            f"call held_out_scale of a likelihood of the kind that was fitted"
        )
    return likelihood
