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
_MOST_ROUNDS = 10_000


@dataclass(frozen=True)
class Plan:
    """Result of planning.

    Attributes:
        values: value of each state under the policy, ``[states]``.
        policy: best action of each state, ``[states]``.
        q: value of each action in each state, ``[states, actions]``.
        rounds: number of iterations.
        path: state values in each iteration, ``[rounds, states]``.
    """

    values: Tensor
    policy: Tensor
    q: Tensor
    rounds: int
    path: Tensor = field(repr=False)


class MDP:
    """Markov decision process with finitely many states and actions.

    Args:
        transitions: probability of each next state, ``[states, actions, states]``.
        rewards: expected reward of each action, ``[states, actions]``, or of each transition,
            ``[states, actions, states]``.
        gamma: discount factor.
        ends: terminal states, as indices or as a mask; their value is 0.

    >>> chain = MDP([[[0.0, 1.0]], [[0.0, 1.0]]], [[1.0], [2.0]], gamma=0.5)
    >>> chain.evaluate([0, 0]).tolist()
    [3.0, 4.0]
    """

    def __init__(
        self, transitions: Any, rewards: Any, gamma: float = 0.99, *, ends: Any = None
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
        self.ends = torch.zeros(len(p), dtype=torch.bool)
        if ends is not None:
            self.ends[torch.as_tensor(np.asarray(ends))] = True
        going = (~self.ends).double()
        self.transitions = p * going[:, None, None]  # no transitions from terminal states
        self.rewards, self.gamma = r * going[:, None], float(gamma)

    @property
    def states(self) -> int:
        """Number of states."""
        return len(self.rewards)

    @property
    def actions(self) -> int:
        """Number of actions."""
        return self.rewards.shape[1]

    def __repr__(self) -> str:
        """Return the sizes and the discount factor as text."""
        return f"MDP({self.states} states, {self.actions} actions, gamma={self.gamma:g})"

    @classmethod
    def of(cls, env: Any, gamma: float = 0.99) -> MDP:
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
                for chance, following, reward, done in outcomes:
                    p[state, action, states if done else following] += chance
                    r[state, action] += chance * reward
        return cls(p, r, gamma, ends=[states])

    # --- values ----------------------------------------------------------------------------

    def evaluate(self, policy: Any) -> Tensor:
        """Return the value of each state under a policy: the solution of v = r + gamma P v.

        See E 19.7 to 19.10.

        Args:
            policy: an action for each state, or probabilities ``[states, actions]``.

        Raises:
            ValueError: gamma is 1, and the policy may never reach a terminal state.
        """
        reward, move = self._under(policy)
        if self.gamma == 1:
            self._check_end(move)
        return torch.linalg.solve(torch.eye(self.states).double() - self.gamma * move, reward)

    def sweeps(self, policy: Any, count: int, start: Any = None) -> Tensor:
        """Return the values after ``count`` synchronous updates v <- r + gamma P v (E 19.11)."""
        reward, move = self._under(policy)
        v = torch.zeros(self.states, dtype=torch.float64)
        v = v if start is None else torch.as_tensor(np.asarray(start, dtype=np.float64))
        for _ in range(count):
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
        return self.q(torch.where(self.ends, torch.zeros_like(best), best))

    def improve(self, values: Any) -> Tensor:
        """Return the best action of each state, given values (E 19.12); the first one of ties."""
        q = self.q(values)
        return (q >= q.amax(1, keepdim=True) - 1e-12 * (1 + q.abs().amax())).int().argmax(1)

    # --- planning --------------------------------------------------------------------------

    def policy_iteration(self, start: Any = None) -> Plan:
        """Alternate policy evaluation and improvement until the policy is stable: exact.

        Args:
            start: initial action of each state; default: the first action.
        """
        policy = torch.zeros(self.states, dtype=torch.int64)
        if start is not None:
            policy = torch.as_tensor(np.asarray(start)).long()
        path = []
        for rounds in range(1, _MOST_ROUNDS + 1):
            values = self.evaluate(policy)
            path.append(values)
            q = self.q(values)
            mine = q.gather(1, policy[:, None]).squeeze(1)
            better = q.amax(1) > mine + 1e-10 * (1 + q.abs().amax())
            if not bool(better.any()):
                return Plan(values, policy, q, rounds, torch.stack(path))
            policy = torch.where(better, self.improve(values), policy)
        raise RuntimeError(f"policy iteration did not converge in {_MOST_ROUNDS} rounds")

    def value_iteration(self, tolerance: float = 1e-10, start: Any = None) -> Plan:
        """Repeat v <- max of q until no value changes by more than ``tolerance``."""
        v = torch.zeros(self.states, dtype=torch.float64)
        v = v if start is None else torch.as_tensor(np.asarray(start, dtype=np.float64))
        path = []
        for rounds in range(1, _MOST_ROUNDS + 1):
            new = self.q(v).amax(1)
            path.append(new)
            moved, v = float((new - v).abs().amax()), new
            if moved <= tolerance:
                return Plan(v, self.improve(v), self.q(v), rounds, torch.stack(path))
        raise RuntimeError(
            f"values still change by {moved:.3g} after {_MOST_ROUNDS} rounds: with gamma = "
            f"{self.gamma:g} they may have no limit"
        )

    # --- acting ----------------------------------------------------------------------------

    def draw(self, state: int, action: int, generator: torch.Generator) -> tuple[float, int, bool]:
        """Draw a step: return the expected reward, the next state and whether that is terminal."""
        chances = self.transitions[state, action]
        if not bool(chances.any()):
            raise ValueError(f"state {state} ends an episode: it has no actions")
        following = int(torch.multinomial(chances, 1, generator=generator))
        return float(self.rewards[state, action]), following, bool(self.ends[following])

    # --- policies --------------------------------------------------------------------------

    def _under(self, policy: Any) -> tuple[Tensor, Tensor]:
        """Return the expected rewards and the transition matrix of a policy."""
        given = torch.as_tensor(np.asarray(policy))
        if given.ndim == 1:
            if given.shape != (self.states,) or given.is_floating_point():
                raise ValueError(
                    f"a policy needs an action for each of {self.states} states, as integers; got "
                    f"shape {list(given.shape)} of type {given.dtype}"
                )
            if bool(((given < 0) | (given >= self.actions)).any()):
                raise ValueError(f"actions are numbered from 0 to {self.actions - 1}")
            given = torch.nn.functional.one_hot(given.long(), self.actions)
        chances = given.double()
        if chances.shape != (self.states, self.actions):
            raise ValueError(
                f"a policy must have the shape [{self.states}] or [{self.states}, {self.actions}], "
                f"got {list(chances.shape)}"
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
        reaches = self.ends.clone()
        for _ in range(self.states):
            reaches = reaches | ((move > 0) & reaches).any(1)
        if not bool(reaches.all()):
            stuck = int((~reaches).nonzero()[0])
            raise ValueError(
                f"gamma is 1, and from state {stuck} this policy never comes to a terminal state: "
                f"pass the terminal states with ends=, or use gamma below 1"
            )


def _check_rows(p: Tensor) -> None:
    wrong = (p < 0).any(2) | ((p.sum(2) - 1).abs() > _SUM) | ~torch.isfinite(p).all(2)
    if bool(wrong.any()):
        state, action = wrong.nonzero()[0].tolist()
        raise ValueError(
            f"transitions of action {action} in state {state} sum to "
            f"{float(p[state, action].sum()):g}: they must be probabilities that sum to one"
        )
