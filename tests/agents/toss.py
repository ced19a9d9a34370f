"""A small environment and agents of every kind, for the tests of bandits."""

from functools import partial

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from torch import nn
from torch.optim.lr_scheduler import StepLR

import tractable as tr
from tractable.agents import Bandit, BanditPolicy, BanditReplay, EpsilonGreedy, Thompson

FEATURES, ACTIONS = 3, 2


class Toss(gymnasium.Env):
    """Reward: a noisy linear function of the context for action 1, zero for action 0."""

    observation_space = spaces.Box(-10, 10, (FEATURES,), np.float32)
    action_space = spaces.Discrete(ACTIONS)
    slope = np.array([1.0, -2.0, 0.5], dtype=np.float32)

    def __init__(self, length: int = 0) -> None:
        self.length, self.steps = length, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.context = self.np_random.normal(size=FEATURES).astype(np.float32)
        return self.context, {}

    def step(self, action):
        gain = float(self.slope @ self.context)
        best = max(gain, 0.0)
        expected = gain if action else 0.0
        noise = 0.1 * float(self.np_random.normal())
        info = {"regret": best - expected, "oracle": int(gain > 0)}
        self.context = self.np_random.normal(size=FEATURES).astype(np.float32)
        self.steps += 1
        over = bool(self.length) and self.steps % self.length == 0
        return self.context, expected + noise, over, False, info


def net(hidden: int = 8, dropout: bool = False) -> nn.Module:
    drop = [nn.Dropout(0.2)] if dropout else []
    return nn.Sequential(
        nn.Linear(FEATURES + ACTIONS, hidden), nn.ReLU(), *drop, nn.Linear(hidden, 1)
    )


def learners() -> dict[str, tr.Learner]:
    normal = tr.likelihoods.Normal
    halving = partial(StepLR, step_size=20, gamma=0.5)
    return {
        "tagi": tr.TAGI(net(), normal(0.3)),
        "tagi-noise": tr.TAGI(net(), normal()),
        "bbb": tr.BayesByBackprop(net(), normal(0.3), lr=1e-2, schedule=halving),
        "backprop": tr.Backprop(net(), normal(0.3), lr=1e-2, schedule="constant"),
        "backprop-noise": tr.Backprop(net(), normal(), lr=1e-2),
        "dropout": tr.Backprop(net(dropout=True), normal(0.3), lr=1e-2, mc_dropout=True),
        "ensemble": tr.Ensemble(net(), normal(0.3), n_estimators=3, lr=1e-2, schedule=halving),
    }


KINDS = list(learners())
POLICIES = {
    "thompson": Thompson(2),
    "outputs": Thompson(1, space="outputs"),
    "eps": EpsilonGreedy(0.3),
}


def agent(kind: str = "tagi", policy: BanditPolicy | None = None, **options) -> Bandit:
    chosen = learners()[kind]
    if not kind.startswith("tagi"):
        options.setdefault("replay", BanditReplay(64, batch_size=16, gradient_steps=2))
    return Bandit(chosen, policy, n_features=FEATURES, n_actions=ACTIONS, **options)


def state(bandit: Bandit) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in bandit.learner.state_dict().items()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)
