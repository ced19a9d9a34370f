"""What a fit says of rows that it has not seen, in the parts that are scaled later."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from tractable.likelihoods import Likelihood
from tractable.likelihoods.base import HeldOut


@dataclass(frozen=True)
class Seen:
    """Held-out rows as a fit sees them.

    Attributes:
        likelihood: with the noise that the fit inferred.
        y: the targets.
        mean: mean of the outputs.
        variance: variance of the outputs, as among the data.
        within: the share of it that each network has by itself.
        growth: what the variance is to grow by where rows are unlike those of the fit; None where
            it is not to grow.
        x: standardised inputs.
    """

    likelihood: Likelihood
    y: Tensor
    mean: Tensor
    variance: Tensor
    within: Tensor
    growth: Tensor | None
    x: Tensor

    def doubted(self, doubt: float) -> Tensor:
        """The variance among the data, with that within the networks times a factor."""
        return self.variance if doubt == 1 else self.variance - (1 - doubt) * self.within

    def heldout(self, doubt: float = 1.0, growth: float = 1.0) -> HeldOut:
        """For a likelihood, with factors on the two variances."""
        variance = self.doubted(doubt)
        if self.growth is not None:
            variance = variance + growth * self.growth
        return self.likelihood, self.y, self.mean, variance
