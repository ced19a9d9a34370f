"""The posterior of the input and of hidden states, given an observation of the output.

Messages from the observation run back through the network (section 2 of Nguyen & Goulet,
"Analytically tractable hidden-states inference in Bayesian neural networks"); a state with
moments ``mu`` and ``var`` becomes ``mu + var d_mu`` and ``var + var^2 d_var``, both messages
first scaled by the gain of ``tractable.infer.observation``.

Exact: chains of linear layers that are one unit wide (then it is the Kalman smoother), and one
output that is linear in the state.
Approximate: states of one layer are treated as independent; where one row has several observed
values, the variance follows ``tractable.moments.message``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from tractable.errors import did_you_mean
from tractable.gaussian import Gaussian
from tractable.infer import observation
from tractable.learners import TAGI

INPUT = "input"


def states(
    model: TAGI,
    x: Any,
    y: Any,
    at: Sequence[str] = (INPUT,),
    *,
    sigma: float | None = None,
    sigma_v: float | None = None,
) -> dict[str, Gaussian]:
    """Infer states inside a trained network; the parameters stay as they are.

    Args:
        model: a fitted ``TAGI`` model.
        x: the prior of the input: a ``Gaussian``, or a tensor of means, one row per observation.
        y: the observations, as ``fit`` takes them.
        at: the states wanted: ``"input"``, and names of submodules (``model.net``'s
            ``named_modules``), whose outputs are meant.
        sigma: standard deviation of the input when ``x`` is a tensor; None: known exactly.
        sigma_v: noise of the observation, instead of the likelihood's own (normal links only).

    Returns:
        The posterior of each state, by name.

    >>> import tractable as tr
    >>> net = torch.nn.Sequential(torch.nn.Linear(1, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    >>> model = tr.TAGI(net, tr.likelihoods.Normal(0.1)).update([[1.0]], [2.0])
    >>> found = states(model, [[0.5]], [1.0], at=["input", "1"], sigma=0.1)
    >>> found["1"].shape
    torch.Size([1, 4])
    """
    model = observation.trained(model)
    wanted = [at] if isinstance(at, str) else list(at)
    if not wanted:
        raise ValueError("at names no state: give 'input' or names of submodules")
    _check_names(model, wanted)
    likelihood = observation.noisy(model.likelihood, sigma_v)
    root = observation.leaf(observation.prior(model, x, sigma))
    with torch.enable_grad(), _captured(model.net, wanted) as called:
        outputs = model.propagate(root)
    called[INPUT] = [root]
    inner = {name: _single(name, called[name]) for name in wanted}
    targets = likelihood.targets(model.format.targets(y), outputs.shape)
    seen = observation.observe(likelihood, targets, outputs)
    messages = observation.send(outputs, seen, list(inner.values()))
    return {
        name: observation.posterior(state, *found, seen)
        for (name, state), found in zip(inner.items(), messages, strict=True)
    }


def _check_names(model: TAGI, wanted: list[str]) -> None:
    known = [INPUT, *(name for name, _ in model.net.named_modules() if name)]
    for name in wanted:
        if name not in known:
            hint = did_you_mean(name, known)
            raise ValueError(f"no state {name!r}.{hint} There are: {', '.join(known)}")


@contextmanager
def _captured(net: torch.nn.Module, names: list[str]) -> Iterator[dict[str, list[Any]]]:
    """Outputs of the named submodules, one for each time they are called in this block."""
    seen: dict[str, list[Any]] = {name: [] for name in names}
    hooks = [
        net.get_submodule(name).register_forward_hook(
            lambda _module, _args, output, calls=seen[name]: calls.append(output)
        )
        for name in names
        if name != INPUT
    ]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _single(name: str, calls: list[Any]) -> Gaussian:
    if len(calls) != 1:
        raise ValueError(
            f"the network calls {name!r} {len(calls)} times: its state is not one Gaussian"
        )
    if not isinstance(calls[0], Gaussian):
        raise TypeError(f"{name!r} returns {type(calls[0]).__name__}, not one Gaussian tensor")
    return calls[0]
