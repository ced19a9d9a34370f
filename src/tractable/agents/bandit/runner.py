"""Training loop of a bandit agent: act, learn, record the step, save and resume."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from tractable.agents.bandit import file
from tractable.training import Progress

if TYPE_CHECKING:
    from tractable.agents.bandit.agent import Bandit

Callback = Callable[["Bandit", int], bool | None]
"""Function called with the agent and the number of steps taken; returning True stops the run."""


def run(
    agent: Bandit,
    env: Any,
    total_timesteps: int,
    *,
    seed: int | None,
    callback: Callback | None,
    progress: bool | None,
    checkpoint: str | Path | None,
    checkpoint_every: int,
) -> None:
    """Act and learn; the arguments are those of ``Bandit.learn``."""
    if total_timesteps < 1:
        raise ValueError(f"total_timesteps must be at least 1, got {total_timesteps}")
    if checkpoint_every < 1:
        raise ValueError(f"checkpoint_every must be at least 1, got {checkpoint_every}")
    if checkpoint is not None and not len(agent.history) and Path(checkpoint).is_file():
        file.resume(agent, checkpoint)
    history = agent.history
    if len(history) >= total_timesteps:
        return
    context = _replay_environment(agent, env, seed)
    with Progress(total_timesteps - len(history), repr(agent.policy), progress) as bar:
        while len(history) < total_timesteps:
            started = time.process_time()
            context = copy.deepcopy(context)  # the next step may overwrite the environment's array
            action = agent.act(context)
            after, reward, terminated, truncated, info = env.step(action)
            agent.update(context, action, float(reward))
            history.seconds += time.process_time() - started
            history.add(action, float(reward), info)
            context = env.reset()[0] if terminated or truncated else after
            bar.advance()
            stop = callback is not None and bool(callback(agent, len(history)))
            if checkpoint is not None and (stop or len(history) % checkpoint_every == 0):
                agent.save(checkpoint)
            if stop:
                return
    if checkpoint is not None:
        agent.save(checkpoint)


def _replay_environment(agent: Bandit, env: Any, seed: int | None) -> Any:
    """Return the context of the next step: the first one, or the one after the recorded steps."""
    if getattr(env.action_space, "n", None) != agent.n_actions:
        raise ValueError(
            f"the agent has {agent.n_actions} actions, the environment {env.action_space}"
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
