"""The posterior of the input and of hidden states, given an observation of the output.

Messages from the observation run back through the network (section 2 of Nguyen & Goulet,
"Analytically tractable hidden-states inference in Bayesian neural networks"); a state with
moments ``mu`` and ``var`` becomes ``mu + var d_mu`` and ``var + var^2 d_var``, both messages
first scaled by the gain of ``tractable.infer.message_passing``.

A recurrent layer (``nn.RNN``, ``nn.GRU``, ``nn.LSTM``) has a state at every step, which receives
messages from later steps.  Where every step is observed (``likelihoods.PerStep``) they are
smoothed, see ``tractable.infer.smoothing``.

Exact: chains of linear layers that are one unit wide (then it is the Kalman smoother), and one
output that is linear in the state, to the rounding of the prior: a posterior variance below about
1e-16 of the prior variance (1e-7 in single precision) is too large.
Approximate: states of one layer are treated as independent; where one row has several observed
values, the variance follows ``tractable.moments.conditioning``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch

from tractable.errors import did_you_mean
from tractable.gaussian import Gaussian
from tractable.infer import message_passing
from tractable.infer.smoothing import smooth
from tractable.learners import TAGI
from tractable.likelihoods import PerStep
from tractable.rules.recurrent_steps import unroll_recurrent

INPUT = "input"


def states(
    model: TAGI,
    x: Any,
    y: Any,
    at: Sequence[str] = (INPUT,),
    *,
    input_std: float | None = None,
    noise_std: float | None = None,
) -> dict[str, Gaussian]:
    """Return posteriors of hidden states and inputs of a trained network, given observations.

    Args:
        model: a fitted ``TAGI`` model.
        x: the prior of the input: a ``Gaussian``, or a tensor of means, one row per observation.
        y: the observations, as ``fit`` takes them.
        at: the states to infer: ``"input"``, and names of submodules (``model.net``'s
            ``named_modules``), whose outputs are meant; of a recurrent layer in one direction the
            outputs of every step, ``[rows, steps, units]``.
        input_std: standard deviation of the input when ``x`` is a tensor; None: known exactly.
        noise_std: noise of the observation, instead of the likelihood's own (normal links only).

    Returns:
        The posterior of each state, by name.

    >>> import tractable as tr
    >>> net = torch.nn.Sequential(torch.nn.Linear(1, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    >>> model = tr.TAGI(net, tr.likelihoods.Normal(0.1)).update([[1.0]], [2.0])
    >>> found = states(model, [[0.5]], [1.0], at=["input", "1"], input_std=0.1)
    >>> found["1"].shape
    torch.Size([1, 4])
    """
    model = message_passing.trained(model)
    names = [at] if isinstance(at, str) else list(at)
    if not names:
        raise ValueError("at names no state: give 'input' or names of submodules")
    _check_names(model, names)
    likelihood = message_passing.noisy(model.likelihood, noise_std)
    recurrent = [name for name in names if _is_recurrent(model.net, name)]
    smoothed: dict[str, Gaussian] = {}
    if recurrent and isinstance(likelihood, PerStep):
        by_step = smooth(model, x, y, input_std=input_std)
        smoothed = {name: _every_step(by_step[name][0]) for name in recurrent}
        names = [name for name in names if name not in smoothed]
        if not names:
            return smoothed
    root = message_passing.leaf(message_passing.prior(model, x, input_std))
    with torch.enable_grad(), _captured(model.net, names) as called:
        outputs = model.propagate(root)
    called[INPUT] = [root]
    inner = {name: _single(name, called[name]) for name in names}
    targets = likelihood.check_targets(model.checks.format.targets(y), outputs.shape)
    observation = message_passing.observe(likelihood, targets, outputs)
    messages = iter(
        message_passing.send(
            outputs, observation, [part for all_ in inner.values() for part in all_]
        )
    )
    posteriors = {
        name: [message_passing.posterior(part, *next(messages), observation) for part in parts]
        for name, parts in inner.items()
    }
    return smoothed | {
        name: _stacked_steps(parts) if name in recurrent else parts[0]
        for name, parts in posteriors.items()
    }


def _is_recurrent(net: torch.nn.Module, name: str) -> bool:
    return name != INPUT and isinstance(net.get_submodule(name), torch.nn.RNNBase)


def _stacked_steps(parts: list[Gaussian]) -> Gaussian:
    loc = torch.stack([part.loc for part in parts], 1)
    return Gaussian.wrap(loc, torch.stack([part.variance for part in parts], 1))


def _every_step(states: Gaussian) -> Gaussian:
    """Return the last layer of ``[steps, layers, rows, units]``, rows first."""
    return Gaussian.wrap(states.loc[:, -1].transpose(0, 1), states.variance[:, -1].transpose(0, 1))


def _check_names(model: TAGI, names: list[str]) -> None:
    known = [INPUT, *(name for name, _ in model.net.named_modules() if name)]
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known)
            raise ValueError(f"no state {name!r}.{hint} There are: {', '.join(known)}")


@contextmanager
def _captured(net: torch.nn.Module, names: list[str]) -> Iterator[dict[str, list[Any]]]:
    """Record the outputs of named submodules, one for each call inside the block."""
    outputs: dict[str, list[Any]] = {name: [] for name in names}
    with ExitStack() as stack:
        unrolled = any(_is_recurrent(net, name) for name in names)
        steps = stack.enter_context(unroll_recurrent()) if unrolled else []

        def capture(calls: list[Any], module: torch.nn.Module, _args: Any, output: Any) -> None:
            by_step = isinstance(module, torch.nn.RNNBase) and not module.bidirectional
            calls.append([state[0] for state in steps[-1]] if by_step else output)

        for name in names:
            if name != INPUT:
                hook = partial(capture, outputs[name])
                stack.callback(net.get_submodule(name).register_forward_hook(hook).remove)
        yield outputs


def _single(name: str, calls: list[Any]) -> list[Gaussian]:
    """Return the Gaussian output of a module, or those of every step."""
    if len(calls) != 1:
        raise ValueError(
            f"the network calls {name!r} {len(calls)} times, expected once: its state is not one "
            f"Gaussian"
        )
    states = calls[0] if isinstance(calls[0], list) else [calls[0]]
    if not all(isinstance(state, Gaussian) for state in states):
        raise TypeError(f"{name!r} returns {type(calls[0]).__name__}, expected one Gaussian tensor")
    return states
