"""Random networks, likelihoods and data that both engines support."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

import tractable as tr
from tractable.likelihoods import (
    Bernoulli,
    Categorical,
    HeteroscedasticNormal,
    Likelihood,
    NegativeBinomial,
    Normal,
    Poisson,
)

ACTIVATIONS: dict[str, nn.Module] = {
    "identity": nn.Identity(),
    "relu": nn.ReLU(),
    "leaky_relu": nn.LeakyReLU(0.1),
    "tanh": nn.Tanh(),
    "sigmoid": nn.Sigmoid(),
}
LIKELIHOODS = [
    "normal",
    "inferred",
    "bernoulli",
    "probit",
    "probit-sigma",
    "published-normal",
    "tags",
    "logit",
    "poisson",
    "heteroscedastic",
    "negative-binomial",
    "dispersed",
]
_COUNTS = ("poisson", "negative-binomial", "dispersed")
_ONE_EACH = ("normal", "inferred", "tags", "logit", *_COUNTS)


@dataclass(frozen=True)
class Problem:
    """The components and data of a learner."""

    net: nn.Sequential
    likelihood: Likelihood
    options: dict[str, object]
    batch: int
    x: Tensor
    y: Tensor

    def learner(self, engine: str, dtype: torch.dtype = torch.float32) -> tr.TAGI:
        """Return a learner in the same state for every engine and dtype."""
        start = tr.TAGI(self.net, self.likelihood, engine="torch", **self.options)
        model = tr.TAGI(self.net, self.likelihood, engine=engine, dtype=dtype, **self.options)
        model.posterior.loc.copy_(start.posterior.loc)
        model.posterior.variance.copy_(start.posterior.variance)
        model.state.generator.set_state(start.state.generator.get_state())
        return model


def seeded(seed: int = 0) -> torch.Generator:
    """Return a separate generator, so that no test depends on earlier ones."""
    return torch.Generator().manual_seed(seed)


def network(widths: list[int], activation: str, bias: bool = True) -> nn.Sequential:
    """Return a chain of linear layers with activations between them."""
    layers: list[nn.Module] = []
    for into, out in pairwise(widths):
        layers += [nn.Linear(into, out, bias=bias), copy.deepcopy(ACTIVATIONS[activation])]
    return nn.Sequential(*layers[:-1])


def likelihood(name: str, outputs: int) -> Likelihood:
    """Return a likelihood by name; trees have five classes, so four or seven outputs."""
    return {
        "normal": lambda: Normal(0.4),
        "inferred": lambda: Normal(None, outputs),
        "bernoulli": Bernoulli,
        "probit": lambda: Categorical(5),
        "probit-sigma": lambda: Categorical(5, sigma=0.7),
        "published-normal": lambda: Categorical(5, "published", "normal", 0.5),
        "tags": Bernoulli,
        "logit": lambda: Bernoulli("logit"),
        "poisson": Poisson,
        "heteroscedastic": HeteroscedasticNormal,
        "negative-binomial": lambda: NegativeBinomial(1.7),
        "dispersed": lambda: NegativeBinomial(outputs=outputs),
    }[name]()


def outputs_of(name: str, wish: int) -> int:
    """Return the number of outputs of a network for this likelihood."""
    if name == "heteroscedastic":
        return 2 * wish
    if name == "tags":
        return wish + 1
    if name in _ONE_EACH:
        return wish
    return 1 if name == "bernoulli" else int(likelihood(name, 0).outputs)


def targets(name: str, x: Tensor, outputs: int, generator: torch.Generator) -> Tensor:
    """Return noisy targets that depend partly on the inputs."""
    numbers = outputs // 2 if name == "heteroscedastic" else outputs
    signal = torch.tanh(x @ torch.randn(x.shape[1], numbers, generator=generator))
    noisy = signal + 0.3 * torch.randn(signal.shape, generator=generator)
    if name in ("normal", "inferred", "heteroscedastic"):
        return noisy
    if name in _COUNTS:
        return torch.poisson(torch.exp(2 * noisy), generator=generator)
    if name in ("tags", "logit"):
        return (noisy > 0).long()
    if name == "bernoulli":
        return (noisy[:, 0] > 0).long()
    return (noisy[:, 0] * 3 + 2).round().long().clamp(0, 4)


def problem(
    seed: int,
    *,
    activation: str,
    likelihood_name: str,
    rule: str = "damped",
    updates: int = 50,
    largest: int = 300,
    widest_batch: int = 256,
) -> Problem:
    """Draw depth 1 to 5, and log-uniform widths and batch sizes up to the limits."""
    rng = np.random.default_rng(seed)
    depth = int(rng.integers(1, 6))

    def size(limit: int) -> int:
        return max(1, min(limit, round(float(np.exp(rng.uniform(0, np.log(limit + 0.5)))))))

    outputs = outputs_of(likelihood_name, size(8))
    widths = [*(size(largest) for _ in range(depth)), outputs]
    batch = size(widest_batch)
    generator = torch.Generator().manual_seed(seed)
    rows = max(1, batch * updates - int(rng.integers(0, batch)))  # the last batch is smaller
    x = torch.randn(rows, widths[0], generator=generator)
    return Problem(
        network(widths, activation, bias=bool(rng.integers(0, 4))),
        likelihood(likelihood_name, outputs),
        {"batch_rule": rule, "epoch_forgetting": float(rng.choice([0.0, 0.3, 1.0])), "seed": seed},
        batch,
        x,
        targets(likelihood_name, x, outputs, generator),
    )


def distance(a: tr.TAGI, b: tr.TAGI) -> float:
    """Return the largest relative difference of any parameter or noise tensor."""
    worst = 0.0
    pairs = [
        (mine, theirs)
        for name in a.posterior
        for mine, theirs in (
            (a.posterior[name].loc, b.posterior[name].loc),
            (a.posterior[name].variance, b.posterior[name].variance),
        )
    ]
    if isinstance(a.likelihood, Normal) and isinstance(b.likelihood, Normal):
        pairs.append((a.likelihood.noise_mean, b.likelihood.noise_mean))
        pairs.append((a.likelihood.noise_variance, b.likelihood.noise_variance))
    if isinstance(a.likelihood, NegativeBinomial) and isinstance(b.likelihood, NegativeBinomial):
        pairs.append((a.likelihood.total_count, b.likelihood.total_count))
        pairs.append((a.likelihood.statistic, b.likelihood.statistic))
        assert torch.equal(a.likelihood.rows, b.likelihood.rows)
    for mine, theirs in pairs:
        gap = float((mine.double() - theirs.double()).abs().max())
        worst = max(worst, gap / max(float(theirs.double().abs().max()), 1e-30))
    return worst
