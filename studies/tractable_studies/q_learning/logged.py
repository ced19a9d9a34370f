"""Offline learning from the log of a half-trained agent on CartPole, with and without pessimism."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch

from tractable.agents import EpsilonGreedy, QAgent, evaluate_policy
from tractable.persistence.atomic import atomic_file
from tractable_studies.q_learning.ours import ONE_PASS

ENV = "CartPole-v1"
HALF_TRAINED = 4_000
ROWS = 3_000
PESSIMISM = (0.0, 0.5, 1.0, 2.0)
EVALUATED = 20
#: Of the network that learns from the log; chosen on seeds 100 and 101.
SETTINGS: dict[str, Any] = {
    "buffer_size": 0,
    "gamma": 0.95,
    "gain": 1.0,
    "target_std": 0.3,
    "min_target_std": 0.1,
}


def behaviour(seed: int) -> tuple[dict[str, Any], float]:
    """Return the log of a half-trained epsilon-greedy agent (20 %), and its mean return."""
    agent = QAgent(ENV, seed=seed, **ONE_PASS).learn(HALF_TRAINED)
    agent.exploration = EpsilonGreedy(0.2)
    env, rng = gymnasium.make(ENV), np.random.default_rng(seed)
    log: dict[str, list[Any]] = {
        name: []
        for name in ("observations", "actions", "rewards", "next_observations", "terminals")
    }
    totals: list[float] = []
    while len(log["rewards"]) < ROWS:
        seen, _ = env.reset(seed=int(rng.integers(2**31)))
        done, total = False, 0.0
        while not done:
            action, _ = agent.predict(seen)
            after, reward, terminal, truncated, _ = env.step(int(action))
            row = (seen, int(action), float(reward), after, terminal)
            for column, entry in zip(log.values(), row, strict=True):
                column.append(entry)
            seen, done, total = after, terminal or truncated, total + float(reward)
        totals.append(total)
    return {name: np.array(column) for name, column in log.items()}, float(np.mean(totals))


def judge(seed: int, folder: Path) -> dict[str, Any]:
    """Return mean returns by strength of pessimism, from an earlier run if there is one."""
    torch.set_num_threads(1)
    path = folder / f"log-{seed}.json"
    if path.is_file():
        earlier: dict[str, Any] = json.loads(path.read_text())
        return earlier
    log, usual = behaviour(seed)
    result: dict[str, Any] = {"seed": seed, "behaviour": usual, "rows": len(log["rewards"])}
    for pessimism in PESSIMISM:
        agent = QAgent(ENV, seed=seed + 1_000, **SETTINGS)
        agent.fit(log, pessimism=pessimism, epochs=40)
        mean, _ = evaluate_policy(agent, gymnasium.make(ENV), EVALUATED, seed=10_000)
        result[f"{pessimism:g}"] = mean
    with atomic_file(path) as scratch:
        scratch.write_text(json.dumps(result))
    return result
