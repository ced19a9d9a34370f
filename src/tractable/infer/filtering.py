"""Online filtering of the Gaussian state of a recurrent network over a stream.

Recurrent layers (``nn.RNN``, ``nn.GRU``, ``nn.LSTM``) start each call from a zero state.
``Filter`` starts each call from the stored state instead, and stores the state after the last step,
conditioned on the observation.

Exact: for one unit that is linear in its state and known weights, ``Filter`` is the Kalman filter.
Approximate: the units of a state are treated as independent of each other, of the weights, and of
the previous state; if several units receive messages of one observation, the gain of
``tractable.infer.message_passing`` damps the step.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor, nn

from tractable.errors import InvalidInput
from tractable.gaussian import Gaussian
from tractable.infer import message_passing
from tractable.infer.message_passing import Observation
from tractable.learners import TAGI
from tractable.predictive import Predictive
from tractable.rules.recurrent_steps import States, unroll_recurrent

State = dict[str, list[Gaussian]]
"""Tensors of each recurrent layer by name (h, or h and c), each ``[layers, rows, units]``."""


class Filter:
    """An online learner that carries the Gaussian state of recurrent layers between updates.

    Args:
        model: a ``TAGI`` model of a network with unidirectional recurrent layers, fitted or not.
            ``update`` trains it further.  ``compile=True`` is not supported.

    Attributes:
        state: the state after the last update, by the names of the layers; None at the start.

    >>> from torch import nn
    >>> import tractable as tr
    >>> class Net(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.layer, self.head = nn.LSTM(1, 4, batch_first=True), nn.Linear(4, 1)
    ...     def forward(self, x):
    ...         return self.head(self.layer(x)[0][:, -1])
    >>> stream = Filter(tr.TAGI(Net(), tr.likelihoods.Normal(0.1)))
    >>> for t in range(3):
    ...     stream = stream.update([[[0.1 * t]]], [[0.1 * t + 0.1]])
    >>> [tuple(part.shape) for part in stream.state["layer"]]
    [(1, 1, 4), (1, 1, 4)]
    """

    def __init__(self, model: TAGI) -> None:
        if not isinstance(model, TAGI):
            raise TypeError(f"model must be a TAGI learner, got {type(model).__name__}")
        if model.method.options.compile:
            raise TypeError(
                "a filter cannot use TAGI(compile=True): the compiled step does not pass on the "
                "state of the recurrent layers; make the model with compile=False"
            )
        self.model = model
        self.layers = recurrent_layers(model.net)
        self.state: State | None = None

    def predict(self, X: Any) -> Predictive:
        """Return the predictive distribution of the target of the next steps, from the current
        state.
        """
        x = self.model.checks.inputs(X)
        self._check(len(x))
        with stateful(self.layers, self.state):
            return self.model.outputs(x, batch_size=None).predictive()

    def update(self, x: Any, y: Any, *, memory_rows: float | None = None) -> Self:
        """Learn from the next steps and update the state; an error leaves both unchanged.

        Args:
            x: inputs, ``[rows, steps, ...]``: the next steps of each stream, one row per stream.
            y: targets.
            memory_rows: see ``Learner.update``.
        """
        rows, targets = self.model.checks.data(x, y)
        self._check(len(rows))
        messages = StateMessages(self.model.net)
        with stateful(self.layers, self.state, messages):
            self.model.learn_batch(rows, targets, memory_rows=memory_rows)
        self.state = messages.posterior()
        return self

    def reset(self) -> Self:
        """Start a new stream: reset the state but keep the weights."""
        self.state = None
        return self

    def _check(self, rows: int) -> None:
        if self.state is None:
            return
        n_streams = next(iter(self.state.values()))[0].shape[1]
        if n_streams != rows:
            raise InvalidInput(
                f"inputs have {rows} rows, expected {n_streams}, one per stream of the filter: "
                f"pass the next steps of all streams, or call reset()"
            )


class StateMessages:
    """The last states of a forward pass, and the messages they receive in the backward pass."""

    def __init__(self, net: nn.Module) -> None:
        self.nodes: dict[str, list[tuple[Gaussian, ...]]] = {}
        self.messages: dict[int, Tensor] = {}
        self.outputs: Gaussian | None = None
        self.net = net

    def recorder(self, name: str, states: States) -> Any:
        """Return a hook that records the last state of a layer and the messages to it."""

        def hook(layer: Any, _args: Any, _z: Any) -> None:
            last = [steps[-1] for steps in states[-layer.num_layers :]]
            self.nodes[name] = [tuple(_uncertain(part) for part in parts) for parts in last]
            for parts in self.nodes[name]:
                for part in parts:
                    self._register(part)

        return hook

    def output_hook(self, _net: Any, _args: Any, z: Any) -> None:
        """Record the outputs and the messages to them."""
        self.outputs = z
        self._register(z)

    def _register(self, z: Gaussian) -> None:
        for moment in (z.loc, z.variance):
            if moment.requires_grad:
                moment.register_hook(partial(self.record, moment))

    def record(self, moment: Tensor, message: Tensor) -> None:
        """Record the message to a mean or a variance."""
        self.messages[id(moment)] = message

    def _message(self, moment: Tensor) -> Tensor:
        message = self.messages.get(id(moment))
        return torch.zeros_like(moment) if message is None else message

    def posterior(self) -> State:
        """Return the states conditioned on the observation."""
        assert self.outputs is not None
        z = self.outputs
        observed = Observation(self._message(z.loc), self._message(z.variance), z.variance.detach())
        state: State = {}
        for name, layers in self.nodes.items():
            after = [
                [
                    message_passing.posterior(
                        Gaussian.wrap(part.loc.detach(), part.variance.detach()),
                        self._message(part.loc), self._message(part.variance), observed,
                    )
                    for part in parts
                ]
                for parts in layers
            ]  # fmt: skip
            state[name] = [stacked(parts) for parts in zip(*after, strict=True)]
        return state


def _uncertain(x: Any) -> Gaussian:
    return x if isinstance(x, Gaussian) else Gaussian.wrap(x, torch.zeros_like(x))


def stacked(parts: Any) -> Gaussian:
    """Return Gaussians of one shape, stacked."""
    return Gaussian.wrap(
        torch.stack([part.loc for part in parts]), torch.stack([part.variance for part in parts])
    )


def recurrent_layers(net: nn.Module) -> dict[str, nn.RNNBase]:
    """Return the recurrent layers of a network by name.

    Raises:
        TypeError: there is no recurrent layer, or a bidirectional one.
    """
    found = {name: part for name, part in net.named_modules() if isinstance(part, nn.RNNBase)}
    if not found:
        raise TypeError(
            f"{type(net).__name__} has no recurrent layer, expected nn.RNN, nn.GRU or nn.LSTM"
        )
    for name, layer in found.items():
        if layer.bidirectional:
            raise TypeError(
                f"{name!r} is bidirectional, expected a unidirectional layer: a stream has no end"
            )
    return found


@contextmanager
def stateful(
    layers: dict[str, nn.RNNBase], state: State | None, messages: StateMessages | None = None
) -> Iterator[None]:
    """Start recurrent layers from ``state`` inside the block, and record ``messages``."""
    with ExitStack() as stack:
        for name, layer in layers.items():
            if state is not None:
                start = partial(_with_state, state[name])
                hook = layer.register_forward_pre_hook(start, with_kwargs=True)
                stack.callback(hook.remove)
        if messages is not None:
            states = stack.enter_context(unroll_recurrent())
            for name, layer in layers.items():
                stack.callback(layer.register_forward_hook(messages.recorder(name, states)).remove)
            stack.callback(messages.net.register_forward_hook(messages.output_hook).remove)
        yield


def _with_state(given: list[Gaussian], _layer: Any, args: Any, kwargs: Any) -> Any:
    if len(args) > 1 or "hx" in kwargs:
        raise TypeError(
            "the network passes an initial state to its recurrent layer, which a filter "
            "replaces: call the layer without hx"
        )
    return (*args, tuple(given) if len(given) > 1 else given[0]), kwargs
