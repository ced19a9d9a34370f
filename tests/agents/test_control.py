"""Continuous control: known optima, exact resumption and invalid input."""

import gymnasium as gym
import numpy as np
import pytest

from tractable.agents import EnvironmentFault, TAGIControl, evaluate_policy
from tractable.errors import InvalidModelFile

SMALL = {"policy_hidden_layer_sizes": (32,), "value_hidden_layer_sizes": (32, 32), "n_steps": 256}


class OneStep(gym.Env):
    """Linear-quadratic, one step long: r = -4 (a - K s)^2, in a box that is not symmetric."""

    observation_space = gym.spaces.Box(-1, 1, (2,))
    action_space = gym.spaces.Box(np.array([-2.0]), np.array([1.0]), dtype=np.float64)
    gains = np.array([0.4, -0.3])

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.state = self.np_random.uniform(-1, 1, 2)
        return self.state, {}

    def step(self, action):
        reward = -4 * (action[0] - self.gains @ self.state) ** 2
        return self.state, float(reward), True, False, {}


class Faulty(OneStep):
    """Returns NaN in its third episode."""

    episodes = 0

    def __init__(self, what):
        self.what = what

    def step(self, action):
        self.episodes += 1
        state, reward, *rest = super().step(action)
        if self.episodes == 300:
            if self.what == "reward":
                reward = float("nan")
            else:
                state = state * np.nan
        return state, reward, *rest


@pytest.mark.parametrize("seed", [0, 1])
def test_finds_the_best_action_of_a_linear_quadratic_problem(seed):
    agent = TAGIControl(OneStep(), seed=seed, target_std_decay=0.9, min_target_std=0.05, **SMALL)
    agent.learn(12_800)
    states = np.random.default_rng(5).uniform(-1, 1, (500, 2))
    actions, _ = agent.predict(states, deterministic=True)
    error = actions[:, 0] - states @ OneStep.gains
    width = 3.0  # of the box
    assert np.sqrt((error**2).mean()) < 0.05 * width
    assert (
        agent.policy_learner.outputs(_tensor(states)).moments()[1].sqrt().mean() < 0.5
    )  # and is sure of it


def _tensor(rows):
    import torch

    return torch.from_numpy(rows.astype(np.float32))


def test_resuming_gives_the_same_curve_as_not_stopping(tmp_path):
    path = tmp_path / "agent.safetensors"
    settings = {**SMALL, "n_steps": 150, "batch_size": 16}
    whole = TAGIControl("Pendulum-v1", seed=3, **settings).learn(600)
    TAGIControl("Pendulum-v1", seed=3, **settings).learn(300, checkpoint=path)
    resumed = TAGIControl.load(path)  # in the middle of an episode: 300 = 200 + 100
    assert resumed.steps == 300
    resumed.learn(300)
    assert resumed.episodes == whole.episodes
    assert (
        resumed.training_log[1:] == whole.training_log[1:]
    )  # before the first episode ended the reward is NaN
    assert (resumed.policy_learner.posterior.loc == whole.policy_learner.posterior.loc).all()
    assert (
        resumed.value_learner.posterior.variance == whole.value_learner.posterior.variance
    ).all()


def test_the_seed_determines_the_episodes():
    one, same, other = (TAGIControl(OneStep(), seed=s, **SMALL).learn(512) for s in (0, 0, 1))
    assert one.episodes == same.episodes
    assert one.episodes != other.episodes


def test_actions_stay_in_the_box_and_keep_their_shape():
    agent = TAGIControl(OneStep(), seed=0, **SMALL)
    action, state = agent.predict(np.zeros(2))
    assert action.shape == (1,)
    assert action.dtype == np.float32
    assert state is None
    many, _ = agent.predict(np.random.default_rng(0).normal(0, 1e3, (1000, 2)))
    assert many.shape == (1000, 1)
    assert many.min() >= -2
    assert many.max() <= 1
    assert len(evaluate_policy(agent, OneStep(), 3, return_episode_rewards=True)[0]) == 3


def test_a_callback_stops():
    seen = []
    agent = TAGIControl(OneStep(), seed=0, **SMALL)
    agent.learn(10_000, callback=lambda a, _: seen.append(a.steps) or len(seen) == 2)
    assert seen == [256, 512]


def test_memory_rows_keep_both_networks_learning(tmp_path):
    plain, mindful = (TAGIControl(OneStep(), seed=0, memory_rows=m, **SMALL) for m in (None, 50))
    for agent in (plain, mindful):
        agent.learn(512)
    for name in ("policy", "value"):
        forgetful, sure = (
            getattr(agent, f"{name}_learner").posterior for agent in (mindful, plain)
        )
        assert float(forgetful.variance.sum()) > 1.02 * float(sure.variance.sum())
    mindful.save(tmp_path / "agent.tr")
    assert TAGIControl.load(tmp_path / "agent.tr", OneStep()).settings.memory_rows == 50


def test_epochs_learn_the_rollout_again():
    agent = TAGIControl(OneStep(), seed=0, epochs=2, **SMALL).learn(256)
    once = TAGIControl(OneStep(), seed=0, **SMALL).learn(256)
    assert (
        agent.value_learner.posterior.variance.sum() < once.value_learner.posterior.variance.sum()
    )


@pytest.mark.parametrize("what", ["reward", "observation"])
def test_nan_from_the_environment_stops_with_the_step_and_saves(what, tmp_path):
    agent = TAGIControl(Faulty(what), seed=0, **SMALL)
    path = tmp_path / "agent.safetensors"
    with pytest.raises(EnvironmentFault, match="at step 299") as caught:
        agent.learn(1024, checkpoint=path)
    assert str(path) in str(caught.value)
    assert TAGIControl.load(path, OneStep()).steps == 256


def test_unsuitable_environments_are_refused():
    with pytest.raises(TypeError, match=r"continuous actions.*Discrete\(2\)"):
        TAGIControl("CartPole-v1")

    class Unbounded(OneStep):
        action_space = gym.spaces.Box(-np.inf, np.inf, (1,))

    with pytest.raises(ValueError, match="must be bounded"):
        TAGIControl(Unbounded())


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("n_steps", 0),
        ("epochs", 0),
        ("gamma", 1.5),
        ("target_std", 0.0),
        ("policy_hidden_layer_sizes", ()),
        ("td_lambda", -0.1),
        ("memory_rows", 1),
    ],
)
def test_settings_outside_their_domain_are_refused(setting, value):
    with pytest.raises(ValueError, match=setting):
        TAGIControl(OneStep(), **{setting: value})


def test_invalid_observations_and_files_are_refused(tmp_path):
    agent = TAGIControl(OneStep(), seed=0, **SMALL)
    with pytest.raises(ValueError, match=r"shape \(2,\)"):
        agent.predict(np.zeros(3))
    with pytest.raises(ValueError, match="NaN"):
        agent.predict(np.full(2, np.nan))
    with pytest.raises(ValueError, match="total_timesteps"):
        agent.learn(0)
    path = tmp_path / "model.safetensors"
    agent.policy_learner.save(path)
    with pytest.raises(InvalidModelFile, match="TAGIControl"):
        TAGIControl.load(path, OneStep())
    agent.save(path)
    with pytest.raises(ValueError, match="does not name its environment"):
        TAGIControl.load(path)
