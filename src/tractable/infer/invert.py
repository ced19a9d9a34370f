"""Inverse problems: the input that explains an output, by iterated inference.

The posterior of the input in one iteration is the prior of the next (Nguyen & Goulet, section
3), which relinearizes the network at every step.

Exact: the first iteration of a linear network with one output.
Approximate: every iteration uses the observation again.  The variances after several iterations
therefore underestimate the uncertainty; they show how far the iteration could still move.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tractable.gaussian import Gaussian
from tractable.infer import message_passing
from tractable.learners import TAGI
from tractable.predictive import Predictive


class NotConverged(UserWarning):
    """A warning: an iteration ended before its result converged."""


@dataclass(frozen=True)
class Inversion:
    """Inferred inputs for given outputs.

    Attributes:
        input: the inferred inputs, one row per observation.
        output: what the model predicts there (``output.log_prob(y)`` measures the fit).
        converged: for each row, whether the mean stood still.
        steps: for each row, the iterations used.
    """

    input: Gaussian
    output: Predictive
    converged: Tensor
    steps: Tensor


def invert(
    model: TAGI,
    y: Any,
    prior: Any,
    steps: int = 100,
    *,
    input_std: float | None = None,
    noise_std: float | None = None,
    tolerance: float = 1e-3,
) -> Inversion:
    """Return the inferred inputs for given outputs.

    Args:
        model: a fitted ``TAGI`` model.
        y: the outputs to explain, as ``fit`` takes targets.
        prior: prior of the inputs: a ``Gaussian``, or a tensor of means with ``input_std``.
        steps: maximum number of iterations.
        input_std: standard deviation of the inputs if ``prior`` is a tensor.
        noise_std: standard deviation of the observation noise, in place of the likelihood's own
            (normal links only).
        tolerance: a row has converged when no mean moves by more than this share of its prior
            standard deviation.

    Rows that do not converge raise the warning ``NotConverged`` and are marked in the result.

    >>> import tractable as tr
    >>> model = tr.TAGI(torch.nn.Linear(1, 1), tr.likelihoods.Normal(0.1), dtype=torch.float64)
    >>> for i in range(50):
    ...     _ = model.update([[i / 50]], [2 * i / 50])
    >>> found = invert(model, [1.0], torch.zeros(1, 1), input_std=1.0)
    >>> bool(found.converged), round(found.input.loc.item(), 1)
    (True, 0.5)
    """
    model = message_passing.trained(model)
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")
    message_passing.positive(tolerance, "tolerance")
    if input_std is None and not isinstance(prior, Gaussian):
        raise ValueError("prior is a tensor without a variance: pass input_std, or a Gaussian")
    state = message_passing.prior(model, prior, input_std)
    likelihood = message_passing.noisy(model.likelihood, noise_std)
    smallest = tolerance * state.stddev
    targets: Tensor | None = None
    loc, variance = state.loc.clone(), state.variance.clone()
    used = torch.zeros(len(loc), dtype=torch.long, device=loc.device)
    active = torch.arange(len(loc), device=loc.device)
    for _ in range(steps):
        root = message_passing.leaf(Gaussian.wrap(loc[active], variance[active]))
        with torch.enable_grad():
            outputs = model.propagate(root)
        if targets is None:
            targets = likelihood.check_targets(model.checks.format.targets(y), outputs.shape)
        observation = message_passing.observe(likelihood, targets[active], outputs)
        ((d_mu, d_var),) = message_passing.send(outputs, observation, [root])
        new = message_passing.posterior(root, d_mu, d_var, observation)
        has_converged = ((new.loc - loc[active]).abs() <= smallest[active]).flatten(1).all(1)
        loc[active], variance[active] = new.loc, new.variance
        used[active] += 1
        active = active[~has_converged]
        if len(active) == 0:
            break
    converged = torch.ones(len(loc), dtype=torch.bool, device=loc.device)
    converged[active] = False
    if len(active):
        warnings.warn(
            f"{len(active)} of {len(loc)} rows have not converged after {steps} steps: use more "
            "steps, a larger tolerance or a wider prior",
            NotConverged,
            stacklevel=2,
        )
    return Inversion(Gaussian.wrap(loc, variance), model.predict(loc), converged, used)
