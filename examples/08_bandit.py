"""A contextual bandit with Thompson sampling.

The agent selects one of five advertisements for visitors with four features and observes whether
the visitor clicks. The click probabilities are known, so the regret is exact. Thompson sampling
draws one set of weights per visitor and selects the action that is best under it.

    python examples/08_bandit.py
"""

import torch
from torch import nn

import tractable as tr
from tractable.agents import Bandit, BanditPolicy, EpsilonGreedy, Thompson

FEATURES, ACTIONS, VISITORS = 4, 5, 1500


def play(policy: BanditPolicy, seed: int) -> torch.Tensor:
    """Return the regret of every step: the difference of the best and the chosen probability."""
    generator = torch.Generator().manual_seed(seed)
    taste = torch.randn(ACTIONS, FEATURES, generator=generator)
    net = nn.Sequential(nn.Linear(FEATURES + ACTIONS, 32), nn.ReLU(), nn.Linear(32, 1))
    learner = tr.TAGI(net, tr.likelihoods.Bernoulli(), gain=1.0, seed=seed)
    agent = Bandit(learner, policy, n_features=FEATURES, n_actions=ACTIONS, seed=seed)
    regrets = []
    for _ in range(VISITORS):
        visitor = torch.randn(FEATURES, generator=generator)
        chances = torch.special.ndtr(taste @ visitor)
        action = agent.act(visitor)
        click = float(torch.rand((), generator=generator) < chances[action])
        agent.update(visitor, action, click)
        regrets.append(chances.max() - chances[action])
    return torch.stack(regrets)


def main() -> None:
    """Compare Thompson sampling with random actions for the same visitors."""
    torch.set_num_threads(1)
    ours, chance = play(Thompson(n_samples=1), seed=0), play(EpsilonGreedy(1.0), seed=0)
    first, last = ours[:300].mean(), ours[-300:].mean()
    print(f"mean regret: first 300 visitors {first:.3f}, last 300 visitors {last:.3f}")
    print(f"total regret: Thompson sampling {ours.sum():.0f}, random {chance.sum():.0f}")

    assert last < 0.5 * first, "the regret decreases"
    assert ours.sum() < 0.4 * chance.sum(), "the agent is better than random"


if __name__ == "__main__":
    main()
