"""Invalid combinations raise an error with a remedy, not an ``AssertionError``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tractable as tr
from tractable import generative, infer
from tractable.errors import InvalidInput, NotFitted
from tractable.likelihoods import (
    Bernoulli,
    Categorical,
    Joint,
    Laplace,
    Mixture,
    MultivariateNormal,
    Normal,
    Ordinal,
    PerStep,
    Softmax,
)


class LastSteps(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(1, 2, batch_first=True)
        self.head = nn.Linear(2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z: torch.Tensor = self.head(self.lstm(x)[0])
        return z


def smoothed_nothing() -> Any:
    model = tr.TAGI(LastSteps(), PerStep(Normal(0.3)))
    model.update(torch.zeros(2, 3, 1), torch.zeros(2, 3, 1))
    return infer.smooth(model, torch.zeros(1, 0, 1), torch.zeros(1, 0, 1))


def padded_by_a_word() -> Any:
    x = tr.Gaussian(torch.zeros(1, 2, 4, 4), torch.ones(1, 2, 4, 4))
    return F.conv2d(x, torch.ones(3, 2, 3, 3), padding="zeros")


def gan() -> generative.GAN:
    return generative.GAN(nn.Linear(2, 2), nn.Linear(2, 1), latent_dim=2)


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "mixture of correlated": (
        lambda: Mixture(MultivariateNormal(2), 2), ValueError, "MultivariateNormal.*known noise"
    ),
    "mixture of grades": (lambda: Mixture(Ordinal(3), 2), ValueError, "of numbers, got Ordinal"),
    "mixture of gaps": (lambda: Mixture(Normal(missing=True), 2), ValueError, "missing=True"),
    "mixture of parts": (
        lambda: Mixture(Joint(Normal(), Laplace()), 2), ValueError, "known noise"
    ),
    "mixture of mixtures": (lambda: Mixture(Mixture(Normal(), 2), 2), ValueError, "known noise"),
    "mixture of steps": (
        lambda: Mixture(PerStep(Normal(1.0)), 2), ValueError, r"PerStep\(Mixture\(...\)\)"
    ),
    "mixture of classes": (lambda: Mixture(Softmax(3), 2), ValueError, "labels"),
    "mixture of a tree": (lambda: Mixture(Categorical(3), 2), ValueError, "labels"),
    "mixture of tosses": (lambda: Mixture(Bernoulli(), 2), ValueError, "labels"),
    "joint of steps": (lambda: Joint(PerStep(Normal()), Normal()), ValueError, "PerStep"),
    "no steps to smooth": (smoothed_nothing, InvalidInput, "at least one step"),
    "a word for a padding": (padded_by_a_word, ValueError, "'valid', 'same', an integer"),
    "mixture of rows": (
        lambda: generative.GaussianMixture(2)._density(None), NotFitted, "call fit first"
    ),
    "its tensors": (lambda: generative.GaussianMixture(2).pack(), NotFitted, "call fit first"),
    "flow": (lambda: generative.Flow()._density(None), NotFitted, "call fit first"),
    "network of a flow": (
        lambda: generative.Flow().build_network(None), NotFitted, "call fit first"
    ),
    "diffusion": (lambda: generative.Diffusion()._density(None), NotFitted, "call fit first"),
    "tensors of a diffusion": (lambda: generative.Diffusion().pack(), NotFitted, "call fit first"),
    "chain": (lambda: generative.Autoregressive()._density(None), NotFitted, "call fit first"),
    "network of a chain": (
        lambda: generative.Autoregressive().build_network(None), NotFitted, "call fit first"
    ),
    "GAN": (lambda: gan()._density(None), NotFitted, "call fit first"),
    "tensors of a GAN": (lambda: gan().pack(), NotFitted, "call fit first"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_an_error_message_names_the_cause(name: str) -> None:
    make, kind, words = REFUSED[name]
    with pytest.raises(kind, match=words):
        make()


@pytest.mark.parametrize(
    "component",
    [
        MultivariateNormal(2, [[0.5, 0.1], [0.1, 0.4]]),
        Normal(0.3, 2, missing=True),
        Joint(Normal(0.3), Laplace(0.5)),
        Mixture(Normal(0.3), 2),
        Laplace(None, 2),
        Normal(None, 2),
    ],
    ids=lambda part: type(part).__name__,
)
def test_other_components_are_taken(component: Any) -> None:
    found = Mixture(component, 2)
    again = Mixture(**found.config())
    assert again.config() == found.config()
