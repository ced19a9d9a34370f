"""What positions have in common, under functions in place: as without them."""

from __future__ import annotations

import torch
from torch import nn

import tractable as tr
from tractable.gaussian import Gaussian


class Block(nn.Module):
    """A residual block that changes its state in place, or does not."""

    def __init__(self, in_place: bool) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.in_place = in_place

    def forward(self, x):
        h = nn.functional.relu(self.first(x), inplace=self.in_place)
        if self.in_place:
            h += self.second(h)
        else:
            h = h + self.second(h)
        return h.mean((2, 3))


def test_in_place_changes_nothing_about_a_mean_over_positions():
    x = torch.randn(3, 2, 8, 8, generator=torch.Generator().manual_seed(0))
    found = []
    for in_place in (True, False):
        torch.manual_seed(1)
        net = Block(in_place)
        weights = {n: Gaussian(p.detach(), 0.05) for n, p in net.named_parameters()}
        found.append(torch.func.functional_call(net, weights, (x,)))
    assert torch.allclose(found[0].loc, found[1].loc)
    assert torch.allclose(found[0].variance, found[1].variance)
    model = tr.TAGI(nn.Sequential(Block(True), nn.Linear(4, 1)), tr.likelihoods.Normal(0.5))
    before = model.posterior.loc.clone()
    model.update(x, torch.ones(3, 1))
    assert not torch.equal(before, model.posterior.loc)


class Cached(nn.Module):
    """As caches of attention do: the first step is joined to an empty tensor without dimensions."""

    def __init__(self):
        super().__init__()
        self.lift, self.head = nn.Linear(2, 4), nn.Linear(4, 1)

    def forward(self, x):
        h = self.lift(x)
        return self.head(torch.cat([torch.zeros(0), h], dim=-2).mean(1))


def test_an_empty_part_changes_nothing():
    x = torch.randn(3, 5, 2, generator=torch.Generator().manual_seed(0))
    net = Cached()
    weights = {n: Gaussian(p.detach(), 0.05) for n, p in net.named_parameters()}
    found = torch.func.functional_call(net, weights, (x,))
    plain = nn.Sequential(net.lift, Mean(), net.head)
    named = dict(zip(dict(plain.named_parameters()), weights.values(), strict=True))
    expected = torch.func.functional_call(plain, named, (x,))
    assert torch.allclose(found.variance, expected.variance)


class Mean(nn.Module):
    def forward(self, x):
        return x.mean(1)
