"""Maxima and minima of a fitted function, by inference (section 4).

The input is Gaussian, and so is the derivative of the output (``tractable.infer.derivatives``),
with a covariance C between the two.  Observing that the derivative is zero gives, with its mean
g and variance V,

    mu_x  <- mu_x - C g / V                                                            (3)
    mu_x  <- mu_x + alpha sign(g) |C g / V|      alpha = +1 maximum, -1 minimum        (4)
    var_x <- var_x - C^2 / V                                                           (3)

and the posterior of one iteration is the prior of the next (algorithm 1).  Each coordinate is
updated by its own derivative.  C is ``h var_x``, so there is no division by the input's variance.

Exact: one step for a quadratic of one variable with known weights.
Approximate: V lacks covariances between branches, so ``q = C^2 / (V var_x)``, whose exact value is
at most one, may exceed it.  Then V is set to ``h^2 var_x``, its lower bound (the step is then the
full Newton step g / h).  The variance is multiplied by ``1 - q`` up to q = 1/2 and by
``1 / (4 q)`` beyond, which has the same value and slope there and stays positive.

Where the curvature of the function changes sign, C is zero and eq. (4) stops, however steep the
function is.  ``optimize`` therefore moves by at least ``min_step sd_x min(1, |g| / (2 sqrt(V)))``,
one standard deviation of the input while the derivative is clearly not zero.  That is less than a
quarter of Newton's step wherever it is the larger of the two; ``min_step=0`` is as published.

The derivative is linear in the input only locally, and if the weights have small variances, eq. (3)
makes the full Newton step at once, 200 standard deviations of the input in the paper's example.
``optimize`` therefore moves by at most ``max_step`` standard deviations: the derivative is
observed to be zero with additional noise, that is with a larger V, so that the variance shrinks by
the same share of C^2 / V as the mean moves of C g / V.  (If only the step were shortened, the
variance would vanish after several steps.)  ``max_step=inf`` is as published.

C depends only on the curvature of the first activation (38).  It is zero for networks whose first
activation is piecewise linear, so that these raise an error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tractable.errors import UnsupportedLayer
from tractable.gaussian import Gaussian
from tractable.infer import message_passing
from tractable.infer.derivatives import Chain, chain, run
from tractable.learners import TAGI
from tractable.moments.conditioning import published_shrinkage
from tractable.moments.input_derivative import sigmoid, tanh
from tractable.predictive import Predictive

CONVERGED = "converged"
STALLED = "stalled"
BOUND = "bound"
STEPS = "steps"


@dataclass(frozen=True)
class Optimum:
    """The results of an optimization, one per starting point.

    Attributes:
        location: the inputs, ``[starts, inputs]``.
        value: prediction of the model at the means of the inputs.
        trace: the means of all iterations, ``[steps + 1, starts, inputs]``.
        derivative: the derivative at the end, ``[starts, inputs]``.
        reason: why each start stopped: ``"converged"`` (the derivative is zero within two
            standard deviations), ``"bound"`` (the derivative points out of the bounds),
            ``"stalled"`` (the steps became smaller than the tolerance before convergence: a wider
            ``input_std`` may help) or ``"steps"`` (the maximum number of steps was reached).
    """

    location: Gaussian
    value: Predictive
    trace: Tensor
    derivative: Gaussian
    reason: list[str]


def optimize(
    model: TAGI,
    x0: Any,
    input_std: float | None = None,
    maximize: bool | None = True,
    steps: int = 100,
    tolerance: float = 1e-4,
    bounds: Any = None,
    *,
    output: int = 0,
    min_step: float = 1.0,
    max_step: float = 3.0,
) -> Optimum:
    """Return inputs at which a fitted function is maximal, minimal or stationary.

    Args:
        model: a fitted ``TAGI`` model of a network that ``derivatives`` supports, whose first
            activation is Tanh or Sigmoid.
        x0: starting points, ``[starts, inputs]``; a ``Gaussian``, or a tensor with ``input_std``.
        input_std: standard deviation of the starting points when ``x0`` is a tensor.
        maximize: True and False follow eq. (4) up and down; None follows eq. (3) to the nearest
            point where the derivative is zero.
        steps: maximum number of iterations.
        tolerance: a start stops if no mean moves by more than this in an iteration.
        bounds: lowest and highest input, ``[inputs, 2]``, or one pair for all inputs.
        output: index of the output of the network.
        min_step: factor on the minimum step of eq. (4); see the module.
        max_step: maximum step, in standard deviations of the input; see the module.

    >>> import tractable as tr
    >>> net = torch.nn.Sequential(torch.nn.Linear(1, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    >>> x = torch.linspace(-1, 1, 100).unsqueeze(1)
    >>> model = tr.TAGI(net, tr.likelihoods.Normal(0.1)).fit(x, -((x - 0.3) ** 2), progress=False)
    >>> found = optimize(model, [[-0.8], [0.9]], input_std=0.1)
    >>> bool((found.location.loc - 0.3).abs().max() < 0.1)
    True
    """
    model = message_passing.trained(model)
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")
    message_passing.positive(tolerance, "tolerance")
    if not min_step >= 0:
        raise ValueError(f"min_step must not be negative, got {min_step}")
    if not max_step > 0:
        raise ValueError(f"max_step must be positive (inf: any step), got {max_step}")
    if input_std is None and not isinstance(x0, Gaussian):
        raise ValueError("x0 is a tensor without a variance: pass input_std, or a Gaussian")
    state = message_passing.prior(model, x0, input_std)
    net = _smooth(model)
    box = limits(bounds, state.loc)
    _check_output(net, state, output)
    trace = [state.loc]
    active = torch.ones(len(state.loc), dtype=torch.bool, device=state.loc.device)
    for _ in range(steps):
        new = _infer(net, state, maximize, output, box, min_step, max_step)
        loc = torch.where(active.unsqueeze(1), new.loc, state.loc)
        variance = torch.where(active.unsqueeze(1), new.variance, state.variance)
        active = active & ((loc - state.loc).abs() > tolerance).any(1)
        state = Gaussian.wrap(loc, variance)
        trace.append(loc)
        if not bool(active.any()):
            break
    slope = _slope(net, state, output)
    return Optimum(
        state, model.predict(state.loc), torch.stack(trace), slope,
        _reasons(active, state.loc, slope, maximize, box),
    )  # fmt: skip


def infer_optimum(
    model: TAGI, location: Gaussian, maximize: bool | None = True, *, output: int = 0
) -> Gaussian:
    """Make one iteration of eq. (3) or (4): line 10 of algorithm 1, between two model updates.

    Args:
        model: a fitted ``TAGI`` model.
        location: Gaussian over the inputs, ``[n, inputs]``.
        maximize: whether to look for a maximum (True), a minimum (False), or any point where the
            derivative is zero (None).
        output: index of the output to optimize.
    """
    model = message_passing.trained(model)
    net, state = _smooth(model), message_passing.prior(model, location)
    return _infer(net, state, maximize, output, None, min_step=0.0, max_step=math.inf)


def limits(bounds: Any, like: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return lowest and highest values of each input."""
    if bounds is None:
        return None
    box = torch.as_tensor(bounds, dtype=like.dtype, device=like.device)
    inputs = like.shape[-1]
    if box.shape == (2,):
        box = box.expand(inputs, 2)
    if box.shape != (inputs, 2):
        raise ValueError(
            f"bounds must be (low, high) or one such pair for each of {inputs} inputs, got shape "
            f"{tuple(box.shape)}"
        )
    wrong = torch.nonzero(~(box[:, 0] < box[:, 1]))
    if len(wrong):
        i = int(wrong[0, 0])
        raise ValueError(
            f"bounds must be (low, high) with low < high; input {i} has {box[i].tolist()}"
        )
    return box[:, 0], box[:, 1]


def _smooth(model: TAGI) -> Chain:
    net = chain(model)
    smooth = (tanh, sigmoid)
    if net.slopes[0] not in smooth and net.slopes[1] not in smooth:
        raise UnsupportedLayer(
            "the first activation is piecewise linear, so the derivative does not covary with the "
            "input: optimization by inference needs nn.Tanh or nn.Sigmoid there"
        )
    return net


def _check_output(net: Chain, x: Gaussian, output: int) -> None:
    inputs, outputs = net.weights[0].mean.shape[1], net.weights[-1].mean.shape[0]
    if x.loc.ndim != 2 or x.loc.shape[1] != inputs:
        raise ValueError(f"x0 must have shape [starts, {inputs}], got {tuple(x.loc.shape)}")
    if not 0 <= output < outputs:
        raise ValueError(f"output must lie in 0..{outputs - 1}, got {output}")


def _slope(net: Chain, x: Gaussian, output: int) -> Gaussian:
    with torch.no_grad():
        found = run(net, x)
    return Gaussian.wrap(found.mean[:, output], found.variance[:, output])


def _infer(
    net: Chain,
    x: Gaussian,
    maximize: bool | None,
    output: int,
    box: tuple[Tensor, Tensor] | None,
    min_step: float,
    max_step: float,
) -> Gaussian:
    with torch.no_grad():
        found = run(net, x)
        g, h = found.mean[:, output], found.curvature[:, output]
        tiny = torch.finfo(g.dtype).tiny
        variance = torch.maximum(found.variance[:, output], h * h * x.variance).clamp_min(tiny)
        step = -x.variance * h * g / variance
        q = h * h * x.variance / variance
        if math.isfinite(max_step):
            noisier = (max_step * x.stddev / step.abs().clamp_min(tiny)).clamp(max=1)
            step, q = noisier * step, noisier * q
        if maximize is not None:
            floor = min_step * x.stddev * (0.5 * g.abs() * variance.rsqrt()).clamp(max=1)
            step = (1 if maximize else -1) * g.sign() * torch.maximum(step.abs(), floor)
        shrink = published_shrinkage(q)
        loc = x.loc + step
        if box is not None:
            loc = torch.minimum(torch.maximum(loc, box[0]), box[1])
        return Gaussian.wrap(loc, x.variance * shrink)


def _reasons(
    active: Tensor,
    loc: Tensor,
    slope: Gaussian,
    maximize: bool | None,
    box: tuple[Tensor, Tensor] | None,
) -> list[str]:
    zero = slope.loc.abs() <= 2 * slope.stddev
    held = torch.zeros_like(zero)
    if box is not None:
        low, high = loc <= box[0], loc >= box[1]
        if maximize is None:
            held = low | high
        else:
            up = slope.loc > 0 if maximize else slope.loc < 0
            held = (low & ~up) | (high & up)
    reasons = []
    for moving, flat, stopped in zip(active.tolist(), zero.tolist(), held.tolist(), strict=True):
        if moving:
            reasons.append(STEPS)
        elif all(flat):
            reasons.append(CONVERGED)
        else:
            ended = all(a or b for a, b in zip(flat, stopped, strict=True))
            reasons.append(BOUND if ended else STALLED)
    return reasons
