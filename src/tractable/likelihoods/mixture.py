"""Multimodal targets: mixture density networks, in closed form for Gaussian outputs.

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

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, distributions
from typing_extensions import override

from tractable.likelihoods.base import HeldOut, Likelihood, positive_semidefinite
from tractable.likelihoods.calibration import calibrated_scale
from tractable.likelihoods.composite import Composite, from_config
from tractable.likelihoods.noise import repeat_targets
from tractable.likelihoods.normal import Normal
from tractable.likelihoods.online_em import OnlineEM
from tractable.likelihoods.online_normal import OnlineNormal
from tractable.likelihoods.per_step import PerStep
from tractable.likelihoods.softmax import shrinkage
from tractable.predictive import MixturePredictive, Predictive


class Mixture(Composite):
    """A mixture of K components; the network also predicts their probabilities.

    Exact: the evidence, but for the expected weights.
    Approximate: those; and an observation that makes an output *less* certain leaves its variance.

    Args:
        component: likelihood of the components: ``HeteroscedasticNormal()``, whose
            noise the network predicts, ``Normal()``, ``Laplace()``, ``StudentT()``, ... each with
            its own noise, which is learned by responsibilities if it is not given.
        components: number of components K, at least two.
    """

    def __init__(self, component: Likelihood | dict[str, Any], components: int) -> None:
        component = from_config(component)
        if components < 2:
            raise ValueError(f"a mixture needs at least 2 components, got {components}")
        if type(component) is Normal and not component.missing and component.sigma is None:
            component = OnlineNormal(None, component.outputs)
        _check_component(component)
        super().__init__([component] * components)
        self.components = components
        # Components may be permuted between the members of an ensemble.
        self.traits = replace(
            self.part_list[0].traits, supports_output_averaging=False, supports_outliers=False
        )

    @property
    @override
    def outputs_needed(self) -> int:
        return self.components * (1 + self.part_list[0].outputs_needed)

    @property
    @override
    def targets_needed(self) -> int:
        return self.part_list[0].targets_needed

    @override
    def check_targets(self, y: Tensor, outputs: torch.Size) -> Tensor:
        k = self.components
        if len(outputs) != 2 or outputs[1] <= k or (outputs[1] - k) % k:
            raise ValueError(
                f"a mixture of {k} needs {k} logits and as many outputs for each component "
                f"({k} + {k} m in all), the network gives {tuple(outputs[1:])}"
            )
        return self.part_list[0].check_targets(y, torch.Size([outputs[0], (outputs[1] - k) // k]))

    def _split(self, outputs: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the logits, and the outputs of each component."""
        k = self.components
        return outputs[:, :k], outputs[:, k:].chunk(k, 1)

    # --- evidence --------------------------------------------------------------------------

    def conditional(self, z: Tensor) -> distributions.MixtureSameFamily:
        """Return the mixture of whole rows: the targets of a row share their component."""
        logits, parts = self._split(z)
        each = [part.conditional(own) for part, own in zip(self.part_list, parts, strict=True)]
        if not each[0].event_shape:
            each = [distributions.Independent(part, 1) for part in each]
        components = _stacked(each)
        weights = distributions.Categorical(logits=logits, validate_args=False)
        return distributions.MixtureSameFamily(weights, components, validate_args=False)

    @override
    def log_prob(self, y: Tensor, z: Tensor) -> Tensor:
        return self._densities(y, z).logsumexp(1)

    def _densities(self, y: Tensor, z: Tensor) -> Tensor:
        """Return the log of weight times density of every component, given the outputs."""
        logits, parts = self._split(z)
        each = [part.log_prob(y, own) for part, own in zip(self.part_list, parts, strict=True)]
        return torch.stack(each, 1) + logits.log_softmax(1)

    def _terms(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Return the log of weight times evidence of every component."""
        (logits, means), (spread, variances) = self._split(mean), self._split(variance)
        if self.traits.learns_noise:
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
        """Return equal components as rows below each other, for a single call."""
        k = self.components
        m, v = (outputs[:, k:].reshape(len(y) * k, -1) for outputs in (mean, variance))
        return y.repeat_interleave(k, 0), m, v

    def log_evidence(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Return the log of the sum over components."""
        return self._terms(y, mean, variance).logsumexp(1)

    def messages(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Return the messages of the module documentation."""
        return self._messages(y, mean, variance, self._terms(y, mean, variance).softmax(1))

    def _messages(
        self, y: Tensor, mean: Tensor, variance: Tensor, share: Tensor
    ) -> tuple[Tensor, Tensor]:
        (logits, means), (spread, variances) = self._split(mean), self._split(variance)
        s = shrinkage(spread)
        p = (logits * s).softmax(1)
        first, second = [s * (share - p)], [s * s * (share * (1 - share) - p * (1 - p))]
        if self.traits.learns_noise:
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
        """Return gradient and curvature, from those of the components by Louis' identity.

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

    @override
    def messages_and_noise(
        self,
        y: Tensor,
        mean: Tensor,
        variance: Tensor,
        *,
        weight: Tensor | None = None,
        memory_rows: float | None = None,
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        share = self._terms(y, mean, variance).softmax(1)
        d_mu, d_var = self._messages(y, mean, variance, share)
        return d_mu, d_var, self._noise(y, mean, variance, share, memory_rows)

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
        share = self._terms(y, mean, variance).softmax(1)
        return self._noise(y, mean, variance, share, memory_rows)

    def _noise(
        self, y: Tensor, mean: Tensor, variance: Tensor, share: Tensor, memory_rows: float | None
    ) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        if not self.traits.learns_noise:
            return found
        _, means = self._split(mean)
        _, variances = self._split(variance)
        for k, (part, m, v) in enumerate(zip(self.part_list, means, variances, strict=True)):
            assert isinstance(part, OnlineEM)
            statistic = part.expected_statistic(y.double(), m.double(), v.double())
            new = part.online_average(
                statistic, responsibility=share[:, k], memory_rows=memory_rows
            )
            found |= {f"parts.{k}.{name}": value for name, value in new.items()}
        return found

    def sufficient_statistics(self, y: Tensor, z: Tensor) -> Tensor | None:
        """Return statistics of every component as rows, weighted by responsibilities."""
        if not self.traits.learns_noise:
            return None
        y = repeat_targets(y, z)
        share = self._densities(y, z).softmax(1).double()
        _, means = self._split(z.double())
        rows = []
        for k, (part, m) in enumerate(zip(self.part_list, means, strict=True)):
            assert isinstance(part, OnlineEM)
            r = share[:, k : k + 1]
            statistic = part.expected_statistic(y.double(), m, torch.zeros_like(m))
            rows.append(torch.cat([(r * statistic).sum(0).expand(part.outputs), r.sum(0)]))
        return torch.stack(rows)

    def m_step(self, statistics: Tensor) -> None:
        """Set the noise of every component; one without responsibility for any row keeps it."""
        for part, row in zip(self.part_list, statistics, strict=True):
            if float(row[-1]) > 1e-6:
                part.m_step(row)

    def held_out_scale(self, held_out: list[HeldOut], *, outliers: bool = False) -> float:
        """Return one factor for the noise of all components."""
        return calibrated_scale(held_out)

    @override
    def rescale(self, scale: float) -> None:
        for part in self.part_list:
            part.rescale(scale)

    # --- predictions -----------------------------------------------------------------------

    def predictive(self, mean: Tensor, variance: Tensor) -> Predictive:
        """Return a mixture of the predictions; the variance between components is aleatoric.

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
        centers, share = torch.stack([part.mean for part in each]), weights.reshape(shape)
        middle = (share * centers).sum(0)
        inner = (share**2 * torch.stack([part.epistemic for part in each])).sum(0)
        moved = (share * (centers - middle)) ** 2 * spread.T.reshape(shape)
        total = MixturePredictive(tuple(each), (1,) * len(each), weights)
        return MixturePredictive(
            total.parts, total.n_draws, weights, torch.minimum(inner + moved.sum(0), total.variance)
        )

    @override
    def config(self) -> dict[str, Any]:
        part = self.part_list[0]
        own = part.config()
        name = "Normal" if isinstance(part, OnlineNormal) else type(part).__name__
        return {"component": {"name": name, **own}, "components": self.components}


def _stacked(parts: list[Any]) -> Any:
    """Return distributions of one class as one distribution, stacked along dimension 1."""
    first = parts[0]
    if isinstance(first, distributions.Independent):
        base = _stacked([part.base_dist for part in parts])
        return distributions.Independent(base, 1)
    # Of alternative parameters, those in use are attributes of the object.
    names = [name for name in first.arg_constraints if name in vars(first)]
    values = {name: torch.stack([getattr(part, name) for part in parts], 1) for name in names}
    return type(first)(**values, validate_args=False)


def _check_component(component: Likelihood) -> None:
    """Raise ``ValueError`` if a likelihood cannot be a component."""
    kind = type(component).__name__
    if isinstance(component, PerStep):
        raise ValueError(
            f"a component of a Mixture must be a likelihood of rows, got {kind}: give "
            f"PerStep(Mixture(...)) for a mixture at every step"
        )
    if component.traits.has_labels:
        raise ValueError(
            f"a component of a Mixture must be of numbers, got {kind}: a mixture of labels is "
            f"itself a distribution of labels, which {kind} is without the Mixture"
        )
    if component.traits.learns_noise and not isinstance(component, OnlineEM):
        raise ValueError(
            f"a Mixture cannot learn the noise of {component} components: give the component a "
            f"known noise (for example MultivariateNormal(2, covariance=...) or Normal(sigma=..., "
            f"missing=True)), or use Normal(), Laplace(), StudentT(), NegativeBinomial() or "
            f"VonMises(), whose noise it can learn"
        )
