"""Safeguards against the influence of single observations, for a network and a likelihood."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from tractable.learners.methods.tagi.batch_rule import BatchRule
from tractable.learners.network.functional import Network
from tractable.likelihoods import HeteroscedasticNormal, Likelihood, Normal

_ONE_LAYER = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


@dataclass(frozen=True)
class Robustness:
    """The safeguards against single observations that are active.

    Attributes:
        limit: whether the length of a step is limited
            (``tractable.learners.methods.tagi.batch_rule``).
        gate: whether outlying targets are down-weighted
            (``tractable.learners.methods.tagi.outlier_gate``).
        statistics: whether running statistics follow unusual batches slowly.
    """

    limit: bool = False
    gate: bool = False
    statistics: bool = False

    @classmethod
    def of(
        cls, network: Network, likelihood: Likelihood, rule: BatchRule, robust: bool
    ) -> Robustness:
        """Return the safeguards for a network under a likelihood.

        Classification has none: a wrong label moves a tree of decisions by a few standard
        deviations at most, and a limit would shorten most of the correct steps.
        """
        if not robust or rule == "published":
            return NOT_ROBUST
        normal = isinstance(likelihood, Normal | HeteroscedasticNormal)
        return cls(
            limit=normal and not _exact(network),
            gate=likelihood.traits.supports_outliers,
            statistics=True,
        )


NOT_ROBUST = Robustness()


def _exact(network: Network) -> bool:
    """Return whether all parameters belong to one linear layer, whose updates are exact."""
    owners = {name.rpartition(".")[0] for name in network.shapes}
    return len(owners) == 1 and isinstance(network.module.get_submodule(owners.pop()), _ONE_LAYER)
