"""Comparison with a conjugate Thompson sampler on a bandit of Gaussian arms."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import StepLR

import tractable as tr
from tractable.agents import Bandit, BanditReplay, EpsilonGreedy, Greedy, Thompson

NOISE, MEANS = 1.0, (0.0, 0.5)
GAP = MEANS[1] - MEANS[0]


class Arms:
    """Rewards of two Gaussian arms, the same for every agent that is given the same seed."""

    def __init__(self, seed: int, steps: int, shift: float = 0.0) -> None:
        self.noise = shift + NOISE * np.random.default_rng(seed).normal(size=(steps, 2))

    def pull(self, step: int, arm: int) -> float:
        return MEANS[arm] + float(self.noise[step, arm])


class Conjugate:
    """Independent normal means with a normal prior, updated by the textbook's formulas."""

    def __init__(self, mean: np.ndarray, variance: np.ndarray, seed: int) -> None:
        self.mean, self.variance = mean.astype(float), variance.astype(float)
        self.random = np.random.default_rng(seed)

    def act(self) -> int:
        return int(np.argmax(self.random.normal(self.mean, np.sqrt(self.variance))))

    def learn(self, arm: int, reward: float) -> None:
        precision = 1 / self.variance[arm] + 1 / NOISE**2
        total = self.mean[arm] / self.variance[arm] + reward / NOISE**2
        self.mean[arm], self.variance[arm] = total / precision, 1 / precision


def linear_agent(seed: int, policy=None) -> Bandit:
    """One weight per arm: no hidden layer, no offset."""
    learner = tr.TAGI(
        nn.Linear(2, 1, bias=False), tr.likelihoods.Normal(NOISE), gain=2.0, seed=seed
    )
    learner.posterior.loc.zero_()
    return Bandit(learner, policy or Thompson(1), n_features=0, n_actions=2, seed=seed)


def moments(agent: Bandit) -> tuple[np.ndarray, np.ndarray]:
    posterior = agent.learner.posterior
    return posterior.loc.numpy().copy(), posterior.variance.numpy().copy()


def test_posterior_of_a_linear_network_is_conjugate():
    agent, arms = linear_agent(0), Arms(0, 200)
    exact = Conjugate(*moments(agent), seed=0)
    assert exact.variance.tolist() == [1.0, 1.0]
    for step in range(200):
        arm = agent.act([])
        agent.update([], arm, arms.pull(step, arm))
        exact.learn(arm, arms.pull(step, arm))
    mean, variance = moments(agent)
    assert mean.tolist() == pytest.approx(exact.mean.tolist(), abs=2e-6)
    assert variance.tolist() == pytest.approx(exact.variance.tolist(), rel=2e-5)


@pytest.mark.parametrize("space", ["weights", "outputs"])
def test_thompson_chooses_with_the_probability_of_being_best(space):
    """P(act = 1) is Phi of the gap of the means over its deviation, sqrt(v0 + v1)."""
    agent = linear_agent(1, Thompson(1, space=space))
    for reward in (0.3, 0.1):
        agent.update([], 0, reward)
    agent.update([], 1, 0.8)
    mean, variance = moments(agent)
    wanted = 0.5 * math.erfc(-(mean[1] - mean[0]) / math.sqrt(2 * variance.sum()))
    n = 3000
    share = np.mean([agent.act([]) for _ in range(n)])
    assert 0.55 < wanted < 0.95
    assert share == pytest.approx(wanted, abs=4 * math.sqrt(wanted * (1 - wanted) / n))


def test_averaging_two_samples_halves_the_variance():
    agent = linear_agent(1, Thompson(2))
    agent.update([], 1, 1.6)
    mean, variance = moments(agent)
    wanted = 0.5 * math.erfc(-(mean[1] - mean[0]) / math.sqrt(variance.sum()))
    n = 3000
    share = np.mean([agent.act([]) for _ in range(n)])
    assert share == pytest.approx(wanted, abs=4 * math.sqrt(wanted * (1 - wanted) / n))


def pulls(agent: Bandit, arms: Arms, steps: int) -> float:
    """Regret: the gap times the pulls of the worse arm."""
    regret = 0.0
    for step in range(steps):
        arm = agent.act([])
        agent.update([], arm, arms.pull(step, arm))
        regret += GAP * (arm == 0)
    return regret


def exact_regret(seed: int, steps: int) -> float:
    exact = Conjugate(np.zeros(2), np.ones(2), 10**6 + seed)  # not the stream of the arms
    arms, regret = Arms(seed, steps), 0.0
    for step in range(steps):
        arm = exact.act()
        exact.learn(arm, arms.pull(step, arm))
        regret += GAP * (arm == 0)
    return regret


def test_regret_is_that_of_the_conjugate_agent():
    """Mean regret over runs, against the conjugate agent's, within four standard errors."""
    runs, steps = 50, 80
    ours = np.array([pulls(linear_agent(seed), Arms(seed, steps), steps) for seed in range(runs)])
    exact = np.array([exact_regret(1000 + seed, steps) for seed in range(20 * runs)])
    error = math.hypot(ours.std(ddof=1) / math.sqrt(runs), exact.std(ddof=1) / math.sqrt(20 * runs))
    assert error < 0.15 * exact.mean()  # or the comparison would say little
    assert abs(ours.mean() - exact.mean()) < 4 * error
    blind = 0.5 * GAP * steps
    assert ours.mean() + 4 * error < blind


def test_thompson_beats_greedy_where_greedy_gets_stuck():
    """Both arms are better than the prior mean: the greedy policy stays with its first arm."""
    runs, steps = 12, 100

    def mean_of(policy) -> tuple[float, float]:
        agents = [linear_agent(seed, policy) for seed in range(runs)]
        found = [pulls(agent, Arms(s, steps, 0.7), steps) for s, agent in enumerate(agents)]
        return float(np.mean(found)), float(np.std(found, ddof=1) / math.sqrt(runs))

    (thompson, error), (greedy, more) = mean_of(Thompson(1)), mean_of(Greedy())
    assert thompson + 3 * math.hypot(error, more) < greedy


def test_bayes_by_backprop_samples_from_its_posterior():
    """Trained from a replay buffer, a linear network almost has the conjugate posterior."""
    learner = tr.BayesByBackprop(
        nn.Linear(2, 1, bias=False), tr.likelihoods.Normal(NOISE), lr=0.05,
        schedule=partial(StepLR, step_size=150, gamma=0.4), rho=(-1.0, -0.5), n_train_samples=4,
    )  # fmt: skip
    agent = Bandit(
        learner, Thompson(1), n_features=0, n_actions=2, replay=BanditReplay(16, batch_size=16)
    )
    rewards = np.array([0.3, 0.5, 0.1, 0.9, 1.1, 0.7, 0.4, 0.2])
    agent.warm_start(np.zeros((16, 0)), [0] * 8 + [1] * 8, [*rewards, *(rewards + 0.5)])
    # The memory of 16 is overwritten by the same rewards, round and round.
    for turn in range(45):
        for i, reward in enumerate([*rewards, *(rewards + 0.5)]):
            agent.update([], i // 8, float(reward))
        if turn == 35:
            before = agent.learner.posterior.loc.clone()
    exact = Conjugate(np.zeros(2), np.ones(2), 0)
    for i, reward in enumerate([*rewards, *(rewards + 0.5)]):
        exact.learn(i // 8, float(reward))
    posterior = agent.learner.posterior
    assert torch.allclose(before, posterior.loc, atol=0.05)
    assert posterior.loc.tolist() == pytest.approx(exact.mean.tolist(), abs=0.06)
    assert posterior.variance.tolist() == pytest.approx(exact.variance.tolist(), rel=0.25)


def test_regret_of_random_actions_is_half_the_gap():
    steps = 400
    regret = pulls(linear_agent(0, EpsilonGreedy(1.0)), Arms(0, steps), steps)
    assert regret / GAP == pytest.approx(steps / 2, abs=4 * math.sqrt(steps / 4))
