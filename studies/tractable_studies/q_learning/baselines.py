"""The baselines: Stable-Baselines3's DQN, A2C and PPO with settings of its zoo.

All were read in the files of the RL Baselines3 Zoo (https://github.com/DLR-RM/rl-baselines3-zoo,
``hyperparams/*.yml``; those of DQN at ce95481).  The number of steps is the study's.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import gymnasium
import torch

DQN_WIDE = {"policy_kwargs": {"net_arch": [256, 256]}}

DQN: dict[str, dict[str, Any]] = {
    "CartPole-v1": {
        "learning_rate": 2.3e-3, "batch_size": 64, "buffer_size": 100_000,
        "learning_starts": 1_000, "gamma": 0.99, "target_update_interval": 10, "train_freq": 256,
        "gradient_steps": 128, "exploration_fraction": 0.16, "exploration_final_eps": 0.04,
        **DQN_WIDE,
    },
    "Acrobot-v1": {
        "learning_rate": 6.3e-4, "batch_size": 128, "buffer_size": 50_000, "learning_starts": 0,
        "gamma": 0.99, "target_update_interval": 250, "train_freq": 4, "gradient_steps": -1,
        "exploration_fraction": 0.12, "exploration_final_eps": 0.1, **DQN_WIDE,
    },
    "MountainCar-v0": {
        "learning_rate": 4e-3, "batch_size": 128, "buffer_size": 10_000, "learning_starts": 1_000,
        "gamma": 0.98, "target_update_interval": 600, "train_freq": 16, "gradient_steps": 8,
        "exploration_fraction": 0.2, "exploration_final_eps": 0.07, **DQN_WIDE,
    },
    "LunarLander-v3": {
        "learning_rate": 6.3e-4, "batch_size": 128, "buffer_size": 50_000, "learning_starts": 0,
        "gamma": 0.99, "target_update_interval": 250, "train_freq": 4, "gradient_steps": -1,
        "exploration_fraction": 0.12, "exploration_final_eps": 0.1, **DQN_WIDE,
    },
}  # fmt: skip

A2C: dict[str, dict[str, Any]] = {
    "CartPole-v1": {"envs": 8},
    "Acrobot-v1": {"envs": 16, "scaled": True},
    "MountainCar-v0": {"envs": 16, "scaled": True},
    "LunarLander-v3": {
        "envs": 8, "gamma": 0.995, "n_steps": 5, "learning_rate": lambda left: 8.3e-4 * left,
        "ent_coef": 1e-5,
    },
}  # fmt: skip

PPO: dict[str, dict[str, Any]] = {
    "CartPole-v1": {
        "envs": 8, "n_steps": 32, "batch_size": 256, "gae_lambda": 0.8, "gamma": 0.98,
        "n_epochs": 20, "learning_rate": lambda left: 1e-3 * left,
        "clip_range": lambda left: 0.2 * left,
    },
    "Acrobot-v1": {
        "envs": 16, "scaled": True, "n_steps": 256, "gae_lambda": 0.94, "gamma": 0.99,
        "n_epochs": 4,
    },
    "MountainCar-v0": {
        "envs": 16, "scaled": True, "n_steps": 16, "gae_lambda": 0.98, "gamma": 0.99,
        "n_epochs": 4,
    },
    "LunarLander-v3": {
        "envs": 16, "n_steps": 1024, "batch_size": 64, "gae_lambda": 0.98, "gamma": 0.999,
        "n_epochs": 4, "ent_coef": 0.01,
    },
}  # fmt: skip

SETTINGS = {"dqn": DQN, "a2c": A2C, "ppo": PPO}
METHODS = tuple(SETTINGS)


class Baseline:
    """One of Stable-Baselines3's agents in one environment.

    Args:
        method: ``"dqn"``, ``"a2c"`` or ``"ppo"``.
        env: name of the environment.
        seed: of networks and environments.
        **changed: settings instead of the zoo's.

    Attributes:
        seconds: processor time that learning took.
    """

    def __init__(self, method: str, env: str, seed: int, **changed: Any) -> None:
        import stable_baselines3
        from stable_baselines3.common.monitor import Monitor
        from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

        torch.set_num_threads(1)
        given = {**SETTINGS[method].get(env, {}), **changed}
        many, scaled = given.pop("envs", 1), given.pop("scaled", False)
        self.monitors = [Monitor(gymnasium.make(env)) for _ in range(many)]
        worlds: Any = DummyVecEnv([partial(_given, one) for one in self.monitors])
        self.scales = VecNormalize(worlds, gamma=given.get("gamma", 0.99)) if scaled else None
        kind = getattr(stable_baselines3, method.upper())
        self.model = kind("MlpPolicy", self.scales or worlds, seed=seed, device="cpu", **given)
        self.seconds = 0.0

    def learn(self, steps: int) -> Baseline:
        """Train for a number of steps, counted over all environments."""
        started = time.process_time()
        self.model.learn(steps)
        self.seconds += time.process_time() - started
        return self

    @property
    def episodes(self) -> list[tuple[int, float]]:
        """Return the approximate step at which each episode ended, and its return."""
        found = []
        for monitor in self.monitors:
            ended = 0
            lengths, returns = monitor.get_episode_lengths(), monitor.get_episode_rewards()
            for length, value in zip(lengths, returns, strict=True):
                ended += length
                found.append((ended * len(self.monitors), float(value)))
        return sorted(found)

    def predict(self, observation: Any, deterministic: bool = True) -> Any:
        """Return the action for a raw observation."""
        if self.scales is not None:
            observation = self.scales.normalize_obs(observation)
        return self.model.predict(observation, deterministic=deterministic)


def _given(env: Any) -> Any:
    """Return a function that returns an existing environment."""
    return env
