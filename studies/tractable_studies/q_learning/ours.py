"""``QAgent`` as the study runs it: its defaults, or without a replay memory; timed."""

from __future__ import annotations

import time
from typing import Any

from tractable.agents import QAgent

#: Every step is learned once, in order, and nothing is forgotten.
ONE_PASS: dict[str, Any] = {
    "buffer_size": 0,
    "n_step": None,
    "td_lambda": 0.95,
    "memory_rows": None,
    "thompson_scale": 0.5,
    "min_target_std": 0.3,
}
SETTINGS: dict[str, dict[str, Any]] = {"tagi": {}, "one-pass": ONE_PASS}


class Timed:
    """An agent and the processor time that it took.

    Args:
        env: name of the environment.
        seed: of everything.
        **settings: instead of the defaults.
    """

    def __init__(self, env: str, seed: int, **settings: Any) -> None:
        self.agent, self.seconds = QAgent(env, seed=seed, **settings), 0.0

    def learn(self, steps: int) -> Timed:
        """Train for a number of steps."""
        started = time.process_time()
        self.agent.learn(steps)
        self.seconds += time.process_time() - started
        return self

    @property
    def episodes(self) -> list[tuple[int, float]]:
        """Return the step at which each episode ended, and its return."""
        return [(end, value) for end, value, _ in self.agent.episodes]

    def predict(self, observation: Any, deterministic: bool = True) -> Any:
        """Return the action for an observation."""
        return self.agent.predict(observation, deterministic=deterministic)
