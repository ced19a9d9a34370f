"""What a subclass of the likelihood tests implements, and the outputs that the tests use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from tractable.likelihoods import Likelihood
from tractable.predictive import Predictive

ROWS = 3
SEEDS = 5
"""Seeds of the outputs at which evidence and messages are compared."""


class LikelihoodCase(ABC):
    """The likelihood under test; a subclass implements ``make``, ``observed`` and ``bad_targets``.

    The other members have defaults.  A test that does not apply is switched off by one of them.
    """

    width: ClassVar[int] = 1
    """Number of outputs of the network that an observation needs."""

    bad_targets: ClassVar[Sequence[Tensor]] = ()
    """Invalid targets for three rows: each must raise an error."""

    arguments: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """For an argument of the constructor that the tests cannot vary by themselves (they vary
    numbers, flags and ``Literal`` types): its name, and arguments of which it has another value
    than in ``make()``, such as ``{"thresholds": {"thresholds": [0.0, 1.0]}}``."""

    evidence_tolerance: ClassVar[float] = 1e-5
    """Allowed error of the log evidence, and of the posterior moments of an output relative to its
    variance, against an integral over the likelihood."""

    message_tolerance: ClassVar[float] = 1e-9
    """Relative error of messages that are written out, against derivatives of the evidence."""

    log_concave: ClassVar[bool] = False
    """Whether an observation can only make an output more certain: nothing is cut off then."""

    normalized: ClassVar[bool] = True
    """Whether predictions at known outputs have the density ``exp(log_prob)``.  False where
    predictions are defined in another way, such as probabilities that are divided by their sum."""

    has_conditional: ClassVar[bool] = True
    """Whether ``conditional`` returns a distribution.  False for several kinds of targets."""

    exact_predictive: ClassVar[bool] = True
    """Whether the density of a prediction is the evidence.  False for an approximation."""

    exact_moments: ClassVar[bool] = True
    """Whether ``mean``, ``epistemic`` and ``aleatoric`` of a prediction are integrals over the
    outputs (for classes: ``probs``).  False for an approximation."""

    prediction_tolerance: ClassVar[float] = 1e-3
    """Allowed error of the members of a prediction, relative to its standard deviation."""

    online_shortfall: ClassVar[float] = 12.0
    """Log likelihood of 1,800 rows that a noise may lack of that of the true noise when it follows
    the rows batch by batch.  Larger where several parameters converge slowly."""

    check_members: ClassVar[bool] = True
    """Whether ``check_predictive`` compares all members of a prediction at known outputs.  False
    where quantiles are slow, of which it asks for hundreds, and for counts beside numbers."""

    learners: ClassVar[Sequence[str]] = ("TAGI", "BayesByBackprop", "Backprop", "Laplace")
    """Learners that can use it."""

    @abstractmethod
    def make(self) -> Likelihood:
        """Return a new instance of the likelihood under test."""

    @abstractmethod
    def observed(self) -> Tensor:
        """Return three observations as returned by ``check_targets``; numbers in float64."""

    def outputs(self, seed: int = 0) -> tuple[Tensor, Tensor]:
        """Return mean and variance of the outputs at three rows."""
        generator, shape = torch.Generator().manual_seed(seed), (ROWS, self.width)
        mean = 0.7 * torch.randn(shape, generator=generator, dtype=torch.float64) + 0.3
        return mean, 0.05 + 0.6 * torch.rand(shape, generator=generator, dtype=torch.float64)

    def noise_variance(self, p: Predictive) -> Tensor:
        """Return what ``rescale(scale)`` multiplies, from a prediction at known outputs."""
        return p.aleatoric

    # --- derived from these ----------------------------------------------------------------

    def several_outputs(self, seeds: int = SEEDS, first: int = 0) -> tuple[Tensor, Tensor, Tensor]:
        """Return observations, means and variances for several seeds of ``outputs``, as rows."""
        each = [self.outputs(seed) for seed in range(first, first + seeds)]
        y = self.observed()
        mean, variance = (torch.cat(parts) for parts in zip(*each, strict=True))
        return y.repeat(seeds, *[1] * (y.ndim - 1)), mean, variance

    def draw(self, likelihood: Likelihood, z: Tensor, seed: int) -> Tensor:
        """Return a target for each row of known outputs, sampled from predictions."""
        p = likelihood.predictive(z, torch.zeros_like(z))
        drawn = p.sample(1, torch.Generator().manual_seed(seed))[0]
        return likelihood.check_targets(drawn, z.shape)
