"""Computation of Gaussian targets from transitions, and training of value networks on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from tractable.agents.buffers import PriorityBuffer, ReplayBuffer, RolloutBuffer, Transitions
from tractable.agents.critic import Critic
from tractable.agents.q_learning.settings import QSettings
from tractable.agents.returns import lambda_returns, n_step_returns, n_step_sums
from tractable.agents.serialization import restore_std
from tractable.errors import InvalidModelFile
from tractable.persistence import validation
from tractable.persistence.model_file import Header, Tensors, under_prefix, with_prefix

Array = NDArray[np.float64]
Actions = NDArray[np.int64]
Rows = NDArray[Any]


class TrainInfo(NamedTuple):
    """Mean absolute error of the values before an update, and their mean standard deviation."""

    error: float
    std: float


class QTrainer:
    """Training of the value networks of a ``QAgent``.

    Args:
        critics: networks to train.
        settings: settings of the agent.
        inputs: function from rows of observations to rows of network inputs.
        reward: function from the environment's rewards to scaled rewards.
        n_entries: number of entries of an observation.
        rng: generator of the order of the rows.

    Attributes:
        target_std: standard deviation of the targets' noise.
        pessimism: number of standard deviations subtracted from every value before the best
            action is chosen.
        n_updates: number of updates so far.
        replay_buffer: replay buffer, or None.
        priority_buffer: transitions with the largest standardized errors, or None.
    """

    def __init__(
        self,
        critics: list[Critic],
        settings: QSettings,
        inputs: Callable[[Array], Rows],
        reward: Callable[[Array], Array],
        n_entries: int,
        rng: np.random.Generator,
    ) -> None:
        s = settings
        self.critics, self.settings, self.rng = critics, s, rng
        self.inputs, self.reward = inputs, reward
        self.replay_buffer = ReplayBuffer(s.buffer_size, n_entries) if s.buffer_size else None
        self.priority_buffer: PriorityBuffer | None = None
        if s.priority_buffer_size:
            self.priority_buffer = PriorityBuffer(s.priority_buffer_size, n_entries)
        self.target_std, self.pessimism, self.n_updates = s.target_std, 0.0, 0
        if s.target_update_interval is not None:
            self._update_target_networks()

    # --- updates -----------------------------------------------------------------------------

    def train(self, rollout: RolloutBuffer) -> TrainInfo:
        """Train on the steps of a rollout and on stored transitions."""
        s, info = self.settings, TrainInfo(0.0, 0.0)
        if self.replay_buffer is None:
            info = self._train_on_sequence(rollout)
        else:
            self.replay_buffer.add(self._transitions(rollout, s.n_step or 1))
            for _ in range(s.gradient_steps):
                batch = self.replay_buffer.sample(s.batch_size, self.rng)
                info, _errors = self.train_on(batch, n_rewards=s.n_step or 1)
        if self.priority_buffer is not None:
            self._train_on_priority_buffer(self.priority_buffer, self._transitions(rollout, 1))
        return info

    def on_update_end(self) -> None:
        """Decrease the noise of the targets, and update the target network when it is due."""
        s = self.settings
        self.n_updates += 1
        self._set_target_std(max(self.target_std * s.target_std_decay, s.min_target_std))
        interval = s.target_update_interval
        if interval is not None and self.n_updates % interval == 0:
            self._update_target_networks()

    def _set_target_std(self, std: float) -> None:
        """Set the standard deviation of the targets' noise."""
        self.target_std = std
        for critic in self.critics:
            critic.set_target_std(std)

    def _update_target_networks(self) -> None:
        for critic in self.critics:
            critic.update_target()

    def _transitions(self, rollout: RolloutBuffer, n: int) -> Transitions:
        """Return the rollout's transitions, with up to n steps each."""
        total, last, discounts = n_step_sums(
            rollout.rewards, rollout.terminated, rollout.segment_ends(),
            gamma=self.settings.gamma, n=n,
        )  # fmt: skip
        actions = rollout.actions[:, 0]
        after = rollout.next_observations[last]
        return Transitions(rollout.observations, actions, total, after, discounts)

    def _train_on_sequence(self, rollout: RolloutBuffer) -> TrainInfo:
        """Train on a rollout in temporal order, with multi-step returns."""
        s, actions = self.settings, rollout.actions[:, 0]
        rows = self.inputs(rollout.observations)
        next_rows = self.inputs(rollout.next_observations)
        rewards = self.reward(rollout.rewards)
        ends = (rollout.terminated, rollout.segment_ends())
        infos = []
        for k, critic in enumerate(self.critics):
            steps = (rewards, *self._next_value(k, next_rows), *ends)
            if s.n_step is None:
                mean, variance = lambda_returns(*steps, gamma=s.gamma, td_lambda=s.td_lambda)
            else:
                mean, variance = n_step_returns(*steps, gamma=s.gamma, n=s.n_step)
            infos.append(_train_info(critic, rows, actions, mean))
            for _ in range(s.epochs):
                order = self.rng.permutation(len(actions))
                critic.train(rows, actions, mean, variance, order, s.batch_size, s.memory_rows)
        return _mean(infos)

    def _next_value(self, k: int, next_rows: Rows) -> tuple[Array, Array]:
        """Return mean and variance of the best next action's value, for network number ``k``."""
        critic = self.critics[k]
        mean, variance = critic.next_values()(next_rows)
        choice = mean - self.pessimism * np.sqrt(variance)
        if self.settings.double_q and critic.target is not None:
            choice = critic.values()(next_rows)[0]
        elif self.settings.double_q:
            mean, variance = self.critics[(k + 1) % len(self.critics)].values()(next_rows)
        best = choice.argmax(1)
        index = np.arange(len(best))
        value, value_variance = (m[index, best].astype(np.float64) for m in (mean, variance))
        return value - self.pessimism * np.sqrt(value_variance), value_variance

    # --- single transitions ------------------------------------------------------------------

    def train_on(
        self, rows: Transitions, memory_rows: float | None = None, *, n_rewards: int = 1
    ) -> tuple[TrainInfo, Array]:
        """Train on transitions with targets from the current values.

        Rewards are scaled and clipped with the current statistics.  A sum ``r_0 + gamma r_1 + ...``
        of n rewards is clipped at ``1 + gamma + ... + gamma^(n-1)`` times the bound of one reward:
        if no single reward exceeds the bound, nothing is clipped.

        Args:
            rows: transitions.
            memory_rows: effective number of past rows, instead of the setting.
            n_rewards: maximum number of rewards summed in a row.

        Returns:
            Error and deviation of the values, and the mean standardized error of each transition.
        """
        s = self.settings
        inputs, next_inputs = self.inputs(rows.observations), self.inputs(rows.next_observations)
        bound = sum(s.gamma**k for k in range(n_rewards))
        rewards = bound * self.reward(rows.rewards / bound)
        infos, errors = [], np.zeros(len(rows))
        for k, critic in enumerate(self.critics):
            value, value_variance = self._next_value(k, next_inputs)
            mean, variance = rewards + rows.discounts * value, rows.discounts**2 * value_variance
            infos.append(_train_info(critic, inputs, rows.actions, mean))
            errors += self._standardized_errors(critic, inputs, rows.actions, mean, variance)
            order = self.rng.permutation(len(rows))
            critic.train(
                inputs, rows.actions, mean, variance, order, s.batch_size,
                memory_rows or s.memory_rows,
            )  # fmt: skip
        return _mean(infos), errors / len(self.critics)

    def _train_on_priority_buffer(self, buffer: PriorityBuffer, rows: Transitions) -> None:
        """Train again on the stored transitions, then store new ones with larger errors."""
        if buffer.n_stored:
            buffer.set_priorities(self.train_on(buffer.all())[1])
        inputs, next_inputs = self.inputs(rows.observations), self.inputs(rows.next_observations)
        value, value_variance = self._next_value(0, next_inputs)
        mean = self.reward(rows.rewards) + rows.discounts * value
        variance = rows.discounts**2 * value_variance
        critic = self.critics[0]
        errors = self._standardized_errors(critic, inputs, rows.actions, mean, variance)
        buffer.add(rows, errors)

    def _standardized_errors(
        self, critic: Critic, rows: Rows, actions: Actions, mean: Array, variance: Array
    ) -> Array:
        """Return the absolute errors of the predicted values, in standard deviations."""
        expected, own = _action_values(critic, rows, actions)
        errors: Array = np.abs(mean - expected) / np.sqrt(own + variance + self.target_std**2)
        return errors

    # --- files -------------------------------------------------------------------------------

    def pack(self) -> tuple[Tensors, Header]:
        """Return buffers and counters, to be saved."""
        tensors: Tensors = {}
        replay, priority = self.replay_buffer, self.priority_buffer
        if replay is not None:
            tensors |= with_prefix(replay.rows.tensors(), "replay_buffer/")
        if priority is not None:
            tensors |= with_prefix(priority.rows.tensors(), "priority_buffer/")
            tensors["priority_buffer/priorities"] = torch.from_numpy(priority.priorities)
        return tensors, {
            "n_updates": self.n_updates,
            "target_std": self.target_std,
            "pessimism": self.pessimism,
            "buffer_positions": [
                0 if replay is None else replay.n_stored,
                0 if replay is None else replay.position,
                0 if priority is None else priority.n_stored,
            ],
        }

    def restore(self, tensors: Tensors, header: Header) -> None:
        """Restore buffers and counters from a file."""
        validation.check_numbers(tensors, {})
        n_stored, position, n_priority = header["buffer_positions"]
        replay, priority = self.replay_buffer, self.priority_buffer
        if replay is not None:
            self._restore_rows(replay.rows, under_prefix(tensors, "replay_buffer/"))
            replay.n_stored = validation.require_at_most(
                n_stored, len(replay.rows), "buffer_positions"
            )
            replay.position = validation.require_at_most(
                position, len(replay.rows) - 1, "buffer_positions"
            )
        if priority is not None:
            columns = under_prefix(tensors, "priority_buffer/")
            priority.priorities[:] = columns.pop("priorities").numpy()
            self._restore_rows(priority.rows, columns)
            priority.n_stored = validation.require_at_most(
                n_priority, len(priority.rows), "buffer_positions"
            )
        self.n_updates = validation.require_at_most(header["n_updates"], 1 << 60, "n_updates")
        self.target_std = restore_std(header["target_std"], "target_std")
        pessimism = validation.check_finite(header["pessimism"], "pessimism")
        self.pessimism = float(validation.require_type(pessimism, (int, float), "pessimism"))
        if not self.pessimism >= 0:
            raise InvalidModelFile(
                f"pessimism in the file is {self.pessimism}, expected at least 0"
            )

    def _restore_rows(self, rows: Transitions, columns: Tensors) -> None:
        """Copy stored transitions from a file."""
        validation.check_same_tensors(rows.tensors(), columns, "agent")
        rows.restore(columns)
        if ((rows.actions < 0) | (rows.actions >= self.critics[0].n_actions)).any():
            raise InvalidModelFile("a stored transition has an action outside the action space")


def _action_values(critic: Critic, rows: Rows, actions: Actions) -> tuple[Array, Array]:
    """Return mean and variance of the values of the actions taken."""
    mean, variance = critic.values()(rows)
    index = np.arange(len(actions))
    return mean[index, actions].astype(np.float64), variance[index, actions].astype(np.float64)


def _train_info(critic: Critic, rows: Rows, actions: Actions, target: Array) -> TrainInfo:
    mean, variance = _action_values(critic, rows, actions)
    return TrainInfo(float(np.abs(target - mean).mean()), float(np.sqrt(variance).mean()))


def _mean(infos: list[TrainInfo]) -> TrainInfo:
    return TrainInfo(
        float(np.mean([info.error for info in infos])), float(np.mean([info.std for info in infos]))
    )
