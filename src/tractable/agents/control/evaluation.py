"""How well an agent does when it stops exploring."""

from __future__ import annotations

from typing import Any

from tractable.agents.control.environment import open_environment


def evaluate(agent: Any, env: Any, episodes: int = 10, *, seed: int = 0) -> list[float]:
    """Returns of whole episodes under the deterministic policy (of any agent with ``predict``)."""
    env = open_environment(env)
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
