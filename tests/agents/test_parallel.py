"""Training with several seeds: independence of processes, and errors before the training."""

from functools import partial

import pytest
import torch
from torch import nn

from tests.agents.coin import Coin
from tractable.agents import ActorCritic, PolicyGradient, QAgent, TAGIControl, train_seeds
from tractable.errors import InvalidModelFile

KINDS = {
    "policy gradient": partial(PolicyGradient, episodes_per_update=2, hidden_layer_sizes=(8,)),
    "actor-critic": partial(ActorCritic, n_steps=40, hidden_layer_sizes=(8,)),
    "q": partial(QAgent, train_freq=40, hidden_layer_sizes=(8,), buffer_size=100),
}


class Odd(nn.Module):
    """Layers that a file cannot describe."""

    def __init__(self, inputs=1):
        super().__init__()
        self.inner = nn.Linear(inputs, 2)

    def forward(self, x):
        return torch.sin(self.inner(x))


def weights(agent):
    if isinstance(agent, QAgent):
        return [agent.critics[0].learner.posterior.loc]
    return list(agent.actor.net.parameters())


def same(one, other):
    assert one.steps == other.steps
    assert one.episodes == other.episodes
    assert all(torch.equal(a, b) for a, b in zip(weights(one), weights(other), strict=True))


def linear():
    torch.manual_seed(5)
    return nn.Linear(1, 2)


@pytest.mark.parametrize("kind", KINDS)
def test_every_seed_has_its_own_network_and_environment(kind, tmp_path):
    net = linear()
    before = [p.detach().clone() for p in net.parameters()]
    make = partial(KINDS[kind], Coin(), net=net)
    agents = train_seeds(make, [3, 4, 5], 80, tmp_path, n_jobs=1)
    for agent in agents:
        same(agent, KINDS[kind](Coin(), net=linear(), seed=agent.seed).learn(80))
    assert all(torch.equal(p, q) for p, q in zip(net.parameters(), before, strict=True))
    assert len({id(agent.env) for agent in agents}) == 3
    further = train_seeds(make, [3, 4, 5], 160, tmp_path, n_jobs=1)
    for agent, longer in zip(agents, further, strict=True):
        same(agent.learn(160 - agent.steps), longer)


def test_the_number_of_processes_does_not_matter(tmp_path):
    make = partial(PolicyGradient, "CartPole-v1", net=Odd(4), episodes_per_update=2)
    agents = train_seeds(make, [3, 4], 60, tmp_path, n_jobs=2)
    assert [agent.seed for agent in agents] == [3, 4]
    for agent in agents:
        same(agent, make(seed=agent.seed).learn(60))
    further = train_seeds(make, [3, 4], 120, tmp_path, n_jobs=1)  # goes on from the files
    for agent, longer in zip(agents, further, strict=True):
        same(agent.learn(120 - agent.steps), longer)


def test_invalid_seeds_and_factories_are_refused(tmp_path):
    make = partial(PolicyGradient, Coin())
    with pytest.raises(ValueError, match="different seeds"):
        train_seeds(make, [1, 1], 64, tmp_path)
    with pytest.raises(TypeError, match="a class of agents or a"):
        train_seeds(lambda seed: make(seed=seed), [1, 2], 64, tmp_path)


class OwnNet(PolicyGradient):
    """Builds its own network, which ``load`` cannot."""

    taken = 0

    def __init__(self, env, *, seed=0, **options):
        super().__init__(env, net=Odd(), seed=seed, **options)

    def learn(self, *arguments, **options):
        type(self).taken += 1
        return super().learn(*arguments, **options)


def test_agents_that_cannot_be_loaded_are_refused_before_they_are_trained(tmp_path):
    with pytest.raises((InvalidModelFile, TypeError)):
        train_seeds(partial(OwnNet, Coin()), [0, 1], 60, tmp_path, n_jobs=1)
    assert OwnNet.taken == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", list(KINDS)[:2])
def test_the_network_of_the_user_is_copied(kind):
    net = Odd()
    before = net.inner.weight.detach().clone()
    first, second = (KINDS[kind](Coin(), net=net, seed=0) for _ in range(2))
    first.learn(80)
    assert torch.equal(net.inner.weight, before)
    same(first, second.learn(80))


@pytest.mark.parametrize("every", [0, -1])
def test_checkpoint_every_must_be_at_least_one(every, tmp_path):
    agents = [
        TAGIControl(
            "Pendulum-v1", n_steps=20, policy_hidden_layer_sizes=(4,), value_hidden_layer_sizes=(4,)
        ),
        *(make(Coin()) for make in KINDS.values()),
    ]
    for agent in agents:
        with pytest.raises(ValueError, match="checkpoint_every must be at least 1"):
            agent.learn(20, checkpoint=tmp_path / "a.tr", checkpoint_every=every)
