"""Tabular learning: the book's numbers, convergence to planning and invalid input."""

import gymnasium
import pytest
import torch

from tractable.agents import MDP, Boltzmann, EpsilonGreedy, QTable
from tractable.agents.returns import discounted_returns


def test_returns():
    """RLR-01."""
    wanted = [2.1222, 2.358, 2.62, 1.8, 2]
    assert discounted_returns([0, 0, 1, 0, 2], 0.9) == pytest.approx(wanted)


@pytest.mark.parametrize(("rule", "wanted"), [("sarsa", 1.745), ("q", 1.97)])
def test_one_step(rule, wanted):
    """RLR-07."""
    table = QTable(3, 2, rule, gamma=0.9, learning_rate=0.1)
    table.tables[0] = torch.tensor([[1, 2], [0.5, 3], [0, 1]])
    assert table.update(0, 1, -1.0, 1, next_action=0) == pytest.approx(wanted)


@pytest.mark.parametrize(("mine", "wanted"), [(0, 1.736), (1, 0.845)])
def test_one_step_of_two_tables(mine, wanted):
    """RLR-07; one of them, at random, learns (D-41)."""
    table = QTable(3, 2, "double", gamma=0.9, learning_rate=0.1)
    table.tables[0] = torch.tensor([[1, 2], [0.5, 3], [0, 1]])
    table.tables[1] = torch.tensor([[0, 1], [2, 0.4], [1, 0]])
    before = table.tables.clone()
    assert table.update(0, 1, -1.0, 1, which=mine) == pytest.approx(wanted)
    assert torch.equal(table.tables[1 - mine], before[1 - mine])


@pytest.mark.parametrize(
    ("temperature", "wanted"),
    [
        (0.1, [4.5398e-5, 0.999954296, 3.0589e-7]),
        (1.0, [0.231223898, 0.628531719, 0.140244383]),
        (10.0, [0.327182269, 0.361592329, 0.311225402]),
    ],
)
def test_boltzmann(temperature, wanted):
    """RLR-08."""
    q = torch.tensor([1, 2, 0.5], dtype=torch.float64)
    policy = Boltzmann(temperature)
    assert policy.probabilities(q).tolist() == pytest.approx(wanted, rel=1e-4)
    assert bool(torch.isfinite(policy.probabilities(1e6 * q)).all())
    with pytest.raises(ValueError, match="temperature must be positive"):
        Boltzmann(0.0)


def test_exploration():
    q = torch.tensor([1.0, 3.0, 3.0, 0.0])
    assert EpsilonGreedy(0.2).probabilities(q).tolist() == pytest.approx([0.05, 0.45, 0.45, 0.05])
    mixed = Boltzmann(1.0, epsilon=0.2).probabilities(q)
    assert torch.allclose(mixed, 0.8 * torch.softmax(q, 0) + 0.05)
    with pytest.raises(ValueError, match="epsilon is a probability"):
        EpsilonGreedy(1.5)


@pytest.mark.parametrize("rule", ["q", "sarsa", "double"])
def test_tabular_learning_converges_to_planning(rule):
    """On random experience, with an ever smaller step, q-learning goes to the best values.

    SARSA goes to those of the policy that acts, here the uniform one.
    """
    generator = torch.Generator().manual_seed(0)
    p = torch.rand(4, 2, 4, generator=generator, dtype=torch.float64)
    p = p / p.sum(2, keepdim=True)
    r = torch.rand(4, 2, generator=generator, dtype=torch.float64)
    mdp = MDP(p, r, 0.7)
    table = QTable(4, 2, rule, gamma=0.7, seed=1)
    state, action = 0, 0
    for k in range(20_000):
        reward, following, _ = mdp.sample_step(state, action, generator)
        then = int(torch.randint(2, (), generator=generator))
        table.step = 1 / (1 + k / 100) ** 0.7
        table.update(state, action, reward, following, next_action=then)
        state, action = following, then
    uniform = mdp.q(mdp.evaluate(torch.full((4, 2), 0.5)))
    wanted = uniform if rule == "sarsa" else mdp.policy_iteration().q
    assert (table.q - wanted).abs().max() < 0.1  # of values of about 2


def test_monte_carlo_learns_whole_episodes():
    table = QTable(3, 1, "monte-carlo", gamma=0.5, learning_rate=1.0)
    table.learn_episode([(0, 0, 1.0), (1, 0, 2.0), (2, 0, 4.0)])
    assert table.q.squeeze(1).tolist() == [3.0, 4.0, 4.0]
    with pytest.raises(TypeError, match="at the end of an episode"):
        table.update(0, 0, 1.0, 1)


@pytest.mark.parametrize("rule", ["q", "sarsa", "monte-carlo"])
def test_frozen_lake_without_slipping_is_solved(rule):
    env = gymnasium.make("FrozenLake-v1", is_slippery=False)
    table = QTable(16, 4, rule, gamma=0.95, learning_rate=0.3, seed=0)
    table.learn(env, 400, exploration=EpsilonGreedy(0.3))
    state, _ = env.reset(seed=0)
    for _ in range(20):
        state, reward, done, _, _ = env.step(int(table.policy[state]))
        if done:
            break
    assert reward == 1.0


def test_the_seed_determines_the_table():
    env = gymnasium.make("CliffWalking-v1")
    first, second = (QTable(48, 4, "double", seed=3).learn(env, 5, max_steps=50) for _ in range(2))
    assert first == second


def test_invalid_arguments_of_a_table():
    with pytest.raises(ValueError, match="rule must be one of q, sarsa, double, monte-carlo"):
        QTable(2, 2, "td")
    with pytest.raises(ValueError, match="learning_rate must lie between 0 and 1"):
        QTable(2, 2, learning_rate=0.0)
    with pytest.raises(ValueError, match="sarsa needs the next action"):
        QTable(2, 2, "sarsa").update(0, 0, 1.0, 1)
    with pytest.raises(ValueError, match="the reward in state 0 is NaN"):
        QTable(2, 2).update(0, 0, float("nan"), 1)
    table = QTable(2, 2, "monte-carlo")
    with pytest.raises(ValueError, match="the reward in state 1 is NaN or infinite"):
        table.learn_episode([(0, 0, 1.0), (1, 0, float("nan"))])
    assert not bool(table.q.any())
    with pytest.raises(TypeError, match="see TAGIControl for continuous actions"):
        QTable(2, 2).learn(gymnasium.make("Pendulum-v1"), 1)
