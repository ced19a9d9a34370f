"""Demonstration: a regressor and a classifier with uncertainty estimates.

Run with ``make demo``. Trains both by closed-form Gaussian inference, without gradient descent
and learning rate, prints a table and writes two figures to ``demo/``.
"""

import time
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from torch import nn

import tractable as tr
from tractable import metrics, plots
from tractable.data import Standardizer

OUT = Path("demo")


def regression() -> list[str]:
    """Fit ``y = x^3 - 3x`` with noise 0.1 on [-2, 2], and plot predictions on [-3, 3]."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(600, 1, generator=generator) * 4 - 2
    y = (x**3 - 3 * x + 0.1 * torch.randn(x.shape, generator=generator)).flatten()
    train, held_out = slice(0, 400), slice(400, 600)
    inputs, targets = Standardizer.fit(x[train]), Standardizer.fit(y[train])

    net = nn.Sequential(nn.Linear(1, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    model = tr.TAGI(net, tr.likelihoods.Normal(), gain=1.0)  # the noise is inferred
    started = time.perf_counter()
    model.fit(
        inputs.transform(x[train]), targets.transform(y[train]), calibrate=True, progress=True
    )
    seconds = time.perf_counter() - started

    def predict(at: torch.Tensor) -> tr.NormalPredictive:
        scaled = model.predict(inputs.transform(at))
        return scaled.rescaled(targets.mean.float(), targets.scale.float())

    grid = torch.linspace(-3, 3, 400).unsqueeze(1)
    truth = grid**3 - 3 * grid
    ax = plots.prediction_bands(grid, predict(grid), data=(x[train], y[train]), truth=truth)
    ax.set(title="$x^3 - 3x$ by TAGI: intervals widen outside the data", ylim=(-12, 12))
    ax.figure.savefig(OUT / "regression.png", dpi=150, bbox_inches="tight")

    test = predict(x[held_out])
    return [
        "x^3 - 3x",
        f"RMSE {metrics.rmse(test, y[held_out]):.3f}",
        f"{metrics.nll(test, y[held_out]):.3f}",
        f"{metrics.coverage(test, y[held_out], 0.9):.1%}",
        f"{seconds:.1f} s",
    ]


def classification() -> list[str]:
    """Classify the 1,797 digits of scikit-learn, with 1,400 of them for training."""
    digits = load_digits()
    order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(0))
    x = torch.tensor(digits.data, dtype=torch.float32)[order]
    y = torch.tensor(digits.target)[order]
    inputs = Standardizer.fit(x[:1400])

    likelihood = tr.likelihoods.Categorical(10)
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, likelihood.outputs))
    model = tr.TAGI(net, likelihood)
    started = time.perf_counter()
    model.fit(inputs.transform(x[:1400]), y[:1400], progress=True)
    seconds = time.perf_counter() - started
    test = model.predict(inputs.transform(x[1400:]))

    figure = plt.figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subfigures(1, 2)
    plots.reliability(test, y[1400:], ax=left.subplots())
    left.suptitle("Reliability diagram")
    right.suptitle("The eight least confident predictions")
    confidence = test.probs.max(-1).values
    for ax, i in zip(right.subplots(2, 4).flat, confidence.argsort()[:8].tolist(), strict=True):
        ax.imshow(x[1400:][i].reshape(8, 8), cmap="gray_r")
        predicted, true = int(test.labels[i]), int(y[1400:][i])
        color = "tab:green" if predicted == true else "tab:red"
        ax.set_title(f"{predicted}? {confidence[i]:.0%} (is {true})", fontsize=9, color=color)
        ax.axis("off")
    figure.savefig(OUT / "classification.png", dpi=150)

    sure = confidence > 0.9
    return [
        "digits",
        f"error {metrics.error_rate(test, y[1400:]):.1%}",
        f"{metrics.nll(test, y[1400:]):.3f}",
        f"{(test.labels == y[1400:])[sure].float().mean():.1%} correct if confidence > 90 %",
        f"{seconds:.1f} s",
    ]


def main() -> None:
    """Train both models and print the table."""
    torch.set_num_threads(1)  # small networks are fastest on one thread
    OUT.mkdir(exist_ok=True)
    rows = [regression(), classification()]
    header = ["task", "test error", "test NLL", "90 % coverage", "training"]
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    for row in [header, ["-" * width for width in widths], *rows]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))
    print(f"figures: {OUT / 'regression.png'}, {OUT / 'classification.png'}")


if __name__ == "__main__":
    main()
