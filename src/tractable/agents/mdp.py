"""Planning in known Markov decision processes: state values and optimal policies by linear algebra.

Equations are those of "Understanding Deep Learning" (Prince, 2023), chapter 19.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

_SUM = 1e-6  # tolerance of sums of probabilities
_MAX_ITERATIONS = 10_000


@dataclass(frozen=True)
class PlanningResult:
    """Result of planning.

    Attributes:
        values: value of each state under the policy, ``[n_states]``.
        policy: best action of each state, ``[n_states]``.
        q: value of each action in each state, ``[n_states, n_actions]``.
        n_iterations: number of iterations.
        value_history: state values in each iteration, ``[n_iterations, n_states]``.
    """

    values: Tensor
    policy: Tensor
    q: Tensor
    n_iterations: int
    value_history: Tensor = field(repr=False)


class MDP:
    """Markov decision process with finitely many states and actions.

    Args:
        transitions: probability of each next state, ``[n_states, n_actions, n_states]``.
        rewards: expected reward of each action, ``[n_states, n_actions]``, or of each transition,
            ``[n_states, n_actions, n_states]``.
        gamma: discount factor.
        terminal_states: terminal states, as indices or as a mask; their value is 0.

    >>> chain = MDP([[[0.0, 1.0]], [[0.0, 1.0]]], [[1.0], [2.0]], gamma=0.5)
    >>> chain.evaluate([0, 0]).tolist()
    [3.0, 4.0]
    """

    def __init__(
        self, transitions: Any, rewards: Any, gamma: float = 0.99, *, terminal_states: Any = None
    ) -> None:
        p = torch.as_tensor(np.asarray(transitions, dtype=np.float64))
        r = torch.as_tensor(np.asarray(rewards, dtype=np.float64))
        if p.ndim != 3 or p.shape[0] != p.shape[2] or not p.numel():
            raise ValueError(
                f"transitions must have the shape [states, actions, states], got {tuple(p.shape)}"
            )
        _check_rows(p)
        if r.shape not in (p.shape, p.shape[:2]):
            raise ValueError(
                f"rewards must have the shape {tuple(p.shape[:2])} or {tuple(p.shape)}, got "
                f"{tuple(r.shape)}"
            )
        if not bool(torch.isfinite(r).all()):
            state, action, *_ = (~torch.isfinite(r)).nonzero()[0].tolist()
            raise ValueError(f"the reward of action {action} in state {state} is NaN or infinite")
        if not 0 <= gamma <= 1:
            raise ValueError(f"gamma must lie between 0 and 1, got {gamma}")
        r = (p * r).sum(2) if r.ndim == 3 else r.clone()
        self.terminal_states = torch.zeros(len(p), dtype=torch.bool)
        if terminal_states is not None:
            self.terminal_states[torch.as_tensor(np.asarray(terminal_states))] = True
        going = (~self.terminal_states).double()
        self.transitions = p * going[:, None, None]  # no transitions from terminal states
        self.rewards, self.gamma = r * going[:, None], float(gamma)

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.rewards)

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return self.rewards.shape[1]

    def __repr__(self) -> str:
        """Return the sizes and the discount factor as text."""
        return f"MDP({self.n_states} states, {self.n_actions} actions, gamma={self.gamma:g})"

    @classmethod
    def from_env(cls, env: Any, gamma: float = 0.99) -> MDP:
        """Return the process of a Gymnasium environment that has a table (``env.unwrapped.P``).

        A transition that ends the episode leads to an additional terminal state, which is the last.

        Args:
            env: an environment, or its name.
            gamma: discount factor.
        """
        if isinstance(env, str):
            import gymnasium

            env = gymnasium.make(env)
        table = getattr(env.unwrapped, "P", None)
        if table is None:
            raise TypeError(f"{env} has no table of its transitions (env.unwrapped.P)")
        states, actions = len(table), len(table[0])
        p = np.zeros((states + 1, actions, states + 1))
        r = np.zeros((states + 1, actions))
        p[states, :, states] = 1
        for state, row in table.items():
            for action, outcomes in row.items():
                for chance, next_state, reward, done in outcomes:
                    p[state, action, states if done else next_state] += chance
                    r[state, action] += chance * reward
        return cls(p, r, gamma, terminal_states=[states])

    # --- values ----------------------------------------------------------------------------

    def evaluate(self, policy: Any) -> Tensor:
        """Return the value of each state under a policy: the solution of v = r + gamma P v.

        See E 19.7 to 19.10.

        Args:
            policy: an action for each state, or probabilities ``[n_states, n_actions]``.

        Raises:
            ValueError: gamma is 1, and the policy may never reach a terminal state.
        """
        reward, move = self._under(policy)
        if self.gamma == 1:
            self._check_end(move)
        return torch.linalg.solve(torch.eye(self.n_states).double() - self.gamma * move, reward)

    def evaluate_iteratively(self, policy: Any, n_iterations: int, start: Any = None) -> Tensor:
        """Return the values after synchronous updates v <- r + gamma P v (E 19.11).

        Args:
            policy: an action for each state, or probabilities ``[n_states, n_actions]``.
            n_iterations: number of updates of all states.
            start: initial values, ``[n_states]``. Default: zeros.
        """
        reward, move = self._under(policy)
        v = torch.zeros(self.n_states, dtype=torch.float64)
        v = v if start is None else torch.as_tensor(np.asarray(start, dtype=np.float64))
        for _ in range(n_iterations):
            v = reward + self.gamma * move @ v
        return v

    def q(self, values: Any) -> Tensor:
        """Return the value of each action, given the values of the next states (E 19.4)."""
        v = torch.as_tensor(np.asarray(values, dtype=np.float64))
        return self.rewards + self.gamma * self.transitions @ v

    def bellman(self, q: Any) -> Tensor:
        """Apply the Bellman optimality operator to action values (E 19.46).

        It is a contraction by the factor gamma, and its fixed point is the optimal q.
        """
        best = torch.as_tensor(np.asarray(q, dtype=np.float64)).amax(1)
        return self.q(torch.where(self.terminal_states, torch.zeros_like(best), best))

    def greedy_policy(self, values: Any) -> Tensor:
        """Return the best action of each state for given values (E 19.12), the first in a tie."""
        q = self.q(values)
        return (q >= q.amax(1, keepdim=True) - 1e-12 * (1 + q.abs().amax())).int().argmax(1)

    # --- planning --------------------------------------------------------------------------

    def policy_iteration(self, start: Any = None) -> PlanningResult:
        """Alternate policy evaluation and improvement until the policy is stable: exact.

        Args:
            start: initial action of each state; default: the first action.
        """
        policy = torch.zeros(self.n_states, dtype=torch.int64)
        if start is not None:
            policy = torch.as_tensor(np.asarray(start)).long()
        history = []
        for iteration in range(1, _MAX_ITERATIONS + 1):
            values = self.evaluate(policy)
            history.append(values)
            q = self.q(values)
            current = q.gather(1, policy[:, None]).squeeze(1)
            better = q.amax(1) > current + 1e-10 * (1 + q.abs().amax())
            if not bool(better.any()):
                return PlanningResult(values, policy, q, iteration, torch.stack(history))
            policy = torch.where(better, self.greedy_policy(values), policy)
        raise RuntimeError(f"policy iteration did not converge in {_MAX_ITERATIONS} iterations")

    def value_iteration(self, tolerance: float = 1e-10, start: Any = None) -> PlanningResult:
        """Repeat v <- max of q until no value changes by more than ``tolerance``.

        Args:
            tolerance: largest change of a value at which the iteration stops.
            start: initial values, ``[n_states]``. Default: zeros.
        """
        v = torch.zeros(self.n_states, dtype=torch.float64)
        v = v if start is None else torch.as_tensor(np.asarray(start, dtype=np.float64))
        history = []
        for iteration in range(1, _MAX_ITERATIONS + 1):
            new = self.q(v).amax(1)
            history.append(new)
            moved, v = float((new - v).abs().amax()), new
            if moved <= tolerance:
                return PlanningResult(
                    v, self.greedy_policy(v), self.q(v), iteration, torch.stack(history)
                )
        raise RuntimeError(
            f"values still change by {moved:.3g} after {_MAX_ITERATIONS} iterations: with gamma = "
            f"{self.gamma:g} they may have no limit"
        )

    # --- acting ----------------------------------------------------------------------------

    def sample_step(
        self, state: int, action: int, generator: torch.Generator
    ) -> tuple[float, int, bool]:
        """Draw a step: return the expected reward, the next state and whether that is terminal."""
        chances = self.transitions[state, action]
        if not bool(chances.any()):
            raise ValueError(f"state {state} ends an episode: it has no actions")
        next_state = int(torch.multinomial(chances, 1, generator=generator))
        return (
            float(self.rewards[state, action]),
            next_state,
            bool(self.terminal_states[next_state]),
        )

    # --- policies --------------------------------------------------------------------------

    def _under(self, policy: Any) -> tuple[Tensor, Tensor]:
        """Return the expected rewards and the transition matrix of a policy."""
        choices = torch.as_tensor(np.asarray(policy))
        if choices.ndim == 1:
            if choices.shape != (self.n_states,) or choices.is_floating_point():
                raise ValueError(
                    f"a policy needs an action for each of {self.n_states} states, as integers; "
                    f"got shape {list(choices.shape)} of type {choices.dtype}"
                )
            if bool(((choices < 0) | (choices >= self.n_actions)).any()):
                raise ValueError(f"actions are numbered from 0 to {self.n_actions - 1}")
            choices = torch.nn.functional.one_hot(choices.long(), self.n_actions)
        chances = choices.double()
        if chances.shape != (self.n_states, self.n_actions):
            raise ValueError(
                f"a policy must have the shape [{self.n_states}] or "
                f"[{self.n_states}, {self.n_actions}], got {list(chances.shape)}"
            )
        if bool((chances < 0).any()) or bool(((chances.sum(1) - 1).abs() > _SUM).any()):
            row = int(((chances < 0).any(1) | ((chances.sum(1) - 1).abs() > _SUM)).nonzero()[0])
            raise ValueError(f"probabilities of actions in state {row} do not sum to one")
        return (
            (chances * self.rewards).sum(1),
            torch.einsum("sa,sat->st", chances, self.transitions),
        )

    def _check_end(self, move: Tensor) -> None:
        """Raise unless a terminal state is reachable from every state, which gamma = 1 requires."""
        reaches = self.terminal_states.clone()
        for _ in range(self.n_states):
            reaches = reaches | ((move > 0) & reaches).any(1)
        if not bool(reaches.all()):
            stuck = int((~reaches).nonzero()[0])
            raise ValueError(
                f"gamma is 1, and from state {stuck} this policy never comes to a terminal state: "
                f"pass terminal_states=, or use gamma below 1"
            )


def _check_rows(p: Tensor) -> None:
    wrong = (p < 0).any(2) | ((p.sum(2) - 1).abs() > _SUM) | ~torch.isfinite(p).all(2)
    if bool(wrong.any()):
        state, action = wrong.nonzero()[0].tolist()
        raise ValueError(
            f"transitions of action {action} in state {state} sum to "
            f"{float(p[state, action].sum()):g}: they must be probabilities that sum to one"
        )
