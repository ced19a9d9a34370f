"""What the targets of a regressor mean: the likelihoods that it knows by name.

==================  ==============================================================  ============
name                targets                                                         standardised
==================  ==============================================================  ============
normal              numbers, one noise                                              yes
heteroscedastic     numbers, a noise that the network predicts                      yes
laplace, student_t  numbers with outliers: long tails                               yes
mixture             numbers with several peaks: a mixture of five                   yes
poisson             counts, whose variance is their mean                            no
negative_binomial   counts that scatter more                                        no
von_mises           angles in radians                                               no
==================  ==============================================================  ============
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tractable.data import Standardizer
from tractable.likelihoods import (
    Categorical,
    HeteroscedasticNormal,
    Laplace,
    Likelihood,
    Mixture,
    NegativeBinomial,
    Normal,
    Poisson,
    StudentT,
    VonMises,
)

NORMAL = "normal"
COMPILED = (Normal, HeteroscedasticNormal, Poisson, NegativeBinomial, Categorical)
"""Likelihoods that the kernel serves; with others a step of TAGI costs twenty times as much."""
FEW_EPOCHS = 40
FULL_BATCH = 32
COMPONENTS = 5
"""Of a mixture."""


@dataclass(frozen=True)
class TargetKind:
    """How a regressor treats its targets.

    Attributes:
        make: the likelihood of so many targets in a row.
        needed: how many outputs they take.
        standardised: whether they are learnt in units of their standard deviation.
    """

    make: Callable[[int], Likelihood]
    needed: Callable[[int], int] = lambda targets: targets
    standardised: bool = True

    def likelihood(self, y: Tensor) -> tuple[Likelihood, int]:
        """The likelihood of targets, and how many outputs the network is to have.

        Args:
            y: targets in their own unit, ``[rows, targets]``.

        Raises:
            InvalidTarget: there is one that it cannot have, whose row is named.
        """
        likelihood, outputs = self.make(y.shape[1]), self.needed(y.shape[1])
        likelihood.targets(y, torch.Size([len(y), outputs]))
        return likelihood, outputs

    def scaler(self, y: Tensor) -> Standardizer:
        """What brings targets to the scale they are learnt in."""
        if self.standardised:
            return Standardizer.fit(y)
        zero = torch.zeros(y.shape[1], dtype=torch.float64)
        return Standardizer(zero, zero + 1, torch.zeros_like(zero, dtype=torch.bool))


KINDS: dict[str, TargetKind] = {
    NORMAL: TargetKind(lambda n: Normal(outputs=n)),
    "heteroscedastic": TargetKind(lambda n: HeteroscedasticNormal(), lambda n: 2 * n),
    "laplace": TargetKind(lambda n: Laplace(outputs=n)),
    "student_t": TargetKind(lambda n: StudentT(outputs=n)),
    "mixture": TargetKind(
        lambda n: Mixture(HeteroscedasticNormal(), COMPONENTS), lambda n: COMPONENTS * (1 + 2 * n)
    ),
    "poisson": TargetKind(lambda n: Poisson(), standardised=False),
    "negative_binomial": TargetKind(lambda n: NegativeBinomial(outputs=n), standardised=False),
    "von_mises": TargetKind(lambda n: VonMises(outputs=n), standardised=False),
}


def kind_of(name: Any) -> TargetKind:
    """What a name means.

    Raises:
        ValueError: nothing.
    """
    if not isinstance(name, str) or name not in KINDS:
        raise ValueError(f"likelihood must be one of {', '.join(KINDS)}; got {name!r}")
    return KINDS[name]
