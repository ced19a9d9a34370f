"""Targets of every step: results equal those of the part, and missing steps are ignored."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tractable as tr
from tractable.errors import InvalidInput, InvalidTarget
from tractable.likelihoods import (
    Bernoulli,
    Categorical,
    HeteroscedasticNormal,
    Laplace,
    Likelihood,
    Mixture,
    NegativeBinomial,
    Normal,
    Ordinal,
    PerStep,
    Poisson,
    Softmax,
    StudentT,
    VonMises,
)
from tractable.testing.gaussians import generator, normal

D = torch.float64
COUNTS = torch.tensor([[0.0, 2, 1], [4, 0, 3]], dtype=D)
NUMBERS = torch.tensor([[0.3, -1.2, 0.7], [2.0, 0.1, -0.4]], dtype=D)
LABELS = torch.tensor([[0, 3, 1], [2, 2, 0]])
EVERY: list[tuple[Likelihood, int, Tensor]] = [
    (Normal(0.5), 1, NUMBERS),
    (Normal(0.5), 2, torch.stack([NUMBERS, -NUMBERS], -1)),
    (HeteroscedasticNormal(), 2, NUMBERS),
    (Laplace(), 1, NUMBERS),
    (StudentT(), 1, NUMBERS),
    (VonMises(), 2, NUMBERS),
    (Mixture(Normal(0.5), 2), 4, NUMBERS),
    (Bernoulli(), 1, (NUMBERS > 0).long()),
    (Categorical(4), 3, LABELS),
    (Softmax(4), 4, LABELS),
    (Ordinal(4), 1, LABELS),
    (Poisson(), 1, COUNTS),
    (NegativeBinomial(), 1, COUNTS),
]


def case(part: Likelihood, outputs: int, y: Tensor) -> tuple[Any, ...]:
    steps = PerStep(part).double()
    width = steps.outputs if not isinstance(part, Normal) else outputs
    mean = normal(torch.zeros(2, 3, width, dtype=D), generator("mean"))
    return steps, y, mean, torch.full_like(mean, 0.3)


@pytest.mark.parametrize("given", EVERY, ids=lambda g: f"{type(g[0]).__name__}-{g[1]}")
def test_steps_are_rows_of_the_part(given: Any) -> None:
    steps, y, mean, variance = case(*given)
    part = steps.part
    seen = steps.check_targets(y, mean.shape)
    rows = y.flatten(0, 1)
    own = part.check_targets(rows, torch.Size([6, mean.shape[-1]]))
    flat = [m.flatten(0, 1) for m in (mean, variance)]
    for ask in ("log_evidence", "messages"):
        got, wanted = getattr(steps, ask)(seen, mean, variance), getattr(part, ask)(own, *flat)
        if ask == "log_evidence":
            torch.testing.assert_close(got, wanted.reshape(2, 3).sum(1))
        else:
            for mine, theirs in zip(got, wanted, strict=True):
                torch.testing.assert_close(mine, theirs.reshape(mean.shape))
    torch.testing.assert_close(
        steps.log_prob(seen, mean), part.log_prob(own, flat[0]).reshape(2, 3).sum(1)
    )
    found = steps.predictive(mean, variance)
    torch.testing.assert_close(
        found.step_log_prob(y), part.predictive(*flat).log_prob(rows).reshape(2, 3)
    )
    assert found.mean.shape[:2] == (2, 3)


@pytest.mark.parametrize("given", EVERY, ids=lambda g: f"{type(g[0]).__name__}-{g[1]}")
def test_a_missing_step_sends_no_message(given: Any) -> None:
    steps, y, mean, variance = case(*given)
    gone = y.clone()
    gone[1, 1:] = torch.nan if y.is_floating_point() else -100
    seen = steps.check_targets(gone, mean.shape)
    d_mu, d_var = steps.messages(seen, mean, variance)
    assert not d_mu[1, 1:].any()
    assert not d_var[1, 1:].any()
    whole = steps.messages(steps.check_targets(y, mean.shape), mean, variance)
    torch.testing.assert_close(d_mu[0], whole[0][0])
    torch.testing.assert_close(d_mu[1, :1], whole[0][1, :1])
    short = steps.log_evidence(steps.check_targets(y[1:, :1], mean[1:, :1].shape), mean[1:, :1],
                               variance[1:, :1])  # fmt: skip
    torch.testing.assert_close(steps.log_evidence(seen, mean, variance)[1:], short)
    found = steps.predictive(mean, variance).log_prob(gone)
    alone = steps.predictive(mean[1:, :1], variance[1:, :1]).log_prob(y[1:, :1])
    torch.testing.assert_close(found[1:], alone)


class Reader(nn.Module):
    """Outputs at every step."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.layer, self.head = nn.GRU(1, 8, batch_first=True), nn.Linear(8, outputs)

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.head(self.layer(x)[0])
        return z


@pytest.mark.parametrize("kind", ["TAGI", "Backprop", "BayesByBackprop", "Laplace"])
def test_every_learner_learns_steps_and_ignores_padding(kind: str) -> None:
    """What stands in padded inputs and targets changes no weight."""
    x = torch.randn(12, 5, 1, generator=torch.Generator().manual_seed(0))
    y = (x.cumsum(1) > 0).long().squeeze(-1)
    y[6:, 3:] = -100
    models = []
    for filler in (0.0, 7.0):
        padded = x.clone()
        padded[6:, 3:] = filler
        likelihood = PerStep(Softmax(2) if kind != "TAGI" else Categorical(2))
        torch.manual_seed(0)
        net = Reader(2 if kind != "TAGI" else 1)
        model = getattr(tr, kind)(net, likelihood, seed=0)
        models.append(model.fit(padded, y, epochs=3, batch_size=6, distance_aware=False))
    first, second = (model.predict(x) for model in models)
    torch.testing.assert_close(first.probs, second.probs, rtol=1e-4, atol=1e-5)
    assert first.probs.shape == (12, 5, 2)
    assert first.labels.shape == (12, 5)
    assert first.sample(4).shape[:3] == (4, 12, 5)


def test_several_dimensions_of_steps(tmp_path: Any) -> None:
    """A segmentation: every pixel has a class; saved and loaded."""
    net = nn.Sequential(nn.Conv2d(1, 2, 1), _Last())
    model = tr.TAGI(net, PerStep(Categorical(3)))
    x, y = torch.randn(4, 1, 5, 6), torch.randint(3, (4, 5, 6))
    y[0] = -100
    model.update(x, y)
    assert model.predict(x).probs.shape == (4, 5, 6, 3)
    model.save(tmp_path / "model.safetensors")
    again = tr.TAGI.load(tmp_path / "model.safetensors", net)
    torch.testing.assert_close(again.predict(x).probs, model.predict(x).probs)


class _Last(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.movedim(1, -1)


def test_noise_is_learned_from_the_steps_that_are_there() -> None:
    steps = PerStep(Normal(None))
    y = torch.randn(24, 10, generator=torch.Generator().manual_seed(0)) * 0.3
    y[16:] = math.nan
    model = tr.TAGI(Reader(1), steps).fit(torch.zeros(24, 10, 1), y, epochs=6, batch_size=4)
    assert 0.2 < float(model.predict(torch.zeros(1, 10, 1)).std.mean()) < 0.4


def test_bad_targets_are_refused() -> None:
    steps, shape = PerStep(Categorical(4)), torch.Size([2, 3, 3])
    with pytest.raises(InvalidTarget, match=r"\(2, 3\) rows and steps, got shape \(2, 2\)"):
        steps.check_targets(LABELS[:, :2], shape)
    with pytest.raises(InvalidTarget, match=r"lie in 0\.\.3"):
        steps.check_targets(LABELS + 2, shape)
    with pytest.raises(InvalidTarget, match="all targets are missing"):
        steps.check_targets(torch.full((2, 3), -100), shape)
    with pytest.raises(InvalidTarget, match="kept the last step only"):
        steps.check_targets(LABELS[:, 0], torch.Size([2, 3]))
    with pytest.raises(TypeError, match="no need of two"):
        PerStep(steps)
    with pytest.raises(InvalidTarget, match="counted without 1 missing"):
        steps.check_targets(torch.tensor([[0, 3, -100], [2, 9, 0]]), shape)


def test_sequences_of_no_steps_are_refused() -> None:
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    model = tr.TAGI(layer, PerStep(Normal(0.1, outputs=4)))
    with pytest.raises(InvalidInput, match="at least one step"):
        model.predict(torch.zeros(2, 0, 4))
