"""The mushroom environment: rewards, regret, data, and Gymnasium's own check."""

import os

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from tractable.data.download import FOLDER
from tractable_studies.mushroom.environment import Mushroom

FEATURES = np.eye(6, dtype=np.float32)
EDIBLE = [True, False, True, False, True, False]


@pytest.fixture
def env() -> Mushroom:
    return Mushroom(FEATURES, EDIBLE)


@pytest.fixture
def real_data() -> None:
    if not os.environ.get(FOLDER):
        pytest.skip(f"{FOLDER} does not name a folder with the real data sets")


def walk(env: Mushroom, actions: list[int], seed: int = 0):
    """Return the observations before each action, and the rewards."""
    seen, _ = env.reset(seed=seed)
    steps = []
    for action in actions:
        after, reward, terminated, truncated, info = env.step(action)
        assert not terminated
        assert not truncated
        steps.append((seen, reward, info))
        seen = after
    return steps


def test_rewards_and_regrets_of_every_case(env):
    actions = [0, 1] * 1500
    found: dict[tuple[bool, int], set[tuple[float, float]]] = {}
    for action, (seen, reward, info) in zip(actions, walk(env, actions), strict=True):
        assert info["edible"] == EDIBLE[int(seen.argmax())]
        assert info["oracle"] == int(info["edible"])
        found.setdefault((info["edible"], action), set()).add((reward, info["regret"]))
    assert found == {
        (True, 0): {(0.0, 5.0)},
        (True, 1): {(5.0, 0.0)},
        (False, 0): {(0.0, 0.0)},
        (False, 1): {(5.0, 15.0), (-35.0, 15.0)},
    }


def test_half_of_the_poisonous_bites_are_lucky_and_mushrooms_are_drawn_evenly(env):
    n = 6000
    steps = walk(env, [1] * n)
    bites = [reward for _, reward, info in steps if not info["edible"]]
    assert np.mean(np.equal(bites, 5)) == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(len(bites)))
    counts = np.sum([seen for seen, _, _ in steps], axis=0)
    assert counts == pytest.approx(n / 6, abs=5 * np.sqrt(n / 6))


def test_regret_has_the_expectation_of_what_was_missed(env):
    steps = walk(env, [0, 1, 1] * 3000, seed=4)
    regret = np.array([info["regret"] for *_, info in steps])
    missed = np.array([5.0 * info["oracle"] - reward for _, reward, info in steps])
    assert regret.mean() == pytest.approx(
        missed.mean(), abs=4 * (regret - missed).std() / np.sqrt(len(steps))
    )


def test_mushrooms_and_luck_follow_from_the_seed_alone(env):
    eager, shy = walk(env, [1] * 3000, seed=9), walk(env, [0, 0, 1] * 1000, seed=9)
    for (seen, reward, _), (again, other, _), action in zip(
        eager, shy, [0, 0, 1] * 1000, strict=True
    ):
        assert np.array_equal(seen, again)
        assert other == (reward if action else 0)
    assert any(
        not np.array_equal(a[0], b[0])
        for a, b in zip(walk(env, [1] * 20, seed=9), walk(env, [1] * 20, seed=10), strict=True)
    )


def test_gymnasium_finds_no_fault(env):
    check_env(env, skip_render_check=True)


def test_bad_use_is_refused(env):
    with pytest.raises(RuntimeError, match="reset before step"):
        Mushroom(FEATURES, EDIBLE).step(0)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="unknown action 2: 0 leaves the mushroom, 1 eats it"):
        env.step(2)
    with pytest.raises(ValueError, match="give both or neither"):
        Mushroom(FEATURES)
    with pytest.raises(ValueError, match=r"shape \(6, 6\) and edible of shape \(2,\)"):
        Mushroom(FEATURES, [True, False])


def test_the_registered_environment_is_the_published_table(real_data):
    env = gymnasium.make("tractable/Mushroom-v0")
    inner = env.unwrapped
    assert env.observation_space.shape == (95,)
    assert inner.features.shape == (8124, 95)
    assert int(inner.edible.sum()) == 4208
    seen, _ = env.reset(seed=0)
    assert env.observation_space.contains(seen)
    assert seen.sum() <= 22
