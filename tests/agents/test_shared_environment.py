"""Environments used by several agents or by an evaluation between two updates."""

import gc
import weakref
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch

import tractable as tr
from tractable.agents import (
    ActorCritic,
    EnvironmentFault,
    PolicyGradient,
    QAgent,
    TAGIControl,
    evaluate_policy,
)
from tractable.agents.episodes import Episode


class Track(gymnasium.Env):
    """A point on a line that an action moves by a bounded step; checks that steps are possible."""

    observation_space = gymnasium.spaces.Box(-10, 10, (2,))
    most = 23

    def __init__(self, discrete=True):
        self.action_space = gymnasium.spaces.Discrete(2)
        if not discrete:
            self.action_space = gymnasium.spaces.Box(-1, 1, (1,))
        self.done = True
        self.resets = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.clock, self.done = self.np_random.uniform(-1, 1), 0, False
        self.resets += 1
        return self._see(), {}

    def _see(self):
        return np.array([self.x, self.clock / 10], dtype=np.float32)

    def step(self, action):
        assert not self.done, "a step in an episode that has ended"
        push = 2 * float(action) - 1 if isinstance(action, int | np.integer) else float(action[0])
        self.x += 0.3 * push + 0.1 * self.np_random.normal()
        self.clock += 1
        terminal, truncated = abs(self.x) > 2, self.clock == self.most
        self.done = terminal or truncated
        return self._see(), -abs(self.x), terminal, truncated, {}


class Restless(Track):
    """An environment that is not reproducible from the same seed and actions."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=None)


AGENTS = {
    "control": lambda env, seed=0: TAGIControl(
        env, seed=seed, n_steps=40, policy_hidden_layer_sizes=(8,), value_hidden_layer_sizes=(8,)
    ),
    "q": lambda env, seed=0: QAgent(
        env, seed=seed, train_freq=40, hidden_layer_sizes=(8,), buffer_size=100
    ),
    "q, Bayes by Backprop": lambda env, seed=0: QAgent(
        env,
        seed=seed,
        train_freq=40,
        hidden_layer_sizes=(8,),
        buffer_size=100,
        gradient_steps=1,
        memory_rows=None,
        learner=partial(tr.BayesByBackprop, n_weight_samples=4),
    ),
    "policy gradient": lambda env, seed=0: PolicyGradient(
        env, seed=seed, episodes_per_update=2, hidden_layer_sizes=(8,)
    ),
    "actor critic": lambda env, seed=0: ActorCritic(
        env, seed=seed, n_steps=40, hidden_layer_sizes=(8,)
    ),
}


def make_env(name):
    return Track(discrete=name != "control")


def learned_numbers(agent):
    """Return all numbers that learning changes."""
    nets = getattr(agent, "critics", None)
    if nets is not None:
        return [critic.learner.posterior.loc for critic in nets]
    if hasattr(agent, "actor"):
        return [p.detach().clone() for p in agent.actor.net.parameters()]
    return [agent.policy_learner.posterior.loc, agent.value_learner.posterior.variance]


def same(one, other):
    assert one.steps == other.steps
    assert one.episodes == other.episodes
    np.testing.assert_equal(one.training_log, other.training_log)
    for mine, theirs in zip(learned_numbers(one), learned_numbers(other), strict=True):
        assert torch.equal(mine, theirs)
    assert np.array_equal(one.episode.observation, other.episode.observation)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", AGENTS)
def test_evaluation_in_the_training_environment_changes_nothing(name, seed):
    alone, shared = AGENTS[name](make_env(name), seed), AGENTS[name](make_env(name), seed)
    for _ in range(3):
        alone.learn(50)
        shared.learn(50)
        assert evaluate_policy(alone, make_env(name), 2) == evaluate_policy(shared, shared.env, 2)
    alone.learn(50)
    shared.learn(50)
    same(alone, shared)


@pytest.mark.parametrize("name", AGENTS)
def test_evaluation_within_a_callback_and_behind_wrappers(name):
    alone, shared = AGENTS[name](make_env(name)), AGENTS[name](make_env(name))
    alone.learn(150, callback=lambda agent, _: evaluate_policy(agent, make_env(name), 1) is None)
    wrapped = gymnasium.wrappers.TimeLimit(shared.env, 5)
    shared.learn(150, callback=lambda agent, _: evaluate_policy(agent, wrapped, 1) is None)
    same(alone, shared)


@pytest.mark.parametrize("name", AGENTS)
def test_agents_can_share_an_environment(name):
    env = make_env(name)
    turns = [AGENTS[name](env, seed) for seed in range(3)]
    alone = [AGENTS[name](make_env(name), seed) for seed in range(3)]
    for _ in range(3):
        for agent in (*turns, *alone):
            agent.learn(45)
    for one, other in zip(turns, alone, strict=True):
        same(one, other)


@pytest.mark.parametrize("name", AGENTS)
def test_an_environment_that_is_not_reproducible_begins_a_new_episode(name):
    env = Restless(discrete=name != "control")
    agent = AGENTS[name](env).learn(45)
    evaluate_policy(agent, env, 1)
    before = len(agent.episodes)
    agent.learn(45)  # Track refuses steps after an end
    ended = [length for _, _, length in agent.episodes[before:]]
    assert max(ended, default=0) <= Track.most


def test_an_environment_used_by_one_agent_is_not_reset_again():
    agent = AGENTS["q"](make_env("q")).learn(40)
    assert agent.env.resets == 1 + len(agent.episodes)


def test_an_episode_is_not_resumed_beyond_its_end():
    episode = Episode(make_env("q"), np.random.default_rng(0))
    assert episode.resume(3, [1] * 5, episode.observation) is False  # another observation
    seen = episode.observation.copy()
    assert episode.resume(3, [1] * 5, seen) is True
    assert episode.length == 5
    assert episode.resume(3, [1] * 60, seen) is False  # ends before


def test_environments_are_not_kept_alive():
    agent = AGENTS["q"](make_env("q"))
    evaluate_policy(agent, agent.env, 1)
    env = weakref.ref(agent.env)
    del agent
    gc.collect()
    assert env() is None


class Reusing(Track):
    """Returns the same array at every step, as a simulator with a buffer does."""

    def _see(self):
        if not hasattr(self, "buffer"):
            self.buffer = np.zeros(2)
        self.buffer[:] = super()._see()
        return self.buffer


@pytest.mark.parametrize("name", AGENTS)
def test_environments_may_reuse_their_arrays(name):
    plain = AGENTS[name](make_env(name)).learn(90)
    reusing = AGENTS[name](Reusing(discrete=name != "control")).learn(90)
    same(plain, reusing)


class FailsOnce(Track):
    """Returns NaN at one step, whose state is lost."""

    steps = 0

    def step(self, action):
        state, reward, *rest = super().step(action)
        self.steps += 1
        return state, (np.nan if self.steps == 60 else reward), *rest


@pytest.mark.parametrize("name", AGENTS)
def test_learning_continues_after_a_fault_of_the_environment(name, tmp_path):
    """The failed step is undone: the episode is replayed up to the last observation."""
    env = FailsOnce(discrete=name != "control")
    agent = AGENTS[name](env)
    with pytest.raises(EnvironmentFault):
        agent.learn(200, checkpoint=tmp_path / "agent.tr")
    seen = agent.episode.observation.copy()
    agent.episode.take_up()
    assert np.array_equal(agent.episode.observation, seen)
    assert env.clock == agent.episode.length
    agent.learn(90)
