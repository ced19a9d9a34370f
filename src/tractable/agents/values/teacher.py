"""Computation of Gaussian targets from transitions, and training of value networks on them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tractable.agents.control.horizon import Horizon
from tractable.agents.values.critic import Critic
from tractable.agents.values.encoding import Rows
from tractable.agents.values.settings import QSettings
from tractable.agents.values.targets import after_n, mixed_targets, n_step_rows
from tractable.agents.values.transitions import Latest, Surprising, Transitions

Array = NDArray[np.float64]
Actions = NDArray[np.int64]
Note = tuple[float, float]
"""Mean absolute error of the values before they were updated, and their mean standard deviation."""


class Teacher:
    """Updates of the value networks between two horizons.

    Args:
        critics: networks to train.
        settings: settings of the agent.
        inputs: function from rows of observations to rows of network inputs.
        reward: function from the environment's rewards to scaled rewards.
        numbers: number of entries of an observation.
        rng: generator of the order of the rows.

    Attributes:
        target_std: standard deviation of the targets' noise.
        pessimism: number of standard deviations subtracted from every value before the best
            action is chosen.
        horizons: number of horizons learned so far.
        latest: replay buffer, or None.
        priority_buffer: transitions with the largest standardized errors, or None.
    """

    def __init__(
        self,
        critics: list[Critic],
        settings: QSettings,
        inputs: Callable[[Array], Rows],
        reward: Callable[[Array], Array],
        numbers: int,
        rng: np.random.Generator,
    ) -> None:
        self.critics, self.settings, self.rng = critics, settings, rng
        self.inputs, self.reward = inputs, reward
        self.latest = Latest(settings.buffer_size, numbers) if settings.buffer_size else None
        self.priority_buffer = (
            Surprising(settings.priority_buffer_size, numbers)
            if settings.priority_buffer_size
            else None
        )
        self.target_std, self.pessimism, self.horizons = settings.target_std, 0.0, 0
        if settings.target_update_interval is not None:
            self._renew_targets()

    # --- a horizon -----------------------------------------------------------------------

    def learn(self, seen: Horizon) -> Note:
        """Train on the steps of a horizon and on stored transitions; return error and deviation."""
        s, actions = self.settings, seen.actions[:, 0].astype(np.int64)
        note = 0.0, 0.0
        if self.latest is None:
            note = self._learn_sequence(seen, actions)
        else:
            self.latest.add(self._rows(seen, actions, s.n_step or 1))
            for _ in range(s.gradient_steps):
                drawn = self.latest.draw(s.batch_size, self.rng)
                note, _surprise = self.relearn(drawn, steps=s.n_step or 1)
        if self.priority_buffer is not None:
            self._learn_surprising(self.priority_buffer, self._rows(seen, actions, 1))
        return note

    def end_horizon(self) -> None:
        """Decrease the noise of the targets, and update the target network when it is due."""
        s = self.settings
        self.horizons += 1
        self.set_target_std(max(self.target_std * s.target_std_decay, s.min_target_std))
        if s.target_update_interval is not None and self.horizons % s.target_update_interval == 0:
            self._renew_targets()

    def set_target_std(self, target_std: float) -> None:
        """Set the standard deviation of the targets' noise."""
        self.target_std = target_std
        for critic in self.critics:
            critic.set_noise(target_std)

    def _renew_targets(self) -> None:
        for critic in self.critics:
            critic.renew_target()

    def _rows(self, seen: Horizon, actions: Actions, n: int) -> Transitions:
        """Return the horizon's transitions, with up to n steps each."""
        total, last, factor = n_step_rows(
            seen.rewards, seen.terminal, seen.ends, gamma=self.settings.gamma, n=n
        )
        return Transitions(seen.observations, actions, total, seen.reached[last], factor)

    def _learn_sequence(self, seen: Horizon, actions: Actions) -> Note:
        """Train on a horizon in temporal order, with multi-step returns."""
        s = self.settings
        rows, reached = self.inputs(seen.observations), self.inputs(seen.reached)
        rewards = self.reward(seen.rewards)
        notes = []
        for k, critic in enumerate(self.critics):
            steps = (rewards, *self._ahead(k, reached), seen.terminal, seen.ends)
            if s.n_step is None:
                mean, variance = mixed_targets(*steps, gamma=s.gamma, td_lambda=s.td_lambda)
            else:
                mean, variance = after_n(*steps, gamma=s.gamma, n=s.n_step)
            notes.append(_note(critic, rows, actions, mean))
            for _ in range(s.epochs):
                order = self.rng.permutation(len(actions))
                critic.learn(rows, actions, mean, variance, order, s.batch_size, s.memory_rows)
        return _mean(notes)

    def _ahead(self, k: int, reached: Rows) -> tuple[Array, Array]:
        """Return mean and variance of the best next action's value, for network number ``k``."""
        critic = self.critics[k]
        mean, variance = critic.next_values()(reached)
        chooser = mean - self.pessimism * np.sqrt(variance)
        if self.settings.double_q and critic.target is not None:
            chooser = critic.values()(reached)[0]
        elif self.settings.double_q:
            mean, variance = self.critics[(k + 1) % len(self.critics)].values()(reached)
        best = chooser.argmax(1)
        at = np.arange(len(best))
        center, spread = (part[at, best].astype(np.float64) for part in (mean, variance))
        return center - self.pessimism * np.sqrt(spread), spread

    # --- single transitions --------------------------------------------------------------

    def relearn(
        self, rows: Transitions, memory: float | None = None, *, steps: int = 1
    ) -> tuple[Note, Array]:
        """Train on transitions with targets from the current values.

        Rewards are scaled and clipped with the current statistics.  A sum ``r_0 + gamma r_1 + ...``
        of n rewards is clipped at ``1 + gamma + ... + gamma^(n-1)`` times the bound of one reward:
        if no single reward exceeds the bound, nothing is clipped.

        Args:
            rows: transitions.
            memory: effective number of past rows, instead of the setting.
            steps: maximum number of rewards summed in a row.

        Returns:
            Error and deviation of the values, and the mean standardized error of each transition.
        """
        s = self.settings
        inputs, reached = self.inputs(rows.observations), self.inputs(rows.reached)
        together = sum(s.gamma**k for k in range(steps))
        rewards = together * self.reward(rows.rewards / together)
        notes, surprise = [], np.zeros(len(rows))
        for k, critic in enumerate(self.critics):
            ahead, spread = self._ahead(k, reached)
            mean, variance = rewards + rows.factors * ahead, rows.factors**2 * spread
            notes.append(_note(critic, inputs, rows.actions, mean))
            surprise += self._surprise(critic, inputs, rows.actions, mean, variance)
            order = self.rng.permutation(len(rows))
            critic.learn(
                inputs, rows.actions, mean, variance, order, s.batch_size, memory or s.memory_rows
            )
        return _mean(notes), surprise / len(self.critics)

    def _learn_surprising(self, kept: Surprising, rows: Transitions) -> None:
        """Train again on the stored transitions, then store new ones with larger errors."""
        if kept.held:
            kept.judge(self.relearn(kept.all())[1])
        inputs, reached = self.inputs(rows.observations), self.inputs(rows.reached)
        ahead, spread = self._ahead(0, reached)
        mean, variance = self.reward(rows.rewards) + rows.factors * ahead, rows.factors**2 * spread
        kept.add(rows, self._surprise(self.critics[0], inputs, rows.actions, mean, variance))

    def _surprise(
        self, critic: Critic, rows: Rows, actions: Actions, mean: Array, variance: Array
    ) -> Array:
        """Return the absolute errors of the predicted values, in standard deviations."""
        expected, own = _taken(critic, rows, actions)
        found: Array = np.abs(mean - expected) / np.sqrt(own + variance + self.target_std**2)
        return found


def _taken(critic: Critic, rows: Rows, actions: Actions) -> tuple[Array, Array]:
    """Return mean and variance of the values of the actions taken."""
    mean, variance = critic.values()(rows)
    at = np.arange(len(actions))
    return mean[at, actions].astype(np.float64), variance[at, actions].astype(np.float64)


def _note(critic: Critic, rows: Rows, actions: Actions, target: Array) -> Note:
    mean, variance = _taken(critic, rows, actions)
    return float(np.abs(target - mean).mean()), float(np.sqrt(variance).mean())


def _mean(notes: list[Note]) -> Note:
    return float(np.mean([n[0] for n in notes])), float(np.mean([n[1] for n in notes]))
