"""A mixture of normal distributions as a distribution over rows, given contexts or known values."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tractable.generative.em import Mixture, patterns
from tractable.generative.predictive import Density


class MixtureDensity(Density):
    """A mixture as a distribution over rows; with a context, its conditional one.

    Args:
        mixture: the mixture, of contexts (if there are any) and rows beside them.
        context: rows of context, or None.
        dtype: precision of samples.
        members: mixtures of as many components each, of which ``mixture`` is the average.
    """

    def __init__(
        self, mixture: Mixture, context: Tensor | None, dtype: torch.dtype, members: int = 1
    ) -> None:
        self.mixture, self.dtype, self.members = mixture, dtype, members
        self.context = None if context is None else context.double()
        self.known = 0 if context is None else context.shape[1]

    def log_prob(self, z: Tensor) -> Tensor:
        """See ``Density``; of rows with holes the density of what is there."""
        return self._log_prob(z, 1)[0]

    def log_prob_draws(self, z: Tensor) -> Tensor:
        """See ``Density``; of every member."""
        return self._log_prob(z, self.members)

    def _log_prob(self, z: Tensor, parts: int) -> Tensor:
        """Of so many even parts of the components, ``[parts, rows]``."""

        def total(joint: Tensor) -> Tensor:
            found = joint.unflatten(1, (parts, -1)).logsumexp(2).T
            return found + math.log(parts)

        found = total(self.mixture.log_joint(self._whole(z.double())))
        if self.context is not None:
            known = torch.arange(self.known)
            found = found - total(self.mixture.log_marginal(self.context, known))
        return found.to(z.dtype)

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """See ``Density``."""
        rows = 1 if self.context is None else len(self.context)
        nothing = torch.full((rows, self.mixture.means.shape[1] - self.known), math.nan)
        drawn = self._drawn(nothing.double(), n, generator).to(self.dtype)
        return drawn[:, 0] if self.context is None else drawn

    def complete(self, z: Tensor, known: Tensor, draws: int, generator: torch.Generator) -> Tensor:
        """See ``Density``; exact."""
        seen = torch.where(known, z.double(), math.nan)
        return self._drawn(seen, draws, generator).to(z.dtype)

    def _drawn(self, rows_with_holes: Tensor, draws: int, generator: torch.Generator) -> Tensor:
        whole = self._whole(rows_with_holes)
        filled = whole.expand(draws, -1, -1).clone()
        for rows, seen, hidden in patterns(whole):
            if not len(hidden):
                continue
            log_weights, means, covariances = self.mixture.given(whole[rows][:, seen], seen, hidden)
            of = torch.multinomial(log_weights.exp(), draws, replacement=True, generator=generator)
            root = torch.linalg.cholesky(_positive(covariances))
            noise = torch.randn(
                draws, len(rows), len(hidden), generator=generator, dtype=torch.float64
            )
            component = of.T  # [draws, rows]
            mean = means[torch.arange(len(rows)), component]
            drawn = mean + (root[component] @ noise.unsqueeze(-1)).squeeze(-1)
            filled[:, rows[:, None], hidden] = drawn
        return filled[..., self.known :]

    def _whole(self, z: Tensor) -> Tensor:
        """Rows with their contexts in front."""
        if self.context is None:
            return z
        return torch.cat([self.context.expand(len(z), -1), z], 1)


def _positive(covariances: Tensor) -> Tensor:
    """Covariances with what rounding took from their diagonal given back."""
    size = covariances.diagonal(dim1=1, dim2=2).amax(1)[:, None, None].clamp_min(1e-300)
    return covariances + 1e-12 * size * torch.eye(covariances.shape[-1], dtype=torch.float64)
