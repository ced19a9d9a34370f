"""Training loop of a bandit agent: act, learn, record the step, save and resume."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from tractable.agents.bandit import file
from tractable.agents.bandit.history import History
from tractable.training import Progress

if TYPE_CHECKING:
    from tractable.agents.bandit.agent import Bandit

Callback = Callable[["Bandit", int], bool | None]
"""Function called with the agent and the number of steps taken; returning True stops the run."""


def run(
    agent: Bandit,
    env: Any,
    steps: int,
    *,
    seed: int | None,
    callback: Callback | None,
    progress: bool | None,
    checkpoint: str | Path | None,
    every: int,
) -> History:
    """Act and learn; the arguments are those of ``Bandit.run``."""
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")
    if every < 1:
        raise ValueError(f"every must be at least 1, got {every}")
    if checkpoint is not None and not len(agent.history) and Path(checkpoint).is_file():
        file.resume(agent, checkpoint)
    history = agent.history
    if len(history) >= steps:
        return history
    context = _enter(agent, env, seed)
    with Progress(steps - len(history), repr(agent.policy), progress) as bar:
        while len(history) < steps:
            started = time.process_time()
            context = copy.deepcopy(context)  # the next step may overwrite the environment's array
            action = agent.act(context)
            after, reward, terminated, truncated, info = env.step(action)
            agent.learn(context, action, float(reward))
            history.seconds += time.process_time() - started
            history.add(action, float(reward), info)
            context = env.reset()[0] if terminated or truncated else after
            bar.advance()
            stop = callback is not None and bool(callback(agent, len(history)))
            if checkpoint is not None and (stop or len(history) % every == 0):
                agent.save(checkpoint)
            if stop:
                return history
    if checkpoint is not None:
        agent.save(checkpoint)
    return history


def _enter(agent: Bandit, env: Any, seed: int | None) -> Any:
    """Return the context of the next step: the first one, or the one after the recorded steps."""
    if getattr(env.action_space, "n", None) != agent.actions:
        raise ValueError(
            f"the agent has {agent.actions} actions, the environment {env.action_space}"
        )
    if not len(agent.history):
        drawn = int(torch.randint(2**31, (), generator=agent.generator))
        agent.env_seed = drawn if seed is None else seed
    elif seed is not None and seed != agent.env_seed:
        raise ValueError(
            f"the current run uses the environment seed {agent.env_seed}, not {seed}: set "
            f"agent.history = History() to start a new run"
        )
    context = env.reset(seed=agent.env_seed)[0]
    past = zip(agent.history.actions, agent.history.rewards, strict=True)
    for number, (action, reward) in enumerate(past):
        context, again, terminated, truncated, _ = env.step(action)
        if float(again) != reward:
            raise ValueError(
                f"the environment does not repeat the run: step {number} gave reward {reward}, "
                f"now {again}; either (a) it is another environment, or (b) it is not determined "
                "by its seed and the actions"
            )
        if terminated or truncated:
            context = env.reset()[0]
    return context
