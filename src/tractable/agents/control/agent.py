"""Agent for continuous actions by Bayesian inference: algorithm 2.

A policy network predicts a Gaussian over actions, from which actions are drawn.  A value network
learns q(s, a) from n-step targets.  The policy is trained by inferring, in the value network, the
action at which dq/da = 0.  Both networks are trained by TAGI, so there is no gradient, no learning
rate and no exploration schedule: the policy's own uncertainty drives exploration and shrinks during
training.

The implementation departs from the printed algorithm in these points, because the printed version
did not learn: sigma_V is not added to the action (eq. 6); the policy's output is linear and the
*drawn* output is squashed; eq. (4), with the expected sign (see
``tractable.agents.control.advice``), replaces eq. (3); returns mix horizons (lambda); sigma_V falls
by 2 % a horizon to its minimum; observations and rewards are scaled by running statistics; and the
policy is regularized: it is pulled towards zero, forgets a little and takes steps of limited length
(see ``tractable.agents.control.restraint``).

Source: Nguyen & Goulet, "Analytically tractable hidden-states inference in Bayesian neural
networks", section 5, algorithm 2, tables 7 to 9.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tractable.agents.control import file
from tractable.agents.control.advice import advise
from tractable.agents.control.environment import box_action_space, open_environment
from tractable.agents.control.episode import Episode
from tractable.agents.control.horizon import Horizon
from tractable.agents.control.metrics import METRICS, metrics
from tractable.agents.control.networks import policy_net, value_net
from tractable.agents.control.normalizer import Normalizer
from tractable.agents.control.restraint import Before, forget_some
from tractable.agents.control.returns import n_step_targets
from tractable.agents.control.settings import ControlSettings
from tractable.errors import EnvironmentFault
from tractable.gaussian import Gaussian
from tractable.learners import TAGI
from tractable.learners.methods.tagi.engines import Snapshot
from tractable.likelihoods import Normal
from tractable.training import Progress

Array = NDArray[np.float64]
Callback = Callable[["TAGIControl"], bool | None]
"""Function called with the agent; returning True stops training."""

_WATCHED = 8  # batches between two computations of the metrics


class TAGIControl:
    """Agent for environments with continuous actions, trained by TAGI.

    Args:
        env: a Gymnasium environment with a bounded ``Box`` of actions, or its name.
        seed: seed of the networks, the actions and the environment's episodes.
        **settings: see ``ControlSettings``.

    Attributes:
        policy_learner: policy network; its outputs are squashed by tanh.
        value_learner: value network of scaled observations and squashed actions.
        normalizer: running statistics of observations and rewards.
        steps: number of environment steps so far.
        episodes: for every finished episode: the step at which it ended, its return and its
            length.
        training_log: metrics of each update, for the diagnosis of failures (see the guide on
            control).
    """

    def __init__(self, env: Any, *, seed: int = 0, **settings: Any) -> None:
        self.settings = ControlSettings(**settings)
        self.env = open_environment(env)
        self.low, self.high = box_action_space(self.env)
        self._middle, self._half = (self.high + self.low) / 2, (self.high - self.low) / 2
        self.seed = seed
        self.n_states = int(np.prod(self.env.observation_space.shape))
        self.n_actions = int(np.prod(self.low.shape))
        s = self.settings
        self.policy_learner = TAGI(
            policy_net(self.n_states, s.policy_hidden_layer_sizes, self.n_actions),
            Normal(1e-4, outputs=self.n_actions),
            gain=s.gain,
            seed=seed,
            robust=False,  # as in the published results, and targets are exact here
        )
        self.value_learner = TAGI(
            value_net(self.n_states + self.n_actions, s.value_hidden_layer_sizes),
            Normal(s.target_std),
            gain=s.gain,
            seed=seed + 1,
            robust=False,
        )
        self.normalizer = Normalizer(
            self.n_states,
            gamma=s.gamma,
            scale_observations=s.scale_observations,
            scale_rewards=s.scale_rewards,
        )
        self.rng = np.random.default_rng(seed)
        self.episode = Episode(self.env, self.rng)
        self.steps = 0
        self.target_std = s.target_std
        self.episodes: list[tuple[int, float, int]] = []
        self.training_log: list[dict[str, float]] = []

    # --- acting --------------------------------------------------------------------------

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[NDArray[np.float32], None]:
        """Return the action at an observation (or a batch), as in Stable-Baselines3.

        Args:
            observation: one observation or several rows.
            state: ignored; the policy is not recurrent.
            episode_start: ignored.
            deterministic: use the mean of the policy instead of a draw.

        Returns:
            The action, inside the environment's box, and None.
        """
        raw = np.asarray(observation, dtype=np.float64)
        shape = self.env.observation_space.shape
        single = raw.shape == shape
        if not single and raw.shape[1:] != shape:
            raise ValueError(f"observations must have shape {shape}, got {raw.shape}")
        if not np.isfinite(raw).all():
            raise ValueError("the observation has NaN or infinite entries")
        z = self._draw(
            self.policy_learner.snapshot(), raw.reshape(-1, self.n_states), deterministic
        )
        action = self._to_box(np.tanh(z)).astype(np.float32)
        return (action[0] if single else action), None

    def _draw(self, policy: Snapshot, raw: Array, deterministic: bool = False) -> Array:
        """Return outputs of the policy at raw observations: draws, or their means."""
        mean, variance = policy(self.normalizer.observation(raw).astype(np.float32))
        z = mean.astype(np.float64)
        if not deterministic:
            z += np.sqrt(variance) * self.rng.standard_normal(z.shape)
        return z

    def _to_box(self, squashed: Array) -> Array:
        shape = (*squashed.shape[:-1], *self.low.shape)
        stretched = self._middle + self._half * squashed.reshape(shape)
        # Called once per step: np.clip takes several times as long.
        return np.minimum(np.maximum(stretched, self.low), self.high)

    # --- learning ------------------------------------------------------------------------

    def learn(
        self,
        total_timesteps: int,
        *,
        callback: Callback | None = None,
        progress: bool | None = False,
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 50,
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
        horizon = self.settings.n_steps
        horizons = -(-total_timesteps // horizon)
        with Progress(horizons, "TAGIControl", progress) as bar:
            for k in range(1, horizons + 1):
                try:
                    self._learn_horizon(self._collect())
                except EnvironmentFault as fault:
                    fault.saved_to(file.rescue(self, checkpoint))
                    raise
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
        size = self.settings.n_steps
        steps = Horizon.empty(size, self.n_states, self.n_actions)
        episode, policy = self.episode, self.policy_learner.snapshot()
        episode.take_up()
        for t in range(size):
            observation = episode.observation
            z = self._draw(policy, observation[None])[0]
            squashed = np.tanh(z)
            reward, terminal, truncated = episode.step(self._to_box(squashed), self.steps + t)
            steps.observations[t] = observation
            steps.actions[t] = squashed
            steps.rewards[t] = reward
            steps.terminal[t], steps.ends[t] = terminal, truncated
            steps.reached[t] = episode.observation
            if terminal or truncated:
                steps.finished.append((self.steps + t + 1, episode.total, episode.length))
                episode.reset()
        return steps

    def _learn_horizon(self, seen: Horizon) -> None:
        s = self.settings
        done = seen.terminal | seen.ends
        self.normalizer.include(seen.observations, seen.rewards, done)
        states = self.normalizer.observation(seen.observations)
        rewards = self.normalizer.reward(seen.rewards)
        inputs = np.concatenate([states, seen.actions], 1).astype(np.float32)
        mean, variance = self._values(inputs)
        # Values after each step: those of the next row; at the end of a segment, those of the
        # observation that it reached.
        next_mean, next_variance = np.roll(mean, -1), np.roll(variance, -1)
        cut = seen.ends.copy()
        cut[-1] = not seen.terminal[-1]
        if cut.any():
            z = self._draw(self.policy_learner.snapshot(), seen.reached[cut])
            reached = self.normalizer.observation(seen.reached[cut])
            follow = np.concatenate([reached, np.tanh(z)], 1).astype(np.float32)
            next_mean[cut], next_variance[cut] = self._values(follow)
        target, target_variance = n_step_targets(
            rewards,
            next_mean,
            next_variance,
            seen.terminal,
            cut,
            gamma=s.gamma,
            td_lambda=s.td_lambda,
        )
        watched = self._teach(torch.from_numpy(inputs), target, target_variance)
        self.steps += len(rewards)
        self.episodes += seen.finished
        residual = target - mean
        self.training_log.append(
            {
                "steps": float(self.steps),
                "mean_reward": self.mean_reward(),
                "target_std": self.target_std,
                "target_variance": float(target.var()),
                "value_error": float((residual**2).mean()),
                "value_variance": float(variance.mean()),
                **watched,
            }
        )
        self.set_target_std(max(self.target_std * s.target_std_decay, s.min_target_std))

    def set_target_std(self, target_std: float) -> None:
        """Set the standard deviation of the value targets."""
        self.target_std = target_std
        assert isinstance(self.value_learner.likelihood, Normal)
        self.value_learner.likelihood.noise_mean.fill_(target_std**2)

    def _values(self, inputs: NDArray[np.float32]) -> tuple[Array, Array]:
        """Return mean and variance of q."""
        mean, variance = self.value_learner.outputs(
            torch.from_numpy(inputs), batch_size=None
        ).moments()
        return mean[:, 0].double().numpy(), variance[:, 0].double().numpy()

    def _teach(self, inputs: Tensor, target: Array, variance: Array) -> dict[str, float]:
        """Update both networks, batch by batch; return the metrics."""
        s = self.settings
        targets = Gaussian.wrap(
            torch.from_numpy(target.astype(np.float32)).unsqueeze(1),
            torch.from_numpy(variance.astype(np.float32)).unsqueeze(1),
        )
        before = None
        if s.max_kl is not None:
            before = Before.of(self.policy_learner, inputs[:, : self.n_states].contiguous())
        watched, certainty = [], []
        for _ in range(s.epochs):
            order = torch.from_numpy(self.rng.permutation(len(inputs)))
            for k, chosen in enumerate(order.split(s.batch_size)):
                x = inputs[chosen]
                # The rows were checked when they were collected: learn_batch instead of update.
                self.value_learner.learn_batch(x, targets[chosen], memory_rows=s.memory_rows)
                states = x[:, : self.n_states].contiguous()
                mean, output_variance = self.policy_learner.outputs(
                    states, batch_size=None
                ).moments()
                advice = advise(
                    self.value_learner, states, mean, output_variance, s.saturation_penalty
                )
                self.policy_learner.learn_batch(states, advice.target, memory_rows=s.memory_rows)
                certainty.append(advice.certainty)
                if k % _WATCHED == 0:
                    watched.append(metrics(mean, output_variance, advice))
        found = dict(zip(METRICS, torch.stack(watched).mean(0).tolist(), strict=True))
        found["certainty"] = float(torch.stack(certainty).mean())
        if before is not None and s.max_kl is not None:
            found["kl"] = before.limit(self.policy_learner, s.max_kl)
        forget_some(self.policy_learner, s.forget_rate * found["certainty"])
        return found

    # --- state ---------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the agent to one file, atomically.

        The file holds the networks, the statistics, the generator and the current episode.
        """
        file.save(self, path)

    @classmethod
    def load(cls, path: str | Path, env: Any = None) -> Self:
        """Read an agent that ``save`` wrote; it continues as if it had not been interrupted.

        Args:
            path: path of the file.
            env: environment; default: created from the name in the file.  The interrupted episode
                is replayed from its seed and its actions.
        """
        agent = file.load(cls, path, env)
        assert isinstance(agent, cls)
        return agent

    def options(self) -> dict[str, Any]:
        """Return the constructor arguments, except the environment, as JSON values."""
        return {"seed": self.seed, **asdict(self.settings)}
