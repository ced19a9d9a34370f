"""Q-learning agent with a Bayesian network of action values.

The network has one output per action.  The agent acts for some steps and computes a Gaussian target
for every step (``tractable.agents.returns``).  The learner is then trained on the targets of the
actions taken, in rows drawn from a replay buffer.  With TAGI the update is in closed form: it needs
no gradient, no target network and no epsilon, because targets include the variance of the
bootstrapped values, and because actions are chosen under a sample of the weights (Thompson
sampling).  Other variants are settings: the book's DQN (E 19.16 to 19.21), and training without a
replay buffer (``buffer_size=0``), in which every step is learned once.

Source: Prince, "Understanding Deep Learning" (2023), chapter 19; Nguyen & Goulet, "Analytically
tractable Bayesian deep Q-learning" (2021), for TAGI with one output per action.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from typing_extensions import override

from tractable.agents.base import ActionFunction, Agent, Metrics, Rows
from tractable.agents.buffers import ReplayBuffer, RolloutBuffer
from tractable.agents.critic import Critic, LearnerFactory, ValueFunction, learner_factory
from tractable.agents.envs import ObservationEncoder, n_discrete_actions, open_environment
from tractable.agents.exploration import Exploration, exploration_from_config
from tractable.agents.q_learning import offline
from tractable.agents.q_learning.settings import QSettings
from tractable.agents.q_learning.trainer import QTrainer
from tractable.agents.serialization import AgentFile
from tractable.errors import InvalidModelFile
from tractable.gaussian import Gaussian
from tractable.learners import serialization as learner_files
from tractable.likelihoods import Normal
from tractable.nn import mlp
from tractable.persistence import validation
from tractable.persistence.model_file import Header, Tensors, with_prefix

Array = NDArray[np.float64]


class QAgent(Agent):
    """Q-learning agent for environments with discrete actions.

    Args:
        env: a Gymnasium environment with ``Discrete`` actions, or its name; observations may be
            a ``Box`` or ``Discrete``.
        net: network with one output per action; default: linear layers of
            ``hidden_layer_sizes`` units.  A network with embeddings receives the indices of
            ``Discrete`` states.
        learner: class of learners, such as ``tractable.Backprop``, or its name, or any function
            from a network, a likelihood and ``seed=`` to a learner; default: TAGI.
        learner_kwargs: further arguments of the learner.
        exploration: exploration strategy; None: Thompson sampling.
        seed: seed of the networks, the actions and the environment's episodes.
        **settings: see ``QSettings``.

    Attributes:
        critics: value networks, ``n_critics`` of them.
        trainer: object that computes targets and trains the networks on them.
        normalizer: running statistics of observations and rewards.
        steps: number of environment steps so far.
        episodes: for every finished episode: the step at which it ended, its return and its
            length.
        training_log: per update: steps, mean return, mean error and standard deviation of the
            values.
    """

    settings_class = QSettings
    settings: QSettings

    def __init__(
        self,
        env: Any,
        *,
        net: nn.Module | None = None,
        learner: LearnerFactory | str | None = None,
        learner_kwargs: dict[str, Any] | None = None,
        exploration: Exploration | None = None,
        seed: int = 0,
        **settings: Any,
    ) -> None:
        s = QSettings(**settings)
        env = open_environment(env)
        self.n_actions = n_discrete_actions(env, type(self).__name__)
        as_indices = net is not None and any(isinstance(m, nn.Embedding) for m in net.modules())
        super().__init__(
            env, s, seed=seed,
            encoder=ObservationEncoder(env.observation_space, as_indices=as_indices),
            scale_observations=s.scale_observations, scale_rewards=s.scale_rewards,
        )  # fmt: skip
        self.exploration = exploration
        if net is None:
            net = mlp(self.encoder.n_inputs, s.hidden_layer_sizes, self.n_actions)
        make = learner_factory(learner, learner_kwargs, gain=s.gain)
        self.critics = [
            Critic(make(net, Normal(s.target_std), seed=seed + k), self.n_actions)
            for k in range(s.n_critics)
        ]
        self._check_net()
        self._thompson_seed = self._draw_thompson_seed()
        n_entries = self.encoder.n_entries
        self.trainer = QTrainer(self.critics, s, self.inputs, self.reward, n_entries, self.rng)

    def _check_net(self) -> None:
        """Raise unless the network has one output per action."""
        rows = self.inputs(self.encoder.to_rows(self.env.observation_space.sample())[0])
        mean, _ = self.critics[0].values()(rows)
        if mean.shape != (1, self.n_actions):
            raise ValueError(
                f"the network must have an output for each of {self.n_actions} actions, got "
                f"outputs of shape {tuple(mean.shape[1:])}"
            )

    @override
    def options(self) -> dict[str, Any]:
        """Return the constructor arguments, except environment and learner, as JSON values."""
        config = None
        if self.exploration is not None:
            config = {"name": type(self.exploration).__name__, **self.exploration.config()}
        return {**super().options(), "exploration": config}

    # --- values ------------------------------------------------------------------------------

    @override
    def inputs(self, rows: Array) -> Rows:
        """Return rows of network inputs; without scaling, observations are not clipped either.

        Args:
            rows: flat observations, ``[n, n_entries]``.
        """
        if self.settings.scale_observations:
            return super().inputs(rows)
        return self.encoder.inputs(rows, np.asarray)

    def reward(self, raw: Array) -> Array:
        """Return rewards as they are learned; without scaling, they are not clipped either.

        Args:
            raw: rewards of the environment, ``[n]``.
        """
        return self.normalizer.reward(raw) if self.settings.scale_rewards else raw

    def value(self, observation: Any) -> Gaussian:
        """Return the value of every action and its variance, in units of the raw rewards.

        Args:
            observation: one observation, or several rows.
        """
        rows, is_single = self.encoder.to_rows(observation)
        mean, variance = self._moments(self.inputs(rows))
        scale = self.reward_scale
        index = 0 if is_single else slice(None)
        return Gaussian.wrap(
            torch.from_numpy(mean[index] * scale), torch.from_numpy(variance[index] * scale**2)
        )

    @property
    def reward_scale(self) -> float:
        """Number by which rewards are divided before they are learned."""
        is_scaled = self.normalizer.scale_rewards and self.normalizer.returns.count
        return float(self.normalizer.returns.std[0]) if is_scaled else 1.0

    @property
    def replay_buffer(self) -> ReplayBuffer | None:
        """Replay buffer; None with ``buffer_size=0``."""
        return self.trainer.replay_buffer

    def _moments(self, rows: Rows) -> tuple[Array, Array]:
        """Return mean and variance over all critics, by the law of total variance."""
        found = [critic.values()(rows) for critic in self.critics]
        means = np.stack([mean for mean, _ in found]).astype(np.float64)
        variances = np.stack([variance for _, variance in found]).astype(np.float64)
        return means.mean(0), variances.mean(0) + means.var(0)

    # --- acting ------------------------------------------------------------------------------

    @override
    def _choose_actions(self, rows: Array, deterministic: bool) -> NDArray[np.int64]:
        """Return actions; the best one has the highest mean minus ``pessimism`` deviations."""
        inputs = self.inputs(rows)
        if deterministic:
            mean, variance = self._moments(inputs)
            best: NDArray[np.int64] = (mean - self.trainer.pessimism * np.sqrt(variance)).argmax(1)
            return best
        values = self._acting_values()
        return np.array([self._choose(values, inputs[k : k + 1]) for k in range(len(inputs))])

    @override
    def _action_function(self) -> ActionFunction:
        values = self._acting_values()

        def act(observation: Array) -> tuple[int, int]:
            action = self._choose(values, self.inputs(observation[None]))
            return action, action

        return act

    @override
    def _begin_episode(self) -> bool:
        self._thompson_seed = self._draw_thompson_seed()
        return True

    def _draw_thompson_seed(self) -> tuple[int, int]:
        """Draw the critic and the seed of the weight sample that are used for an episode."""
        return int(self.rng.integers(len(self.critics))), int(self.rng.integers(2**31))

    def _acting_values(self) -> ValueFunction:
        """Return the value function that chooses the actions of the current episode."""
        critic, seed = self._thompson_seed
        if self.exploration is None and self.settings.thompson_interval == "episode":
            return self.critics[critic].sampled_values(seed, self.settings.thompson_scale)
        return self.critics[critic].values()

    def _choose(self, values: ValueFunction, row: Rows) -> int:
        mean, variance = values(row)
        if self.exploration is not None:
            probabilities = self.exploration.probabilities(torch.from_numpy(mean[0]))
            p = probabilities.double().numpy()
            return int(self.rng.choice(self.n_actions, p=p / p.sum()))
        if self.settings.thompson_interval == "step":
            noise = self.rng.standard_normal(self.n_actions)
            scale = self.settings.thompson_scale
            return int((mean[0] + scale * np.sqrt(variance[0]) * noise).argmax())
        return int(mean[0].argmax())

    # --- training ----------------------------------------------------------------------------

    @override
    def _rollout_is_complete(self, n_steps: int, n_episodes: int) -> bool:
        return n_steps >= self.settings.train_freq

    @override
    def _train(self, rollout: RolloutBuffer) -> Metrics:
        info = self.trainer.train(rollout)
        metrics = {
            "target_std": self.trainer.target_std,
            "value_error": info.error,
            "value_std": info.std,
        }
        self.trainer.on_update_end()
        return metrics

    def update(
        self,
        observation: Any,
        action: int,
        reward: float,
        next_observation: Any,
        *,
        done: bool = False,
    ) -> None:
        """Learn one transition, with a target from the current values.

        Args:
            observation: observation before the step.
            action: action taken.
            reward: reward received.
            next_observation: observation after the step.
            done: whether the step ended in a terminal state.
        """
        shape = (1, *self.encoder.shape)
        rows = offline.to_transitions(
            self.encoder,
            self.n_actions,
            {
                "observations": np.asarray(observation).reshape(shape),
                "actions": [action],
                "rewards": [reward],
                "next_observations": np.asarray(next_observation).reshape(shape),
                "terminals": [done],
            },
            self.settings.gamma,
        )
        self.trainer.train_on(rows)

    def fit(
        self,
        logged: Any,
        *,
        pessimism: float = 1.0,
        epochs: int = 40,
        progress: bool | None = None,
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
        rows = offline.to_transitions(self.encoder, self.n_actions, logged, self.settings.gamma)
        offline.fit(self, rows, float(pessimism), epochs, progress)
        return self

    # --- files -------------------------------------------------------------------------------

    @override
    def _pack(self) -> tuple[Tensors, Header]:
        tensors, header = self.trainer.pack()
        header |= {
            "thompson_seed": list(self._thompson_seed),
            "critics": [],
            "target_critics": [],
        }
        for k, critic in enumerate(self.critics):
            for name, learner in (("critic", critic.learner), ("target_critic", critic.target)):
                if learner is not None:
                    own, description = learner_files.pack(learner)
                    tensors |= with_prefix(own, f"{name}/{k}/")
                    header[f"{name}s"].append(description)
        return tensors, header

    @override
    @classmethod
    def _from_file(cls, env: Any, options: dict[str, Any], file: AgentFile) -> Self:
        for name, array in (
            ("buffer_size", "replay_buffer/rewards"),
            ("priority_buffer_size", "priority_buffer/rewards"),
        ):
            validation.require_at_most(options[name], len(file.tensors.get(array, ())), name)
        headers = validation.require_type(file.header["critics"], list, "critics")
        if len(headers) != options.get("n_critics", 1):
            raise InvalidModelFile(
                f"{file.path} holds {len(headers)} networks, its options ask for "
                f"{options.get('n_critics', 1)}: the file is damaged"
            )
        options["exploration"] = exploration_from_config(options["exploration"])
        learners = [file.learner(f"critic/{k}/", header) for k, header in enumerate(headers)]
        remaining = iter(learners)
        return cls(env, net=learners[0].net, learner=lambda *_, **__: next(remaining), **options)

    @override
    def _restore(self, file: AgentFile) -> None:
        self.trainer.restore(file.tensors, file.header)
        if self.settings.target_update_interval is not None:
            for k, header in enumerate(file.header["target_critics"]):
                target = file.learner(f"target_critic/{k}/", header)
                self.critics[k] = Critic(self.critics[k].learner, self.n_actions, target)
        critic, seed = file.header["thompson_seed"]
        self._thompson_seed = (
            validation.require_at_most(critic, len(self.critics) - 1, "thompson_seed"),
            validation.require_at_most(seed, 2**31, "thompson_seed"),
        )
