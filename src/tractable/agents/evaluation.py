"""Evaluation of agents."""

from __future__ import annotations

import warnings
from typing import Any, Literal, overload

import gymnasium
import numpy as np

from tractable.agents.envs import open_environment
from tractable.agents.episodes import checked_reset, checked_step, mark_used


@overload
def evaluate_policy(
    model: Any,
    env: Any,
    n_eval_episodes: int = ...,
    deterministic: bool = ...,
    *,
    return_episode_rewards: Literal[False] = ...,
    warn: bool = ...,
    seed: int = ...,
) -> tuple[float, float]: ...


@overload
def evaluate_policy(
    model: Any,
    env: Any,
    n_eval_episodes: int = ...,
    deterministic: bool = ...,
    *,
    return_episode_rewards: Literal[True],
    warn: bool = ...,
    seed: int = ...,
) -> tuple[list[float], list[int]]: ...


def evaluate_policy(
    model: Any,
    env: Any,
    n_eval_episodes: int = 10,
    deterministic: bool = True,
    *,
    return_episode_rewards: bool = False,
    warn: bool = True,
    seed: int = 0,
) -> tuple[float, float] | tuple[list[float], list[int]]:
    """Return mean and standard deviation of the returns of an agent, as in Stable-Baselines3.

    Args:
        model: any agent with ``predict``.
        env: a Gymnasium environment, or its name.  It may be the one that the agent is trained in:
            the agent then replays its interrupted episode before it continues training.  Returns
            are those that ``gymnasium.wrappers.RecordEpisodeStatistics`` records, if the
            environment has this wrapper.
        n_eval_episodes: number of episodes.
        deterministic: whether the agent acts without exploration.
        return_episode_rewards: whether to return the return and the length of every episode
            instead.
        warn: whether to warn if a wrapper changes the rewards.
        seed: seed of the first episode; episode k uses ``seed + k``.

    Returns:
        Mean and standard deviation of the returns, or the list of returns and that of lengths.
    """
    if n_eval_episodes < 1:
        raise ValueError(f"n_eval_episodes must be at least 1, got {n_eval_episodes}")
    env = open_environment(env)
    is_recorded, reward_wrapper = _wrappers(env)
    if warn and reward_wrapper and not is_recorded:
        warnings.warn(
            f"the environment is wrapped in {reward_wrapper}, so that returns are not those of the "
            "environment itself: wrap it in gymnasium.wrappers.RecordEpisodeStatistics before, or "
            "pass warn=False",
            UserWarning,
            stacklevel=2,
        )
    mark_used(env)
    returns, lengths = [], []
    for k in range(n_eval_episodes):
        observation, _ = checked_reset(env, seed + k, 0)
        total, length, done = 0.0, 0, False
        while not done:
            action, _ = model.predict(observation, deterministic=deterministic)
            observation, reward, terminated, truncated, info = checked_step(env, action, length)
            total, length = total + reward, length + 1
            done = terminated or truncated
        if is_recorded:
            total, length = float(info["episode"]["r"]), int(info["episode"]["l"])
        returns.append(total)
        lengths.append(length)
    if return_episode_rewards:
        return returns, lengths
    return float(np.mean(returns)), float(np.std(returns))


def _wrappers(env: Any) -> tuple[bool, str | None]:
    """Return whether a wrapper records returns, and the name of a wrapper that changes rewards."""
    is_recorded, reward_wrapper = False, None
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, gymnasium.wrappers.RecordEpisodeStatistics):
            is_recorded = True
        if isinstance(env, gymnasium.RewardWrapper | gymnasium.wrappers.NormalizeReward):
            reward_wrapper = type(env).__name__
        env = env.env
    return is_recorded, reward_wrapper
