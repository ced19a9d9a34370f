"""Base class of agents with a policy network: acting, training loop, callbacks, files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from torch import nn

from tractable.agents.control.environment import open_environment
from tractable.agents.control.episode import Episode
from tractable.agents.control.horizon import Horizon
from tractable.agents.control.normalizer import Normalizer
from tractable.agents.values import policy_file
from tractable.agents.values.actor import Actor
from tractable.agents.values.critic import Critic, MakeLearner, value_net
from tractable.agents.values.encoding import Encoding, Rows, discrete_actions
from tractable.errors import EnvironmentFault
from tractable.learners import TAGI
from tractable.likelihoods import Normal
from tractable.training import Progress

Array = NDArray[np.float64]
Callback = Callable[[Any], bool | None]
"""Function called with the agent; returning True stops training."""


class PolicyAgent(ABC):
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
        *,
        net: nn.Module | None,
        critic: MakeLearner | None,
        hidden_layer_sizes: tuple[int, ...],
        lr: float,
        gamma: float,
        seed: int,
        target_std: float,
    ) -> None:
        if not 0 <= gamma <= 1:
            raise ValueError(f"gamma must lie between 0 and 1, got {gamma}")
        if not lr > 0:
            raise ValueError(f"lr must be positive, got {lr}")
        self.env, self.gamma, self.seed = open_environment(env), gamma, seed
        self.lr, self.hidden_layer_sizes, self.target_std = (
            lr,
            tuple(hidden_layer_sizes),
            target_std,
        )
        self.actions = discrete_actions(self.env, type(self).__name__)
        self.encoding = Encoding(self.env.observation_space)
        self.own_net = net is not None
        self.rng = np.random.default_rng(seed)
        self.actor = Actor(self._preferences() if net is None else net, lr)
        self.critic: Critic | None = None
        if critic is not None:
            value = value_net(self.encoding.width, self.hidden_layer_sizes, 1)
            self.critic = Critic(critic(value, Normal(target_std), seed=seed), 1)
        self.normalizer = Normalizer(
            1 if self.encoding.discrete else self.encoding.width,
            gamma=gamma,
            scale_observations=not self.encoding.discrete,
        )
        self.episode = Episode(self.env, self.rng)
        self.steps = 0
        self.episodes: list[tuple[int, float, int]] = []
        self.training_log: list[dict[str, float]] = []

    def _preferences(self) -> nn.Sequential:
        """Return linear layers with tanh between them; the initial policy is almost uniform."""
        import torch

        net = value_net(self.encoding.width, self.hidden_layer_sizes, self.actions)
        generator = torch.Generator().manual_seed(self.seed)
        layers = [m for m in net if isinstance(m, nn.Linear)]
        for layer in layers:
            gain = 0.01 if layer is layers[-1] else 2**0.5
            nn.init.orthogonal_(layer.weight, gain, generator=generator)
            nn.init.zeros_(layer.bias)
        return nn.Sequential(*(nn.Tanh() if isinstance(m, nn.ReLU) else m for m in net))

    # --- acting --------------------------------------------------------------------------

    def inputs(self, flat: Array) -> Rows:
        """Return rows of network inputs from flat observations."""
        return self.encoding.inputs(flat, self.normalizer.observation)

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[Any, None]:
        """Return the action at an observation (or a batch), as in Stable-Baselines3.

        Args:
            observation: one observation or several rows.
            state: ignored; the policy is not recurrent.
            episode_start: ignored.
            deterministic: return the most probable action instead of a draw.

        Returns:
            The action, and None.
        """
        flat, single = self.encoding.flat(observation)
        rows = self.inputs(flat)
        if deterministic:
            chosen = self.actor.probabilities(rows).argmax(1).numpy()
        else:
            chosen = self.actor.choose(rows, self.rng)
        return (chosen[0] if single else chosen), None

    # --- learning ------------------------------------------------------------------------

    @abstractmethod
    def enough(self, steps: int, finished: int) -> bool:
        """Return whether this number of steps and of finished episodes suffices for an update."""

    @abstractmethod
    def improve(self, seen: Horizon) -> dict[str, float]:
        """Update the agent with the collected steps; return metrics."""

    def learn(
        self,
        total_timesteps: int,
        *,
        callback: Callback | None = None,
        progress: bool | None = False,
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 100,
    ) -> Self:
        """Act and learn until the agent has taken at least ``total_timesteps`` more steps.

        Args:
            total_timesteps: number of environment steps, rounded up to whole updates.
            callback: function called with the agent after every update; returning True stops
                training.
            progress: whether to show a progress bar; None: only in a terminal.
            checkpoint: file to save the agent to, every ``checkpoint_every`` updates and at the
                end; an agent loaded from it continues with bit-identical results.
            checkpoint_every: number of updates between two checkpoints.

        Returns:
            The agent.

        Raises:
            EnvironmentFault: the environment returned NaN or infinite values.  The agent, in its
                state after the last update, is saved to the file that the error names.
        """
        if total_timesteps < 1:
            raise ValueError(f"total_timesteps must be at least 1, got {total_timesteps}")
        if checkpoint_every < 1:
            raise ValueError(f"checkpoint_every must be at least 1, got {checkpoint_every}")
        goal, updates = self.steps + total_timesteps, 0
        with Progress(total_timesteps, type(self).__name__, progress) as bar:
            while self.steps < goal:
                try:
                    seen = self._collect()
                except EnvironmentFault as fault:
                    fault.saved_to(policy_file.rescue(self, checkpoint))
                    raise
                self.normalizer.include(seen.observations, seen.rewards, seen.terminal | seen.ends)
                noted = self.improve(seen)
                self.steps += len(seen.rewards)
                self.episodes += seen.finished
                updates += 1
                self.training_log.append(
                    {"steps": float(self.steps), "mean_reward": self.mean_reward(), **noted}
                )
                bar.advance(len(seen.rewards))
                bar.report({"reward": self.mean_reward()})
                stop = (callback is not None and bool(callback(self))) or self.steps >= goal
                if checkpoint is not None and (stop or updates % checkpoint_every == 0):
                    self.save(checkpoint)
                if stop:
                    break
        return self

    def mean_reward(self, last: int = 100) -> float:
        """Return the mean return of the last ``last`` episodes; NaN if none has ended yet."""
        recent = [episode[1] for episode in self.episodes[-last:]]
        return float(np.mean(recent)) if recent else float("nan")

    def _collect(self) -> Horizon:
        """Act until there are enough steps for an update; return them."""
        episode = self.episode
        episode.take_up()
        lists: tuple[list[Any], ...] = ([], [], [], [], [], [])
        finished: list[tuple[int, float, int]] = []
        while not self.enough(len(lists[0]), len(finished)):
            observation = episode.observation
            action = int(self.actor.choose(self.inputs(observation[None]), self.rng)[0])
            at = self.steps + len(lists[0])
            reward, terminal, truncated = episode.step(action, at)  # type: ignore[arg-type]
            step = (observation, action, reward, episode.observation, terminal, truncated)
            for column, entry in zip(lists, step, strict=True):
                column.append(entry)
            if terminal or truncated:
                finished.append((at + 1, episode.total, episode.length))
                episode.reset()
        before, actions, rewards, after, terminals, ends = (np.array(column) for column in lists)
        return Horizon(before, actions[:, None], rewards, after, terminals, ends, finished)

    # --- state ---------------------------------------------------------------------------

    @abstractmethod
    def options(self) -> dict[str, Any]:
        """Return the constructor arguments, except environment and networks, as JSON values."""

    def save(self, path: str | Path) -> None:
        """Write the agent to one file, atomically: networks, optimizer, generator, episode."""
        policy_file.save(self, path)

    @classmethod
    def load(cls, path: str | Path, env: Any = None, *, net: nn.Module | None = None) -> Self:
        """Read an agent that ``save`` wrote; it continues as if it had not been interrupted.

        Args:
            path: path of the file.
            env: environment; default: created from the name in the file.
            net: policy network; required if the agent was constructed with ``net=``.
        """
        agent = policy_file.load(cls, path, env, net)
        assert isinstance(agent, cls)
        return agent


def default_critic(net: nn.Module, likelihood: Normal, *, seed: int) -> TAGI:
    """Return a TAGI learner of state values, which learns each return once."""
    return TAGI(net, likelihood, gain=1.0, seed=seed, robust=False)
