"""Bandits: learning, policies and replay buffers."""

import copy
import math

import numpy as np
import pytest
import torch
from torch import nn

import tractable as tr
from tests.agents.toss import ACTIONS, FEATURES, Toss, agent, learners, net, same, state
from tractable.agents import Bandit, BanditReplay, EpsilonGreedy, Greedy
from tractable.agents.bandit.policies import mean_rewards, output_samples, weight_samples


@pytest.mark.parametrize("kind", ["tagi", "bbb", "backprop", "ensemble"])
def test_every_learner_is_better_than_random_actions(kind):
    memory = (
        {} if kind == "tagi" else {"replay": BanditReplay(256, batch_size=32, gradient_steps=2)}
    )
    bandit = agent(kind, EpsilonGreedy(0.1) if kind == "backprop" else None, **memory)
    regrets = bandit.learn(Toss(), 300, seed=1, progress=False).history.regrets
    blind = (
        agent("tagi", EpsilonGreedy(1.0)).learn(Toss(), 300, seed=1, progress=False).history.regrets
    )
    assert sum(regrets[200:]) < 0.4 * sum(blind[200:])


def test_rewards_of_zero_or_one():
    likelihood = tr.likelihoods.Bernoulli()
    bandit = Bandit(tr.TAGI(nn.Linear(2, 1, bias=False), likelihood), n_features=0, n_actions=2)
    for _ in range(30):
        bandit.update([], 0, 0).update([], 1, 1)
    assert [bandit.act([]) for _ in range(10)] == [1] * 10
    with pytest.raises(ValueError, match="whole numbers"):
        bandit.update([], 0, 0.5)


def test_reward_scale_does_not_change_the_posterior():
    plain, scaled = agent(), agent(reward_scale=4.0)
    for i in range(20):
        context = [i / 10, 1.0, -1.0]
        plain.update(context, i % 2, 0.5)
        scaled.update(context, i % 2, 2.0)
    assert same(state(plain), state(scaled))


# --- policies --------------------------------------------------------------------------------


def test_a_weight_sample_is_shared_by_all_actions():
    """A network that ignores the action makes actions equal under each draw of its weights."""
    learner = tr.TAGI(nn.Linear(FEATURES + ACTIONS, 1), tr.likelihoods.Normal(0.3))
    x = torch.tensor([[1.0, 2.0, 3.0, 0.0, 0.0]]).repeat(2, 1)
    generator = torch.Generator().manual_seed(0)
    shared = weight_samples(learner, x, 50, generator)
    apart = output_samples(learner, x, 50, generator)
    assert torch.equal(shared[:, 0], shared[:, 1])
    assert shared[:, 0].std() > 0.1
    assert not torch.equal(apart[:, 0], apart[:, 1])


@pytest.mark.parametrize("kind", ["weights", "outputs"])
def test_samples_have_the_moments_of_the_posterior(kind):
    """For a linear network both draws have the mean and variance of the network's output."""
    learner = tr.TAGI(nn.Linear(FEATURES + ACTIONS, 1), tr.likelihoods.Normal(0.3))
    x = torch.tensor([[1.0, -2.0, 3.0, 1.0, 0.0], [1.0, -2.0, 3.0, 0.0, 1.0]])
    draw = weight_samples if kind == "weights" else output_samples
    n = 5_000
    found = draw(learner, x, n, torch.Generator().manual_seed(0))
    mean, variance = (t.flatten() for t in learner.outputs(x).moments())
    error = (variance / n).sqrt()
    assert ((found.mean(0) - mean).abs() < 4 * error).all()
    assert found.var(0).tolist() == pytest.approx(variance.tolist(), rel=4 * math.sqrt(2 / n))


def test_epsilon_greedy_is_random_with_probability_epsilon():
    bandit = agent("backprop", EpsilonGreedy(0.4))
    context = [0.1, 0.2, 0.3]
    best = agent("backprop", Greedy()).act(context)
    n = 2000
    other = sum(bandit.act(context) != best for _ in range(n)) / n
    assert other == pytest.approx(0.2, abs=4 * math.sqrt(0.2 * 0.8 / n))


def test_an_ensemble_samples_one_of_its_members():
    learner = learners()["ensemble"]
    x = torch.randn(2, FEATURES + ACTIONS, generator=torch.Generator().manual_seed(3))
    members = torch.stack([mean_rewards(member, x) for member in learner.members])
    draws = weight_samples(learner, x, 100, torch.Generator().manual_seed(0))
    gaps = (draws[:, None] - members[None]).abs().amax(2)
    assert (gaps.amin(1) == 0).all()
    counts = gaps.argmin(1).bincount(minlength=3)
    assert (counts > 15).all()


def test_actions_are_determined_by_the_seed():
    def actions(seed):
        bandit = agent("tagi", seed=seed)
        return [bandit.act([0.0, 0.1, 0.0]) for _ in range(60)]

    assert actions(1) == actions(1)
    assert actions(1) != actions(2)
    bandit = agent("tagi", seed=5)
    bandit.generator = torch.Generator().manual_seed(1)
    assert [bandit.act([0.0, 0.1, 0.0]) for _ in range(60)] == actions(1)


# --- replay ----------------------------------------------------------------------------------


def test_default_replay_buffer_unless_the_method_is_online():
    normal = tr.likelihoods.Normal(0.3)
    online = [tr.TAGI(net(), normal), tr.Ensemble(net(), normal, n_estimators=2, learner=tr.TAGI)]
    others = [tr.Backprop(net(), normal), tr.BayesByBackprop(net(), normal)]
    others.append(tr.Ensemble(net(), normal, n_estimators=2))
    for learner in online:
        assert Bandit(learner, n_features=FEATURES, n_actions=ACTIONS).replay is None
    for learner in others:
        assert len(Bandit(learner, n_features=FEATURES, n_actions=ACTIONS).replay) == 0
    kept = Bandit(online[0], n_features=FEATURES, n_actions=ACTIONS, replay=BanditReplay(8))
    assert kept.replay.buffer_size == 8


def test_the_replay_buffer_keeps_the_latest_rows():
    memory = BanditReplay(4)
    rows = torch.arange(7.0).unsqueeze(1)
    memory.add(rows[:3], rows[:3])
    memory.add(rows[3:5], rows[3:5])
    assert sorted(memory.inputs.flatten().tolist()) == [1, 2, 3, 4]
    memory.add(rows, rows)
    assert sorted(memory.targets.flatten().tolist()) == [3, 4, 5, 6]
    assert len(memory) == 4


def test_a_batch_has_its_share_of_the_divergence(monkeypatch):
    bandit = agent("bbb", replay=BanditReplay(64, batch_size=16, gradient_steps=3))
    seen = []
    monkeypatch.setattr(bandit.learner, "learn_batch", lambda x, y, m: seen.append((x, m)))
    rows = np.zeros((40, FEATURES))
    bandit.warm_start(rows, [0, 1] * 20, np.zeros(40))
    assert not seen
    bandit.update(rows[0], 1, 0.0)
    assert [m.share for _, m in seen] == [16 / 41] * 3
    assert all(len(x) == 16 for x, _ in seen)


def test_the_schedule_is_stepped_once_per_step():
    bandit = agent("bbb")
    for _ in range(45):
        bandit.update([0.0, 0.0, 0.0], 0, 0.0)
    (group,) = bandit.learner.state.optimizer.param_groups
    assert group["lr"] == pytest.approx(1e-2 / 4)


def test_warm_start_without_a_replay_buffer_learns_once_in_order():
    primed, taught = agent(), agent()
    contexts = np.random.default_rng(0).normal(size=(10, FEATURES)).astype(np.float32)
    primed.warm_start(contexts, [0, 1] * 5, np.arange(10) / 10)
    for i in range(10):
        taught.update(contexts[i], i % 2, i / 10)
    assert same(state(primed), state(taught))


def test_memory_rows_follow_rewards_that_change():
    """Two arms swap their rewards after 2,000 steps; the choices 100 steps later are evaluated."""
    pays = {}
    for memory in (50, None):
        learner = tr.TAGI(nn.Linear(2, 1, bias=False), tr.likelihoods.Normal(0.5))
        bandit = Bandit(learner, n_features=0, n_actions=2, memory_rows=memory)
        for step in range(4000):
            bandit.update([], step % 2, float(step % 2))
        chosen = []
        for _ in range(400):
            action = bandit.act([])
            chosen.append(action)
            bandit.update([], action, float(action == 0))
        pays[memory] = np.mean([action == 0 for action in chosen[100:]])
    assert pays[50] > 0.9
    assert pays[None] < 0.5


def test_memory_rows_are_checked_and_saved(tmp_path):
    bandit = agent(memory_rows=20)
    bandit.update([0.1, 0.2, 0.3], 1, 1.0).save(tmp_path / "agent.tr")
    loaded = Bandit.load(tmp_path / "agent.tr")
    assert loaded.memory_rows == 20
    for one in (bandit, loaded):
        one.update([0.3, 0.2, 0.1], 0, 0.5)
    assert same(state(bandit), state(loaded))
    for memory in (1, 0, math.nan, math.inf):
        with pytest.raises(ValueError, match="number of rewards above 1"):
            agent(memory_rows=memory)
    with pytest.raises(ValueError, match="that is the memory"):
        agent("bbb", memory_rows=20)


def test_an_agent_can_be_copied():
    bandit = agent("backprop")
    twin = copy.deepcopy(bandit)
    twin.update([0.0, 0.0, 0.0], 1, 1.0)
    assert len(bandit.replay) == 0
