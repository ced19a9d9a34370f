"""Value networks against tables, Kalman filters and planning."""

import gymnasium
import numpy as np
import pytest
import torch
from torch import nn

import tractable as tr
from tests.agents.coin import Coin
from tractable.agents import MDP, EpsilonGreedy, QAgent, QTable
from tractable.agents.buffers import RolloutBuffer
from tractable.agents.returns import lambda_returns, n_step_returns, n_step_sums

CLIFF = "CliffWalking-v1"


def sgd(net, likelihood, *, seed):
    """Backprop whose step is that of a table: the gradient of half the squared error."""
    return tr.Backprop(
        net, likelihood, optimizer=torch.optim.SGD, lr=0.25, seed=seed, prior=None,
        dtype=torch.float64,
    )  # fmt: skip


def zeros(states, actions):
    net = nn.Linear(states, actions, bias=False)
    nn.init.zeros_(net.weight)
    return net


def test_a_linear_network_of_one_hot_states_equals_a_table():
    env = gymnasium.make("FrozenLake-v1")
    agent = QAgent(
        env,
        net=zeros(16, 4),
        learner=sgd,
        scale_rewards=False,
        target_std=1.0,
        target_std_decay=1.0,
        gamma=0.9,
    )
    weight = agent.critics[0].learner.state.vectors[0]
    with torch.no_grad():
        weight.zero_()
    table = QTable(16, 4, "q", gamma=0.9, learning_rate=0.25)
    rng = np.random.default_rng(0)
    for _ in range(300):
        state, action, following = rng.integers(16), rng.integers(4), rng.integers(16)
        reward, done = float(rng.normal()), bool(rng.random() < 0.1)
        table.update(int(state), int(action), reward, int(following), done=done)
        agent.update(int(state), int(action), reward, int(following), done=done)
        q = agent.value(np.arange(16)).loc
        assert torch.allclose(q, table.q, rtol=0, atol=1e-9)
    assert float(table.q.abs().max()) > 0.5


class KalmanTD:
    """Kalman temporal differences over a table: r = q(s) - gamma q(s') + noise, all correlated."""

    def __init__(self, mean, variance, gamma, noise):
        self.m, self.P = mean.copy(), np.diag(variance)
        self.gamma, self.noise = gamma, noise

    def learn(self, state, reward, following):
        h = np.zeros(len(self.m))
        h[state] = 1
        if following is not None:
            h[following] -= self.gamma
        gain = self.P @ h / (h @ self.P @ h + self.noise)
        self.m = self.m + gain * (reward - h @ self.m)
        self.P = self.P - np.outer(gain, h @ self.P)


def test_tagi_on_an_embedding_is_kalman_temporal_differences_on_a_chain():
    """From the end of the chain to its beginning, the next value of every state is known.

    Then the filter's marginal of a state, when it is learned, needs nothing of the covariances.
    """
    length, gamma, sigma = 8, 0.9, 0.3

    class Chain(gymnasium.Env):
        observation_space = gymnasium.spaces.Discrete(length)
        action_space = gymnasium.spaces.Discrete(1)

        def reset(self, *, seed=None, options=None):
            return 0, {}

    def tagi(net, likelihood, *, seed):
        return tr.TAGI(net, likelihood, dtype=torch.float64, seed=seed, robust=False)

    agent = QAgent(
        Chain(), net=nn.Embedding(length, 1), learner=tagi, scale_rewards=False, gamma=gamma,
        target_std=sigma, target_std_decay=1.0, min_target_std=sigma, memory_rows=None,
    )  # fmt: skip
    before = agent.value(np.arange(length))
    truth = KalmanTD(before.loc[:, 0].numpy(), before.variance[:, 0].numpy(), gamma, sigma**2)
    rewards = np.random.default_rng(1).normal(size=length)
    for state in reversed(range(length)):
        last = state == length - 1
        agent.update(state, 0, float(rewards[state]), 0 if last else state + 1, done=last)
        truth.learn(state, rewards[state], None if last else state + 1)
        known = agent.value(state)
        assert float(known.loc[0]) == pytest.approx(truth.m[state], abs=1e-6)
        assert float(known.variance[0]) == pytest.approx(truth.P[state, state], rel=1e-6)


def test_targets_by_monte_carlo():
    """Mean and variance of the targets, from draws of the values they are made of."""
    rng = np.random.default_rng(0)
    rewards, mean, variance = rng.normal(size=5), rng.normal(size=5), rng.random(5)
    no = np.zeros(5, dtype=bool)
    ends = np.array([False, False, False, False, True])
    draws = mean + np.sqrt(variance) * rng.standard_normal((200_000, 5))
    for build in (
        lambda m, v: n_step_returns(rewards, m, v, no, ends, gamma=0.9, n=2),
        lambda m, v: lambda_returns(rewards, m, v, no, ends, gamma=0.9, td_lambda=0.7),
    ):
        centre, spread = build(mean, variance)
        drawn = np.stack([build(one, 0 * variance)[0] for one in draws[:4_000]])
        assert np.allclose(drawn.mean(0), centre, atol=5 * np.sqrt(spread.max() / 4_000))
        assert np.allclose(drawn.var(0), spread, rtol=0.15)


def test_n_steps_stop_at_the_end_of_an_episode():
    rewards = np.array([1.0, 2.0, 4.0, 8.0])
    terminal = np.array([False, True, False, False])
    ends = np.array([False, False, False, True])
    total, last, factor = n_step_sums(rewards, terminal, ends, gamma=0.5, n=3)
    assert total.tolist() == [2.0, 2.0, 8.0, 8.0]
    assert last.tolist() == [1, 1, 3, 3]
    assert factor.tolist() == [0.0, 0.0, 0.25, 0.5]


@pytest.mark.parametrize("size", [8.0, 30.0])
def test_sums_of_rewards_are_bounded_as_sums(size, monkeypatch):
    """Rewards of 8 deviations are within the bound of 10, and so their sums are not cut off."""
    agent = QAgent(
        Coin(), hidden_layer_sizes=(4,), gamma=0.5, buffer_size=64, gradient_steps=1, n_step=3
    )
    agent.normalizer.returns.count = 1
    agent.normalizer.returns.variance = np.ones(1)
    rewards = size * np.array([1.0, 1.0, -1.0, 1.0, 1.0, 1.0])
    nowhere, never = np.zeros((6, 1)), np.zeros(6, dtype=bool)
    rollout = RolloutBuffer(
        nowhere, np.zeros((6, 1), dtype=np.int64), rewards, nowhere, never, never, []
    )
    critic, latest, taught = agent.critics[0], agent.trainer.replay_buffer, []
    nothing = np.zeros((6, 2))
    monkeypatch.setattr(critic, "train", lambda rows, actions, mean, *rest: taught.append(mean))
    monkeypatch.setattr(critic, "next_values", lambda: lambda rows: (nothing, nothing))
    monkeypatch.setattr(latest, "sample", lambda size, rng: latest.rows[:6])
    agent.trainer.train(rollout)
    alone = np.clip(rewards, -10, 10)  # as steps are learned without a replay buffer
    later = (np.zeros(6), np.zeros(6), rollout.terminated, rollout.segment_ends())
    truth, _ = n_step_returns(alone, *later, gamma=0.5, n=3)
    if size < 10:
        assert taught[0] == pytest.approx(truth, rel=1e-12)
    else:
        assert np.abs(taught[0]).max() == pytest.approx(17.5)  # 10 (1 + 1/2 + 1/4)


@pytest.mark.parametrize("name", ["FrozenLake-v1", CLIFF, "Taxi-v4"])
def test_learned_values_are_those_of_policy_iteration(name):
    """Repeated training on all transitions of a tabular environment gives planning's values."""
    if name not in gymnasium.registry:
        name = name.replace("v1", "v0").replace("v4", "v3")
    env = gymnasium.make(name)
    gamma = 0.8
    mdp = MDP.from_env(name, gamma)
    plan = mdp.policy_iteration()
    states, actions = mdp.n_states - 1, mdp.n_actions
    table = env.unwrapped.P
    # A step of 1 towards the mean over outcomes is a sweep of value iteration; one outcome at a
    # time is what an agent sees, so outcomes are repeated as often as they are likely.
    agent = QAgent(
        env, net=nn.Embedding(states, actions), learner=sweeper, scale_rewards=False, gamma=gamma,
        target_std=1.0, target_std_decay=1.0, batch_size=1_000_000,
    )  # fmt: skip
    repeat = 3 if name.startswith("FrozenLake") else 1
    rows = [
        (state, action, reward, following, done)
        for state in range(states)
        for action in range(actions)
        for chance, following, reward, done in table[state][action]
        for _ in range(round(repeat * chance))
    ]
    log = {
        "observations": np.array([r[0] for r in rows]),
        "actions": np.array([r[1] for r in rows]),
        "rewards": np.array([r[2] for r in rows], dtype=float),
        "next_observations": np.array([r[3] for r in rows]),
        "terminals": np.array([r[4] for r in rows]),
    }
    agent.critics[0].learner.state.vectors[0].detach().zero_()
    agent.fit(log, pessimism=0.0, epochs=50)
    learned = agent.value(np.arange(states)).loc
    assert torch.allclose(learned, plan.q[:-1].double(), atol=2e-3)
    best, _ = agent.predict(np.arange(states), deterministic=True)
    at = torch.arange(states)
    assert torch.allclose(plan.q[at, torch.as_tensor(best)], plan.values[:-1], atol=1e-3)


def sweeper(net, likelihood, *, seed):
    """Plain gradient descent whose step averages the outcomes of every state and action.

    The objective is a mean over the rows of a batch, which divides by as many as there are entries.
    """
    rows = net.num_embeddings * net.embedding_dim
    return tr.Backprop(
        net, likelihood, optimizer=torch.optim.SGD, lr=rows, seed=seed, prior=None,
        dtype=torch.float64,
    )  # fmt: skip


def test_sampled_values_are_one_function_per_seed():
    agent = QAgent("CartPole-v1", seed=3)
    rows = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    critic = agent.critics[0]
    one, again, other = (
        critic.sampled_values(1, 1.0),
        critic.sampled_values(1, 1.0),
        critic.sampled_values(2, 1.0),
    )
    assert np.array_equal(one(rows)[0], again(rows)[0])
    assert not np.allclose(one(rows)[0], other(rows)[0])
    assert not one(rows)[1].any()
    # Over many draws the moments are those of the learner's own samples.
    drawn = np.stack([critic.sampled_values(seed, 1.0)(rows)[0] for seed in range(1_500)])
    x = torch.from_numpy(rows)
    sampled = critic.learner.sample(x, 1_500, generator=torch.Generator().manual_seed(0)).numpy()
    error = np.sqrt(drawn.var(0) / 1_500 + sampled.var(0) / 1_500)
    assert (np.abs(drawn.mean(0) - sampled.mean(0)) < 4.5 * error).all()
    assert np.allclose(drawn.std(0), sampled.std(0), rtol=0.15)


@pytest.mark.parametrize("engine", ["torch", "native"])
def test_a_sampled_snapshot_is_the_network_with_those_weights(engine):
    net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    model = tr.TAGI(net, tr.likelihoods.Normal(0.1), engine=engine, seed=1)
    posterior = model.state.posterior
    noise = np.random.default_rng(0).standard_normal(posterior.loc.numel(), dtype=np.float32)
    weights = posterior.loc + posterior.variance.sqrt() * torch.from_numpy(noise)
    torch.nn.utils.vector_to_parameters(weights.detach(), net.parameters())
    x = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    mean, variance = model.snapshot(noise)(x.numpy())
    assert np.allclose(mean, net(x).detach().numpy(), atol=1e-5)
    assert not variance.any()


def test_double_q_chooses_with_one_network_and_evaluates_with_the_other():
    """Double Q-learning with a target network: E 19.21."""
    agent = QAgent(
        "CartPole-v1",
        double_q=True,
        target_update_interval=1_000,
        scale_rewards=False,
        gamma=0.5,
        seed=1,
    )
    x = np.array([[0.5, -1.0, 0.3, 2.0]])
    for k in range(200):  # until the two disagree about the best action
        agent.update(x[0], k % 2, float(3 * (k % 2 == 0)), x[0], done=True)
    critic = agent.critics[0]
    rows = agent.inputs(x)
    now, then = critic.values()(rows)[0][0], critic.next_values()(rows)[0][0]
    assert not np.allclose(now, then, atol=0.5)
    ahead, _ = agent.trainer._next_value(0, rows)
    assert ahead[0] == pytest.approx(float(then[now.argmax()]), abs=1e-6)


def test_equal_values_have_equal_probability():
    agent = QAgent("CartPole-v1", exploration=EpsilonGreedy(1.0), seed=0)
    drawn = [int(agent.predict(np.zeros(4))[0]) for _ in range(400)]
    assert 150 < sum(drawn) < 250
