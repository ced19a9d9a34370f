"""A rescaled noise is the state that later updates start from, for every likelihood."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tractable as tr
from tractable import likelihoods
from tractable.likelihoods import Likelihood
from tractable.likelihoods.online_em import OnlineEM

Make = Callable[[], Likelihood]

NUMBERS: dict[str, tuple[Make, int]] = {
    "Normal": (likelihoods.Normal, 1),
    "known Normal": (lambda: likelihoods.Normal(0.5), 1),
    "Normal(missing=True)": (partial(likelihoods.Normal, missing=True), 1),
    "Laplace": (likelihoods.Laplace, 1),
    "known Laplace": (lambda: likelihoods.Laplace(0.5), 1),
    "StudentT": (likelihoods.StudentT, 1),
    "VonMises": (likelihoods.VonMises, 1),
    "HeteroscedasticNormal": (likelihoods.HeteroscedasticNormal, 2),
    "Mixture of Normal": (lambda: likelihoods.Mixture(likelihoods.Normal(), 2), 4),
    "Mixture of Laplace": (lambda: likelihoods.Mixture(likelihoods.Laplace(), 2), 4),
    "Mixture of known Normal": (lambda: likelihoods.Mixture(likelihoods.Normal(0.4), 2), 4),
    "PerStep of Laplace": (lambda: likelihoods.PerStep(likelihoods.Laplace()), 1),
}
COUNTS: dict[str, tuple[Make, int]] = {"NegativeBinomial": (likelihoods.NegativeBinomial, 1)}
LABELS: dict[str, tuple[Make, int]] = {
    "Bernoulli": (likelihoods.Bernoulli, 1),
    "Categorical": (lambda: likelihoods.Categorical(2), 1),
    "Softmax": (lambda: likelihoods.Softmax(2), 2),
    "Ordinal": (lambda: likelihoods.Ordinal(2), 1),
}
ALL = NUMBERS | COUNTS | LABELS
LEARNERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "TAGI": (tr.TAGI, {"engine": "torch"}),
    "TAGI, kernel if there is one": (tr.TAGI, {"engine": "auto"}),
    "Backprop": (tr.Backprop, {"lr": 0.02}),
    "BayesByBackprop": (tr.BayesByBackprop, {"lr": 0.02, "n_weight_samples": 20}),
    "Laplace": (tr.Laplace, {"lr": 0.02, "structure": "last_layer"}),
    "Ensemble": (tr.Ensemble, {"lr": 0.02, "n_estimators": 2}),
}


def rows(name: str, seed: int, number: int = 200) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(number, 1, generator=g)
    noisy = 0.5 * x + 0.4 * torch.randn(number, 1, generator=g)
    if name in LABELS:
        return x, (noisy > 0).long().squeeze(1)
    if name in COUNTS:
        return x, torch.poisson((noisy + 1).exp(), generator=g)
    return x, noisy.unsqueeze(2) if name.startswith("PerStep") else noisy


def fitted(learner: str, name: str, seed: int, **options: Any) -> Any:
    make, outputs = ALL[name]
    kind, own = LEARNERS[learner]
    net: nn.Module = nn.Linear(1, outputs)
    if name.startswith("PerStep"):
        net = nn.Sequential(nn.Linear(1, 1), nn.Unflatten(1, (1, 1)))
    x, y = rows(name, seed)
    model = kind(net, make(), seed=seed, **own)
    return model.fit(x, y, batch_size=25, progress=False, distance_aware=False, **options)


def noise_of(model: Any, name: str) -> Tensor:
    """The noise variance of predictions; for labels, the factor on the noise of a decision."""
    if name in LABELS:
        return getattr(model, "members", [model])[0].likelihood.noise_scale
    return model.predict(torch.linspace(-1, 1, 4).unsqueeze(1)).aleatoric


def check_kept(model: Any, calibrated: Any, name: str, before: Tensor) -> None:
    """Three rows of 200 move the noise a little; the factor from held-out rows stays."""
    wanted = (noise_of(calibrated, name) / before).log()
    assert wanted.abs().max() > 0.3
    x, y = rows(name, 0)
    for k in range(3):
        for each in (model, calibrated):
            each.update(x[k : k + 1], y[k : k + 1])
    kept = (noise_of(calibrated, name) / noise_of(model, name)).log()
    assert (kept - wanted).abs().max() < 0.2 * wanted.abs().max()


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("name", ALL)
def test_an_update_keeps_a_rescaled_noise(name: str, learner: str) -> None:
    model = fitted(learner, name, 0, epochs=2)
    before = noise_of(model, name)
    for scale in (4.0, 0.25):
        plain, rescaled = copy.deepcopy(model), copy.deepcopy(model)
        rescaled.rescale_noise(scale)
        check_kept(plain, rescaled, name, before)


@pytest.mark.parametrize("learner", ["TAGI", "Backprop", "Ensemble"])
@pytest.mark.parametrize("name", ["StudentT", "VonMises", "NegativeBinomial", "Mixture of Laplace"])
def test_an_update_keeps_a_calibrated_noise(
    name: str, learner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same by ``fit(calibrate=True)``, whose held-out rows ask for a factor of 4."""
    monkeypatch.setattr(tr.training.holdout, "cross_validated_noise_scale", lambda *a, **k: 4.0)
    model = fitted(learner, name, 1, epochs=2)
    before = noise_of(model, name)
    calibrated = fitted(learner, name, 1, epochs=2, calibrate=True)
    assert calibrated.run.scale == 4.0
    check_kept(model, calibrated, name, before)


PARAMETERS: dict[str, tuple[Callable[[], OnlineEM], float, float]] = {
    "Laplace": (likelihoods.Laplace, 1e-4, 1e4),
    "StudentT": (lambda: likelihoods.StudentT(3.0), 1e-4, 1e4),
    "OnlineNormal": (lambda: likelihoods.Mixture(likelihoods.Normal(), 2).part_list[0], 1e-4, 1e4),
    "NegativeBinomial": (likelihoods.NegativeBinomial, 2e-4, 1e6),
    "VonMises": (likelihoods.VonMises, 1e-3, 1e5),
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_statistic_of_a_parameter_gives_the_parameter_back(name: str) -> None:
    make, low, high = PARAMETERS[name]
    likelihood = make()
    wanted = torch.logspace(math.log10(low), math.log10(high), 40, dtype=torch.float64)
    found = likelihood.parameter_from_statistic(likelihood.statistic_from_parameter(wanted))
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=0)


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_rescaled_parameter_has_its_own_statistic(name: str) -> None:
    make, *_ = PARAMETERS[name]
    for scale in (0.2, 1.0, 7.0):
        likelihood = make()
        likelihood.rescale(scale)
        torch.testing.assert_close(
            likelihood.parameter_from_statistic(likelihood.statistic),
            likelihood.parameter,
            rtol=1e-4,
            atol=0,
        )
