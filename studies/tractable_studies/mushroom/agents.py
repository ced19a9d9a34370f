"""The agents of the mushroom study and their preliminary knowledge.

Network, prior, memory, preliminary knowledge and the halving of the learning rate are those of the
source.  Where it is silent: one batch of 64 from the memory per step; the noise of a reward is
``Normal(1)`` in the units of the rewards; each batch carries its share 64/4096 of the divergence.
The learning rate is 1e-3 and not 1e-4, because one batch per step is less than the source's
training must have been; the comparison of learning rates (figure 27a) has both.

TAGI has no memory and no learning rate: it learns the preliminary knowledge once and then each
reward once.  Its rewards are in units of ten.  Its noise and the gain of its prior, like the
learning rate above, were chosen on seed 100, which is not reported.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.optim.lr_scheduler import StepLR

from tractable.agents import Bandit, BanditPolicy, BanditReplay, EpsilonGreedy, Greedy, Thompson
from tractable.learners import TAGI, Backprop, BayesByBackprop
from tractable.likelihoods import Normal
from tractable.priors import ScaleMixture
from tractable_studies.mushroom.environment import Mushroom

MEMORY = 4096
"""Size of the replay memory, and number of random actions before the start."""
_KNOWLEDGE_SEED = 1_000_003  # the mushrooms known beforehand are a stream of their own

SETTINGS: dict[str, Any] = {
    "hidden layers": [100, 100],
    "features": 95,
    "memory": MEMORY,
    "batch": 64,
    "batches per step": 1,
    "noise of a reward": 1.0,
    "learning rate": 1e-3,
    "learning rate halved every": 5000,
    "prior": {"pi": 0.5, "-log sigma1": 0, "-log sigma2": 6},
    "Thompson samples": 2,
    "TAGI": {"gain": 1.0, "noise of a reward": 3.0, "unit of rewards": 10.0},
    "regret": "the oracle's expected reward less that of the action: a poisonous bite costs 15",
    "chosen on seeds": [100],
}


def network() -> nn.Sequential:
    """Return a network from features and action to reward."""
    return nn.Sequential(
        nn.Linear(97, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 1)
    )


def gradient_options(lr: float, seed: int) -> dict[str, Any]:
    """Return optimizer settings shared by Bayes by Backprop and plain backprop."""
    halved = SETTINGS["learning rate halved every"]
    return {"lr": lr, "schedule": partial(StepLR, step_size=halved, gamma=0.5), "seed": seed}


def bayes_by_backprop(
    seed: int, *, lr: float = SETTINGS["learning rate"], minus_log_sigma1: float = 0.0
) -> Bandit:
    """Return Thompson sampling with the variational posterior."""
    learner = BayesByBackprop(
        network(),
        Normal(SETTINGS["noise of a reward"]),
        prior=ScaleMixture(0.5, math.exp(-minus_log_sigma1), math.exp(-6)),
        **gradient_options(lr, seed),
    )
    return _agent(learner, Thompson(2), seed)


def point_estimate(seed: int, policy: BanditPolicy) -> Bandit:
    """Return a plain network, greedy or epsilon-greedy."""
    learner = Backprop(
        network(),
        Normal(SETTINGS["noise of a reward"]),
        **gradient_options(SETTINGS["learning rate"], seed),
    )
    return _agent(learner, policy, seed)


def closed_form(seed: int, policy: BanditPolicy | None = None) -> Bandit:
    """Return Thompson sampling with the closed-form posterior, updated online."""
    chosen = SETTINGS["TAGI"]
    unit = chosen["unit of rewards"]
    learner = TAGI(
        network(),
        Normal(chosen["noise of a reward"] / unit),
        gain=chosen["gain"],
        seed=seed,
        robust=False,  # the figures were made without
    )
    return Bandit(
        learner, policy or Thompson(2), n_features=95, n_actions=2, reward_scale=unit, seed=seed
    )


def _agent(learner: Any, policy: BanditPolicy, seed: int) -> Bandit:
    memory = BanditReplay(MEMORY, batch_size=64, gradient_steps=SETTINGS["batches per step"])
    return Bandit(learner, policy, n_features=95, n_actions=2, replay=memory, seed=seed)


AGENTS: dict[str, Callable[[int], Bandit]] = {
    "bbb": bayes_by_backprop,
    "tagi": closed_form,
    "greedy": lambda seed: point_estimate(seed, Greedy()),
    "eps-1": lambda seed: point_estimate(seed, EpsilonGreedy(0.01)),
    "eps-5": lambda seed: point_estimate(seed, EpsilonGreedy(0.05)),
}
"""The agents of figure 23, and TAGI."""

UNPRIMED = ("tagi-unprimed",)
VARIATIONS: dict[str, Callable[[int], Bandit]] = {
    "bbb-lr-1e-4": partial(bayes_by_backprop, lr=1e-4),
    "bbb-lr-1e-5": partial(bayes_by_backprop, lr=1e-5),
    "bbb-sigma1-e+2": partial(bayes_by_backprop, minus_log_sigma1=-2.0),
    "bbb-sigma1-e-2": partial(bayes_by_backprop, minus_log_sigma1=2.0),
    "bbb-sigma1-e-4": partial(bayes_by_backprop, minus_log_sigma1=4.0),
    "tagi-outputs": lambda seed: closed_form(seed, Thompson(2, space="outputs")),
    "tagi-unprimed": closed_form,
}
"""Agents of figure 27, TAGI with sampled actions, and TAGI without preliminary knowledge."""

NAMES = {
    "bbb": "Bayes by Backprop",
    "tagi": "TAGI",
    "greedy": "greedy",
    "eps-1": "ε = 1 %",
    "eps-5": "ε = 5 %",
    "bbb-lr-1e-4": "learning rate 1e-4",
    "bbb-lr-1e-5": "learning rate 1e-5",
    "bbb-sigma1-e+2": "-log σ1 = -2",
    "bbb-sigma1-e-2": "-log σ1 = 2",
    "bbb-sigma1-e-4": "-log σ1 = 4",
    "tagi-outputs": "TAGI, outputs drawn",
    "tagi-unprimed": "TAGI, nothing known",
}


def make(name: str, seed: int, env: Mushroom, known: int = MEMORY) -> Bandit:
    """Return an agent with the preliminary knowledge of its seed."""
    agent = {**AGENTS, **VARIATIONS}[name](seed)
    if name not in UNPRIMED:
        agent.warm_start(*random_actions(env, known, seed))
    return agent


def random_actions(env: Mushroom, steps: int, seed: int) -> tuple[Any, Any, Any]:
    """Return contexts, actions and rewards of random actions."""
    context, _ = env.reset(seed=_KNOWLEDGE_SEED + seed)
    generator = torch.Generator().manual_seed(_KNOWLEDGE_SEED + seed)
    actions = torch.randint(2, (steps,), generator=generator).tolist()
    contexts, rewards = [], []
    for action in actions:
        contexts.append(context)
        context, reward, *_ = env.step(action)
        rewards.append(reward)
    return np.array(contexts), actions, rewards
