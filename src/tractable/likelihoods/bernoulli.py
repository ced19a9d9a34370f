"""Binary labels by a probit or a logit, one or many per row."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, distributions
from torch.nn.functional import logsigmoid
from typing_extensions import override

from tractable.errors import InvalidTarget
from tractable.likelihoods import probit, quadrature
from tractable.likelihoods.calibration import TemperatureScaled
from tractable.likelihoods.targets import class_targets, refuse_gaussian_targets
from tractable.predictive import CategoricalPredictive

Link = Literal["probit", "logit"]


class Bernoulli(TemperatureScaled):
    """``P(y = 1 | z) = Phi(z)``, or ``1 / (1 + e^-z)``; labels are 0 and 1.

    There is one output per label; a row may have several labels (pixels, tags), in any shape.

    Exact: the probit.  The logit's integral over a Gaussian is by quadrature, to ten digits.

    Args:
        link: ``"probit"``, in closed form; or ``"logit"``, whose log probability is minus the usual
            binary cross-entropy.
    """

    def __init__(self, link: Link = "probit") -> None:
        super().__init__()
        if link not in ("probit", "logit"):
            raise ValueError(f"link must be 'probit' or 'logit', got {link!r}")
        self.link = link
        # torch.vmap has no rule for the normal distribution function.
        self.traits = replace(self.traits, supports_vmap=link == "logit")

    @override
    def check_targets(self, y: Tensor, outputs: torch.Size) -> Tensor:
        if outputs[1:].numel() == 1:
            return class_targets(y, 2, outputs[0]).reshape(outputs)
        refuse_gaussian_targets(y)
        if y.shape != outputs:
            raise InvalidTarget(
                f"Bernoulli needs one output per label: labels of shape {tuple(y.shape)} do not "
                f"fit outputs of shape {tuple(outputs)}"
            )
        bad = (y != 0) & (y != 1)
        if bool(bad.any()):
            row = int(torch.nonzero(bad)[0, 0])
            raise InvalidTarget(f"labels must be 0 or 1, got {y[bad][0].item():g} in row {row}")
        return y.long()

    @override
    def conditional(self, z: Tensor) -> distributions.Bernoulli:
        z = z * self.noise_scale.rsqrt().to(z)
        if self.link == "logit":
            return distributions.Bernoulli(logits=z, validate_args=False)
        return distributions.Bernoulli(probs=torch.special.ndtr(z), validate_args=False)

    # --- the logit, as a density of every output -------------------------------------------

    def _log_sigmoid(self, sign: Tensor, z: Tensor) -> Tensor:
        return logsigmoid(sign * z)

    def _derivatives(self, sign: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        p = torch.sigmoid(-sign * z)
        return sign * p, -p * (1 - p)

    def _nodes(self, sign: Tensor, mean: Tensor, variance: Tensor) -> quadrature.Nodes:
        with torch.no_grad():
            slopes = partial(self._derivatives, sign)
            peak = quadrature.find_peak(slopes, mean, variance, mean)
            return quadrature.place(partial(self._log_sigmoid, sign), peak, mean, variance)

    def _logit(self, sign: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Return the log probability of every label, by quadrature in double precision."""
        sign, m, v = sign.double(), mean.double(), variance.double()
        nodes = self._nodes(sign, m.detach(), v.detach())
        density = partial(self._log_sigmoid, sign)
        return quadrature.log_evidence(density, nodes, m, v).to(mean.dtype)

    # --- both ------------------------------------------------------------------------------

    @override
    def log_prob(self, y: Tensor, z: Tensor) -> Tensor:
        if self.link == "logit":
            return self._log_sigmoid(2.0 * y - 1, z).flatten(1).sum(1)
        return self.log_evidence(y, z, torch.zeros_like(z))

    def log_evidence(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Return ``log Phi(+-mean / sqrt(1 + variance))``, or the integral of the logit."""
        sign = 2.0 * y - 1
        if self.link == "logit":
            return self._logit(sign, mean, variance).flatten(1).sum(1)
        return probit.log_probability(sign, mean, variance).flatten(1).sum(1)

    def messages(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Return the messages of ``probit``, or for the logit those of ``quadrature``."""
        sign = (2 * y - 1).to(mean.dtype)
        if self.link == "probit":
            return probit.messages(sign, mean, variance)
        sign, m, v = sign.double(), mean.double(), variance.double()
        density = partial(self._log_sigmoid, sign)
        z, weight = quadrature.posterior(density, self._nodes(sign, m, v), m, v)
        d_mu, d_var = quadrature.messages(partial(self._derivatives, sign), z, weight, m, v)
        return d_mu.to(mean.dtype), d_var.to(mean.dtype)

    def predictive(self, mean: Tensor, variance: Tensor) -> CategoricalPredictive:
        """Return class probabilities.  Exact: they, and the parts of their entropy."""
        if mean[0].numel() == 1:
            mean, variance = mean.flatten(), variance.flatten()
        # A noise of f times the variance is outputs of 1 / sqrt(f) times the size.
        mean, variance = mean * self.noise_scale.rsqrt().to(mean), variance / self.noise_scale
        variance = variance.to(mean)
        if self.link == "probit":
            score = mean * torch.rsqrt(1 + variance)
            both = torch.special.log_ndtr(torch.stack([-score, score], dim=-1)).exp()
            entropy = partial(probit.expected_entropy, mean, variance)
        else:
            signs = mean.new_tensor([-1.0, 1.0])
            wide = [t.unsqueeze(-1).expand(*t.shape, 2) for t in (mean, variance)]
            both = self._logit(signs.expand_as(wide[0]), *wide).exp()
            entropy = partial(_logit_entropy, mean, variance)
        return CategoricalPredictive(both, True, entropy)

    @override
    def config(self) -> dict[str, Any]:
        return {} if self.link == "probit" else {"link": self.link}


def _logit_entropy(mean: Tensor, variance: Tensor) -> Tensor:
    """Mean over ``z ~ N(mean, variance)`` of the entropy of a label, in nats."""
    z, weight = quadrature.prior_nodes(mean, variance)
    p, q = torch.sigmoid(z), torch.sigmoid(-z)
    entropy = -(p * logsigmoid(z) + q * logsigmoid(-z))
    return (weight * entropy).sum(0).to(mean.dtype)
