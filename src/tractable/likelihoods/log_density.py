"""Networks that return the log density of their inputs."""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch import Tensor
from typing_extensions import override

from tractable.errors import InvalidTarget, Unsupported
from tractable.likelihoods.base import Likelihood, Traits
from tractable.predictive.log_density import LogDensityPredictive


class LogDensity(Likelihood):
    """The network returns the log density of each row of its inputs.

    Its single output is ``log p(row)``, or a bound on it, and is the log likelihood of the row;
    targets are ignored.  ``tractable.generative`` uses it for flows, autoencoders and any module
    that returns a ``torch.distributions.Distribution``.

    Exact: for the gradient-based learners.  ``TAGI`` cannot use it: the evidence of an uncertain
    density, the expected exponential of the output, has no Gaussian message.
    """

    traits = Traits(supports_output_averaging=False)  # of densities, not of their logarithms

    def check_targets(self, y: Tensor, outputs: torch.Size) -> Tensor:
        """Return any values, one per row; raise if the network has not one output."""
        if outputs[1:] != (1,):
            raise InvalidTarget(
                f"the network must return the log density of each row, one number: its outputs "
                f"are of shape {tuple(outputs)}. A network whose outputs are compared with targets "
                f"needs another likelihood, such as likelihoods.Normal()"
            )
        return y.reshape(len(y), -1)[:, :1]

    def conditional(self, z: Tensor) -> NoReturn:
        """Raise ``TypeError``: the network itself is the distribution."""
        raise TypeError("LogDensity has no conditional distribution: the network is the density")

    def log_prob(self, y: Tensor, z: Tensor) -> Tensor:
        """Return the output."""
        return z[..., 0]

    def log_evidence(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Return the output; raise ``Unsupported`` if it is uncertain."""
        if bool((variance > 0).any()):
            raise Unsupported(
                "a network that returns a log density cannot be learned in closed form: the "
                "likelihood of a row is the exponential of an uncertain output, which has no "
                "Gaussian message. Use Backprop or BayesByBackprop, or a density that reduces to "
                "regression: generative.Autoregressive or generative.Diffusion"
            )
        return mean[..., 0]

    @override
    def predictive(self, mean: Tensor, variance: Tensor) -> LogDensityPredictive:
        return LogDensityPredictive(mean[..., 0])

    @override
    def config(self) -> dict[str, Any]:
        return {}
