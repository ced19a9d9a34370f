"""Q-learning agent with a Bayesian network of action values.

The network has one output per action.  The agent acts for a horizon of steps and computes a
Gaussian target for every step (``tractable.agents.values.targets``).  The learner is then trained
on the targets of the actions taken, in rows drawn from a replay buffer.  With TAGI the update is in
closed form: it needs no gradient, no target network and no epsilon, because targets include the
variance of the bootstrapped values, and because actions are chosen under a draw of the weights
(Thompson sampling).  Other variants are settings: the book's DQN (E 19.16 to 19.21), and training
without a replay buffer (``buffer_size=0``), in which each horizon is learned once.

Source: Prince, "Understanding Deep Learning" (2023), chapter 19; Nguyen & Goulet, "Analytically
tractable Bayesian deep Q-learning" (2021), for TAGI with one output per action.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tractable.agents.control.environment import open_environment
from tractable.agents.control.episode import Episode
from tractable.agents.control.horizon import Horizon
from tractable.agents.control.normalizer import Normalizer
from tractable.agents.values import file, offline
from tractable.agents.values.critic import Critic, MakeLearner, Values, value_net
from tractable.agents.values.encoding import Encoding, Rows, discrete_actions
from tractable.agents.values.settings import QSettings
from tractable.agents.values.table import Exploration
from tractable.agents.values.teacher import Teacher
from tractable.errors import EnvironmentFault
from tractable.gaussian import Gaussian
from tractable.learners import TAGI
from tractable.likelihoods import Normal
from tractable.training import Progress

Array = NDArray[np.float64]
Callback = Callable[["QAgent"], bool | None]
"""Function called with the agent; returning True stops training."""


class QAgent:
    """Q-learning agent for environments with discrete actions.

    Args:
        env: a Gymnasium environment with ``Discrete`` actions, or its name; observations may be
            a ``Box`` or ``Discrete``.
        net: network with one output per action; default: linear layers of
            ``hidden_layer_sizes`` units.  A network with embeddings receives the indices of
            ``Discrete`` states.
        learner: function from a network, a likelihood and ``seed=`` to a learner, for example a
            class such as ``tractable.Backprop``; default: TAGI.
        exploration: exploration strategy; None: Thompson sampling.
        seed: seed of the networks, the actions and the environment's episodes.
        **settings: see ``QSettings``.

    Attributes:
        critics: networks, one for each of ``n_critics``.
        normalizer: running statistics of observations and rewards.
        teacher: object that computes targets and trains the networks on them.
        steps: number of environment steps so far.
        episodes: for every finished episode: the step at which it ended, its return and its
            length.
        training_log: per update: steps, mean return, mean error and standard deviation of the
            values.
    """

    def __init__(
        self,
        env: Any,
        *,
        net: nn.Module | None = None,
        learner: MakeLearner | None = None,
        exploration: Exploration | None = None,
        seed: int = 0,
        **settings: Any,
    ) -> None:
        self.settings = s = QSettings(**settings)
        self.env = open_environment(env)
        self.actions = discrete_actions(self.env, type(self).__name__)
        self.exploration, self.seed = exploration, seed
        integers = net is not None and any(isinstance(m, nn.Embedding) for m in net.modules())
        self.encoding = Encoding(self.env.observation_space, integers=integers)
        net = (
            value_net(self.encoding.width, s.hidden_layer_sizes, self.actions)
            if net is None
            else net
        )
        make = _tagi(s.gain) if learner is None else learner
        self.critics = [
            Critic(make(net, Normal(s.target_std), seed=seed + k), self.actions)
            for k in range(s.n_critics)
        ]
        self._check_net()
        self._begin()

    def _begin(self) -> None:
        """Initialize everything but the networks."""
        s, numbers = self.settings, 1 if self.encoding.discrete else self.encoding.width
        self.normalizer = Normalizer(
            numbers,
            gamma=s.gamma,
            scale_observations=s.scale_observations and not self.encoding.discrete,
            scale_rewards=s.scale_rewards,
        )
        self.rng = np.random.default_rng(self.seed)
        self.episode = Episode(self.env, self.rng)
        self.held = self._draw_seed()
        self.teacher = Teacher(self.critics, s, self.inputs, self.reward, numbers, self.rng)
        self.steps = 0
        self.episodes: list[tuple[int, float, int]] = []
        self.training_log: list[dict[str, float]] = []

    def _check_net(self) -> None:
        rows = self.inputs(self.encoding.flat(self.env.observation_space.sample())[0])
        mean, _ = self.critics[0].values()(rows)
        if mean.shape != (1, self.actions):
            raise ValueError(
                f"the network must have an output for each of {self.actions} actions, got outputs "
                f"of shape {tuple(mean.shape[1:])}"
            )

    # --- values --------------------------------------------------------------------------

    def inputs(self, flat: Array) -> Rows:
        """Return rows of network inputs; without scaling, observations are not clipped either."""
        normalizer = getattr(self, "normalizer", None) if self.settings.scale_observations else None
        return self.encoding.inputs(flat, normalizer.observation if normalizer else np.asarray)

    def reward(self, raw: Array) -> Array:
        """Return rewards as they are learned; without scaling, they are not clipped either."""
        return self.normalizer.reward(raw) if self.settings.scale_rewards else raw

    def value(self, observation: Any) -> Gaussian:
        """Return the value of every action and its variance, in units of the raw rewards.

        Args:
            observation: one observation, or several rows.
        """
        flat, single = self.encoding.flat(observation)
        mean, variance = self._moments(self.inputs(flat))
        scale = self.reward_scale
        at = 0 if single else slice(None)
        return Gaussian.wrap(
            torch.from_numpy(mean[at] * scale), torch.from_numpy(variance[at] * scale**2)
        )

    @property
    def reward_scale(self) -> float:
        """Number by which rewards are divided before they are learned."""
        scaled = self.normalizer.scale_rewards and self.normalizer.returns.count
        return float(self.normalizer.returns.deviation[0]) if scaled else 1.0

    def _moments(self, rows: Rows) -> tuple[Array, Array]:
        """Return mean and variance over all heads, by the law of total variance."""
        found = [critic.values()(rows) for critic in self.critics]
        means = np.stack([mean for mean, _ in found]).astype(np.float64)
        variances = np.stack([variance for _, variance in found]).astype(np.float64)
        return means.mean(0), variances.mean(0) + means.var(0)

    # --- acting --------------------------------------------------------------------------

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
            state: ignored; the agent is not recurrent.
            episode_start: ignored.
            deterministic: return the action with the highest mean value (minus ``pessimism``
                standard deviations), without exploration.

        Returns:
            The action, and None.
        """
        flat, single = self.encoding.flat(observation)
        rows = self.inputs(flat)
        if deterministic:
            mean, variance = self._moments(rows)
            chosen = (mean - self.teacher.pessimism * np.sqrt(variance)).argmax(1)
        else:
            values = self._acting()
            chosen = np.array([self._choose(values, rows[k : k + 1]) for k in range(len(rows))])
        return (chosen[0] if single else chosen), None

    def _draw_seed(self) -> tuple[int, int]:
        """Draw the head and the seed of the weight draw that are used for an episode."""
        return int(self.rng.integers(len(self.critics))), int(self.rng.integers(2**31))

    def _acting(self) -> Values:
        """Return the value function that chooses the actions of the current episode."""
        head, seed = self.held
        if self.exploration is None and self.settings.thompson_interval == "episode":
            return self.critics[head].drawn(seed, self.settings.thompson_scale)
        return self.critics[head].values()

    def _choose(self, values: Values, row: Rows) -> int:
        mean, variance = values(row)
        if self.exploration is not None:
            chances = self.exploration.probabilities(torch.from_numpy(mean[0])).double().numpy()
            return int(self.rng.choice(self.actions, p=chances / chances.sum()))
        if self.settings.thompson_interval == "step":
            noise = self.rng.standard_normal(self.actions)
            return int(
                (mean[0] + self.settings.thompson_scale * np.sqrt(variance[0]) * noise).argmax()
            )
        return int(mean[0].argmax())

    # --- learning ------------------------------------------------------------------------

    def learn(
        self,
        total_timesteps: int,
        *,
        callback: Callback | None = None,
        progress: bool | None = False,
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 100,
    ) -> Self:
        """Act and learn until the agent has taken ``total_timesteps`` more steps; return the agent.

        Args:
            total_timesteps: number of environment steps, rounded up to whole horizons.
            callback: function called with the agent after every horizon; returning True stops
                training.
            progress: whether to show a progress bar; None: only in a terminal.
            checkpoint: file to save the agent to, every ``checkpoint_every`` horizons and at
                the end; an agent loaded from it continues with bit-identical results.
            checkpoint_every: number of horizons between two checkpoints.

        Raises:
            EnvironmentFault: the environment returned NaN or infinite values.  The agent, in its
                state at the end of the last horizon, is saved to the file that the error names.
        """
        if total_timesteps < 1:
            raise ValueError(f"total_timesteps must be at least 1, got {total_timesteps}")
        if checkpoint_every < 1:
            raise ValueError(f"checkpoint_every must be at least 1, got {checkpoint_every}")
        horizons = -(-total_timesteps // self.settings.train_freq)
        with Progress(horizons, type(self).__name__, progress) as bar:
            for k in range(1, horizons + 1):
                try:
                    seen = self._collect()
                except EnvironmentFault as fault:
                    fault.saved_to(file.rescue(self, checkpoint))
                    raise
                self._learn_horizon(seen)
                bar.advance()
                bar.report({"reward": self.mean_reward()})
                stop = callback is not None and bool(callback(self))
                if checkpoint is not None and (stop or k % checkpoint_every == 0 or k == horizons):
                    self.save(checkpoint)
                if stop:
                    break
        return self

    def mean_reward(self, last: int = 100) -> float:
        """Return the mean return of the last ``last`` episodes; NaN if none has ended yet."""
        recent = [episode[1] for episode in self.episodes[-last:]]
        return float(np.mean(recent)) if recent else float("nan")

    def _collect(self) -> Horizon:
        """Act for one horizon and return its steps."""
        episode, size = self.episode, self.settings.train_freq
        if episode.take_up():
            self.held = self._draw_seed()
        seen = Horizon.empty(size, len(episode.observation), 1)
        values = self._acting()
        for t in range(size):
            observation = episode.observation
            action = self._choose(values, self.inputs(observation[None]))
            reward, terminal, truncated = episode.step(action, self.steps + t)  # type: ignore[arg-type]
            seen.observations[t] = observation
            seen.actions[t] = action
            seen.rewards[t] = reward
            seen.terminal[t], seen.ends[t] = terminal, truncated
            seen.reached[t] = episode.observation
            if terminal or truncated:
                seen.finished.append((self.steps + t + 1, episode.total, episode.length))
                episode.reset()
                self.held = self._draw_seed()
                values = self._acting()
        return seen

    def _learn_horizon(self, seen: Horizon) -> None:
        self.normalizer.include(seen.observations, seen.rewards, seen.terminal | seen.ends)
        seen.ends[-1] = not seen.terminal[-1]
        error, std = self.teacher.learn(seen)
        self.steps += len(seen.rewards)
        self.episodes += seen.finished
        self.training_log.append(
            {
                "steps": float(self.steps),
                "mean_reward": self.mean_reward(),
                "target_std": self.teacher.target_std,
                "value_error": error,
                "value_std": std,
            }
        )
        self.teacher.end_horizon()

    def update(
        self, observation: Any, action: int, reward: float, following: Any, *, done: bool = False
    ) -> None:
        """Learn from one transition of any origin: E 19.15 with a network instead of a table.

        Args:
            observation: observation before the step.
            action: action taken.
            reward: reward received.
            following: observation after the step.
            done: whether the step ended in a terminal state.
        """
        shape = (1, *self.encoding.shape)
        rows = offline.checked(
            self.encoding,
            self.actions,
            {
                "observations": np.asarray(observation).reshape(shape),
                "actions": [action],
                "rewards": [reward],
                "next_observations": np.asarray(following).reshape(shape),
                "terminals": [done],
            },
            self.settings.gamma,
        )
        self.teacher.relearn(rows)

    def fit(
        self,
        logged: Any,
        *,
        pessimism: float = 1.0,
        epochs: int = 40,
        progress: bool | None = False,
    ) -> Self:
        """Train on logged transitions without acting (offline); return the agent.

        Every epoch computes targets from the current values minus ``pessimism`` standard deviations
        and learns all transitions; the posterior of TAGI depends on about the last five epochs.
        Afterwards, with ``deterministic=True``, the agent chooses the action with the highest mean
        minus ``pessimism`` standard deviations, and so avoids actions that the log does not cover.

        Args:
            logged: arrays by name: ``observations``, ``actions``, ``rewards``,
                ``next_observations``, ``terminals`` (whether the step ended in a terminal state;
                False for truncated episodes).
            pessimism: number of standard deviations subtracted from the values; 0 uses the means.
            epochs: number of passes over all transitions.
            progress: whether to show a progress bar; None: only in a terminal.
        """
        if not (np.isfinite(pessimism) and pessimism >= 0):
            raise ValueError(f"pessimism must be finite and at least 0, got {pessimism}")
        if epochs < 1:
            raise ValueError(f"epochs must be at least 1, got {epochs}")
        rows = offline.checked(self.encoding, self.actions, logged, self.settings.gamma)
        offline.fit(self, rows, float(pessimism), epochs, progress)
        return self

    # --- state ---------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the agent to one file, atomically.

        The file holds the networks, the statistics, the generator and the current episode.
        """
        file.save(self, path)

    @classmethod
    def load(cls, path: str | Path, env: Any = None, *, net: nn.Module | None = None) -> Self:
        """Read an agent that ``save`` wrote; it continues as if it had not been interrupted.

        Args:
            path: path of the file.
            env: environment; default: created from the name in the file.  The interrupted episode
                is replayed from its seed and its actions.
            net: network; required if the file does not describe its architecture.
        """
        agent = file.load(cls, path, env, net)
        assert isinstance(agent, cls)
        return agent

    def options(self) -> dict[str, Any]:
        """Return the constructor arguments, except environment and learner, as JSON values."""
        exploration = None if self.exploration is None else asdict(self.exploration)
        return {"seed": self.seed, "exploration": exploration, **asdict(self.settings)}


def _tagi(gain: float) -> MakeLearner:
    def make(net: nn.Module, likelihood: Normal, *, seed: int) -> TAGI:
        # No outlier rejection: a surprisingly high reward is what the agent searches for.
        return TAGI(net, likelihood, gain=gain, seed=seed, robust=False)

    return make
