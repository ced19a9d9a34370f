"""The ordinary module with the posterior means and the learned running statistics."""

from functools import partial

import pytest
import torch
from torch import nn

import tractable as tr
from tractable.learners import Learner


class Scaled(nn.Module):
    """A custom layer whose buffer tracks the batches."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("size", torch.ones(4))

    def forward(self, x):
        if self.training:
            self.size.lerp_(x.detach().abs().mean(0), 0.1)
        return self.linear(x / self.size)


NETWORKS = {
    "plain": lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)),
    "batch norm": lambda: nn.Sequential(
        nn.BatchNorm1d(4), nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1)
    ),
    "convolutions": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 2, 2)), nn.Conv2d(1, 4, 2), nn.BatchNorm2d(4), nn.ReLU(),
        nn.Flatten(), nn.Linear(4, 1),
    ),
    "frozen": lambda: nn.Sequential(
        nn.Linear(4, 8).requires_grad_(False), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1)
    ),
}  # fmt: skip
LEARNERS = {
    "TAGI": tr.TAGI,
    "TAGI published": partial(tr.TAGI, batch_rule="published", robust=False),
    "BayesByBackprop": partial(tr.BayesByBackprop, lr=1e-2, n_weight_samples=5),
    "Backprop": partial(tr.Backprop, lr=1e-2),
    "Laplace": partial(tr.Laplace, lr=1e-2),
    "Laplace last layer": partial(tr.Laplace, lr=1e-2, structure="last_layer"),
}
NORMAL = tr.likelihoods.Normal


def rows(seed: int, scale: float = 1.0):
    draw = torch.Generator().manual_seed(seed)
    x = 3 + scale * torch.randn(128, 4, generator=draw)
    return x, ((x - 3) / scale).sum(1) + 0.1 * torch.randn(128, generator=draw)


def by_hand(model: Learner, net: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Return the network with means and buffers assigned one by one."""
    tensors = {**model.posterior.means(), **model.state.buffers}
    return torch.func.functional_call(net.eval(), tensors, (x,)).detach()


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("seed", [0, 1])
def test_mean_module_has_the_means_and_running_statistics(network, learner, seed):
    x, y = rows(seed, scale=(1.0, 5.0)[seed])
    torch.manual_seed(seed)
    net = NETWORKS[network]()
    model = LEARNERS[learner](net, NORMAL(0.1), seed=seed).fit(x, y, epochs=3, batch_size=32)
    module = model.mean_module()
    assert not module.training
    torch.testing.assert_close(module(x).detach(), by_hand(model, net, x))
    if learner != "BayesByBackprop":  # whose predictions are means over draws
        expected = model.outputs(model.checks.inputs(x)).moments()[0]
        torch.testing.assert_close(module(x).detach(), expected, rtol=1e-4, atol=1e-4)


def test_the_module_and_the_learner_are_independent():
    x, y = rows(0)
    model = tr.TAGI(NETWORKS["batch norm"](), NORMAL(0.1)).fit(x, y, epochs=2)
    module, before = model.mean_module(), {n: t.clone() for n, t in model.state_dict().items()}
    with torch.no_grad():
        for part in [*module.parameters(), *module.buffers()]:
            part.zero_()
    assert all(torch.equal(part, before[name]) for name, part in model.state_dict().items())
    module = model.mean_module()
    held = {name: part.clone() for name, part in module.state_dict().items()}
    model.fit(x, y, epochs=1)
    assert all(torch.equal(part, held[name]) for name, part in module.state_dict().items())


@pytest.mark.parametrize("learner", [tr.BayesByBackprop, tr.Backprop])
def test_buffers_of_custom_layers_are_included(learner):
    x, y = rows(0)
    net = nn.Sequential(Scaled(), nn.Linear(4, 1))
    model = learner(net, NORMAL(0.1), lr=1e-2).fit(x, y, epochs=2)
    module = model.mean_module()
    assert float(module[0].size.mean()) > 1.5
    torch.testing.assert_close(module(x).detach(), by_hand(model, net, x))


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("kind", [tr.TAGI, tr.Backprop])
def test_an_ensemble_has_one_for_each_member(network, kind):
    x, y = rows(0)
    net = NETWORKS[network]()
    model = tr.Ensemble(net, NORMAL(0.1), n_estimators=2, learner=kind).fit(
        x, y, epochs=2, batch_size=32
    )
    for member in model.members:
        found = member.mean_module()(x).detach()
        torch.testing.assert_close(found, by_hand(member, net, x))
    with pytest.raises(TypeError, match=r"members\[i\]\.mean_module"):
        model.mean_module()
    one = tr.Ensemble(net, NORMAL(0.1), n_estimators=1, learner=kind).fit(
        x, y, epochs=2, batch_size=32
    )
    torch.testing.assert_close(one.mean_module()(x).detach(), by_hand(one.members[0], net, x))


@pytest.mark.parametrize("network", ["batch norm", "convolutions", "frozen"])
def test_a_posterior_refuses_a_network_with_buffers(network):
    """It holds parameters only, so the statistics of the given network would be used."""
    x, y = rows(0)
    net = NETWORKS[network]()
    model = tr.TAGI(net, NORMAL(0.1)).fit(x, y, epochs=1)
    for given in (net, model.net):
        with pytest.raises(TypeError, match=r"running_mean.*mean_module"):
            model.posterior.to_module(given)


def test_a_posterior_still_fills_a_network_without_buffers():
    x, y = rows(0)
    net = NETWORKS["plain"]()
    model = tr.TAGI(net, NORMAL(0.1)).fit(x, y, epochs=1)
    found = model.posterior.to_module(net)
    torch.testing.assert_close(found(x), model.mean_module()(x))


def test_the_summary_of_a_network_is_at_its_running_statistics():
    x, y = rows(0, scale=5.0)
    model = tr.Backprop(NETWORKS["batch norm"](), NORMAL(0.1), lr=1e-2)
    model.fit(x, y, epochs=5, batch_size=32)
    last = tr.diagnostics.summary(model, x, y).layers[-1]
    assert last.output_std == pytest.approx(
        float(model.mean_module()(x).detach().std(correction=0))
    )
    assert tr.diagnostics.summary(model.mean_module(), x).layers[-1].output_std == last.output_std
