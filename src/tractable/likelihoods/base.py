"""The interface of a likelihood, and its messages by differentiation.

The closed-form learner needs one function of a likelihood,

    log_evidence(y, mean, variance) = log of the integral of p(y|z) N(z; mean, variance) dz

because the message to an output is its first and second derivative with respect to ``mean``
(assumed-density filtering: Opper 1998, Minka 2001).  A new likelihood that defines it is
complete; one that knows its derivatives in closed form also overrides ``messages``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from tractable.errors import InvalidTarget
from tractable.gaussian import Gaussian
from tractable.predictive import Predictive


@dataclass(frozen=True)
class Messages:
    """What a batch of observations says to a learner in closed form."""

    d_mu: Tensor
    d_var: Tensor
    """Messages to the outputs."""
    unweighted_d_var: Tensor
    """The second message as it would be if every value were believed."""
    noise: dict[str, Tensor]
    """New values of the likelihood's buffers."""


class Likelihood(nn.Module, ABC):
    """How an observation ``y`` depends on the outputs ``z`` of the network.

    Tensors registered as buffers are the state of the likelihood: they are saved and may be
    learnt by ``update_noise``.
    """

    @property
    def outputs_needed(self) -> int:
        """Outputs of the network that a row of targets needs, for ``Joint``."""
        return int(getattr(self, "outputs", 1))

    @property
    def targets_needed(self) -> int:
        """Targets in a row, for ``Joint``."""
        return 1

    @abstractmethod
    def targets(self, y: Tensor, outputs: torch.Size) -> Tensor:
        """``y`` checked and brought to the shape that the other methods take.

        Args:
            y: targets as the user gave them, one row per observation.
            outputs: shape of the network's output for these rows.

        Raises:
            InvalidTarget: the values or the shape cannot be observations of such outputs.
        """

    @abstractmethod
    def log_prob(self, y: Tensor, z: Tensor) -> Tensor:
        """``log p(y|z)`` of each row (for the gradient learners)."""

    @abstractmethod
    def log_evidence(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """``log p(y)`` of each row when ``z ~ N(mean, variance)``, entries independent."""

    @abstractmethod
    def predictive(self, mean: Tensor, variance: Tensor) -> Predictive:
        """The distribution of the target when ``z ~ N(mean, variance)``.

        In single precision a variance above 3e38 is infinite, such as that of a noise of 1e30.
        """

    def messages(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Messages ``(d_mu, d_var)`` to the outputs: derivatives of ``log_evidence``.

        A positive second derivative (an observation that makes an output *less* certain) is
        taken as zero.
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

    def hear(
        self,
        y: Tensor,
        mean: Tensor,
        variance: Tensor,
        *,
        weight: Tensor | None = None,
        memory_rows: float | None = None,
    ) -> Messages:
        """Messages and the new noise at once.

        Args:
            y: targets.
            mean: mean of the outputs.
            variance: variance of the outputs.
            weight: weight of each value, in double precision, where there is a gate.
            memory_rows: effective number of rows that the noise remembers, or None for all.
        """
        d_mu, d_var = self.messages(y, mean, variance)
        return Messages(
            d_mu, d_var, d_var, self.update_noise(y, mean, variance, memory_rows=memory_rows)
        )

    def observe(
        self,
        y: Tensor,
        mean: Tensor,
        variance: Tensor,
        *,
        weight: Tensor | None = None,
        memory_rows: float | None = None,
    ) -> Messages:
        """Return what ``hear`` does, with messages that leave some variance to every output.

        The learners take the messages of any likelihood from here.  Args: as ``hear``.
        """
        heard = self.hear(y, mean, variance, weight=weight, memory_rows=memory_rows)
        believed = limit_variance_message(heard.unweighted_d_var, variance)
        d_var = believed
        if heard.d_var is not heard.unweighted_d_var:
            d_var = limit_variance_message(heard.d_var, variance)
        return Messages(heard.d_mu, d_var, believed, heard.noise)

    def curvature(self, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """Gradient of ``log p(y|z)`` in the outputs, and minus its second derivative, row by row.

        Exact: where minus the second derivative is positive semi-definite.  Approximate: elsewhere
        its off-diagonal entries are taken as zero, and its negative diagonal ones.

        Returns:
            ``[rows, outputs of a row]`` and ``[rows, outputs of a row, outputs of a row]``.
        """
        with torch.enable_grad():  # doubles, lest rounding makes a sure softmax look bent
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

    def update_noise(
        self, y: Tensor, mean: Tensor, variance: Tensor, *, memory_rows: float | None = None
    ) -> dict[str, Tensor]:
        """New values of the buffers after seeing ``y``; empty when nothing is learnt.

        Args:
            y: targets.
            mean: mean of the outputs.
            variance: variance of the outputs.
            memory_rows: effective number of rows that the noise remembers, or None for all.
        """
        return {}

    @property
    def has_learnable_noise(self) -> bool:
        """Whether the likelihood changes while the weights are learnt."""
        return type(self).sufficient_statistics is not Likelihood.sufficient_statistics

    def sufficient_statistics(self, y: Tensor, z: Tensor) -> Tensor | None:
        """What ``m_step`` needs to know of a batch, to be summed; None when nothing is learnt.

        The gradient learners sum it over an epoch with drawn outputs ``z``.
        """
        return None

    def m_step(self, statistics: Tensor) -> None:
        """Set the buffers to those of greatest likelihood, given summed statistics."""
        raise TypeError(f"{type(self).__name__} learns nothing from statistics")

    def set_buffers(self, values: dict[str, Tensor]) -> None:
        """Put what was learnt about the noise in its place."""
        for name, value in values.items():
            setattr(self, name, value)

    @contextmanager
    def holding(self, values: dict[str, Tensor]) -> Iterator[None]:
        """The likelihood with other buffers inside the block."""
        held = dict(self.named_buffers(remove_duplicate=False))
        try:
            self.set_buffers(values)
            yield
        finally:
            self.set_buffers(held)

    def check_buffers(self, values: dict[str, Tensor]) -> None:
        """Refuse buffers of a file that this likelihood cannot have.

        Raises:
            ValueError: a number is not finite, or means nothing here.
        """
        for name, value in values.items():
            if value.is_floating_point() and count_non_finite(value):
                raise ValueError(f"{name} of {type(self).__name__} has NaN or infinite values")

    @property
    def takes_members(self) -> bool:
        """Whether ``vmap`` can run ``log_prob``, so that small ensembles learn in one pass."""
        return True

    @property
    def takes_missing(self) -> bool:
        """Whether a row may have NaN for some of its targets and observed values for others."""
        return False

    @property
    def can_average(self) -> bool:
        """Whether outputs of several networks for the same rows may be averaged.

        Not where the same prediction has several outputs: components in another order, turns.
        """
        return True

    @property
    def can_widen(self) -> bool:
        """Whether its targets are numbers, whose predictions widen away from the data."""
        return False

    @property
    def can_doubt(self) -> bool:
        """Whether its targets are labels, whose probabilities even out away from the data."""
        return False

    @property
    def can_calibrate(self) -> bool:
        """Whether there is a noise whose scale held-out rows can set."""
        return type(self).held_out_scale is not Likelihood.held_out_scale

    def held_out_scale(self, held_out: list[HeldOut], *, outliers: bool = False) -> float:
        """The factor on the noise variance that suits rows held out of fits of this likelihood.

        Args:
            held_out: for each fit, its likelihood, the targets it did not see, and the mean and
                variance it predicts for them.
            outliers: score rows as the gate believes them, so that a few wild ones do not set
                the scale.
        """
        raise TypeError(f"{type(self).__name__} has no noise to calibrate on held-out rows")

    def held_out_log_prob(
        self, y: Tensor, mean: Tensor, variance: Tensor, *, outliers: bool = False
    ) -> Tensor:
        """Log density of each row that was held out, to compare fits by.

        Args:
            y: targets.
            mean: mean of the outputs.
            variance: variance of the outputs.
            outliers: score rows as the gate believes them, so that a few wild ones do not decide.
        """
        return self.predictive(mean, variance).log_prob(y).double()

    def rescale(self, scale: float) -> None:
        """Multiply the noise variance by a factor found by ``held_out_scale``."""
        raise TypeError(f"{type(self).__name__} has no noise to rescale")

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """The constructor's arguments, as JSON values."""

    def extra_repr(self) -> str:
        """The arguments, as the constructor takes them."""
        return ", ".join(f"{k}={v!r}" for k, v in self.config().items())


def limit_variance_message(d_var: Tensor, variance: Tensor) -> Tensor:
    """Return messages to variances between ``-1 / variance`` (nearly) and zero.

    A message of ``-1 / variance`` would leave none: no later row could move that output, and
    rounding may pass it.  Four times the rounding of a number is left.

    Args:
        d_var: second derivatives of the log evidence in the means of the outputs.
        variance: variance of the outputs.
    """
    limits = torch.finfo(variance.dtype)
    most = (4 * limits.eps - 1) / variance.clamp_min(limits.tiny)
    return torch.maximum(d_var.clamp(max=0), most)


def positive_semidefinite(second: Tensor) -> Tensor:
    """Return each matrix if it is positive semi-definite, else its diagonal without negative ones.

    Args:
        second: ``[rows, n, n]`` symmetric matrices, in double precision.
    """
    diagonal = second.diagonal(dim1=1, dim2=2).clamp(min=0)
    slack = 1e-6 * diagonal.sum(1, keepdim=True) + 1e-12
    raised = second + torch.diag_embed(slack.expand_as(diagonal))
    bent = torch.linalg.cholesky_ex(raised)[1] != 0
    return torch.where(bent.reshape(-1, 1, 1), torch.diag_embed(diagonal), second)


HeldOut = tuple[Likelihood, Tensor, Tensor, Tensor]
Kind = TypeVar("Kind", bound=Likelihood)


def require_type(likelihood: Likelihood, kind: type[Kind]) -> Kind:
    """Return a likelihood of held-out rows, which must be of the kind that judges them.

    Raises:
        TypeError: it is of another kind.
    """
    if not isinstance(likelihood, kind):
        raise TypeError(
            f"held_out must have a {kind.__name__} for each fit, got {type(likelihood).__name__}: "
            f"call held_out_scale of a likelihood of the kind that was fitted"
        )
    return likelihood


def refuse_gaussian_targets(y: Tensor) -> None:
    """Refuse targets that have a variance."""
    if isinstance(y, Gaussian):
        raise InvalidTarget("only likelihoods.Normal takes Gaussian targets, with error bars")


def count_non_finite(values: Tensor) -> int:
    """How many values are NaN or infinite."""
    # A sum is finite where all its terms are (unless it overflows: then look again).
    if math.isfinite(float(values.sum())):
        return 0
    return int((~torch.isfinite(values)).sum())


def real_targets(y: Tensor, shape: torch.Size) -> Tensor:
    """Finite real targets in the given shape; a flat vector fits a single column."""
    refuse_gaussian_targets(y)
    if y.is_complex():
        raise InvalidTarget(f"targets must be real numbers, got {y.dtype}")
    if y.shape != shape:
        fits = y.numel() == shape.numel() and y.shape[:1] == shape[:1]
        if not fits:
            raise InvalidTarget(
                f"targets of shape {tuple(y.shape)} do not fit outputs of shape {tuple(shape)}"
            )
        y = y.reshape(shape)
    if y.is_floating_point() and (bad := count_non_finite(y)):
        row = int(torch.nonzero(~torch.isfinite(y))[0, 0])
        raise InvalidTarget(f"targets have {bad} NaN or infinite values, the first in row {row}")
    return y


def class_targets(y: Tensor, n_classes: int, rows: int) -> Tensor:
    """Integer labels ``0 .. n_classes - 1``, one per row."""
    refuse_gaussian_targets(y)
    y = y.reshape(-1) if y.numel() == rows else y
    if y.shape != (rows,):
        raise InvalidTarget(
            f"labels must be one integer per row: got shape {tuple(y.shape)} for {rows} rows"
        )
    # A copy: labels become row numbers in memory, and another thread may change the caller's.
    labels = y.to(torch.int64, copy=True)
    if y.is_floating_point() and bool((odd := labels != y).any()):
        row = int(torch.nonzero(odd)[0, 0])
        raise InvalidTarget(f"labels must be whole numbers, got {float(y[row]):g} in row {row}")
    if rows and not (int(labels.min()) >= 0 and int(labels.max()) < n_classes):
        row = int(torch.nonzero((labels < 0) | (labels >= n_classes))[0, 0])
        raise InvalidTarget(
            f"labels must lie in 0..{n_classes - 1}, got values from "
            f"{int(labels.min())} to {int(labels.max())}; the first bad one is in row {row}"
        )
    return labels
