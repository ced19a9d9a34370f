"""Policy gradients: the book's numbers, enumeration of all trajectories, training and files."""

import itertools

import gymnasium
import numpy as np
import pytest
import torch
from torch import nn

import tractable as tr
from tests.agents.coin import Coin
from tractable.agents import (
    ActorCritic,
    PolicyGradient,
    evaluate_policy,
)
from tractable.agents.buffers import RolloutBuffer
from tractable.agents.returns import (
    control_variate_coefficient,
    discounted_returns,
    min_variance_baseline,
)
from tractable.errors import InvalidModelFile

THETA, PAYS = torch.tensor([0.2, -0.1, 0.4]).double(), torch.tensor([1.0, 0.0, 3.0]).double()


def bandit():
    """Probabilities, scores (a row per arm) and rewards of RLR-09's bandit."""
    chances = torch.softmax(THETA, 0)
    return chances, torch.eye(3).double() - chances, PAYS


def test_the_gradient_of_a_bandit():
    """RLR-09."""
    chances, scores, pays = bandit()
    assert float(chances @ pays) == pytest.approx(1.574564595)
    gradient = (chances * pays) @ scores
    assert gradient.tolist() == pytest.approx([-0.193964123, -0.393780933, 0.587745056])


def test_optimal_control_variate_coefficient():
    """RLR-10."""
    a, b = torch.tensor([1.0, 2, 4, 7]).double(), torch.tensor([0.0, 1, 1, 3]).double()
    c = control_variate_coefficient(a, b)
    less = a - c * (b - b.mean())
    assert float(c) == pytest.approx(2)
    assert float(a.var(correction=0)) == pytest.approx(5.25)
    assert float(less.var(correction=0)) == pytest.approx(0.5)
    assert pytest.approx(0.904761905) == 1 - 0.5 / 5.25
    assert float(less.mean()) == pytest.approx(3.5)
    assert float(control_variate_coefficient(a, torch.ones(4).double())) == 0


def test_minimum_variance_baselines():
    """RLR-14: D-10 and D-11, one ratio of expectations, per component."""
    chances, scores, pays = bandit()
    single = min_variance_baseline(scores, pays, chances, per_component=False)
    each = min_variance_baseline(scores, pays, chances)
    assert float(single) == pytest.approx(1.334668617)
    assert each.tolist() == pytest.approx([1.292813399, 0.5251034, 1.999877922])

    def variance(baseline):
        rows = scores * (pays.unsqueeze(1) - baseline)
        return float((chances @ rows.square() - (chances @ rows).square()).sum())

    found = [variance(b) for b in (0.0, chances @ pays, single, each)]
    assert found == pytest.approx([1.62512787, 0.49866717, 0.461059402, 0.230527338])


def test_returns_to_go_begin_with_the_reward_of_the_step():
    """D-08, D-09."""
    done = [False, False, False, False, True]
    rewards = [0.0, 0, 1, 0, 2]
    wanted = [2.1222, 2.358, 2.62, 1.8, 2]
    assert discounted_returns(rewards, 0.9, done) == pytest.approx(wanted)


class Grid(gymnasium.Env):
    """Two numbered states; not for acting."""

    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return 0, {}


@pytest.mark.parametrize("baseline", ["none", "mean", "component", "state"])
def test_gradients_by_enumerating_all_trajectories(baseline):
    """The mean over all trajectories of three steps is the derivative of the expected return.

    Of the baselines only those that do not look at the trajectories keep it so exactly: ``none``
    and ``state``.  ``mean`` and ``component`` do here, because their sums run over all of them.
    """
    rng = np.random.default_rng(0)
    moves, pays = rng.dirichlet(np.ones(2), size=(2, 2)), rng.normal(size=(2, 2))
    gamma, length = 0.8, 3
    net = nn.Linear(2, 2, bias=False).double()
    agent = PolicyGradient(Grid(), net=net, baseline=baseline, gamma=gamma, weigh_by_discount=True)

    def expected(weight):
        chances = torch.softmax(weight.T, 1)  # a row per state
        value = torch.zeros(2).double()
        for _ in range(length):
            q = torch.from_numpy(pays) + gamma * torch.from_numpy(moves) @ value
            value = (chances * q).sum(1)
        return value[0]

    truth = torch.autograd.functional.jacobian(expected, net.weight.detach()).flatten()
    chances = torch.softmax(net.weight.detach().T, 1).numpy()
    rows: list[list] = [[], [], [], [], []]
    for acts in itertools.product(range(2), repeat=length):
        for after in itertools.product(range(2), repeat=length - 1):
            states, chance = (0, *after), 1.0
            for t in range(length):
                chance *= chances[states[t], acts[t]]
                if t + 1 < length:
                    chance *= moves[states[t], acts[t], states[t + 1]]
            for t in range(length):
                step = (states[t], acts[t], pays[states[t], acts[t]], t + 1 == length, chance)
                for column, entry in zip(rows, step, strict=True):
                    column.append(entry)
    found = agent.gradient(*(np.array(column) for column in rows[:4]), weights=np.array(rows[4]))
    assert torch.allclose(found.double(), truth, atol=1e-9)
    # One sampled batch alone is off: what is tested could fail.
    few = agent.gradient(*(np.array(column[:6]) for column in rows[:4]))
    assert not torch.allclose(few.double(), truth, atol=1e-2)


def test_scores_are_derivatives_of_log_probabilities():
    agent = PolicyGradient("CartPole-v1", baseline="component", hidden_layer_sizes=(8,), seed=1)
    x = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    actions = np.array([0, 1, 1, 0, 1])
    scores = agent.actor.scores(x, actions)
    for k in range(5):
        chance = agent.actor.log_probabilities(x[k : k + 1])[0, actions[k]]
        parts = torch.autograd.grad(chance, list(agent.actor.net.parameters()))
        flat = torch.cat([part.flatten() for part in parts])
        assert torch.allclose(scores[k], flat, atol=1e-6)


def test_variance_of_advantages():
    """Against draws of the critic's values, taken as independent from step to step."""
    agent = ActorCritic("CartPole-v1", hidden_layer_sizes=(8,), gae_lambda=0.5, gamma=0.9, seed=2)
    rng = np.random.default_rng(1)
    rollout = RolloutBuffer(
        rng.normal(size=(4, 4)), np.zeros((4, 1), dtype=np.int64), np.ones(4),
        rng.normal(size=(4, 4)),
        np.array([False, False, True, False]), np.zeros(4, dtype=bool), [],
    )  # fmt: skip
    advantage, target = agent.advantages(rollout)
    values = agent.critic.values()
    here, after = (
        values(agent.inputs(part)) for part in (rollout.observations, rollout.next_observations)
    )
    drawn = []
    for _ in range(4_000):
        v, w = (m[:, 0] + np.sqrt(s[:, 0]) * rng.standard_normal(4) for m, s in (here, after))
        g3 = 1 + 0.9 * w[3]
        g1 = 1 + 0.9 * (0.5 * w[1] + 0.5 * 1.0)
        g0 = 1 + 0.9 * (0.5 * w[0] + 0.5 * g1)
        drawn.append(np.array([g0, g1, 1.0, g3]) - v)
    drawn = np.stack(drawn)
    error = 5 * drawn.std(0) / np.sqrt(len(drawn))
    assert (np.abs(advantage.loc.numpy() - drawn.mean(0)) < error).all()
    assert np.allclose(advantage.variance.numpy(), drawn.var(0), rtol=0.15)
    assert float(target.variance[2]) == 0  # what ended is known


MAKERS = {
    "component": lambda **o: PolicyGradient(
        Coin(), baseline="component", hidden_layer_sizes=(8,), gamma=0.5, lr=0.02, **o
    ),
    "state": lambda **o: PolicyGradient(Coin(), hidden_layer_sizes=(8,), gamma=0.5, lr=0.02, **o),
    "actor-critic": lambda **o: ActorCritic(
        Coin(), hidden_layer_sizes=(8,), gamma=0.5, n_steps=80, lr=1e-2, epochs=3, **o
    ),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_policies_learn_and_resume_exactly(kind, tmp_path):
    through = MAKERS[kind]().learn(1_000)
    assert evaluate_policy(through, Coin(), 5)[0] > 7.5  # of 10; chance has 5
    stopped = MAKERS[kind]().learn(160, checkpoint=tmp_path / "a")
    again = type(stopped).load(tmp_path / "a", Coin()).learn(160)
    straight = MAKERS[kind]().learn(320)
    assert again.episodes == straight.episodes
    theirs = straight.actor.parameters
    assert all(torch.equal(p, theirs[name]) for name, p in again.actor.parameters.items())
    with pytest.raises(InvalidModelFile, match="does not hold"):
        (ActorCritic if kind != "actor-critic" else PolicyGradient).load(tmp_path / "a", Coin())


def test_a_critic_by_another_learner(tmp_path):
    agent = ActorCritic(
        Coin(), critic=lambda net, likelihood, seed: tr.Backprop(net, likelihood, seed=seed),
        hidden_layer_sizes=(8,), n_steps=40,
    )  # fmt: skip
    agent.learn(80, checkpoint=tmp_path / "a")
    again = ActorCritic.load(tmp_path / "a", Coin())
    assert again.steps == 80
    assert again.predict([0.5], deterministic=True)[0] in (0, 1)


def test_invalid_arguments_are_refused():
    with pytest.raises(TypeError, match="TAGIControl"):
        ActorCritic("Pendulum-v1")
    with pytest.raises(ValueError, match="baseline must be one of"):
        PolicyGradient(Coin(), baseline="median")
    with pytest.raises(ValueError, match="requires baseline='state'"):
        PolicyGradient(Coin(), baseline="mean", critic=tr.TAGI)
    with pytest.raises(ValueError, match="gamma"):
        ActorCritic(Coin(), gamma=2.0)
    with pytest.raises(ValueError, match="n_steps"):
        ActorCritic(Coin(), n_steps=0)
    with pytest.raises(ValueError, match="n_steps must be at least 2"):
        ActorCritic(Coin(), n_steps=1)  # the spread of one advantage is no number
    with pytest.raises(ValueError, match="checkpoint_every must be at least 1"):
        ActorCritic(Coin()).learn(1, checkpoint_every=0)
