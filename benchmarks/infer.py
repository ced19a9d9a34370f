"""Check two bounds on the cost of inference.

* An attack of 1,000 MNIST images with 100 iterations costs less than 100 steps of TAGI over the
  same images plus 10 %.
* Derivatives of a 3 x 128 network for 1,024 inputs cost at most 5 forward passes of moments.

    python -m benchmarks.infer
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import tractable as tr
from tractable.attacks import tagi_attack as attack
from tractable.infer import derivatives
from tractable_studies.images.run import mnist_cnn


def best_of(run: Callable[[], object], repeats: int) -> float:
    """Return processor seconds of the fastest of several runs; load only makes runs slower."""
    seconds = []
    for _ in range(repeats):
        started = time.process_time()
        run()
        seconds.append(time.process_time() - started)
    return min(seconds)


def attack_against_training(images: int) -> tuple[float, float]:
    """Return seconds of 100 iterations of an attack that never succeeds and of 100 steps.

    Every iteration then costs the same, so 100 are extrapolated from 2 and 6 of them.
    """
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(images, 1, 28, 28, generator=generator)
    y = torch.randint(10, (images,), generator=generator)
    likelihood = tr.likelihoods.Categorical(10, tree="published", link="normal", sigma=0.1)
    model = tr.TAGI(mnist_cnn(), likelihood).update(x[:10], y[:10])
    far = (model.predict(x).labels + 1) % 10
    # With such a narrow prior no attack succeeds, so every iteration has all images.
    few, more = (
        best_of(lambda n=n: attack(model, x, far, input_std=1e-6, steps=n), 2) for n in (2, 6)
    )
    return few + 98 * (more - few) / 4, 100 * best_of(lambda: model.update(x, y), 4)


def derivatives_against_forward(*activations: type[nn.Module]) -> tuple[float, float]:
    """Return seconds of derivatives and of a forward pass of moments, for 1,024 inputs."""
    a, b, c = activations
    net = nn.Sequential(
        nn.Linear(23, 128), a(), nn.Linear(128, 128), b(), nn.Linear(128, 128), c(),
        nn.Linear(128, 1),
    )  # fmt: skip
    model = tr.TAGI(net, tr.likelihoods.Normal(0.1)).update(torch.zeros(1, 23), torch.zeros(1, 1))
    x = tr.Gaussian(torch.randn(1024, 23, generator=torch.Generator().manual_seed(0)), 0.01)

    def forward() -> object:
        with torch.no_grad():
            return model.propagate(x)

    return best_of(lambda: derivatives(model, x), 30), best_of(forward, 30)


def main(images: int = 1000) -> dict[str, Any]:
    """Measure both and return the ratios."""
    torch.set_num_threads(1)
    figures: dict[str, Any] = {}
    for activations in ((nn.Tanh, nn.ReLU, nn.ReLU), (nn.Tanh, nn.Tanh, nn.Tanh)):
        ours, forward = derivatives_against_forward(*activations)
        names = "-".join(a.__name__ for a in activations)
        figures[f"derivatives/{names}"] = {"ms": 1000 * ours, "forward_passes": ours / forward}
    attacked, trained = attack_against_training(images)
    figures["attack"] = {
        "images": images,
        "seconds": attacked,
        "of_100_training_steps": attacked / trained,
    }
    return figures


def report(figures: dict[str, Any]) -> str:
    """Return the figures as lines of text."""
    attack = figures["attack"]
    return "\n".join(
        [
            f"{name}, 3 x 128 units: {row['ms']:.1f} ms = {row['forward_passes']:.1f} forward "
            "passes (target: at most 5)"
            for name, row in figures.items()
            if name != "attack"
        ]
        + [
            f"attack of {attack['images']} images, 100 iterations: {attack['seconds']:.0f} s = "
            f"{attack['of_100_training_steps']:.2f} of 100 training steps (target: at most 1.10)"
        ]
    )
