"""Tabular reinforcement learning of action values.

Source: Prince, "Understanding Deep Learning" (2023), chapter 19.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from tractable.agents.exploration import EpsilonGreedy, Exploration
from tractable.agents.returns import discounted_returns

Rule = Literal["q", "sarsa", "double", "monte-carlo"]


class QTable:
    """Tabular learner of action values.

    * ``q``: target r + gamma max q(s', .) (E 19.15);
    * ``sarsa``: target r + gamma q(s', a'), with the action that is taken next (E 19.14);
    * ``double``: two tables; one of them, drawn at each step, is updated, and its best action is
      evaluated by the other (E 19.20);
    * ``monte-carlo``: target is the discounted return, at the end of the episode (E 19.13).

    Args:
        n_states: number of states.
        n_actions: number of actions.
        rule: one of these update rules.
        gamma: discount factor.
        learning_rate: step size, the fraction of the distance to the target.
        seed: seed of the actions, and of the choice between two tables.

    Attributes:
        q: values, ``[n_states, n_actions]``; the mean of both tables, for ``double``.
    """

    def __init__(
        self,
        n_states: int,
        n_actions: int,
        rule: Rule = "q",
        *,
        gamma: float = 0.99,
        learning_rate: float = 0.1,
        seed: int = 0,
    ) -> None:
        if rule not in get_args(Rule):
            raise ValueError(f"rule must be one of {', '.join(get_args(Rule))}; got {rule!r}")
        if not 0 < learning_rate <= 1:
            raise ValueError(f"learning_rate must lie between 0 and 1, got {learning_rate}")
        if not 0 <= gamma <= 1:
            raise ValueError(f"gamma must lie between 0 and 1, got {gamma}")
        self.rule, self.gamma, self.learning_rate = rule, float(gamma), float(learning_rate)
        self.tables = torch.zeros(2 if rule == "double" else 1, n_states, n_actions).double()
        self.generator = torch.Generator().manual_seed(seed)

    @property
    def q(self) -> Tensor:
        """Values of actions, ``[n_states, n_actions]``."""
        return self.tables.mean(0)

    @property
    def policy(self) -> Tensor:
        """Best action of each state, ``[n_states]``."""
        return self.q.argmax(1)

    def update(
        self,
        state: int,
        action: int,
        reward: float,
        next_state: int,
        *,
        done: bool = False,
        next_action: int | None = None,
        which: int | None = None,
    ) -> float:
        """Learn from one step; return the new value.

        Args:
            state: state before the step.
            action: action taken.
            reward: reward received.
            next_state: next state.
            done: whether the next state is terminal.
            next_action: next action, for ``sarsa``.
            which: index of the table to update, for ``double``; default: drawn at random.
        """
        if self.rule == "monte-carlo":
            raise TypeError("rule='monte-carlo' learns at the end of an episode: use learn_episode")
        if self.rule == "sarsa" and next_action is None and not done:
            raise ValueError("sarsa needs the next action: pass it with next_action=")
        _check_reward(reward, state)
        index = 0
        if self.rule == "double":
            drawn = int(torch.randint(2, (), generator=self.generator))
            index = drawn if which is None else which
        bootstrap = 0.0 if done else self._next_value(next_state, next_action, index)
        values = self.tables[index]
        target = reward + self.gamma * bootstrap
        values[state, action] += self.learning_rate * (target - values[state, action])
        return float(values[state, action])

    def _next_value(self, next_state: int, next_action: int | None, index: int) -> float:
        values = self.tables[index, next_state]
        if self.rule == "sarsa":
            assert next_action is not None
            return float(values[next_action])
        if self.rule == "double":
            return float(self.tables[1 - index, next_state, int(values.argmax())])
        return float(values.amax())

    def learn_episode(self, steps: Sequence[tuple[int, int, float]]) -> None:
        """Learn from a whole episode: (state, action, reward) tuples in temporal order.

        Args:
            steps: the tuples, one for each step of the episode. The state and the action are
                indices; the reward is that of the action.
        """
        for state, _, reward in steps:
            _check_reward(reward, state)
        rewards = [reward for _, _, reward in steps]
        returns = discounted_returns(rewards, self.gamma)
        for (state, action, _), value in zip(steps, returns, strict=True):
            table = self.tables[0]
            table[state, action] += self.learning_rate * (value - table[state, action])

    def learn(
        self,
        env: Any,
        n_episodes: int,
        *,
        exploration: Exploration | None = None,
        max_steps: int = 1_000,
    ) -> list[float]:
        """Act in a Gymnasium environment and learn; return the sum of rewards of each episode.

        Args:
            env: environment with ``Discrete`` states and actions.
            n_episodes: number of episodes.
            exploration: exploration strategy; default: ``EpsilonGreedy(0.1)``.
            max_steps: number of steps after which an episode is truncated.
        """
        spaces = [getattr(env, f"{name}_space", None) for name in ("observation", "action")]
        if not all(hasattr(space, "n") for space in spaces):
            raise TypeError(
                f"a table needs Discrete states and actions, got {spaces[0]} and "
                f"{spaces[1]}: see TAGIControl for continuous actions"
            )
        exploration = EpsilonGreedy(0.1) if exploration is None else exploration
        return [self._episode(env, exploration, max_steps) for _ in range(n_episodes)]

    def _episode(self, env: Any, exploration: Exploration, max_steps: int) -> float:
        seed = int(torch.randint(2**31 - 1, (), generator=self.generator))
        state, _ = env.reset(seed=seed)
        action, total, steps = (
            self._act(int(state), exploration),
            0.0,
            list[tuple[int, int, float]](),
        )
        for _ in range(max_steps):
            next_state, reward, done, cut, _ = env.step(action)
            next_action = self._act(int(next_state), exploration)
            total += float(reward)
            if self.rule == "monte-carlo":
                steps.append((int(state), action, float(reward)))
            else:
                self.update(
                    int(state),
                    action,
                    float(reward),
                    int(next_state),
                    done=done,
                    next_action=next_action,
                )
            state, action = next_state, next_action
            if done or cut:
                break
        if steps:
            self.learn_episode(steps)
        return total

    def _act(self, state: int, exploration: Exploration) -> int:
        chances = exploration.probabilities(self.q[state])
        return int(torch.multinomial(chances, 1, generator=self.generator))


def _check_reward(reward: float, state: int) -> None:
    if not math.isfinite(reward):
        raise ValueError(f"the reward in state {state} is NaN or infinite")
