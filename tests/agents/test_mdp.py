"""Planning: the book's numbers, linear programming and invalid input."""

import gymnasium
import numpy as np
import pytest
import torch
from scipy.optimize import linprog

from tractable.agents import MDP

TRANSITIONS = np.stack(
    [
        [[0.9, 0.1, 0], [0.1, 0.8, 0.1], [0, 0.1, 0.9]],
        [[0.2, 0.8, 0], [0, 0.2, 0.8], [0.8, 0, 0.2]],
    ],
    axis=1,
)
REWARDS = [[0, -1], [1, 0], [2, -0.5]]


@pytest.fixture
def mdp():
    return MDP(TRANSITIONS, REWARDS, 0.9)


def test_values_of_the_uniform_policy(mdp):
    """RLR-02."""
    v = mdp.evaluate(np.full((3, 2), 0.5))
    assert v.tolist() == pytest.approx([1.520817578, 3.130895992, 2.848286431])
    q = mdp.q(v).flatten().tolist()
    wanted = [1.513642877, 1.527992278, 3.647464475, 2.614327509, 4.588892648, 1.107680213]
    assert q == pytest.approx(wanted)


def test_the_best_policy(mdp):
    """RLR-03, by both iterations."""
    wanted = [11.690833557, 12.67488609, 15.156124363, 15.824175824, 18.021978022, 11.869874028]
    for plan in (mdp.policy_iteration(), mdp.value_iteration(1e-12)):
        assert plan.q.flatten().tolist() == pytest.approx(wanted)
        assert plan.policy.tolist() == [1, 1, 0]


def test_policy_iteration_step_by_step(mdp):
    """RLR-04."""
    plan = mdp.policy_iteration([1, 1, 1])
    wanted = [
        [-5.2301819, -4.567707164, -5.202110936],
        [4.736842105, 10, 15.263157895],
        [12.67488609, 15.824175824, 18.021978022],
    ]
    assert plan.value_history.flatten().tolist() == pytest.approx(
        [v for row in wanted for v in row]
    )
    assert mdp.greedy_policy(wanted[0]).tolist() == [0, 0, 0]


def test_iterative_evaluation(mdp):
    """RLR-05."""
    uniform = np.full((3, 2), 0.5)
    assert mdp.evaluate_iteratively(uniform, 1).tolist() == pytest.approx([-0.5, 0.5, 0.75])
    assert mdp.evaluate_iteratively(uniform, 2).tolist() == pytest.approx(
        [-0.545, 1.00625, 0.96375]
    )
    far = mdp.evaluate_iteratively(uniform, 400)
    assert torch.allclose(far, mdp.evaluate(uniform))


def test_the_bellman_operator_is_a_contraction(mdp):
    """RLR-06, and on random tables: never farther apart than gamma times before."""
    one, two = ([[1, 2], [0, -1], [3, 0.5]], [[0, 1], [2, 1], [1, 1]])
    apart = (mdp.bellman(one) - mdp.bellman(two)).abs().amax()
    assert float(apart) == pytest.approx(1.44)
    rng = np.random.default_rng(0)
    for _ in range(20):
        a, b = rng.normal(size=(2, 3, 2))
        apart = float((mdp.bellman(a) - mdp.bellman(b)).abs().amax())
        assert apart <= 0.9 * np.abs(a - b).max() + 1e-12


@pytest.mark.parametrize("seed", range(5))
def test_best_values_are_those_of_a_linear_program(seed):
    """The least v with v >= q(v) for every action."""
    rng = np.random.default_rng(seed)
    p, r = rng.dirichlet(np.ones(6), size=(6, 3)), rng.normal(size=(6, 3))
    mdp = MDP(p, r, 0.95)
    bounds = (0.95 * p - np.eye(6)[:, None]).reshape(18, 6)
    found = linprog(np.ones(6), bounds, -r.reshape(18), bounds=(None, None))
    assert mdp.policy_iteration().values.numpy() == pytest.approx(found.x, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_policy_improvement_is_monotone(seed):
    """The theorem of policy improvement (RLR-13 as an inequality, D-44)."""
    rng = np.random.default_rng(seed)
    mdp = MDP(rng.dirichlet(np.ones(5), size=(5, 3)), rng.normal(size=(5, 3)), 0.9)
    policy = rng.dirichlet(np.ones(3), size=5)
    v = mdp.evaluate(policy)
    better = mdp.evaluate(mdp.greedy_policy(v))
    assert bool((better >= v - 1e-10).all())
    q = mdp.q(v)
    assert bool((better >= q.gather(1, mdp.greedy_policy(v)[:, None]).squeeze(1) - 1e-10).all())


def test_rewards_of_transitions_and_terminal_states():
    p = [[[0, 1.0, 0]], [[0, 0, 1.0]], [[1.0, 0, 0]]]
    r = np.zeros((3, 1, 3))
    r[0, 0, 1], r[1, 0, 2], r[2, 0, 0] = 1, 10, 99
    mdp = MDP(p, r, 1.0, terminal_states=[2])
    assert mdp.evaluate([0, 0, 0]).tolist() == [11, 10, 0]
    generator = torch.Generator().manual_seed(0)
    assert mdp.sample_step(1, 0, generator) == (10.0, 2, True)
    with pytest.raises(ValueError, match="state 2 ends an episode"):
        mdp.sample_step(2, 0, generator)


@pytest.mark.parametrize(
    ("name", "start", "wanted"),
    [
        ("CliffWalking-v1", 36, -13.0),  # along the cliff: 13 steps
        ("FrozenLake-v1", 0, None),
        ("Taxi-v4", 0, None),
    ],
)
def test_processes_of_gymnasium_environments(name, start, wanted):
    env = gymnasium.make(name)
    mdp = MDP.from_env(env, gamma=1.0 if wanted else 0.99)
    plan = mdp.value_iteration(1e-12)
    if wanted is not None:
        assert float(plan.values[start]) == pytest.approx(wanted)
        return
    exact = mdp.policy_iteration(plan.policy)
    assert torch.allclose(exact.values, plan.values, atol=1e-8)
    rng, returns = np.random.default_rng(0), []
    for _ in range(300):  # the value of the first state, by acting
        state, _ = env.reset(seed=int(rng.integers(2**31)))
        done, cut, total, discount = False, False, -float(plan.values[state]), 1.0
        while not (done or cut):
            state, reward, done, cut, _ = env.step(int(plan.policy[state]))
            total, discount = total + discount * float(reward), 0.99 * discount
        returns.append(total)
    error = np.std(returns) / len(returns) ** 0.5
    assert abs(np.mean(returns)) < 5 * error + 0.05  # episodes are cut off at 100 or 200 steps


def test_invalid_processes_and_policies_are_refused(mdp):
    bad = TRANSITIONS.copy()
    bad[1, 0, 0] = 0.5
    for arguments, said in (
        ((bad, REWARDS), "transitions of action 0 in state 1 sum to 1.4"),
        ((TRANSITIONS[0], REWARDS), r"must have the shape \[states, actions, states\]"),
        ((TRANSITIONS, [[0.0]]), r"rewards must have the shape \(3, 2\) or \(3, 2, 3\)"),
        ((TRANSITIONS, [[0, np.nan], [1, 0], [2, 0]]), "reward of action 1 in state 0 is NaN"),
        ((TRANSITIONS, REWARDS, 1.5), "gamma must lie between 0 and 1, got 1.5"),
    ):
        with pytest.raises(ValueError, match=said):
            MDP(*arguments)
    with pytest.raises(ValueError, match="gamma is 1, and from state 0 this policy never comes"):
        MDP(TRANSITIONS, REWARDS, 1.0).evaluate([0, 0, 0])
    with pytest.raises(ValueError, match="probabilities of actions in state 1 do not sum"):
        mdp.evaluate([[0.5, 0.5], [0.5, 0.6], [1, 0]])
    with pytest.raises(ValueError, match="an action for each of 3 states"):
        mdp.evaluate([0, 1])
    with pytest.raises(ValueError, match="numbered from 0 to 1"):
        mdp.evaluate([0, 1, 2])
    with pytest.raises(TypeError, match="has no table of its transitions"):
        MDP.from_env("CartPole-v1")
