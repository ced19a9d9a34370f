"""Evaluation of agents, beside that of Stable-Baselines3."""

import gymnasium
import numpy as np
import pytest
from gymnasium import wrappers

from tests.agents.coin import Coin
from tractable.agents import QAgent, evaluate_policy


class Repeated(Coin):
    """Episodes that are always the same, whatever the seed of the reset."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=7)


@pytest.fixture(scope="module")
def agent():
    return QAgent(Coin(), hidden_layer_sizes=(4,), train_freq=32).learn(64)


def test_mean_and_standard_deviation_of_returns(agent):
    returns, lengths = evaluate_policy(agent, Coin(), 6, seed=3, return_episode_rewards=True)
    assert lengths == [10] * 6
    assert evaluate_policy(agent, Coin(), 6, seed=3) == (np.mean(returns), np.std(returns))
    again = [evaluate_policy(agent, Coin(), 1, seed=3 + k)[0] for k in range(6)]
    assert again == returns


@pytest.mark.parametrize("n_eval_episodes", [1, 4])
def test_stable_baselines3_returns_the_same(agent, n_eval_episodes):
    evaluation = pytest.importorskip("stable_baselines3.common.evaluation")
    theirs = evaluation.evaluate_policy(agent, Repeated(), n_eval_episodes, warn=False)
    assert evaluate_policy(agent, Repeated(), n_eval_episodes) == theirs
    theirs = evaluation.evaluate_policy(
        agent, Repeated(), n_eval_episodes, return_episode_rewards=True, warn=False
    )
    ours = evaluate_policy(agent, Repeated(), n_eval_episodes, return_episode_rewards=True)
    assert ours == theirs


def test_rewards_changed_by_a_wrapper_are_reported(agent):
    plain = evaluate_policy(agent, Coin(), 3)
    halved = wrappers.TransformReward(Coin(), lambda reward: reward / 2)
    with pytest.warns(UserWarning, match=r"wrapped in TransformReward.*RecordEpisodeStatistics"):
        assert evaluate_policy(agent, halved, 3)[0] == plain[0] / 2
    assert evaluate_policy(agent, halved, 3, warn=False)[0] == plain[0] / 2
    recorded = wrappers.RecordEpisodeStatistics(Coin())
    recorded = wrappers.TransformReward(recorded, lambda reward: reward / 2)
    assert evaluate_policy(agent, recorded, 3) == plain
    with pytest.warns(UserWarning, match="NormalizeReward"):
        evaluate_policy(agent, wrappers.NormalizeReward(Coin()), 1)
    limited = gymnasium.wrappers.TimeLimit(Coin(), 4)  # changes no rewards
    assert evaluate_policy(agent, limited, 2, return_episode_rewards=True)[1] == [4, 4]


def test_at_least_one_episode_is_needed(agent):
    with pytest.raises(ValueError, match="n_eval_episodes must be at least 1, got 0"):
        evaluate_policy(agent, Coin(), 0)
