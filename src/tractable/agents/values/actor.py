"""Policy network for discrete actions, trained by gradients of its log-probabilities."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap


class Actor:
    """Policy network ``pi(a|s) = softmax(net(s))_a`` and its derivatives.

    Args:
        net: network from rows of inputs to the logits of all actions; a copy of it is trained.
        lr: learning rate of Adam.
    """

    def __init__(self, net: nn.Module, lr: float) -> None:
        self.net = copy.deepcopy(net)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=lr)

    @property
    def parameters(self) -> dict[str, Tensor]:
        """Parameters by name."""
        return dict(self.net.named_parameters())

    def probabilities(self, rows: Any) -> Tensor:
        """Return the probabilities of all actions, without a computation graph."""
        with torch.no_grad():
            found: Tensor = torch.softmax(self.net(self.tensor(rows)), -1)
            return found

    def log_probabilities(self, rows: Any) -> Tensor:
        """Return the log-probabilities of all actions, with a computation graph."""
        found: Tensor = torch.log_softmax(self.net(self.tensor(rows)), -1)
        return found

    def tensor(self, rows: Any) -> Tensor:
        """Return rows as a tensor of the type that the network accepts."""
        x = torch.as_tensor(np.asarray(rows))
        kind = next(self.net.parameters()).dtype
        return x.to(kind) if x.is_floating_point() else x

    def scores(self, rows: Any, actions: Any) -> Tensor:
        """Return each step's gradient of the log-probability, ``[steps, parameters]``."""
        parameters = {name: p.detach() for name, p in self.net.named_parameters()}

        def log_probability(p: dict[str, Tensor], row: Tensor, action: Tensor) -> Tensor:
            preferences = functional_call(self.net, p, (row.unsqueeze(0),))[0]
            chances = torch.log_softmax(preferences, -1)
            return (chances * (torch.arange(len(chances)) == action)).sum()

        each = vmap(grad(log_probability), in_dims=(None, 0, 0))
        taken = torch.as_tensor(np.asarray(actions), dtype=torch.int64)
        found = each(parameters, self.tensor(rows), taken)
        return torch.cat([part.reshape(len(taken), -1) for part in found.values()], 1)

    def climb(self, gradient: Tensor) -> None:
        """Make one Adam step of gradient ascent, given the flat gradient."""
        start = 0
        for parameter in self.net.parameters():
            stop = start + parameter.numel()
            parameter.grad = -gradient[start:stop].reshape(parameter.shape).to(parameter.dtype)
            start = stop
        self.optimizer.step()

    def choose(self, rows: Any, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return actions drawn from their probabilities."""
        chances = self.probabilities(rows).double().cumsum(-1).numpy()
        drawn = rng.random((len(chances), 1)) * chances[:, -1:]
        return np.minimum((drawn >= chances).sum(1), chances.shape[1] - 1)
