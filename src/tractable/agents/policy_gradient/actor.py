"""Policy network for discrete actions, and the base class of agents that train one by gradients."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from typing_extensions import override

from tractable.agents.base import ActionFunction, Agent
from tractable.agents.critic import Critic, LearnerFactory, learner_factory
from tractable.agents.envs import ObservationEncoder, n_discrete_actions, open_environment
from tractable.agents.serialization import AgentFile
from tractable.errors import InvalidModelFile
from tractable.learners import serialization as learner_files
from tractable.likelihoods import Normal
from tractable.nn import mlp
from tractable.persistence import validation
from tractable.persistence.model_file import Header, Tensors, under_prefix, with_prefix

Array = NDArray[np.float64]

CRITIC_BATCH_SIZE = 16
"""Rows per update of the critic, as for the value networks of ``QAgent``."""


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
            probabilities: Tensor = torch.softmax(self.net(self.tensor(rows)), -1)
            return probabilities

    def log_probabilities(self, rows: Any) -> Tensor:
        """Return the log-probabilities of all actions, with a computation graph."""
        log_probabilities: Tensor = torch.log_softmax(self.net(self.tensor(rows)), -1)
        return log_probabilities

    def tensor(self, rows: Any) -> Tensor:
        """Return rows as a tensor of the type that the network accepts."""
        x = torch.as_tensor(np.asarray(rows))
        dtype = next(self.net.parameters()).dtype
        return x.to(dtype) if x.is_floating_point() else x

    def scores(self, rows: Any, actions: Any) -> Tensor:
        """Return each step's gradient of the log-probability, ``[steps, parameters]``."""
        parameters = {name: p.detach() for name, p in self.net.named_parameters()}

        def log_probability(p: dict[str, Tensor], row: Tensor, action: Tensor) -> Tensor:
            logits = functional_call(self.net, p, (row.unsqueeze(0),))[0]
            log_probabilities = torch.log_softmax(logits, -1)
            return (log_probabilities * (torch.arange(len(logits)) == action)).sum()

        per_step = vmap(grad(log_probability), in_dims=(None, 0, 0))
        taken = torch.as_tensor(np.asarray(actions), dtype=torch.int64)
        gradients = per_step(parameters, self.tensor(rows), taken)
        return torch.cat([part.reshape(len(taken), -1) for part in gradients.values()], 1)

    def gradient_step(self, gradient: Tensor) -> None:
        """Make one Adam step of gradient ascent, given the flat gradient."""
        start = 0
        for parameter in self.net.parameters():
            stop = start + parameter.numel()
            parameter.grad = -gradient[start:stop].reshape(parameter.shape).to(parameter.dtype)
            start = stop
        self.optimizer.step()

    def sample_actions(self, rows: Any, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return actions drawn from their probabilities."""
        cumulative = self.probabilities(rows).double().cumsum(-1).numpy()
        uniform = rng.random((len(cumulative), 1)) * cumulative[:, -1:]
        return np.minimum((uniform >= cumulative).sum(1), cumulative.shape[1] - 1)

    # --- files -------------------------------------------------------------------------------

    def pack(self) -> Tensors:
        """Return parameters and the state of the optimizer, to be saved."""
        tensors = with_prefix({k: v.detach().clone() for k, v in self.parameters.items()}, "actor/")
        for k, parameter in enumerate(self.net.parameters()):
            state = self.optimizer.state.get(parameter, {})
            for name in ("exp_avg", "exp_avg_sq", "step"):
                zero = torch.zeros(()) if name == "step" else torch.zeros_like(parameter)
                tensors[f"adam/{k}/{name}"] = state.get(name, zero).detach().clone()
        return tensors

    def restore(self, tensors: Tensors) -> None:
        """Restore parameters and the state of the optimizer from a file."""
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(tensors[f"actor/{name}"])
        for k, one in enumerate(self.net.parameters()):
            state = {name: t.clone() for name, t in under_prefix(tensors, f"adam/{k}/").items()}
            if bool((state["exp_avg_sq"] < 0).any()) or not float(state["step"]) >= 0:
                raise InvalidModelFile(
                    "the optimizer state in the file has negative second moments or steps"
                )
            if float(state["step"]):
                self.optimizer.state[one] = state


class PolicyAgent(Agent):
    """Base class of ``ActorCritic`` and ``PolicyGradient``, agents with a policy network.

    Attributes:
        actor: policy network.
        critic: learner of state values, or None.
        normalizer: running statistics of observations and rewards.
        steps: number of environment steps so far.
        episodes: for every finished episode: the step at which it ended, its return and its
            length.
        training_log: metrics of each update.
    """

    def __init__(
        self,
        env: Any,
        settings: Any,
        *,
        net: nn.Module | None,
        has_critic: bool,
        critic: LearnerFactory | str | None,
        critic_kwargs: dict[str, Any] | None,
        seed: int,
    ) -> None:
        env = open_environment(env)
        self.n_actions = n_discrete_actions(env, type(self).__name__)
        encoder = ObservationEncoder(env.observation_space)
        super().__init__(env, settings, seed=seed, encoder=encoder)
        self.has_own_net = net is not None
        self.actor = Actor(self._default_net() if net is None else net, settings.lr)
        self.critic: Critic | None = None
        if has_critic:
            make = learner_factory(critic, critic_kwargs, gain=1.0)
            value_net = mlp(encoder.n_inputs, settings.hidden_layer_sizes, 1)
            learner = make(value_net, Normal(settings.target_std), seed=seed)
            self.critic = Critic(learner, 1)

    def _default_net(self) -> nn.Sequential:
        """Return linear layers with tanh between them; the initial policy is almost uniform."""
        sizes = self.settings.hidden_layer_sizes
        net = mlp(self.encoder.n_inputs, sizes, self.n_actions, "tanh")
        generator = torch.Generator().manual_seed(self.seed)
        layers = [module for module in net if isinstance(module, nn.Linear)]
        for layer in layers:
            gain = 0.01 if layer is layers[-1] else 2**0.5
            nn.init.orthogonal_(layer.weight, gain, generator=generator)
            nn.init.zeros_(layer.bias)
        return net

    @override
    def _action_function(self) -> ActionFunction:
        def act(observation: Array) -> tuple[int, int]:
            rows = self.inputs(observation[None])
            action = int(self.actor.sample_actions(rows, self.rng)[0])
            return action, action

        return act

    @override
    def _choose_actions(self, rows: Array, deterministic: bool) -> NDArray[np.int64]:
        inputs = self.inputs(rows)
        if not deterministic:
            return self.actor.sample_actions(inputs, self.rng)
        best: NDArray[np.int64] = self.actor.probabilities(inputs).argmax(1).numpy()
        return best

    def _train_critic(self, observations: Array, mean: Array, variance: Array) -> None:
        """Learn the targets of the values of these states once, in random order."""
        assert self.critic is not None
        actions = np.zeros(len(mean), dtype=np.int64)
        order = self.rng.permutation(len(mean))
        rows = self.inputs(observations)
        self.critic.train(rows, actions, mean, variance, order, CRITIC_BATCH_SIZE, None)

    # --- files -------------------------------------------------------------------------------

    @override
    def _pack(self) -> tuple[Tensors, Header]:
        tensors, description = self.actor.pack(), None
        if self.critic is not None:
            own, description = learner_files.pack(self.critic.learner)
            tensors |= with_prefix(own, "critic/")
        return tensors, {"has_own_net": self.has_own_net, "critic": description}

    @override
    @classmethod
    def _from_file(cls, env: Any, options: dict[str, Any], file: AgentFile) -> Self:
        if file.header["has_own_net"] and file.net is None:
            raise InvalidModelFile(
                "the agent was constructed with net=: pass the same network, "
                f"load({file.path}, net=)"
            )
        if file.header["critic"] is not None:
            own = under_prefix(file.tensors, "critic/")
            learner = learner_files.unpack(
                file.path, own, file.header["critic"], None, None, device=None
            )
            options["critic"] = lambda *_, **__: learner
        constructor: Any = cls
        agent: Self = constructor(env, net=file.net, **options)
        return agent

    @override
    def _restore(self, file: AgentFile) -> None:
        own = {k: t for k, t in file.tensors.items() if k.startswith(("actor/", "adam/"))}
        validation.check_same_tensors(self.actor.pack(), own, "agent")
        validation.check_numbers(own, {})
        self.actor.restore(own)
