"""Smoothing: the states of a recurrent network at all steps, given all observations.

The filter of ``tractable.infer.filtering`` runs forward with fixed weights.  Then each smoothed
state sends a message to the previous state, through the step between them:

    d_mu = (mu_smoothed - mu_predicted) / var_predicted
    d_var = (var_smoothed - var_predicted) / var_predicted^2

Exact: one unit that is linear in its state, with known weights (the Rauch-Tung-Striebel smoother).
Approximate: the units of a state are treated as independent; with several units the gain of
``tractable.infer.message_passing`` damps the step.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tractable.errors import InvalidInput
from tractable.gaussian import Gaussian
from tractable.infer import message_passing
from tractable.infer.filtering import State, StateMessages, recurrent_layers, stacked, stateful
from tractable.infer.message_passing import Observation
from tractable.learners import TAGI


def smooth(
    model: TAGI, x: Any, y: Any, *, input_std: float | None = None
) -> dict[str, list[Gaussian]]:
    """Return the hidden states of all steps given all observations; weights stay unchanged.

    The network processes one step after the other, each from the previous filtered state; then
    messages go back from each smoothed state to the previous one.

    Args:
        model: a fitted ``TAGI`` model with a recurrent network in one direction.
        x: inputs, ``[rows, steps, ...]``; a ``Gaussian`` for uncertain inputs.
        y: targets of every step, in the format of the likelihood; with ``likelihoods.PerStep``,
            NaN (or -100) marks missing ones.
        input_std: standard deviation of the inputs if ``x`` is a tensor. None: known exactly.

    Returns:
        Tensors of each recurrent layer by name (h, or h and c), each
        ``[steps, layers, rows, units]``.
    """
    model = message_passing.trained(model)
    layers = recurrent_layers(model.net)
    prior = message_passing.prior(model, x, input_std)
    targets = model.checks.format.targets(y)
    if targets.shape[:2] != prior.shape[:2]:
        raise InvalidInput(
            f"targets must have one entry for each row and step: inputs are of shape "
            f"{tuple(prior.shape)}, targets of shape {tuple(targets.shape)}"
        )
    if not prior.shape[1]:
        raise InvalidInput(
            f"inputs have shape {tuple(prior.shape)}, expected [rows, steps, ...] with at least "
            f"one step"
        )
    past: list[_Step] = []
    state: State | None = None
    for t in range(prior.shape[1]):
        at = Gaussian.wrap(prior.loc[:, t : t + 1], prior.variance[:, t : t + 1])
        past.append(_Step.of(model, layers, state, at, targets[:, t : t + 1]))
        state = past[-1].filtered
    assert state is not None
    smoothed = [state]
    for step in reversed(past[1:]):
        state = step.back(state)
        smoothed.append(state)
    smoothed.reverse()
    return {name: [stacked(parts) for parts in zip(*(s[name] for s in smoothed), strict=True)]
            for name in state}  # fmt: skip


class _Step:
    """A step of the filter: the previous state, the predicted state, and the filtered state."""

    def __init__(self, before: State | None, predicted: State, filtered: State) -> None:
        self.before, self.predicted, self.filtered = before, predicted, filtered

    @classmethod
    def of(
        cls, model: TAGI, layers: dict[str, nn.RNNBase], state: State | None, x: Gaussian, y: Tensor
    ) -> _Step:
        before = None if state is None else _each(state, message_passing.leaf)
        recorded = StateMessages(model.net)
        with torch.enable_grad(), stateful(layers, before, recorded):
            z = model.propagate(message_passing.leaf(x))
        predicted = {
            name: [stacked(parts) for parts in zip(*nodes, strict=True)]
            for name, nodes in recorded.nodes.items()
        }
        if _missing(y):
            return cls(before, predicted, _each(predicted, _detached))
        observed = message_passing.observe(
            model.likelihood, model.likelihood.check_targets(y, z.shape), z
        )
        nodes = [part for all_ in recorded.nodes.values() for parts in all_ for part in parts]
        ends = [moment for node in nodes for moment in (node.loc, node.variance)]
        received = torch.autograd.grad(
            [z.loc, z.variance], ends, [observed.d_mu, observed.d_var], retain_graph=True,
            allow_unused=True,
        )  # fmt: skip
        for end, message in zip(ends, received, strict=True):
            recorded.record(end, torch.zeros_like(end) if message is None else message)
        recorded.record(z.loc, observed.d_mu)
        recorded.record(z.variance, observed.d_var)
        recorded.outputs = z
        return cls(before, predicted, recorded.posterior())

    def back(self, after: State) -> State:
        """Return the smoothed state before this step, from the smoothed state after it."""
        assert self.before is not None
        pairs = [
            (smoothed, node)
            for name in after
            for smoothed, node in zip(after[name], self.predicted[name], strict=True)
        ]
        starts = [moment for _, node in pairs for moment in (node.loc, node.variance)]
        messages = [d for smoothed, node in pairs for d in _message(smoothed, node)]
        ends = [part for parts in self.before.values() for part in parts]
        inner = [moment for part in ends for moment in (part.loc, part.variance)]
        sent = torch.autograd.grad(starts, inner, messages, retain_graph=True, allow_unused=True)
        full = [torch.zeros_like(e) if d is None else d for d, e in zip(sent, inner, strict=True)]
        variance = _rows_first([node.variance.detach() for _, node in pairs])
        observed = Observation(_rows_first(messages[::2]), _rows_first(messages[1::2]), variance)
        results = iter(
            _conditioned(part, full[2 * i], full[2 * i + 1], observed)
            for i, part in enumerate(ends)
        )
        return {name: [next(results) for _ in parts] for name, parts in self.before.items()}


def _conditioned(part: Gaussian, d_mu: Tensor, d_var: Tensor, observed: Observation) -> Gaussian:
    """Return a state ``[layers, rows, units]`` after its messages, damped per row."""
    loc, variance, first, second = (
        t.detach().transpose(0, 1) for t in (part.loc, part.variance, d_mu, d_var)
    )
    after = message_passing.posterior(Gaussian.wrap(loc, variance), first, second, observed)
    return Gaussian.wrap(after.loc.transpose(0, 1), after.variance.transpose(0, 1))


def _message(after: Gaussian, before: Gaussian) -> tuple[Tensor, Tensor]:
    """Return the message that changes ``before`` to ``after``; zero without variance."""
    variance = before.variance.detach()
    known = variance > 0
    safe = torch.where(known, variance, 1)
    d_mu = torch.where(known, (after.loc - before.loc.detach()) / safe, 0)
    d_var = torch.where(known, (after.variance - variance) / safe.square(), 0)
    return d_mu, d_var.clamp(max=0)


def _rows_first(parts: list[Tensor]) -> Tensor:
    return torch.cat([part.transpose(0, 1).flatten(1) for part in parts], 1)


def _missing(y: Tensor) -> bool:
    missing = y.isnan() if y.is_floating_point() else y == -100
    return bool(missing.all())


def _each(state: State, function: Any) -> State:
    return {name: [function(part) for part in parts] for name, parts in state.items()}


def _detached(x: Gaussian) -> Gaussian:
    return Gaussian.wrap(x.loc.detach(), x.variance.detach())
