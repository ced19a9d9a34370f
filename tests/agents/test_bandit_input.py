"""Invalid input of bandits is refused and changes nothing."""

import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

import tractable as tr
from tests.agents.toss import FEATURES, Toss, agent, learners, same, state
from tractable.agents import Bandit, BanditReplay, EpsilonGreedy, Thompson
from tractable.errors import InvalidInput


@pytest.mark.parametrize("kind", ["tagi", "bbb"])
@pytest.mark.parametrize(
    ("context", "action", "reward", "words"),
    [
        ([0.0, 1.0], 0, 1.0, r"3 features, got shape \(2,\)"),
        ([[0.0, 1.0, 2.0]], 0, 1.0, r"got shape \(1, 3\)"),
        ([0.0, math.nan, 2.0], 0, 1.0, "context must be finite, got 1 NaN"),
        ([0.0, math.inf, 2.0], 0, 1.0, "context must be finite"),
        (["a", "b", "c"], 0, 1.0, "array of numbers"),
        ([0.0, 1.0, 2.0], 2, 1.0, "unknown action 2: actions are whole numbers from 0 to 1"),
        ([0.0, 1.0, 2.0], -1, 1.0, "unknown action -1"),
        ([0.0, 1.0, 2.0], 0.5, 1.0, "unknown action 0.5"),
        ([0.0, 1.0, 2.0], True, 1.0, "unknown action True"),
        ([0.0, 1.0, 2.0], "eat", 1.0, "unknown action 'eat'"),
        ([0.0, 1.0, 2.0], 0, "much", "a reward must be one number, got 'much'"),
        ([0.0, 1.0, 2.0], 0, math.nan, "reward must be finite"),
        ([0.0, 1.0, 2.0], 0, -math.inf, "reward must be finite"),
    ],
)
def test_invalid_updates_are_refused_and_change_nothing(kind, context, action, reward, words):
    bandit = agent(kind)
    bandit.update([0.0, 1.0, 2.0], 1, 1.0)
    before, drawn = state(bandit), bandit.generator.get_state()
    held = 0 if bandit.replay is None else len(bandit.replay)
    with pytest.raises(InvalidInput, match=words):
        bandit.update(context, action, reward)
    assert same(before, state(bandit))
    assert torch.equal(drawn, bandit.generator.get_state())
    assert held == (0 if bandit.replay is None else len(bandit.replay))


def test_invalid_contexts_are_refused_by_act():
    with pytest.raises(InvalidInput, match="3 features"):
        agent().act([1.0])
    with pytest.raises(InvalidInput, match="finite"):
        agent().act([1.0, math.nan, 0.0])


def test_invalid_arguments():
    for eps in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="between 0 and 1"):
            EpsilonGreedy(eps)
    for samples in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="n_samples must be a whole number of at least 1"):
            Thompson(samples)
    with pytest.raises(ValueError, match="space must be one of weights, outputs; got 'noise'"):
        Thompson(space="noise")
    with pytest.raises(ValueError, match="buffer_size must be at least 1, got 0"):
        BanditReplay(0)
    with pytest.raises(ValueError, match="at least 2 actions"):
        Bandit(learners()["tagi"], n_features=4, n_actions=1)
    with pytest.raises(ValueError, match="reward_scale must be a positive number"):
        agent(reward_scale=0.0)
    with pytest.raises(ValueError, match="4 features and 2 actions make 6 inputs"):
        Bandit(learners()["tagi"], n_features=4, n_actions=2)
    wide = tr.TAGI(nn.Linear(5, 2), tr.likelihoods.Normal(1.0))
    with pytest.raises(ValueError, match="one number, the reward of one action; this one predi"):
        Bandit(wide, n_features=3, n_actions=2)
    with pytest.raises(TypeError, match=r"policy must be one of tractable\.agents, got str"):
        agent(policy="greedy")
    with pytest.raises(TypeError, match="learner must be a tractable learner, got Linear"):
        Bandit(nn.Linear(5, 1), n_features=3, n_actions=2)


def test_warm_start_refuses_invalid_rows():
    bandit = agent("bbb")
    contexts = np.zeros((4, FEATURES))
    with pytest.raises(ValueError, match=r"contexts of shape \(4, 3\), actions of shape \(3,\)"):
        bandit.warm_start(contexts, [0, 1, 0], [0.0] * 4)
    with pytest.raises(InvalidInput, match="rewards must be finite, got 1"):
        bandit.warm_start(contexts, [0, 1, 0, 1], [0.0, math.nan, 0.0, 1.0])
    with pytest.raises(InvalidInput, match="unknown action 5"):
        bandit.warm_start(contexts, [0, 1, 0, 5], [0.0] * 4)
    assert len(bandit.replay) == 0


def test_learn_refuses_invalid_arguments():
    with pytest.raises(ValueError, match="total_timesteps must be at least 1, got 0"):
        agent().learn(Toss(), 0)
    many = Toss()
    many.action_space = spaces.Discrete(3)
    with pytest.raises(
        ValueError, match=r"the agent has 2 actions, the environment has Discrete\(3\)"
    ):
        agent().learn(many, 5)
