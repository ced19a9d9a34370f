"""Random functions called by a network use the learner's generator, under every learner."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tractable as tr
from tractable.learners.network.rng import ForwardRng

X, Y = torch.randn(16, 4, generator=torch.Generator().manual_seed(0)), torch.ones(16, 1)


class Dropped(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(F.dropout(x, 0.5, self.training))


class Noisy(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        z = super().forward(x)
        return z + torch.randn_like(z)


class Attending(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(2, 1, dropout=0.5, batch_first=True)
        self.head = nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = x.unflatten(1, (2, 2))
        z: Tensor = self.head(self.attention(x, x, x, need_weights=False)[0].flatten(1))
        return z


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(2, 2, 2, dropout=0.5, batch_first=True)
        self.head = nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.head(self.lstm(x.unflatten(1, (2, 2)))[0].flatten(1))
        return z


NETS: list[Any] = [lambda: Dropped(4, 1), lambda: Noisy(4, 1), Attending, Recurrent]
LEARNERS: list[Any] = [tr.TAGI, tr.BayesByBackprop, tr.Backprop]


@pytest.mark.parametrize("kind", LEARNERS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("make", NETS, ids=["F.dropout", "randn_like", "attention", "LSTM"])
def test_the_global_generator_is_neither_used_nor_changed(kind: Any, make: Any) -> None:
    torch.manual_seed(5)
    net = make()
    found = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        learner = kind(net, tr.likelihoods.Normal(1.0), seed=3)
        for _ in range(3):
            learner.update(X, Y)
        prediction = learner.predict(X)
        assert torch.equal(torch.get_rng_state(), before)
        found.append((learner.posterior.loc.clone(), prediction.mean, prediction.std))
    for a, b in zip(*found, strict=True):
        assert torch.equal(a, b)


def test_predictions_are_the_same_at_every_call() -> None:
    learner: Any = tr.BayesByBackprop(
        Noisy(4, 1), tr.likelihoods.Normal(1.0), seed=3, n_weight_samples=3
    )
    first = learner.predict(X).mean
    for _ in range(3):
        assert torch.equal(learner.predict(X).mean, first)


def test_steps_draw_different_random_numbers() -> None:
    """Each pass has a separate seed."""
    chance = ForwardRng(torch.device("cpu"))
    generator = torch.Generator().manual_seed(0)
    drawn = []
    for _ in range(5):
        with chance.drawing_from(generator, train=True):
            drawn.append(float(torch.rand(())))
    assert len(set(drawn)) == 5


def test_a_deterministic_network_does_not_advance_the_generator() -> None:
    chance = ForwardRng(torch.device("cpu"))
    generator = torch.Generator().manual_seed(0)
    before = generator.get_state()
    for _ in range(9):
        with chance.drawing_from(generator, train=True):
            pass
    assert torch.equal(generator.get_state(), before)
    assert not chance.is_random[True]


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("first", [2, 3, 6, 100])
def test_random_numbers_drawn_in_later_passes_are_detected(first: int, train: bool) -> None:
    """Only the first random pass depends on the global generator."""
    found = []
    for seed in range(3):
        chance = ForwardRng(torch.device("cpu"))
        generator = torch.Generator().manual_seed(0)
        torch.manual_seed(seed)
        drawn = []
        for number in range(1, first + 4):
            with chance.drawing_from(generator, train=train):
                if number >= first:
                    drawn.append(float(torch.rand(())))
        found.append(drawn)
    assert len({drawn[0] for drawn in found}) == 3
    assert found[0][1:] == found[1][1:] == found[2][1:]


def test_random_numbers_of_other_threads_are_not_attributed_to_the_network() -> None:
    """Another thread draws during a pass, which does not affect this network."""
    chance = ForwardRng(torch.device("cpu"))
    generator = torch.Generator().manual_seed(0)
    before = generator.get_state()
    for number in range(6):
        with chance.drawing_from(generator, train=True):
            if number == 3:
                torch.rand(())
    assert not chance.is_random[True]
    assert torch.equal(generator.get_state(), before)


class Rising(nn.Linear):
    """Applies no dropout in its first passes."""

    passes = 0

    def forward(self, x: Tensor) -> Tensor:
        type(self).passes += 1
        return super().forward(F.dropout(x, 0.5 if type(self).passes > 4 else 0.0, self.training))


@pytest.mark.parametrize("kind", LEARNERS, ids=lambda kind: kind.__name__)
def test_a_network_that_draws_later_does_not_advance_the_global_generator(kind: Any) -> None:
    Rising.passes = 0
    learner = kind(Rising(4, 1), tr.likelihoods.Normal(1.0), seed=3)
    for _ in range(8):
        learner.update(X, Y)
    before = torch.get_rng_state()
    for _ in range(5):
        learner.update(X, Y)
        learner.predict(X)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("engine", ["auto", "torch", "compiled"])
def test_all_passes_of_a_learner_are_counted_together(engine: str) -> None:
    """Updates, predictions and statistics share one ``ForwardRng``."""
    net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1))
    options: Any = {"compile": True} if engine == "compiled" else {"engine": engine}
    method = tr.TAGI(net, tr.likelihoods.Normal(), **options).method
    assert method.eager is getattr(method.engine, "eager", method.engine)
    noisy = tr.TAGI(Noisy(4, 1), tr.likelihoods.Normal(), engine="torch")
    noisy.update(X, Y)
    assert noisy.method.eager.forward_rng.is_random[True]
