"""Base class of agents that act in Gymnasium environments: training loop, prediction, files."""

from __future__ import annotations

import json
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Self, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tractable.agents import serialization
from tractable.agents.buffers import RolloutBuffer
from tractable.agents.envs import ObservationEncoder, open_environment, registered_env_id
from tractable.agents.episodes import Episode
from tractable.agents.normalizer import Normalizer
from tractable.agents.serialization import AgentFile
from tractable.errors import EnvironmentFault, InvalidModelFile
from tractable.persistence import model_file, validation
from tractable.persistence.model_file import Header, Tensors, under_prefix, with_prefix
from tractable.training import Progress

Array = NDArray[np.float64]
Rows = NDArray[Any]
Metrics = dict[str, float]
Callback = Callable[[Any, Metrics], bool | None]
"""Function called with the agent and the newest metrics; returning True stops training."""
ActionFunction = Callable[[Array], tuple[Any, Any]]
"""Function from one flat observation to the action to store and the action to take."""


class Agent(ABC):
    """Base class of ``TAGIControl``, ``QAgent``, ``PolicyGradient`` and ``ActorCritic``.

    It collects rollouts, trains, predicts actions, and saves and loads; an algorithm defines how
    actions are chosen, when a rollout is complete, and how the agent is trained on it.

    Args:
        env: environment that the agent is trained in.
        settings: settings of the algorithm, an instance of ``settings_class``.
        seed: seed of the random numbers of the agent.
        encoder: conversion of observations to rows of numbers.
        scale_observations: whether observations are standardized with their running mean and
            standard deviation. Discrete observations never are.
        scale_rewards: whether rewards are divided by the running standard deviation of the
            discounted return.

    Attributes:
        env: environment that the agent is trained in.
        settings: settings of the algorithm, a frozen dataclass.
        normalizer: running statistics of observations and rewards.
        steps: number of environment steps so far.
        episodes: for every finished episode: the step at which it ended, its return and its
            length.
        training_log: metrics of each update: ``steps``, ``mean_reward`` (of the last 100
            episodes) and metrics of the algorithm.
    """

    settings_class: ClassVar[type]
    """Dataclass of the settings."""

    def __init__(
        self,
        env: Any,
        settings: Any,
        *,
        seed: int,
        encoder: ObservationEncoder,
        scale_observations: bool = True,
        scale_rewards: bool = True,
    ) -> None:
        self.env, self.settings, self.seed, self.encoder = env, settings, seed, encoder
        self.normalizer = Normalizer(
            encoder.n_entries,
            gamma=settings.gamma,
            scale_observations=scale_observations and not encoder.is_discrete,
            scale_rewards=scale_rewards,
        )
        self.rng = np.random.default_rng(seed)
        self.episode = Episode(env, self.rng)
        self.steps = 0
        self.episodes: list[tuple[int, float, int]] = []
        self.training_log: list[Metrics] = []

    # --- supplied by an algorithm ------------------------------------------------------------

    @abstractmethod
    def _rollout_is_complete(self, n_steps: int, n_episodes: int) -> bool:
        """Return whether this number of steps and of finished episodes suffices for an update."""

    @abstractmethod
    def _action_function(self) -> ActionFunction:
        """Return the function that chooses the actions of a rollout, with exploration."""

    def _begin_episode(self) -> bool:
        """Prepare an episode; return whether the action function has to be computed again."""
        return False

    @abstractmethod
    def _choose_actions(self, rows: Array, deterministic: bool) -> Any:
        """Return an action of the environment for each row of flat observations."""

    @abstractmethod
    def _train(self, rollout: RolloutBuffer) -> Metrics:
        """Train on a rollout; return metrics."""

    @abstractmethod
    def _pack(self) -> tuple[Tensors, Header]:
        """Return networks, buffers and counters of the algorithm, to be saved."""

    @classmethod
    @abstractmethod
    def _from_file(cls, env: Any, options: dict[str, Any], file: AgentFile) -> Self:
        """Construct the agent whose options are given, with the networks of a file."""

    @abstractmethod
    def _restore(self, file: AgentFile) -> None:
        """Restore what ``_pack`` returned, except what ``_from_file`` has restored."""

    def options(self) -> dict[str, Any]:
        """Return the constructor arguments, except environment and networks, as JSON values."""
        return {"seed": self.seed, **asdict(self.settings)}

    # --- acting ------------------------------------------------------------------------------

    def inputs(self, rows: Array) -> Rows:
        """Return rows of network inputs from flat observations.

        Args:
            rows: flat observations, ``[n, n_entries]``.
        """
        return self.encoder.inputs(rows, self.normalizer.observation)

    @final
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
            state: ignored; agents are not recurrent.
            episode_start: ignored.
            deterministic: return the best action, without exploration.

        Returns:
            The action, in the environment's action space, and None.
        """
        rows, is_single = self.encoder.to_rows(observation)
        actions = self._choose_actions(rows, deterministic)
        return (actions[0] if is_single else actions), None

    # --- training ----------------------------------------------------------------------------

    @final
    def learn(
        self,
        total_timesteps: int,
        *,
        callback: Callback | Sequence[Callback] | None = None,
        progress: bool | None = None,
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 100,
    ) -> Self:
        """Act and learn until the agent has taken at least ``total_timesteps`` more steps.

        Args:
            total_timesteps: number of environment steps, rounded up to whole updates.
            callback: function or functions called after every update with the agent and the
                metrics of the update (the last entry of ``training_log``); returning True stops
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
        callbacks = [callback] if callable(callback) else list(callback or ())
        goal, n_updates = self.steps + total_timesteps, 0
        with Progress(total_timesteps, type(self).__name__, progress) as bar:
            while True:
                n_steps = self._update(checkpoint)
                n_updates += 1
                bar.advance(n_steps)
                bar.report({"reward": self.mean_reward()})
                stops = [bool(call(self, self.training_log[-1])) for call in callbacks]
                is_last = any(stops) or self.steps >= goal
                if checkpoint is not None and (is_last or n_updates % checkpoint_every == 0):
                    self.save(checkpoint)
                if is_last:
                    return self

    def _update(self, checkpoint: str | Path | None) -> int:
        """Collect a rollout and train on it; return its number of steps."""
        try:
            rollout = self._collect()
        except EnvironmentFault as fault:
            fault.saved_to(self._save_after_fault(checkpoint))
            raise
        self.normalizer.update(rollout.observations, rollout.rewards, rollout.done)
        metrics = self._train(rollout)
        self.steps += len(rollout)
        self.episodes += rollout.episode_stats
        self.training_log.append(
            {"steps": float(self.steps), "mean_reward": self.mean_reward(), **metrics}
        )
        return len(rollout)

    def _collect(self) -> RolloutBuffer:
        """Act until there are enough steps for an update; return them."""
        episode = self.episode
        if episode.take_up():
            self._begin_episode()
        act = self._action_function()
        columns: tuple[list[Any], ...] = ([], [], [], [], [], [])
        episode_stats: list[tuple[int, float, int]] = []
        n_steps = 0
        while not self._rollout_is_complete(n_steps, len(episode_stats)):
            observation = episode.observation
            stored, action = act(observation)
            reward, terminated, truncated = episode.step(action, self.steps + n_steps)
            n_steps += 1
            row = (observation, stored, reward, episode.observation, terminated, truncated)
            for column, entry in zip(columns, row, strict=True):
                column.append(entry)
            if terminated or truncated:
                episode_stats.append((self.steps + n_steps, episode.total, episode.length))
                episode.reset(self.steps + n_steps)
                if self._begin_episode():
                    act = self._action_function()
        observations, actions, rewards, next_observations, *ends = map(np.array, columns)
        return RolloutBuffer(
            observations, actions.reshape(n_steps, -1), rewards, next_observations, ends[0],
            ends[1], episode_stats,
        )  # fmt: skip

    @final
    def mean_reward(self, last: int = 100) -> float:
        """Return the mean return of the last ``last`` episodes; NaN if none has ended yet."""
        recent = [episode[1] for episode in self.episodes[-last:]]
        return float(np.mean(recent)) if recent else float("nan")

    # --- files -------------------------------------------------------------------------------

    @final
    def save(self, path: str | Path) -> None:
        """Write the agent to one file, atomically.

        The file holds networks, statistics, buffers, random generator and the current episode.
        """
        model_file.write(path, *self._packed())

    def _save_after_fault(self, path: str | Path | None) -> str:
        """Save the agent after a fault of its environment; return the path of the file."""
        if path is None:
            path = Path(tempfile.mkdtemp(prefix="tractable-")) / "agent.safetensors"
        self.save(path)
        return str(path)

    def _packed(self) -> tuple[Tensors, Header]:
        """Return the agent as named tensors and JSON values."""
        tensors, header = self._pack()
        normalizer = serialization.normalizer_tensors(self.normalizer)
        taken = self.episode.actions
        dtype = torch.int64 if self._has_discrete_actions else torch.float64
        actions = torch.zeros((len(taken), *self.env.action_space.shape), dtype=dtype)
        if taken:
            actions.copy_(torch.from_numpy(np.array(taken)))
        spec = getattr(self.env, "spec", None)
        return {
            **tensors,
            **with_prefix(normalizer, "normalizer/"),
            "episode/actions": actions,
            "episode/observation": torch.from_numpy(self.episode.observation.copy()),
        }, {
            "agent": type(self).__name__,
            "options": self.options(),
            "env": None if spec is None else spec.id,
            "steps": self.steps,
            "episodes": self.episodes,
            "training_log": self.training_log,
            "episode_seed": self.episode.seed,
            "rng": json.dumps(self.rng.bit_generator.state),
            **header,
        }

    @final
    @classmethod
    def load(cls, path: str | Path, env: Any = None, *, net: nn.Module | None = None) -> Self:
        """Read an agent that ``save`` wrote; it continues as if it had not been interrupted.

        Args:
            path: path of the file.
            env: environment; default: created from the name in the file.  The interrupted episode
                is replayed from its seed and its actions.
            net: network; required if the file does not describe its architecture.

        Raises:
            InvalidModelFile: the file is damaged, holds another kind of agent, or does not match
                the environment.
        """
        tensors, header = model_file.read(path)
        with model_file.as_invalid_file(path):
            if header.get("agent") != cls.__name__:
                raise InvalidModelFile(f"{path} does not hold a {cls.__name__} agent")
            tensors, header = serialization.with_current_names(tensors, header)
            file = AgentFile(path, tensors, header, net)
            if env is None:
                env = registered_env_id(header["env"])
            file.check_episode_length(env)
            options = file.options(cls.settings_class)
            return cls._from_file(open_environment(env), options, file).restore(file)

    @final
    def restore(self, file: AgentFile) -> Self:
        """Restore the state of the agent from a file, and check that nothing in it is left over.

        Args:
            file: content of a file that ``save`` wrote for an agent with the same options.
        """
        self._restore_base(file)
        self._restore(file)
        self._resume_episode(file)
        header = {key: value for key, value in file.header.items() if key not in ("format", "env")}
        packed_tensors, packed_header = self._packed()
        validation.check_roundtrip(
            (_own(file.tensors), header), (_own(packed_tensors), packed_header)
        )
        return self

    @property
    def _has_discrete_actions(self) -> bool:
        return hasattr(self.env.action_space, "n")

    def _restore_base(self, file: AgentFile) -> None:
        """Restore statistics and counters."""
        header = file.header
        serialization.restore_normalizer(self.normalizer, under_prefix(file.tensors, "normalizer/"))
        self.steps = validation.require_at_most(header["steps"], 1 << 60, "steps")
        self.episodes = [(int(s), float(r), int(n)) for s, r, n in header["episodes"]]
        self.training_log = [
            {str(key): float(value) for key, value in record.items()}
            for record in header["training_log"]
        ]

    def _resume_episode(self, file: AgentFile) -> None:
        """Replay the interrupted episode, and restore the random generator."""
        actions = file.tensors["episode/actions"]
        if self._has_discrete_actions:
            n_actions = int(self.env.action_space.n)
            if bool(((actions < 0) | (actions >= n_actions)).any()):
                raise InvalidModelFile(
                    "the episode in the file has actions outside the action space"
                )
        steps: Any = actions.tolist() if self._has_discrete_actions else actions.numpy()
        seed = validation.require_type(file.header["episode_seed"], int, "episode_seed")
        observation = file.tensors["episode/observation"].numpy()
        if not self.episode.resume(seed, steps, observation):
            raise InvalidModelFile(
                f"the episode in {file.path} cannot be resumed: the environment is not "
                "reproducible from the same seed and actions (another version, or not seeded)"
            )
        self.rng.bit_generator.state = json.loads(file.header["rng"])


def _own(tensors: Tensors) -> Tensors:
    """Return the tensors of the agent itself; its critics check theirs separately."""
    learners = ("critic/", "target_critic/")
    return {name: tensor for name, tensor in tensors.items() if not name.startswith(learners)}
