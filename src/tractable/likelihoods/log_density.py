"""The network itself is a density: its output is the log density of the row."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tractable.errors import InvalidTarget, Unsupported
from tractable.likelihoods.base import Likelihood
from tractable.predictive.log_density import LogDensityPredictive


class LogDensity(Likelihood):
    """For modules that return a distribution, asked for the log density of the rows they are given.

    The rows are the *inputs* of such a network, and its one output is ``log p(row)`` (or a bound
    on it), so nothing is left to compare it with: targets are ignored, and the log likelihood of
    a row is the output.  ``tractable.generative`` wraps flows, autoencoders and any module that
    returns a ``torch.distributions.Distribution`` in this way.

    Exact: for the gradient learners.  For ``TAGI`` there is no message: it would need the
    evidence of a density that is itself uncertain, an exponential of the output.
    """

    @property
    def can_average(self) -> bool:
        """Log densities of several networks are not averaged: their densities are."""
        return False

    def targets(self, y: Tensor, outputs: torch.Size) -> Tensor:
        """Whatever was given, one value a row; the network must have one output."""
        if outputs[1:] != (1,):
            raise InvalidTarget(
                f"the network must return the log density of each row, one number: its outputs "
                f"are of shape {tuple(outputs)}. A network that returns numbers to be compared "
                f"with targets needs a likelihood that says how, such as likelihoods.Normal()"
            )
        return y.reshape(len(y), -1)[:, :1]

    def log_prob(self, y: Tensor, z: Tensor) -> Tensor:
        """The output."""
        return z[..., 0]

    def log_evidence(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """The output; only where it is certain."""
        if bool((variance > 0).any()):
            raise Unsupported(
                "a module that returns a distribution cannot be learnt in closed form: the "
                "likelihood of a row is the exponential of an uncertain output, which has no "
                "Gaussian message. Use Backprop or BayesByBackprop, or a density that reduces to "
                "regression: generative.Autoregressive or generative.Diffusion"
            )
        return mean[..., 0]

    def predictive(self, mean: Tensor, variance: Tensor) -> LogDensityPredictive:
        """The log density of each row."""
        return LogDensityPredictive(mean[..., 0])

    def config(self) -> dict[str, Any]:
        """No arguments."""
        return {}
