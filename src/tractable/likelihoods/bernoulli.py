"""Two classes, by a probit."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from tractable.likelihoods import probit
from tractable.likelihoods.base import Likelihood, class_targets
from tractable.predictive import CategoricalPredictive


class Bernoulli(Likelihood):
    """``P(y = 1 | z) = Phi(z)`` for one output; labels are 0 and 1."""

    def targets(self, y: Tensor, outputs: torch.Size) -> Tensor:
        """See ``Likelihood``."""
        if outputs[1:].numel() != 1:
            raise ValueError(
                f"Bernoulli needs one output per row, the network gives {tuple(outputs[1:])}"
            )
        return class_targets(y, 2, outputs[0]).reshape(outputs)

    def log_prob(self, y: Tensor, z: Tensor) -> Tensor:
        """See ``Likelihood``."""
        return self.log_evidence(y, z, torch.zeros_like(z))

    def log_evidence(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """``log Phi(+-mean / sqrt(1 + variance))``."""
        return probit.log_probability(2.0 * y - 1, mean, variance).flatten(1).sum(1)

    def messages(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """See ``probit``."""
        return probit.messages((2 * y - 1).to(mean.dtype), mean, variance)

    def predictive(self, mean: Tensor, variance: Tensor) -> CategoricalPredictive:
        """Exact: the probabilities, and how their entropy parts (see ``probit``)."""
        score = (mean * torch.rsqrt(1 + variance)).flatten()
        both = torch.stack([-score, score], dim=-1)
        entropy = partial(probit.expected_entropy, mean.flatten(), variance.flatten())
        return CategoricalPredictive(torch.special.log_ndtr(both).exp(), True, entropy)

    def config(self) -> dict[str, Any]:
        """See ``Likelihood``."""
        return {}
