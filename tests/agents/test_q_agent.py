"""Q-learning agents: training, resumption, files and invalid input."""

import gymnasium
import numpy as np
import pytest
import torch
from torch import nn

import tractable as tr
from tests.agents.coin import Coin
from tractable.agents import DeepSea, EpsilonGreedy, QAgent, QSettings, evaluate_policy
from tractable.errors import EnvironmentFault, InvalidInput, InvalidModelFile

ONE_PASS = {
    "buffer_size": 0,
    "gradient_steps": 1,
    "n_step": None,
    "memory_rows": None,
    "thompson_scale": 0.5,
    "min_target_std": 0.3,
}


def small(**settings):
    """Return a small agent, by default without a replay buffer."""
    return QAgent(
        Coin(), hidden_layer_sizes=(16,), train_freq=32, gamma=0.5, **{**ONE_PASS, **settings}
    )


KINDS = {
    "defaults": {name: getattr(QSettings(), name) for name in ONE_PASS},
    "one pass": {},
    "a draw per step": {"thompson_interval": "step"},
    "heads": {"n_critics": 2, "double_q": True},
    "replay": {"buffer_size": 200, "gradient_steps": 4, "n_step": 2},
    "target": {"target_update_interval": 2, "double_q": True},
    "priority buffer": {"priority_buffer_size": 16},
    "epsilon": {"exploration": EpsilonGreedy(0.1)},
    "n steps": {"n_step": 3},
}


@pytest.mark.parametrize("kind", KINDS)
def test_rewarded_actions_are_learned(kind):
    agent = small(**KINDS[kind]).learn(1_600)
    assert evaluate_policy(agent, Coin(), 5)[0] > 8.5  # of 10; chance has 5


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_agent_equals_an_uninterrupted_one(kind, tmp_path):
    through = small(**KINDS[kind]).learn(320)
    stopped = small(**KINDS[kind]).learn(160, checkpoint=tmp_path / "a")
    again = QAgent.load(tmp_path / "a", Coin()).learn(160)
    assert stopped.steps == 160
    assert again.episodes == through.episodes
    assert again.training_log == through.training_log
    for one, two in zip(again.critics, through.critics, strict=True):
        mine, theirs = one.learner.state_dict(), two.learner.state_dict()
        assert all(torch.equal(mine[name], theirs[name]) for name in theirs)


@pytest.mark.parametrize(
    "learner",
    [
        lambda net, likelihood, seed: tr.Backprop(net, likelihood, lr=1e-2, seed=seed),
        lambda net, likelihood, seed: tr.Ensemble(
            net, likelihood, n_estimators=2, lr=1e-2, seed=seed
        ),
    ],
    ids=["backprop", "ensemble"],
)
def test_gradient_based_learners(learner, tmp_path):
    """The book's DQN: replay buffer, target network, double Q-learning, epsilon-greedy."""
    agent = small(
        learner=learner,
        buffer_size=300,
        gradient_steps=12,
        target_update_interval=4,
        double_q=True,
        target_std=0.3,
        exploration=EpsilonGreedy(0.2),
    )
    agent.learn(320)
    assert evaluate_policy(agent, Coin(), 3)[0] > 6.5
    assert agent.value(np.zeros(1)).variance.shape == (2,)
    agent.save(tmp_path / "a")
    again = QAgent.load(tmp_path / "a", Coin())
    assert torch.equal(again.value([0.3]).loc, agent.value([0.3]).loc)


def test_memory_rows_affect_online_learners_only():
    """TAGI forgets older rows; gradient-based learners ignore the setting."""

    def backprop(net, likelihood, seed):
        return tr.Backprop(net, likelihood, seed=seed)

    for learner, same in ((backprop, True), (None, False)):
        short, whole = (small(learner=learner, memory_rows=m).learn(96) for m in (50.0, None))
        at = torch.linspace(-1, 1, 5)[:, None].numpy()
        assert torch.equal(short.value(at).loc, whole.value(at).loc) is same


def test_thompson_sampling_with_bayes_by_backprop():
    agent = small(
        learner=lambda net, likelihood, seed: tr.BayesByBackprop(net, likelihood, seed=seed),
        thompson_scale=1.0,
    )
    draw = agent.critics[0].sampled_values(7, 1.0)
    one, two = np.array([[0.1]], dtype=np.float32), np.array([[0.1], [0.9]], dtype=np.float32)
    assert np.allclose(draw(one)[0][0], draw(two)[0][0], atol=1e-6)  # whatever else is asked
    agent.learn(64)


def test_values_are_in_units_of_the_rewards():
    """All actions have reward 5 at each of ten steps, with and without reward scaling."""

    class Same(Coin):
        def step(self, action):
            seen, _, _terminal, truncated, info = super().step(action)
            return seen, 5.0, truncated, False, info

    for scaled in (True, False):
        agent = QAgent(
            Same(),
            hidden_layer_sizes=(),
            train_freq=40,
            gamma=0.0,
            scale_rewards=scaled,
            min_target_std=0.1,
            exploration=EpsilonGreedy(1.0),
        ).learn(800)
        value = agent.value([[0.2], [-0.4]])
        assert value.loc.flatten().tolist() == pytest.approx([5.0] * 4, abs=0.5)
        assert bool((value.variance > 0).all())


def test_callbacks_stop_and_seeds_differ(tmp_path):
    seen = []
    agent = small(seed=1).learn(640, callback=lambda a, _: seen.append(a.steps) or a.steps >= 96)
    assert seen == [32, 64, 96]
    assert agent.steps == 96
    assert agent.episodes != small(seed=2).learn(96).episodes
    assert agent.episodes == small(seed=1).learn(96).episodes


def test_offline_training_avoids_actions_without_data():
    """Three actions; the log lacks the third, and rewards the second where x > 0."""

    class Three(Coin):
        action_space = gymnasium.spaces.Discrete(3)

    rng = np.random.default_rng(0)
    x, a = rng.uniform(-1, 1, (400, 1)), rng.integers(2, size=400)
    log = {
        "observations": x, "actions": a, "rewards": ((x[:, 0] > 0) == a) * 1.0 - 2.0,
        "next_observations": x, "terminals": np.ones(400, dtype=bool),
    }  # fmt: skip
    agent = QAgent(Three(), hidden_layer_sizes=(16,), gamma=0.5, gain=1.0).fit(log, pessimism=2.0)
    at = np.array([[0.6], [-0.6], [0.9]])
    assert agent.predict(at, deterministic=True)[0].tolist() == [1, 0, 1]
    known = agent.value(at)
    assert bool((known.variance[:, 2] > 4 * known.variance[:, :2].amax(1)).all())
    # All rewards are negative, so what was never tried looks best to whoever believes means.
    naive = QAgent(Three(), hidden_layer_sizes=(16,), gamma=0.5, gain=1.0).fit(log, pessimism=0.0)
    assert 2 in naive.predict(at, deterministic=True)[0].tolist()


LOG = {
    "observations": np.zeros((2, 1)), "actions": [0, 1], "rewards": [0.0, 1.0],
    "next_observations": np.zeros((2, 1)), "terminals": [False, True],
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"actions": [0, 7]}, "unknown action .*7.* in row 1"),
        ({"actions": [0.5, 1]}, "unknown action"),
        ({"rewards": [float("nan"), 1.0]}, "reward of row 0 is nan"),
        ({"rewards": [1.0]}, "one row per step"),
        ({"observations": np.full((2, 1), np.inf)}, "NaN or infinite"),
        ({"observations": np.zeros((2, 3))}, "must have shape"),
        ({name: [] for name in LOG}, "the log is empty"),
    ],
)
def test_invalid_logs_are_refused(change, message):
    agent = small()
    before = agent.value([0.0]).loc
    with pytest.raises(InvalidInput, match=message):
        agent.fit({**LOG, **change})
    assert torch.equal(agent.value([0.0]).loc, before)
    with pytest.raises(InvalidInput, match="has no rewards"):
        agent.fit({k: v for k, v in LOG.items() if k != "rewards"})
    with pytest.raises(InvalidInput, match="a log is a mapping"):
        agent.fit([1, 2])


def test_invalid_environments_are_refused(tmp_path):
    with pytest.raises(TypeError, match="TAGIControl"):
        QAgent("Pendulum-v1")

    class Words(Coin):
        observation_space = gymnasium.spaces.Text(5)

    with pytest.raises(TypeError, match="Box of numbers or Discrete"):
        QAgent(Words())

    class Broken(Coin):
        pays = float("nan")

    with pytest.raises(EnvironmentFault, match="a reward of nan") as caught:
        QAgent(Broken(), hidden_layer_sizes=(4,), train_freq=32).learn(
            64, checkpoint=tmp_path / "kept"
        )
    assert str(tmp_path / "kept") in str(caught.value)
    assert QAgent.load(tmp_path / "kept", Coin()).steps == 0
    with pytest.raises(ValueError, match="NaN or infinite"):
        small().predict([float("nan")])
    with pytest.raises(ValueError, match="no state 99"):
        QAgent("FrozenLake-v1").value(99)
    with pytest.raises(ValueError, match="an output for each of 2 actions"):
        QAgent(Coin(), net=nn.Linear(1, 3))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gamma": 1.5}, "gamma"),
        ({"thompson_interval": "year"}, "thompson_interval"),
        ({"train_freq": 0}, "train_freq"),
        ({"thompson_scale": 0.0}, "thompson_scale"),
        ({"double_q": True}, "second network"),
        ({"buffer_size": -1}, "buffer_size"),
        ({"hidden_layer_sizes": (0,)}, "hidden_layer_sizes"),
        ({"memory_rows": 1.0}, "memory_rows"),
        ({"n_step": 0}, "n_step"),
    ],
)
def test_invalid_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        QAgent(Coin(), **settings)


def test_damaged_files_are_refused(tmp_path):
    agent = small(priority_buffer_size=4).learn(32)
    agent.save(tmp_path / "a")
    with pytest.raises(InvalidModelFile, match="does not name its environment"):
        QAgent.load(tmp_path / "a")
    whole = (tmp_path / "a").read_bytes()
    (tmp_path / "b").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InvalidModelFile):
        QAgent.load(tmp_path / "b", Coin())
    with pytest.raises(InvalidModelFile):
        QAgent.load(tmp_path / "a", "CartPole-v1")
    tr.TAGI(nn.Linear(1, 1), tr.likelihoods.Normal(0.1)).save(tmp_path / "c")
    with pytest.raises(InvalidModelFile, match="does not hold a QAgent"):
        QAgent.load(tmp_path / "c", Coin())


def test_deep_sea():
    """Only moving right at every step leads to the reward; observations are cells."""
    env, numbered = DeepSea(4, seed=5), DeepSea(4, seed=5, one_hot=False)
    for world in (env, numbered):
        seen, _ = world.reset(seed=0)
        total = 0.0
        for k in range(4):
            assert (int(np.argmax(seen)) if world is env else seen) == 5 * k
            seen, reward, done, cut, _ = world.step(int(world.right[k, k]))
            total += reward
            assert (done, cut) == (k == 3, False)
        assert total == pytest.approx(0.99)
    env.reset(seed=0)
    paid = [env.step(int(1 - env.right[env.row, env.column]))[1] for _ in range(4)]
    assert paid == [0.0] * 4
    with pytest.raises(ValueError, match="size"):
        DeepSea(1)


def test_unscaled_observations_are_not_clipped():
    agent = small(scale_observations=False)
    assert agent.inputs(np.array([[250.0], [-40.0]])).tolist() == [[250.0], [-40.0]]
    assert small().inputs(np.array([[250.0]])).tolist() == [[10.0]]  # until there is a scale
