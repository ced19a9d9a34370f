"""The baseline of the control study: Stable-Baselines3's PPO with table 9's hyper-parameters.

The networks are those of tables 7 and 8 (two and three hidden layers of 128); observations and
rewards are scaled by running statistics.  To be fair to its speed, the policy is compiled, Adam is
PyTorch's fused one and checks of what cannot change are left out; the rule is the same.
Checkpoints are plain tensors; a run that goes on begins a new episode, so that its curve is another
draw from the same distribution rather than the same curve.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.distributions import Distribution

from tractable.cli.output import print_line
from tractable.persistence.atomic import atomic_file

#: Number of rollouts of 2,048 steps between checkpoints.
EVERY = 10


class Baseline:
    """PPO on one environment."""

    def __init__(self, env: str, seed: int, steps: int, compile: bool = True) -> None:
        import gymnasium
        from stable_baselines3 import PPO
        from stable_baselines3.common.monitor import Monitor
        from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

        from tractable_studies.control.ppo_policy import CompiledPolicy, OneByOne

        self.name, self.seed, self.steps = env, seed, steps
        self.seconds = 0.0
        self._earlier: list[tuple[int, float]] = []
        self._started_at = 0
        self._monitor = Monitor(gymnasium.make(env))
        self._scaled = VecNormalize(DummyVecEnv([lambda: self._monitor]), gamma=0.99)
        scaled: Any = self._scaled
        scaled.obs_rms = OneByOne(shape=scaled.observation_space.shape)
        scaled.ret_rms = OneByOne()
        self._model = PPO(
            CompiledPolicy if compile else "MlpPolicy",
            self._scaled,
            n_steps=2048,
            batch_size=32,
            n_epochs=10,
            gamma=0.99,
            gae_lambda=0.95,
            learning_rate=lambda left: 3e-4 * left,
            clip_range=lambda left: 0.2 * left,
            vf_coef=1.0,
            ent_coef=0.0,
            max_grad_norm=0.5,
            policy_kwargs={
                "net_arch": {"pi": [128, 128], "vf": [128, 128, 128]},
                "optimizer_kwargs": {"eps": 1e-5, "fused": True},
            },
            seed=seed,
            device="cpu",
        )

    @property
    def episodes(self) -> list[tuple[int, float]]:
        """Return the step at which each episode ended, and its return."""
        found = list(self._earlier)
        ended = self._started_at
        lengths, returns = self._monitor.get_episode_lengths(), self._monitor.get_episode_rewards()
        for length, value in zip(lengths, returns, strict=True):
            ended += length
            found.append((ended, value))
        return found

    def learn(self, checkpoint: Path) -> None:
        """Train to the end, from the checkpoint if there is one."""
        from stable_baselines3.common.callbacks import BaseCallback

        if checkpoint.is_file():
            self._load(checkpoint)
        self._started_at = self._model.num_timesteps
        before, started = self.seconds, time.process_time()

        class Note(BaseCallback):
            """Save before every tenth rollout; then skip guard checks of the compiled policy."""

            def _on_rollout_start(inner) -> None:
                self.seconds = before + time.process_time() - started
                if inner.num_timesteps > self._started_at:
                    torch.compiler.set_stance("default", skip_guard_eval_unsafe=True)
                if (inner.num_timesteps // 2048) % EVERY == 0 and inner.num_timesteps:
                    self._save(checkpoint)

            def _on_step(inner) -> bool:
                return True

        left = self.steps - self._model.num_timesteps
        if left > 0:
            with _few_checks():
                self._model.learn(left, callback=Note(), reset_num_timesteps=not self._started_at)
        self.seconds = before + time.process_time() - started
        self._scaled.training = False

    def predict(self, observation: Any, deterministic: bool = True) -> Any:
        """Return the action for a raw observation."""
        seen = self._scaled.normalize_obs(observation)
        return self._model.predict(seen, deterministic=deterministic)

    def _save(self, path: Path) -> None:
        scales = {
            name: {key: torch.as_tensor(getattr(scale, key)) for key in ("mean", "var", "count")}
            for name, scale in self._scales().items()
        }
        state = {
            "parameters": self._model.get_parameters(),
            "scales": scales,
            "episodes": self.episodes,
            "step": self._model.num_timesteps,
            "updates": self._model._n_updates,
            "seconds": self.seconds,
        }
        with atomic_file(path) as scratch:
            torch.save(state, scratch)
        recent = [value for _, value in self.episodes[-100:]]
        mean = sum(recent) / max(len(recent), 1)
        print_line(f"ppo {self.name} seed {self.seed}: step {state['step']}, reward {mean:.0f}")

    def _load(self, path: Path) -> None:
        state = torch.load(path, weights_only=True)
        self._model.set_parameters(state["parameters"])
        for name, scale in self._scales().items():
            for key, value in state["scales"][name].items():
                setattr(scale, key, value.item() if key == "count" else value.numpy())
        self._earlier = [tuple(episode) for episode in state["episodes"]]
        self._model.num_timesteps = state["step"]
        self._model._n_updates = state["updates"]
        self.seconds = state["seconds"]

    def _scales(self) -> dict[str, Any]:
        return {"observation": self._scaled.obs_rms, "return": self._scaled.ret_rms}


@contextmanager
def _few_checks() -> Iterator[None]:
    """Disable argument checks of distributions; on exit restore them and guard checks."""
    before = Distribution._validate_args
    Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        Distribution.set_default_validate_args(before)
        torch.compiler.set_stance("default")
