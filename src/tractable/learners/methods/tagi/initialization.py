"""Initial means and prior variances of TAGI.

In a network of two hidden layers, means and variances may have the same scale, as published.  In a
deep network half of the signal of every layer would then be variance, and the output would not
depend on the input.  Means therefore need the scale that preserves the size of signals (``gain=2``,
as He et al.), and variances a fraction of it that decreases with depth.  The values were chosen on
validation rows of digits and of the UCI data sets
(``studies/tractable_studies/depth``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from tractable.learners.network.functional import Network
from tractable.learners.network.structure import NetworkStructure, residual_branch_ends
from tractable.likelihoods import Likelihood
from tractable.posterior import SCHEMES, Posterior, Scheme, initial_posterior

Init = Literal["lecun", "he", "xavier", "net"]
INITS: tuple[Init, ...] = (*SCHEMES, "net")

_SHALLOW = 3
"""Maximum number of weight matrices for which the published initialization is best."""


@dataclass(frozen=True)
class PriorScale:
    """The scale of initial means and prior variances.

    Attributes:
        gain: variance of the initial means divided by that of the scheme.
        prior_variance_ratio: prior variance of a weight divided by the variance of the means.
        scale_by_layer_size: whether the ratio grows with the square root of a matrix's size, so
            that large and small layers are updated at the same relative rate
            (``tractable.posterior.initial_posterior``).
        residual_gain: factor on the variance of the initial means at the end of a residual
            branch.
    """

    gain: float
    prior_variance_ratio: float
    scale_by_layer_size: bool = False
    residual_gain: float = 1.0

    def __post_init__(self) -> None:
        for name in ("gain", "prior_variance_ratio", "residual_gain"):
            number = getattr(self, name)
            if not (math.isfinite(number) and number > 0):
                raise ValueError(f"{name} must be a positive number, got {number}")

    @classmethod
    def of(
        cls,
        network: Network,
        likelihood: Likelihood,
        init: Init,
        gain: float | None,
        prior_variance_ratio: float | None,
        scale_by_layer_size: bool | None = None,
        residual_gain: float | None = None,
    ) -> PriorScale:
        """Return the given numbers, with defaults for the others.

        A gain without a variance ratio has the ratio 1 of the published initialization.
        """
        if init == "net":
            usual = cls(1.0, NARROW)
        elif gain is not None:
            usual = cls(gain, 1.0)
        else:
            usual = default_prior_scale(
                NetworkStructure.of(network.module),
                numbers=likelihood.traits.supports_extra_variance,
            )
        return cls(
            usual.gain if gain is None else gain,
            usual.prior_variance_ratio if prior_variance_ratio is None else prior_variance_ratio,
            usual.scale_by_layer_size if scale_by_layer_size is None else bool(scale_by_layer_size),
            usual.residual_gain if residual_gain is None else residual_gain,
        )


PUBLISHED = PriorScale(0.25, 1.0)
NARROW = 0.001
"""Relative prior variance of given weights (``init="net"``)."""


def default_prior_scale(anatomy: NetworkStructure, *, numbers: bool) -> PriorScale:
    """Return the default scale for a network that predicts numbers, or classes.

    With L matrices on the longest path and k sums of branches, the gain grows with L up to 2 as of
    He et al. (up to 1 for numbers, and with sums).  Convolutions have the gain 2 for any L, because
    padding and pooling weaken the signal.  A sum increases the signal, so each of many branches
    starts small, and for numbers all layers do.  The relative variance is about 1 / L, less with
    convolutions without sums, and decreases faster in a chain beyond L = 10.

    >>> default_prior_scale(NetworkStructure(depth=3), numbers=True)
    PriorScale(gain=0.25, prior_variance_ratio=1.0, scale_by_layer_size=False, residual_gain=1.0)
    >>> default_prior_scale(NetworkStructure(depth=8), numbers=False)
    PriorScale(gain=1.0, prior_variance_ratio=0.125, scale_by_layer_size=False, residual_gain=1.0)
    >>> net = NetworkStructure(depth=4, norms=True, batch_norms=True, convolutions=True)
    >>> default_prior_scale(net, numbers=False)
    PriorScale(gain=0.5, prior_variance_ratio=0.5, scale_by_layer_size=True, residual_gain=1.0)
    """
    depth, sums = max(anatomy.depth, 1), max(anatomy.sums, 1)
    if anatomy.recurrent:
        return PriorScale(2.0, 0.3)
    if anatomy.norms and anatomy.attention:
        return PriorScale(2.0, min(0.3, 1.5 / depth))
    if anatomy.norms:
        return _normalised(anatomy, numbers)
    if depth <= _SHALLOW:
        return PUBLISHED
    if anatomy.sums and not numbers:
        small = _residual_gain(sums)
        if anatomy.convolutions:
            return PriorScale(2.0, max(0.9 / depth, 0.1), residual_gain=small)
        return PriorScale(min(1.0, depth / 8), 1 / depth, residual_gain=small)
    if anatomy.convolutions:
        return PriorScale(min(2.0, 12 / sums), (0.9 if anatomy.sums else 0.3) / depth)
    gain = min(1.0 if numbers else 2.0, depth / 8, 5 / sums)
    return PriorScale(gain, min(1 / depth, 10 / depth**2))


def _normalised(anatomy: NetworkStructure, numbers: bool) -> PriorScale:
    """Return the default scale for a network with normalization layers.

    Classes start with a small head: the uncertainty of the layers before it, which normalization
    bounds by one, then stays small in the outputs whatever the depth, and these layers can have
    enough variance to move.
    """
    depth, sums = max(anatomy.depth, 1), 1 + anatomy.sums
    if numbers:
        return PriorScale(1 / sums if anatomy.sums else 2.0, min(0.5 / depth, 4 / depth**2))
    if not anatomy.convolutions:
        return PriorScale(0.15 / sums, max(0.5 / depth, 0.1), scale_by_layer_size=True)
    # Networks of few convolutions may have large variances.
    large = min(2 / depth, 0.5)
    if not anatomy.batch_norms:
        # Normalized over one row, all channels together: rows differ little after pooling.
        return PriorScale(
            1.5,
            max(large, 0.25),
            scale_by_layer_size=True,
            residual_gain=_residual_gain(anatomy.sums),
        )
    # Pooling makes the inputs of a head small, and sums of branches make them large.
    gain = 1 / sums if anatomy.sums else max(large, 0.15)
    return PriorScale(gain, max(large, 0.1), scale_by_layer_size=True)


def _residual_gain(sums: int) -> float:
    """Return the factor on the initial variance at the ends of residual branches.

    What every branch adds is positive after a ReLU, and much the same for all inputs.  Of twenty
    full ones the sum is a large number that hardly depends on the input, and the head, whose
    weights are updated independently, would distinguish classes by its last digits.
    """
    return min(1.0, 16 / max(sums, 1) ** 2)


def make_prior(
    network: Network,
    init: Init,
    start: PriorScale,
    reinit: Sequence[str],
    generator: torch.Generator,
) -> Posterior:
    """Return the posterior before any data.

    Args:
        network: the network.
        init: scheme of the variances, or ``"net"`` for the network's own weights as means.
        start: sizes of means and variances; with ``"net"``, of the weights that are not fresh.
        reinit: with ``"net"``, modules (or parameters) that are initialized again, with
            the published variances.
        generator: for draws of the means.
    """
    scheme: Scheme = "lecun" if init == "net" else init
    kept: dict[str, float] = {}
    wide = start
    smaller = dict[str, float]()
    if init != "net" and start.residual_gain != 1:
        smaller = dict.fromkeys(residual_branch_ends(network.module), start.residual_gain)
    if init == "net":
        new = reinit_names(network, reinit)
        check_weights(network.module)
        kept = {
            # The variance is relative to that of the reinitialized ones.
            name: start.gain * start.prior_variance_ratio / PUBLISHED.gain
            for name in network.shapes
            if name not in new
        }
        wide = PUBLISHED
    return initial_posterior(
        network.module,
        scheme=scheme,
        gain=wide.gain,
        prior_variance_ratio=wide.prior_variance_ratio,
        scale_by_layer_size=start.scale_by_layer_size,
        kept=kept,
        smaller=smaller,
        generator=generator,
        dtype=network.dtype,
        device=network.device,
    )


def reinit_names(network: Network, reinit: Sequence[str]) -> set[str]:
    """Return the parameters of the modules that are reinitialized.

    Raises:
        ValueError: a name is that of no parameter and of no module that has any.
    """
    found: set[str] = set()
    for part in reinit:
        names = {n for n in network.shapes if n == part or n.startswith(f"{part}.")}
        if not names:
            raise ValueError(
                f"reinit names {part!r}, and the network has no such module or parameter to learn; "
                f"it has {', '.join(network.shapes)}"
            )
        found |= names
    return found


def check_weights(net: nn.Module) -> None:
    """Raise ``ValueError`` for weights that are not finite."""
    for name, parameter in net.named_parameters():
        if not bool(torch.isfinite(parameter).all()):
            raise ValueError(f"init='net' starts from the weights: {name} has NaN or infinite ones")
