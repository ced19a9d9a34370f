"""One pass of inference to the input: moments forward, the message of an observation backward.

The weights contribute their variances and receive no messages.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tractable.errors import NonFiniteMessage, NotFitted
from tractable.gaussian import Gaussian
from tractable.learners import TAGI
from tractable.likelihoods import Categorical, Likelihood, Normal
from tractable.likelihoods.base import limit_variance_message
from tractable.moments import conditioning
from tractable.training.inputs import single_input


def trained(model: TAGI) -> TAGI:
    """Return the model, or raise an error unless it is a fitted ``TAGI`` model."""
    if not isinstance(model, TAGI):
        raise TypeError(
            f"model must be a TAGI learner, whose weights are Gaussian; got {type(model).__name__}"
        )
    if not model.fitted:
        raise NotFitted("the model was not trained: call fit or update first")
    return model


def positive(value: float, name: str) -> float:
    """Return a finite positive number, or raise ``ValueError``."""
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a positive number, got {value}")
    return float(value)


def prior(model: TAGI, x: Any, input_std: float | None = None) -> Gaussian:
    """Return the prior of the input; a tensor gets the standard deviation ``input_std``."""
    if input_std is not None:
        positive(input_std, "input_std")
    if isinstance(x, Gaussian):
        if input_std is not None:
            raise ValueError("a Gaussian input has its own variance: leave out input_std")
        moved = model.checks.format.inputs(x)
        assert isinstance(moved, Gaussian)
        return Gaussian.wrap(moved.loc.detach(), moved.variance.detach())
    loc = single_input(model.checks.format.inputs(x), "inferring an input")
    if not loc.is_floating_point():
        raise TypeError(f"inputs of {loc.dtype} cannot be inferred: floating-point is required")
    return Gaussian.wrap(loc, torch.full_like(loc, 0.0 if input_std is None else input_std**2))


def noisy(likelihood: Likelihood, noise_std: float | None) -> Likelihood:
    """Return the likelihood with another observation noise."""
    if noise_std is None:
        return likelihood
    positive(noise_std, "noise_std")
    if isinstance(likelihood, Normal):
        return Normal(noise_std).to(likelihood.noise_mean.device)
    if isinstance(likelihood, Categorical) and likelihood.link == "normal":
        changed = Categorical(likelihood.classes, likelihood.tree, "normal", noise_std)
        return changed.to(likelihood.paths.device)
    raise ValueError(
        f"noise_std needs a normal likelihood or link, got {likelihood}: leave out noise_std"
    )


def leaf(x: Gaussian) -> Gaussian:
    """Return the Gaussian as the root of a new graph, which can receive messages."""
    return Gaussian.wrap(x.loc.detach().requires_grad_(), x.variance.detach().requires_grad_())


def send(
    outputs: Gaussian, observed: Observation, to: list[Gaussian]
) -> list[tuple[Tensor, Tensor]]:
    """Propagate messages from the outputs back to given states of their graph."""
    ends = [moment for state in to for moment in (state.loc, state.variance)]
    found = torch.autograd.grad(
        [outputs.loc, outputs.variance], ends, [observed.d_mu, observed.d_var], allow_unused=True
    )
    full = [torch.zeros_like(end) if d is None else d for d, end in zip(found, ends, strict=True)]
    return list(zip(full[::2], full[1::2], strict=True))


@dataclass(frozen=True)
class Observation:
    """The message of an observation to the outputs."""

    d_mu: Tensor
    d_var: Tensor
    variance: Tensor
    """Variance of the outputs."""

    @property
    def values(self) -> Tensor:
        """Number of observed values in each row."""
        return (self.d_var < 0).flatten(1).sum(1).clamp_min(1).to(self.d_mu.dtype)

    def gain(self, state: Gaussian, d_mu: Tensor) -> Tensor:
        """Return the factor on a message to ``state`` that corrects for dependent units, per row.

        The forward moments treat the units of a layer as independent, although all of them depend
        on the same input.  The variance of an output due to the input is then too small, and the
        step, which is divided by it, too long.  Along the step itself that variance is known:
        ``lambda = sum v g^2 / sum d^2`` with messages d at the outputs and g at the state.  As in
        ``tractable.learners.methods.tagi.batch_rule`` the gain is ``min(1, c / (lambda + s2))``,
        where c is the variance by which the message was divided and s2 its noise part.

        Exact: the mean, for one output whose variance comes from this state and the noise.  It
        is 1 if the units are independent.
        """
        weight = conditioning.observed_power(self.d_mu, self.d_var)
        power = _row_sums(state.variance * d_mu * d_mu)
        return conditioning.damping(weight, self.d_var, self.variance, power, _row_sums)


def observe(likelihood: Likelihood, targets: Tensor, outputs: Gaussian) -> Observation:
    """Return the message of targets to the outputs."""
    with torch.no_grad():
        mean, variance = outputs.loc.detach(), outputs.variance.detach()
        d_mu, d_var = likelihood.messages(targets, mean, variance)
        return Observation(d_mu, limit_variance_message(d_var, variance), variance)


def posterior(
    state: Gaussian, d_mu: Tensor, d_var: Tensor, observed: Observation, damped: bool = True
) -> Gaussian:
    """Return a state after its message, scaled by the gain; its variance stays positive."""
    with torch.no_grad():
        n = observed.values
        if damped:
            gain = observed.gain(state, d_mu)
            n = (n * gain).clamp_min(1)
            d_mu, d_var = d_mu * _rows(gain, d_mu), d_var * _rows(gain, d_mu)
        mean, variance = conditioning.condition(
            state.loc, state.variance, d_mu, d_var, _rows(n, d_mu)
        )
    if not bool(torch.isfinite(mean).all() & torch.isfinite(variance).all()):
        raise NonFiniteMessage(
            "the message of the observation is not finite: (a) the observation is too far from the "
            "prediction, (b) the noise is too small, or (c) the input is out of range"
        )
    return Gaussian.wrap(mean.detach(), variance.detach())


def _row_sums(values: Tensor) -> Tensor:
    return values.flatten(1).sum(1)


def _rows(per_row: Tensor, like: Tensor) -> Tensor:
    return per_row.reshape(-1, *[1] * (like.ndim - 1))
