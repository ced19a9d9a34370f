"""Small trained models for tests of inference."""

import itertools

import torch
from torch import nn

import tractable as tr

F64 = torch.float64


def regressor(
    *layers: nn.Module, sigma: float = 0.1, seed: int = 0, gain: float = 1.0, outputs: int = 1
) -> tr.TAGI:
    """Return a model updated with one observation, so that it counts as fitted."""
    net = nn.Sequential(*layers)
    inputs = next(m.in_features for m in net.modules() if isinstance(m, nn.Linear))
    model = tr.TAGI(net, tr.likelihoods.Normal(sigma), dtype=F64, seed=seed, gain=gain)
    return model.update(torch.zeros(1, inputs), torch.zeros(1, outputs))


def mlp(
    *activations: type[nn.Module],
    inputs: int = 2,
    width: int = 5,
    outputs: int = 1,
    seed: int = 0,
    gain: float = 1.0,
) -> tr.TAGI:
    """Return a fully connected network with these activations and a linear output."""
    sizes = [inputs, *[width] * len(activations), outputs]
    layers: list[nn.Module] = []
    for i, (n, m) in enumerate(itertools.pairwise(sizes)):
        layers.append(nn.Linear(n, m))
        if i < len(activations):
            layers.append(activations[i]())
    return regressor(*layers, seed=seed, gain=gain, outputs=outputs)


def classifier(link: str = "probit", classes: int = 3, seed: int = 0) -> tr.TAGI:
    """Return three well separated clusters in the plane."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(300) % classes
    angle = 2 * torch.pi * labels / classes
    x = torch.stack([angle.cos(), angle.sin()], 1)
    x = x + 0.2 * torch.randn(300, 2, generator=generator)
    sigma = 0.5 if link == "normal" else None
    likelihood = tr.likelihoods.Categorical(classes, link=link, sigma=sigma)
    net = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, likelihood.outputs))
    model = tr.TAGI(net, likelihood, seed=seed)
    return model.fit(x, labels, epochs=10, batch_size=10, progress=False)


def clusters(classes: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the cluster centers and their labels."""
    labels = torch.arange(classes)
    angle = 2 * torch.pi * labels / classes
    return torch.stack([angle.cos(), angle.sin()], 1), labels


def set_posterior(model: tr.TAGI, values: dict[str, tuple[object, object]]) -> tr.TAGI:
    """Set means and variances of parameters."""
    for name, (loc, variance) in values.items():
        parameter = model.posterior[name]
        parameter.loc.copy_(torch.as_tensor(loc, dtype=F64).expand_as(parameter.loc))
        parameter.variance.copy_(torch.as_tensor(variance, dtype=F64).expand_as(parameter.loc))
    return model
