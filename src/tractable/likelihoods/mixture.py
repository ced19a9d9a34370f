"""Targets with several peaks: mixture density networks, in closed form under Gaussian outputs.

The outputs are K logits and then the outputs of each of the K components, one after the other.
With the weights ``pi = softmax(logits)`` and Gaussian outputs that are independent, the evidence is

    sum_k E[pi_k] evidence_k(y)

in which only ``E[pi_k]`` is approximate: ``p_k = softmax(m_k / sqrt(1 + pi v_k / 8))``, as in
``Softmax``.  With the responsibilities ``r_k`` of the terms and the first and second derivative
``d, h`` of a component's log evidence, the messages to its outputs are ``r d`` and
``r h + r (1 - r) d^2``, and to the logits, shrunk by ``s``, ``s (r - p)`` and
``s^2 (r (1 - r) - p (1 - p))``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tractable.likelihoods.base import HeldOut, Likelihood, Messages, positive_semidefinite
from tractable.likelihoods.calibration import calibrated_scale
from tractable.likelihoods.composite import Composite, from_config
from tractable.likelihoods.normal import Normal
from tractable.likelihoods.online_em import OnlineEM
from tractable.likelihoods.online_normal import OnlineNormal
from tractable.likelihoods.per_step import PerStep
from tractable.likelihoods.softmax import shrinkage
from tractable.predictive import MixturePredictive, Predictive


class Mixture(Composite):
    """One of K components, chosen with probabilities that the network gives as well.

    Exact: the evidence, but for the expected weights.
    Approximate: those; and an observation that makes an output *less* certain leaves its variance.

    Args:
        component: likelihood of the components: ``HeteroscedasticNormal()``, whose widths the
            network predicts, ``Normal()``, ``Laplace()``, ``StudentT()``, ... with a noise of its
            own each; a noise that is not given is learnt by responsibilities.
        components: their number K, at least two.
    """

    def __init__(self, component: Likelihood | dict[str, Any], components: int) -> None:
        component = from_config(component)
        if components < 2:
            raise ValueError(f"a mixture needs at least 2 components, got {components}")
        if type(component) is Normal and component.learns_noise:
            component = OnlineNormal(None, component.outputs)
        _check_component(component)
        super().__init__([component] * components)
        self.components = components

    @property
    def outputs_needed(self) -> int:
        """See ``Likelihood``."""
        return self.components * (1 + self.part_list[0].outputs_needed)

    @property
    def targets_needed(self) -> int:
        """See ``Likelihood``."""
        return self.part_list[0].targets_needed

    @property
    def can_widen(self) -> bool:
        """See ``Likelihood``."""
        return self.part_list[0].can_widen

    @property
    def can_average(self) -> bool:
        """Components may come in another order."""
        return False

    @property
    def takes_missing(self) -> bool:
        """As its components do."""
        return self.part_list[0].takes_missing

    @property
    def takes_members(self) -> bool:
        """As its components do."""
        return self.part_list[0].takes_members

    def targets(self, y: Tensor, outputs: torch.Size) -> Tensor:
        """See ``Likelihood``."""
        k = self.components
        if len(outputs) != 2 or outputs[1] <= k or (outputs[1] - k) % k:
            raise ValueError(
                f"a mixture of {k} needs {k} logits and as many outputs for each component "
                f"({k} + {k} m in all), the network gives {tuple(outputs[1:])}"
            )
        return self.part_list[0].targets(y, torch.Size([outputs[0], (outputs[1] - k) // k]))

    def _split(self, outputs: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Logits, and the outputs of each component."""
        k = self.components
        return outputs[:, :k], outputs[:, k:].chunk(k, 1)

    # --- evidence --------------------------------------------------------------------------

    def log_prob(self, y: Tensor, z: Tensor) -> Tensor:
        """See ``Likelihood``."""
        return self._densities(y, z).logsumexp(1)

    def _densities(self, y: Tensor, z: Tensor) -> Tensor:
        """Log of weight times density of every component, given the outputs."""
        logits, parts = self._split(z)
        each = [part.log_prob(y, own) for part, own in zip(self.part_list, parts, strict=True)]
        return torch.stack(each, 1) + logits.log_softmax(1)

    def _terms(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Log of weight times evidence of every component."""
        (logits, means), (spread, variances) = self._split(mean), self._split(variance)
        if self.has_learnable_noise:
            each = [
                part.log_evidence(y, m, v)
                for part, m, v in zip(self.part_list, means, variances, strict=True)
            ]
            found = torch.stack(each, 1)
        else:
            evidence = self.part_list[0].log_evidence(*self._below(y, mean, variance))
            found = evidence.reshape(len(y), -1)
        return found + (logits * shrinkage(spread)).log_softmax(1)

    def _below(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Components that are all alike as rows below each other, so that one call serves them."""
        k = self.components
        m, v = (outputs[:, k:].reshape(len(y) * k, -1) for outputs in (mean, variance))
        return y.repeat_interleave(k, 0), m, v

    def log_evidence(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Log of the sum over components."""
        return self._terms(y, mean, variance).logsumexp(1)

    def messages(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """See the module."""
        return self._messages(y, mean, variance, self._terms(y, mean, variance).softmax(1))

    def _messages(
        self, y: Tensor, mean: Tensor, variance: Tensor, share: Tensor
    ) -> tuple[Tensor, Tensor]:
        (logits, means), (spread, variances) = self._split(mean), self._split(variance)
        s = shrinkage(spread)
        p = (logits * s).softmax(1)
        first, second = [s * (share - p)], [s * s * (share * (1 - share) - p * (1 - p))]
        if self.has_learnable_noise:
            pairs = [
                part.messages(y, m, v)
                for part, m, v in zip(self.part_list, means, variances, strict=True)
            ]
            d, h = (torch.stack(both, 1) for both in zip(*pairs, strict=True))
        else:
            both = self.part_list[0].messages(*self._below(y, mean, variance))
            d, h = (part.reshape(len(y), self.components, -1) for part in both)
        r = share.unsqueeze(-1)
        first.append((r * d).flatten(1))
        second.append((r * h + r * (1 - r) * d * d).flatten(1))
        most = 1 / variance.clamp_min(torch.finfo(variance.dtype).tiny)
        return torch.cat(first, 1), torch.maximum(torch.cat(second, 1).clamp(max=0), -most)

    def curvature(self, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """See ``Likelihood``; from the curvature of the components, by Louis' identity.

        With the score ``s_k`` and the curvature ``L_k`` of the logits and component k together, the
        curvature of the mixture is ``E_r[L_k] - Cov_r[s_k]`` (Louis 1982).

        Exact: as that of the components is.
        """
        logits, parts = self._split(z.double())
        r = self._densities(y, z.double()).softmax(1)
        p = logits.softmax(1)
        blocks = [torch.diag_embed(p) - p.unsqueeze(1) * p.unsqueeze(2)]
        k, width = self.components, parts[0].shape[1]
        scores = z.new_zeros(len(z), k, z.shape[1], dtype=torch.float64)
        scores[:, :, :k] = torch.eye(k, dtype=r.dtype, device=r.device) - p.unsqueeze(1)
        for at, (part, own) in enumerate(zip(self.part_list, parts, strict=True)):
            slope, bend = part.curvature(y, own)
            scores[:, at, k + at * width : k + (at + 1) * width] = slope
            blocks.append(r[:, at].reshape(-1, 1, 1) * bend)
        first = (r.unsqueeze(2) * scores).sum(1)
        off = scores - first.unsqueeze(1)
        second = -torch.einsum("nk,nki,nkj->nij", r, off, off)
        start = 0
        for block in blocks:
            end = start + block.shape[1]
            second[:, start:end, start:end] += block
            start = end
        return first.to(z.dtype), positive_semidefinite(second).to(z.dtype)

    # --- noise -----------------------------------------------------------------------------

    @property
    def has_learnable_noise(self) -> bool:
        """Whether the components have a noise that is not given."""
        return self.part_list[0].has_learnable_noise

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
        share = self._terms(y, mean, variance).softmax(1)
        d_mu, d_var = self._messages(y, mean, variance, share)
        return Messages(d_mu, d_var, d_var, self._noise(y, mean, variance, share, memory_rows))

    def update_noise(
        self, y: Tensor, mean: Tensor, variance: Tensor, *, memory_rows: float | None = None
    ) -> dict[str, Tensor]:
        """The noise of each component, by the rows that it is responsible for."""
        return self._noise(
            y, mean, variance, self._terms(y, mean, variance).softmax(1), memory_rows
        )

    def _noise(
        self, y: Tensor, mean: Tensor, variance: Tensor, share: Tensor, memory_rows: float | None
    ) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        if not self.has_learnable_noise:
            return found
        _, means = self._split(mean)
        _, variances = self._split(variance)
        for k, (part, m, v) in enumerate(zip(self.part_list, means, variances, strict=True)):
            assert isinstance(part, OnlineEM)
            new = part.update_noise(y, m, v, weight=share[:, k], memory_rows=memory_rows)
            found |= {f"parts.{k}.{name}": value for name, value in new.items()}
        return found

    def sufficient_statistics(self, y: Tensor, z: Tensor) -> Tensor | None:
        """Statistics of every component, weighted by responsibilities; rows are components."""
        if not self.has_learnable_noise:
            return None
        y = y.repeat(len(z) // len(y), *[1] * (y.ndim - 1))
        share = self._densities(y, z).softmax(1).double()
        _, means = self._split(z.double())
        rows = []
        for k, (part, m) in enumerate(zip(self.part_list, means, strict=True)):
            assert isinstance(part, OnlineEM)
            r = share[:, k : k + 1]
            seen = part.expected_statistic(y.double(), m, torch.zeros_like(m))
            rows.append(torch.cat([(r * seen).sum(0).expand(part.outputs), r.sum(0)]))
        return torch.stack(rows)

    def m_step(self, statistics: Tensor) -> None:
        """The noise of every component; one that explains no row keeps its own."""
        for part, row in zip(self.part_list, statistics, strict=True):
            if float(row[-1]) > 1e-6:
                part.m_step(row)

    @property
    def can_calibrate(self) -> bool:
        """Whether the components have a noise that held-out rows can set."""
        return self.part_list[0].can_calibrate

    def held_out_scale(self, held_out: list[HeldOut], *, outliers: bool = False) -> float:
        """One factor for the noise of all components."""
        return calibrated_scale(held_out)

    def rescale(self, scale: float) -> None:
        """See ``Likelihood``."""
        for part in self.part_list:
            part.rescale(scale)

    # --- predictions -----------------------------------------------------------------------

    def predictive(self, mean: Tensor, variance: Tensor) -> Predictive:
        """The components' predictions, mixed; what lies between them is aleatoric.

        Epistemic is the variance of the expected target, to first order in the outputs.
        """
        (logits, means), (spread, variances) = self._split(mean), self._split(variance)
        each = [
            part.predictive(m, v)
            for part, m, v in zip(self.part_list, means, variances, strict=True)
        ]
        p = (logits * shrinkage(spread)).softmax(1)
        weights = p.T
        shape = (*weights.shape, *[1] * (each[0].mean.ndim - 1))
        centres, share = torch.stack([part.mean for part in each]), weights.reshape(shape)
        middle = (share * centres).sum(0)
        inner = (share**2 * torch.stack([part.epistemic for part in each])).sum(0)
        moved = (share * (centres - middle)) ** 2 * spread.T.reshape(shape)
        total = MixturePredictive(tuple(each), (1,) * len(each), weights)
        return MixturePredictive(
            total.parts, total.n_draws, weights, torch.minimum(inner + moved.sum(0), total.variance)
        )

    def config(self) -> dict[str, Any]:
        """See ``Likelihood``."""
        part = self.part_list[0]
        own = part.config()
        name = "Normal" if isinstance(part, OnlineNormal) else type(part).__name__
        return {"component": {"name": name, **own}, "components": self.components}


def _check_component(component: Likelihood) -> None:
    """Refuse a component that cannot be one, before anything is learnt."""
    kind = type(component).__name__
    if isinstance(component, PerStep):
        raise ValueError(
            f"a component of a Mixture must be a likelihood of rows, got {kind}: give "
            f"PerStep(Mixture(...)) for a mixture at every step"
        )
    if component.can_doubt:
        raise ValueError(
            f"a component of a Mixture must be of numbers, got {kind}: a mixture of labels is "
            f"itself a distribution of labels, which {kind} is without the Mixture"
        )
    if component.has_learnable_noise and not isinstance(component, OnlineEM):
        raise ValueError(
            f"a Mixture cannot learn the noise of {kind} components: give the "
            f"component a known noise (for example MultivariateNormal(2, covariance=...), "
            f"Ordinal(3, thresholds=...) or IncompleteNormal(sigma=...)), or use Normal, Laplace, "
            f"StudentT, NegativeBinomial or VonMises, whose noise it can learn"
        )
