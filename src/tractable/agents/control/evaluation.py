"""Evaluation of an agent without exploration."""

from __future__ import annotations

from typing import Any

from tractable.agents.control.environment import open_environment
from tractable.agents.control.episode import mark_used


def evaluate_policy(agent: Any, env: Any, episodes: int = 10, *, seed: int = 0) -> list[float]:
    """Return the sum of rewards of each episode under the deterministic policy.

    Args:
        agent: any agent with ``predict``.
        env: a Gymnasium environment, or its name.  It may be the one that the agent is trained in:
            the agent then replays its interrupted episode before it continues training.
        episodes: number of episodes.
        seed: seed of the first episode; episode k uses ``seed + k``.
    """
    env = open_environment(env)
    mark_used(env)
    returns = []
    for k in range(episodes):
        observation, _ = env.reset(seed=seed + k)
        total, done = 0.0, False
        while not done:
            action, _ = agent.predict(observation, deterministic=True)
            observation, reward, terminal, truncated, _ = env.step(action)
            total += float(reward)
            done = terminal or truncated
        returns.append(total)
    return returns
