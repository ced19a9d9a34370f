"""Every likelihood as a part of ``Joint``, ``Mixture`` and ``PerStep``, from fit to file."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tractable as tr
from tractable.likelihoods import (
    Bernoulli,
    Categorical,
    HeteroscedasticNormal,
    Joint,
    Laplace,
    Likelihood,
    Mixture,
    MultivariateNormal,
    NegativeBinomial,
    Normal,
    Ordinal,
    PerStep,
    Poisson,
    Softmax,
    StudentT,
    VonMises,
)

ROWS = 12
G = torch.Generator().manual_seed(0)
X = torch.randn(ROWS, 2, generator=G)
NUMBER = 0.5 * X[:, :1] + 0.3 * torch.randn(ROWS, 1, generator=G)
BOTH = torch.cat([NUMBER, -NUMBER], 1)
LEVEL = torch.arange(ROWS).reshape(-1, 1) % 3.0
COUNT = torch.poisson((NUMBER + 1).exp(), generator=G)

Make = Callable[[], Likelihood]
NUMBERS: dict[str, tuple[Make, Tensor]] = {
    "Normal": (Normal, NUMBER),
    "known Normal": (lambda: Normal(0.3), NUMBER),
    "Normal of two": (lambda: Normal(None, 2), BOTH),
    "known Normal with missing targets": (lambda: Normal(0.3, 2, missing=True), BOTH),
    "HeteroscedasticNormal": (HeteroscedasticNormal, NUMBER),
    "Laplace": (Laplace, NUMBER),
    "Laplace of two": (lambda: Laplace(None, 2), BOTH),
    "StudentT": (StudentT, NUMBER),
    "VonMises": (VonMises, NUMBER),
    "Poisson": (Poisson, COUNT),
    "NegativeBinomial": (NegativeBinomial, COUNT),
    "known MultivariateNormal": (
        lambda: MultivariateNormal(2, [[0.5, 0.1], [0.1, 0.4]]), BOTH
    ),
    "Mixture of known": (lambda: Mixture(Normal(0.3), 2), NUMBER),
}  # fmt: skip
OTHERS: dict[str, tuple[Make, Tensor]] = {
    "Normal with missing targets": (lambda: Normal(None, 2, missing=True), BOTH),
    "MultivariateNormal": (lambda: MultivariateNormal(2), BOTH),
    "Mixture": (lambda: Mixture(Normal(), 2), NUMBER),
    "Bernoulli": (Bernoulli, LEVEL % 2),
    "logit Bernoulli": (lambda: Bernoulli("logit"), LEVEL % 2),
    "Categorical": (lambda: Categorical(3), LEVEL),
    "Softmax": (lambda: Softmax(3), LEVEL),
    "Ordinal": (lambda: Ordinal(3), LEVEL),
}
PARTS = NUMBERS | OTHERS
LABELS = {"Bernoulli", "logit Bernoulli", "Categorical", "Softmax", "Ordinal"}
LEARNERS: list[tuple[Any, dict[str, Any]]] = [
    (tr.Backprop, {"lr": 0.01}),
    (tr.BayesByBackprop, {"lr": 0.01, "n_weight_samples": 3}),
    (tr.Laplace, {"lr": 0.01}),
    (tr.Laplace, {"lr": 0.01, "structure": "last_layer", "prior_precision": 1.0}),
    (tr.Ensemble, {"lr": 0.01, "n_estimators": 2}),
]


class Steps(nn.Module):
    """Two steps in a dimension of their own."""

    def forward(self, z: Tensor) -> Tensor:
        return z.unflatten(1, (2, -1))


def composed(outer: str, name: str) -> tuple[Likelihood, Tensor, nn.Module]:
    make, y = PARTS[name]
    steps = outer == "PerStep"
    likelihood: Likelihood
    if outer == "Joint":
        likelihood, y = Joint(make(), Normal()), torch.cat([y, NUMBER], 1)
    elif outer == "Mixture":
        likelihood = Mixture(make(), 2)
    else:
        likelihood, y = PerStep(make()), torch.stack([y, y.flip(0)], 1)
        if name in LABELS:
            y = y.squeeze(2).long()
    head = nn.Linear(2, likelihood.outputs_needed * (2 if steps else 1))
    return likelihood, y, nn.Sequential(head, Steps()) if steps else head


def go_through(kind: Any, options: dict[str, Any], outer: str, name: str, path: Path) -> None:
    likelihood, y, net = composed(outer, name)
    model = kind(net, likelihood, seed=1, **options)
    model.fit(X, y, epochs=2, batch_size=6, progress=False)
    if likelihood.traits.supports_calibration:
        model.rescale_noise(2.0)
    model.update(X[:2], y[:2])
    model.update(X[2:3], y[2:3])
    p = model.predict(X)
    assert torch.isfinite(p.log_prob(y)).all()
    assert torch.isfinite(p.mean).all()
    assert (p.epistemic >= -1e-4).all()
    assert (p.aleatoric >= -1e-4).all()
    assert p.sample(3, torch.Generator().manual_seed(0)).shape[:2] == (3, ROWS)
    for _, buffer in model.likelihood.named_buffers():
        assert torch.isfinite(buffer).all()
    model.save(path)
    again = tr.Learner.load(path, net=None if isinstance(net, nn.Linear) else net)
    for each in (model, again):
        each.update(X[:2], y[:2])
    assert torch.equal(again.predict(X).log_prob(y), model.predict(X).log_prob(y))


CASES = [
    (outer, name)
    for outer in ("Joint", "Mixture", "PerStep")
    for name in (NUMBERS if outer == "Mixture" else PARTS)
]


@pytest.mark.parametrize(("outer", "name"), CASES)
def test_tagi(outer: str, name: str, tmp_path: Path) -> None:
    go_through(tr.TAGI, {}, outer, name, tmp_path / "model.tr")


@pytest.mark.parametrize("case", range(len(CASES)), ids=[" of ".join(case) for case in CASES])
def test_the_other_learners_in_turn(case: int, tmp_path: Path) -> None:
    kind, options = LEARNERS[case % len(LEARNERS)]
    go_through(kind, options, *CASES[case], tmp_path / "model.tr")


@pytest.mark.parametrize("outer", ["Joint", "PerStep"])
def test_gaps_of_a_part_go_through_as_well(outer: str) -> None:
    likelihood, y, net = composed(outer, "Normal with missing targets")
    y = y.clone()
    y.view(ROWS, -1)[::2, 0] = math.nan
    for kind, options in ((tr.TAGI, {}), *LEARNERS):
        model = kind(net, likelihood, seed=1, **options)
        model.fit(X, y, epochs=2, batch_size=6, progress=False).update(X[:1], y[:1])
        assert torch.isfinite(model.predict(X).mean).all()
        assert torch.isfinite(model.predict(X).log_prob(y)).all()
        for _, buffer in model.likelihood.named_buffers():
            assert torch.isfinite(buffer).all()
