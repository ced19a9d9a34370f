"""Faulty environments raise EnvironmentFault, and agents can go on afterwards."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete

import tractable as tr
from tractable.agents import (
    ActorCritic,
    Bandit,
    EnvironmentFault,
    PolicyGradient,
    QAgent,
    TAGIControl,
    evaluate_policy,
)

FAULTY_STEP = 50
SMALL = {"hidden_layer_sizes": (4,)}


class Faulty(gymnasium.Env):
    """Episodes of seven steps; one step, or the resets after it, return ``fault``."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,))

    def __init__(self, step=None, reset=None, discrete=True):
        self.step_fault, self.reset_fault, self.n = step, reset, 0
        box = gymnasium.spaces.Box(-1, 1, (1,))
        self.action_space = Discrete(2) if discrete else box

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.clock = 0
        found = self.np_random.uniform(-1, 1, 2), {}
        if self.reset_fault is not None and self.n >= FAULTY_STEP:
            return self.reset_fault(*found)
        return found

    def step(self, action):
        self.n += 1
        self.clock += 1
        found = self.np_random.uniform(-1, 1, 2), 0.5, self.clock == 7, False, {}
        if self.step_fault is not None and self.n == FAULTY_STEP:
            return self.step_fault(*found)
        return found


STEP_FAULTS = {
    "shape": (lambda o, *rest: (np.zeros(3), *rest), r"observation of shape \(3,\), expected \(2,"),
    "scalar": (lambda o, *rest: (0.5, *rest), r"observation of shape \(\), expected \(2,\)"),
    "text": (lambda o, *rest: ("abc", *rest), "observation of type str, expected an array of num"),
    "none": (lambda o, *rest: (None, *rest), "observation of type NoneType, expected an array"),
    "nan": (lambda o, *rest: (o * np.nan, *rest), "observation with NaN or infinite entries"),
    "inf reward": (lambda o, r, *rest: (o, np.inf, *rest), "a reward of inf"),
    "no reward": (lambda o, r, *rest: (o, None, *rest), "a reward of None, expected a number"),
    "text reward": (lambda o, r, *rest: (o, "x", *rest), "a reward of 'x', expected a number"),
    "two rewards": (lambda o, r, *rest: (o, np.ones(2), *rest), "expected a number"),
    "complex": (lambda o, r, *rest: (o, 1j, *rest), "a reward of 1j, expected a number"),
    "three": (
        lambda o, r, t, *_: (o, r, t),
        r"3 values from step, expected 5 values \(observation, rew",
    ),
    "four": (lambda o, r, t, *_: (o, r, t, {}), "4 values from step, expected 5"),
    "no tuple": (lambda o, *_: None, "a NoneType from step, expected 5 values"),
    "ends": (lambda o, r, *_: (o, r, np.array([True, False]), False, {}), "expected True or False"),
}
RESET_FAULTS = {
    "shape": (lambda o, i: (np.zeros(3), i), r"shape \(3,\), expected \(2,\), from reset"),
    "nan": (lambda o, i: (o * np.nan, i), "NaN or infinite entries from reset"),
    "bare": (lambda o, i: o, r"a ndarray from reset, expected 2 values \(observation, info\)"),
    "none": (lambda o, i: (None, i), "observation of type NoneType"),
}
AGENTS = {
    "q": lambda env: QAgent(env, train_freq=32, **SMALL),
    "policy gradient": lambda env: PolicyGradient(env, episodes_per_update=3, **SMALL),
    "actor critic": lambda env: ActorCritic(env, n_steps=32, **SMALL),
    "control": lambda env: TAGIControl(
        env, n_steps=32, policy_hidden_layer_sizes=(4,), value_hidden_layer_sizes=(4,)
    ),
}


def check(agent, env, message, path):
    """Learn until the fault, and then from the repaired environment; the saved agent also does."""
    with pytest.raises(EnvironmentFault, match=message):
        agent.learn(200, checkpoint=path)
    env.step_fault = env.reset_fault = None
    saved = type(agent).load(path, Faulty(discrete=isinstance(env.action_space, Discrete)))
    assert saved.steps == agent.steps
    for one in (agent, saved):
        before = one.steps
        one.learn(64)
        assert one.steps >= before + 64
        assert np.isfinite(one.episode.observation).all()
        assert one.episode.observation.shape == (2,)


@pytest.mark.parametrize("fault", STEP_FAULTS)
@pytest.mark.parametrize("name", AGENTS)
def test_faults_of_a_step(name, fault, tmp_path):
    change, message = STEP_FAULTS[fault]
    env = Faulty(step=change, discrete=name != "control")
    check(AGENTS[name](env), env, message, tmp_path / "agent")


@pytest.mark.parametrize("fault", RESET_FAULTS)
@pytest.mark.parametrize("name", AGENTS)
def test_faults_of_a_reset(name, fault, tmp_path):
    change, message = RESET_FAULTS[fault]
    env = Faulty(reset=change, discrete=name != "control")
    check(AGENTS[name](env), env, message, tmp_path / "agent")


@pytest.mark.parametrize("fault", RESET_FAULTS)
def test_faults_of_the_first_reset(fault):
    change, message = RESET_FAULTS[fault]
    env = Faulty(reset=change)
    env.n = FAULTY_STEP
    with pytest.raises(EnvironmentFault, match=message):
        QAgent(env, **SMALL)


def test_unknown_states_are_faults():
    class Cells(Faulty):
        observation_space = Discrete(4)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return 0, {}

        def step(self, action):
            _, *rest = super().step(action)
            return (9 if self.n == FAULTY_STEP else 3), *rest

    agent = QAgent(Cells(), train_freq=32, **SMALL)
    with pytest.raises(EnvironmentFault, match=r"a state of 9, which is not in Discrete\(4\)"):
        agent.learn(200)
    agent.learn(64)


def test_vector_environments_are_refused():
    envs = gymnasium.make_vec("CartPole-v1", num_envs=2)
    for make in (QAgent, PolicyGradient, ActorCritic, TAGIControl):
        with pytest.raises(TypeError, match="a single environment is needed, got 2 environments"):
            make(envs)
    with pytest.raises(TypeError, match="a single environment is needed"):
        evaluate_policy(QAgent("CartPole-v1", **SMALL), envs)
    with pytest.raises(TypeError, match="env must be a Gymnasium environment or its name, got int"):
        QAgent(3)


@pytest.mark.parametrize("fault", ["inf reward", "no reward", "three", "no tuple"])
def test_faults_in_the_run_of_a_bandit(fault):
    change, message = STEP_FAULTS[fault]
    learner = tr.TAGI(torch.nn.Linear(4, 1), tr.likelihoods.Normal(0.5))
    agent, env = Bandit(learner, n_features=2, n_actions=2), Faulty(step=change)
    with pytest.raises(EnvironmentFault, match=message):
        agent.learn(env, 100, seed=0)
    assert len(agent.history) == FAULTY_STEP - 1
    assert len(agent.learn(Faulty(), 100).history) == 100
