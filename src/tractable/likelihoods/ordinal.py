"""Ordinal classes: levels with an order but no distances.

A level is the interval between thresholds in which ``z + e`` with ``e ~ N(0, 1)`` lies, for
thresholds ``b_1 < ... < b_{K-1}``.  With
``s = sqrt(1 + variance)`` and ``t_k = (b_k - mean) / s`` the evidence of level k is
``P = Phi(t_k) - Phi(t_{k-1})``.

The thresholds are learned by natural gradient steps on the evidence (Amari 1998): the mean score of
a batch, times the inverse of the expected information averaged over rows, times a gain that falls
with the number of rows.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, distributions
from torch.special import log_ndtr
from typing_extensions import override

from tractable.likelihoods import quadrature
from tractable.likelihoods.calibration import TemperatureScaled
from tractable.likelihoods.noise import repeat_targets
from tractable.likelihoods.online_em import PRIOR_ROWS, effective_rows
from tractable.likelihoods.targets import class_targets
from tractable.predictive import CategoricalPredictive

_OUTSIDE = 1e6
"""In place of infinity, so that products with zero are zero."""
_LEAST_GAP = 1e-4
_RIDGE = 1e-3


class Ordinal(TemperatureScaled):
    """One of ``levels`` ordered levels, numbered from 0; one output.

    Exact: the evidence, the messages and the score and information of the thresholds.
    Approximate: the thresholds are points, without a posterior of their own.

    Args:
        levels: number of levels K, at least two.
        thresholds: the K - 1 thresholds between them.  Default: learned.
    """

    thresholds: Tensor
    information: Tensor
    rows: Tensor

    def __init__(self, levels: int, thresholds: list[float] | None = None) -> None:
        super().__init__()
        if levels < 2:
            raise ValueError(f"levels must be at least 2, got {levels}")
        self.levels, self.fixed_value = levels, thresholds
        # torch.vmap has no rule for the normal distribution function.
        self.traits = replace(self.traits, learns_noise=thresholds is None, supports_vmap=False)
        if thresholds is None:
            shares = torch.arange(1, levels, dtype=torch.float64) / levels
            start = math.sqrt(2) * torch.special.ndtri(shares)
        else:
            start = torch.tensor(thresholds, dtype=torch.float64)
            rising = bool((start.diff() > 0).all()) and bool(start.isfinite().all())
            if start.shape != (levels - 1,) or not rising:
                raise ValueError(
                    f"thresholds must be {levels - 1} increasing numbers, got {thresholds}"
                )
        self.register_buffer("thresholds", start)
        self.register_buffer("information", 0.1 * torch.eye(levels - 1, dtype=torch.float64))
        self.register_buffer("rows", torch.tensor(PRIOR_ROWS, dtype=torch.float64))

    @override
    def check_targets(self, y: Tensor, outputs: torch.Size) -> Tensor:
        if outputs[1:].numel() != 1:
            raise ValueError(
                f"Ordinal needs one output per row, the network gives {tuple(outputs[1:])}"
            )
        return class_targets(y, self.levels, outputs[0]).reshape(outputs)

    # --- evidence --------------------------------------------------------------------------

    def _edges(self, mean: Tensor, variance: Tensor, noise: float = 1.0) -> tuple[Tensor, Tensor]:
        """Return ``t`` at all K + 1 edges, along a new last dimension, and ``s``."""
        ends = self.thresholds.new_tensor([_OUTSIDE])
        edges = torch.cat([-ends, self.thresholds, ends]).to(mean.dtype)
        s = (noise + variance).sqrt()
        return (edges - mean.unsqueeze(-1)) / s.unsqueeze(-1), s

    def log_probs(self, mean: Tensor, variance: Tensor, noise: float = 1.0) -> Tensor:
        """Return the log probability of every level, along a new last dimension.

        Args:
            mean: mean of the output, ``[n, ...]``.
            variance: variance of the output, of the same shape.
            noise: variance of the noise that is added to the output. Default: 1.
        """
        t, _ = self._edges(mean, variance, noise)
        return _log_between(t[..., :-1], t[..., 1:])

    @property
    def noise(self) -> dict[str, Tensor]:
        """The thresholds, and the factor on the noise of predictions."""
        return {"thresholds": self.thresholds} | super().noise

    @override
    def conditional(self, z: Tensor) -> distributions.Categorical:
        log_probs = self.log_probs(z, torch.zeros_like(z), float(self.noise_scale))
        return distributions.Categorical(logits=log_probs, validate_args=False)

    @override
    def log_prob(self, y: Tensor, z: Tensor) -> Tensor:
        return self.log_evidence(y, z, torch.zeros_like(z))

    def log_evidence(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Return ``log (Phi(t_k) - Phi(t_{k-1}))``."""
        found = self.log_probs(mean.double(), variance.double())
        return found.gather(-1, y.unsqueeze(-1)).flatten(1).sum(1).to(mean.dtype)

    def messages(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Return the derivatives: with ``a = phi(t_{k-1}) / P``, ``b = phi(t_k) / P`` the first is
        ``(a - b) / s``.
        """
        t, s = self._edges(mean.double(), variance.double())
        k = y.unsqueeze(-1)
        low, high = t.gather(-1, k).squeeze(-1), t.gather(-1, k + 1).squeeze(-1)
        log_p = _log_between(low, high)
        a, b = _ratio(low, log_p), _ratio(high, log_p)
        d_mu = (a - b) / s
        d_var = (low * a - high * b) / (s * s) - d_mu * d_mu
        d_var = torch.maximum(d_var.clamp(max=0), -1 / (s * s))
        return d_mu.to(mean.dtype), d_var.to(mean.dtype)

    # --- thresholds ------------------------------------------------------------------------

    def scores(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Return the derivative of the log evidence in the thresholds, and its information; summed.

        Adjacent levels share a threshold, so the information has three diagonals.
        """
        mean, variance = mean.double().flatten(), variance.double().flatten()
        t, s = self._edges(mean, variance)
        log_p = _log_between(t[:, :-1], t[:, 1:])
        label = torch.nn.functional.one_hot(y.flatten(), self.levels).to(log_p.dtype)
        inner, s = t[:, 1:-1], s.unsqueeze(-1)
        up, down = _ratio(inner, log_p[:, :-1]) / s, _ratio(inner, log_p[:, 1:]) / s
        score = (label[:, :-1] * up - label[:, 1:] * down).sum(0)
        p = log_p.exp()
        diagonal = (p[:, :-1] * up * up + p[:, 1:] * down * down).sum(0)
        beside = -(p[:, 1:-1] * down[:, :-1] * up[:, 1:]).sum(0)
        information = torch.diag(diagonal)
        if self.levels > 2:
            information = information + torch.diag(beside, 1) + torch.diag(beside, -1)
        return score, information

    def _moved(self, step: Tensor) -> Tensor:
        """Return the thresholds after a step, shortened so that no gap halves."""
        if self.levels == 2:
            return self.thresholds + step.clamp(-1, 1)
        gaps, change = self.thresholds.diff(), step.diff()
        limit = (0.5 * gaps / (-change).clamp_min(1e-300)).amin().clamp(max=1.0)
        limit = torch.minimum(limit, 1 / step.abs().amax().clamp_min(1.0))
        moved = self.thresholds + limit * step
        least = torch.arange(len(moved), dtype=moved.dtype, device=moved.device) * _LEAST_GAP
        return (moved - least).cummax(0).values + least

    def update_noise(
        self,
        y: Tensor,
        mean: Tensor,
        variance: Tensor,
        *,
        weight: Tensor | None = None,
        memory_rows: float | None = None,
    ) -> dict[str, Tensor]:
        """Return the thresholds after a natural gradient step."""
        if not self.traits.learns_noise:
            return {}
        number = y.numel()
        rows = effective_rows(self.rows, memory_rows)
        gain = number / (rows + number)
        score, information = self.scores(y, mean, variance)
        information = self.information + gain * (information / number - self.information)
        step = gain * torch.linalg.solve(self._raised(information), score / number)
        return {
            "thresholds": self._moved(step),
            "information": information,
            "rows": rows + number,
        }

    def _raised(self, information: Tensor) -> Tensor:
        """Return the information with a ridge: thresholds of levels without rows stay."""
        return information + _RIDGE * torch.eye(
            self.levels - 1, dtype=information.dtype, device=information.device
        )

    def sufficient_statistics(self, y: Tensor, z: Tensor) -> Tensor | None:
        """Return the summed score and information of the thresholds, and the number of rows."""
        if not self.traits.learns_noise:
            return None
        y = repeat_targets(y, z)
        score, information = self.scores(y, z, torch.zeros_like(z))
        return torch.cat([score, information.flatten(), score.new_tensor([y.numel()])])

    def m_step(self, statistics: Tensor) -> None:
        """Move the thresholds by one Newton step with the expected information."""
        inner, number = self.levels - 1, statistics[-1]
        information = (statistics[inner:-1] / number).reshape(inner, inner)
        step = torch.linalg.solve(self._raised(information), statistics[:inner] / number)
        self.thresholds, self.information = self._moved(step), information
        self.rows = number.clone()

    def check_buffers(self, values: dict[str, Tensor]) -> None:
        """Check also that the thresholds increase."""
        super().check_buffers(values)
        if not bool((values["thresholds"].diff() > 0).all()):
            raise ValueError("thresholds must increase")
        if not bool(values["rows"] > 0):
            raise ValueError("rows must be positive")

    # --- predictions -----------------------------------------------------------------------

    def predictive(self, mean: Tensor, variance: Tensor) -> CategoricalPredictive:
        """Return the probabilities of the levels.

        Exact: the probabilities.  Their expected entropy is computed by quadrature.
        """
        flat, noise = (mean.flatten(), variance.flatten()), float(self.noise_scale)
        probs = self.log_probs(flat[0].double(), flat[1].double(), noise).exp()
        entropy = partial(_expected_entropy, self.thresholds.clone(), noise, *flat)
        return CategoricalPredictive(probs.to(mean.dtype), expected_entropy=entropy, ordered=True)

    @override
    def config(self) -> dict[str, Any]:
        return {"levels": self.levels, "thresholds": self.fixed_value}


def _log_between(low: Tensor, high: Tensor) -> Tensor:
    """``log (Phi(high) - Phi(low))`` without loss in either tail."""
    turned = low > 0
    a, b = torch.where(turned, -high, low), torch.where(turned, -low, high)
    top = log_ndtr(b)
    gap = (log_ndtr(a) - top).clamp(max=-1e-15)
    return top + torch.log(-torch.expm1(gap))


def _ratio(t: Tensor, log_p: Tensor) -> Tensor:
    """``phi(t) / P``."""
    return torch.exp(-0.5 * t * t - 0.5 * math.log(2 * math.pi) - log_p)


def _expected_entropy(thresholds: Tensor, noise: float, mean: Tensor, variance: Tensor) -> Tensor:
    """Mean over ``z ~ N(mean, variance)`` of the entropy of the level, in nats."""
    z, weight = quadrature.prior_nodes(mean, variance)
    ends = thresholds.new_tensor([_OUTSIDE])
    edges = torch.cat([-ends, thresholds, ends])
    total = torch.zeros_like(z[0])
    for at, share in zip(z, weight, strict=True):  # one at a time, for memory
        t = (edges - at.unsqueeze(-1)) / noise**0.5
        log_p = _log_between(t[..., :-1], t[..., 1:])
        total = total - share * (log_p.exp() * log_p).sum(-1)
    return total.to(mean.dtype)
