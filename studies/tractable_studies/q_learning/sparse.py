"""Sparse reward: the deep sea, where random exploration fails and forgetting loses the solution."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tractable.agents import DeepSea, EpsilonGreedy, QAgent
from tractable.persistence.atomic import atomic_file

SIZE = 10
EPISODES = 1_000

#: Rewards are not scaled: there is no scale before the first reward is found.  Every step
#: is learned once; only steps with a large temporal difference error are replayed.
RAW: dict[str, Any] = {
    "buffer_size": 0,
    "n_step": None,
    "memory_rows": None,
    "scale_rewards": False,
    "scale_observations": False,
    "train_freq": SIZE,
    "target_std": 0.1,
    "min_target_std": 0.1,
    "gain": 4.0,
    "td_lambda": 0.8,
    "hidden_layer_sizes": (64,),
    "thompson_scale": 0.3,
}
KINDS: dict[str, dict[str, Any]] = {
    "one network": {**RAW, "thompson_scale": 1.0},
    "surprising transitions": {**RAW, "thompson_scale": 1.0, "priority_buffer_size": 100},
    "ten heads": {**RAW, "n_critics": 10},
    "both": {**RAW, "n_critics": 10, "priority_buffer_size": 100},
    "epsilon-greedy": {**RAW, "exploration": EpsilonGreedy(0.1), "priority_buffer_size": 100},
}


def dive(kind: str, seed: int, folder: Path, episodes: int = EPISODES) -> dict[str, Any]:
    """Run one agent in a deep sea, or read the result of an earlier run."""
    torch.set_num_threads(1)
    path = folder / f"sea-{kind.replace(' ', '-')}-{seed}-{episodes}.json"
    if path.is_file():
        earlier: dict[str, Any] = json.loads(path.read_text())
        return earlier
    started = time.process_time()
    agent = QAgent(DeepSea(SIZE, seed=seed), seed=seed, **KINDS[kind])
    agent.learn(episodes * SIZE)
    found = [value > 0.5 for _, value, _ in agent.episodes]
    sure = DeepSea(SIZE, seed=seed)
    seen, _ = sure.reset(seed=0)
    total = 0.0
    for _ in range(SIZE):
        seen, reward, *_ = sure.step(int(agent.predict(seen, deterministic=True)[0]))
        total += reward
    result = {
        "kind": kind,
        "seed": seed,
        "first": found.index(True) + 1 if True in found else None,
        "last_100": float(np.mean(found[-100:])),
        "sure": total,
        "seconds": time.process_time() - started,
    }
    with atomic_file(path) as scratch:
        scratch.write_text(json.dumps(result))
    return result
