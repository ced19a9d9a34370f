"""A contextual bandit: doubt explores, and stops exploring when it is gone.

Five adverts, visitors described by four numbers, and a click or none.  The chance of a click is
known here, so regret is exact.  Thompson sampling draws one set of weights per visitor and shows
what would be best under it.

    python examples/08_bandit.py
"""

import torch
from torch import nn

import tractable as tr
from tractable.agents import Bandit, EpsilonGreedy, Policy, Thompson

FEATURES, ACTIONS, VISITORS = 4, 5, 1500


def play(policy: Policy, seed: int) -> torch.Tensor:
    """Regret of every step: the best chance of a click less that of what was shown."""
    generator = torch.Generator().manual_seed(seed)
    taste = torch.randn(ACTIONS, FEATURES, generator=generator)
    net = nn.Sequential(nn.Linear(FEATURES + ACTIONS, 32), nn.ReLU(), nn.Linear(32, 1))
    learner = tr.TAGI(net, tr.likelihoods.Bernoulli(), gain=1.0, seed=seed)
    agent = Bandit(learner, policy, features=FEATURES, actions=ACTIONS, seed=seed)
    regrets = []
    for _ in range(VISITORS):
        visitor = torch.randn(FEATURES, generator=generator)
        chances = torch.special.ndtr(taste @ visitor)
        action = agent.act(visitor)
        click = float(torch.rand((), generator=generator) < chances[action])
        agent.learn(visitor, action, click)
        regrets.append(chances.max() - chances[action])
    return torch.stack(regrets)


def main() -> None:
    """Thompson sampling against chance, over the same visitors."""
    torch.set_num_threads(1)
    ours, chance = play(Thompson(samples=1), seed=0), play(EpsilonGreedy(1.0), seed=0)
    first, last = ours[:300].mean(), ours[-300:].mean()
    print(f"regret per visitor: {first:.3f} at first, {last:.3f} at last")
    print(f"clicks lost in all: {ours.sum():.0f}; showing adverts at random: {chance.sum():.0f}")

    assert last < 0.5 * first, "it learns"
    assert ours.sum() < 0.4 * chance.sum(), "and lives from it"


if __name__ == "__main__":
    main()
