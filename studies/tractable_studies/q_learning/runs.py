"""One agent in one environment: returns, evaluation and speed, stored in a file of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch

from tractable.agents import evaluate_policy
from tractable.persistence.atomic import atomic_file
from tractable_studies.q_learning import baselines, ours

EVALUATED = 20
EVALUATION_SEED = 10_000
LAST = 100
METHODS = (*ours.SETTINGS, *baselines.METHODS)


def run(method: str, env: str, seed: int, steps: int, folder: Path) -> dict[str, Any]:
    """Train and evaluate an agent, or read the result of an earlier run.

    Returns:
        ``last_100``: mean return of the last hundred episodes of training; ``sure``: of twenty
        episodes without exploration; ``steps_per_second``: of processor time, the environment's
        included.
    """
    torch.set_num_threads(1)
    path = folder / f"{method}-{env}-{seed}-{steps}.json"
    if path.is_file():
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    agent: Any
    if method in ours.SETTINGS:
        agent = ours.Timed(env, seed, **ours.SETTINGS[method])
    else:
        agent = baselines.Baseline(method, env, seed)
    agent.learn(steps)
    returns = [value for _, value in agent.episodes]
    sure, _ = evaluate_policy(agent, gymnasium.make(env), EVALUATED, seed=EVALUATION_SEED)
    found = {
        "method": method,
        "env": env,
        "seed": seed,
        "steps": steps,
        "episodes": len(returns),
        "last_100": float(np.mean(returns[-LAST:])),
        "sure": sure,
        "seconds": agent.seconds,
        "steps_per_second": steps / agent.seconds,
        "curve": curve([end for end, _ in agent.episodes], returns, steps),
    }
    with atomic_file(path) as scratch:
        scratch.write_text(json.dumps(found))
    return found


def curve(ends: list[int], returns: list[float], steps: int, points: int = 50) -> dict[str, Any]:
    """Return the mean return of the last 50 episodes at evenly spaced steps."""
    at = np.linspace(0, steps, points + 1)[1:]
    done = np.searchsorted(np.array(ends), at, side="right")
    sums = np.concatenate([[0.0], np.cumsum(returns)])
    first = np.maximum(done - 50, 0)
    kept = done > 0
    mean = (sums[done] - sums[first])[kept] / (done - first)[kept]
    return {"steps": at[kept].round().astype(int).tolist(), "reward": mean.round(2).tolist()}
