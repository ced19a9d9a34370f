"""Bias-variance decomposition of the error with a known true function.

The model is fitted to ten simulated data sets to estimate noise, bias and variance.

    python examples/13_diagnostics.py
"""

import torch
from torch import nn

import tractable as tr

NOISE = 0.2


def sample_dataset(generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw a data set of 100 points of a sine with noise."""
    x = 2 * torch.rand(100, 1, generator=generator) - 1
    return x, torch.sin(4 * x[:, 0]) + NOISE * torch.randn(100, generator=generator)


def factory(seed: int) -> tr.Learner:
    """Return an untrained learner."""
    net = nn.Sequential(nn.Linear(1, 32), nn.ReLU(), nn.Linear(32, 1))
    return tr.TAGI(net, tr.likelihoods.Normal(), gain=1.0, seed=seed)


def main() -> None:
    """Decompose the error, and compare the epistemic variance with the true variance."""
    torch.set_num_threads(1)
    x = torch.linspace(-0.9, 0.9, 50).unsqueeze(1)
    y_mean = torch.sin(4 * x[:, 0])
    parts = tr.diagnostics.bias_variance(
        factory,
        sample_dataset=sample_dataset,
        X_test=x,
        y_mean=y_mean,
        noise_variance=NOISE**2,
        n_datasets=10,
        epochs=40,
    )
    total = parts.noise + parts.bias_sq + parts.variance
    print(f"noise {parts.noise:.3f} + bias² {parts.bias_sq:.3f} + ", end="")
    print(f"variance {parts.variance:.3f} = {total:.3f}; loss {parts.loss:.3f}")
    print(f"epistemic variance / true variance = {parts.epistemic_ratio:.2f} (1 is calibrated)")
    print(parts.recommendation())

    assert abs(total - parts.loss) < 1e-10
    assert parts.loss < 0.1  # the variance of the sine is about 0.5


if __name__ == "__main__":
    main()
