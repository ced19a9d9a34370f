"""The main job in one file: a regressor and a classifier that know what they don't know.

Run with ``make demo``.  Trains both by closed-form Gaussian inference (no gradient descent, no
learning rate), prints a table and writes two figures to ``demo/``.
"""

import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from torch import nn

import tractable as tr
from tractable import metrics, plots
from tractable.data import Standardizer

OUT = Path("demo")


def regression() -> list[str]:
    """``y = x^3 - 3x`` with noise 0.1, seen on [-2, 2] with a gap, asked for on [-3, 3]."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(600, 1, generator=generator) * 4 - 2
    x = x[(x[:, 0] < 0.2) | (x[:, 0] > 0.9)]
    y = (x**3 - 3 * x + 0.1 * torch.randn(x.shape, generator=generator)).flatten()
    train = slice(0, 350)
    inputs, targets = Standardizer.fit(x[train]), Standardizer.fit(y[train])

    net = nn.Sequential(
        nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)
    )
    model = tr.TAGI(net, tr.likelihoods.Normal())  # the noise is inferred too
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
    ax = plots.bands(grid, predict(grid), data=(x[train], y[train]), truth=truth)
    ax.set(title="$x^3 - 3x$ by TAGI: unsure where there are no data", ylim=(-12, 12))
    ax.figure.savefig(OUT / "regression.png", dpi=150, bbox_inches="tight")

    test = predict(x[350:])
    return [
        "x^3 - 3x",
        f"RMSE {metrics.rmse(test, y[350:]):.3f}",
        f"{metrics.nll(test, y[350:]):.3f}",
        f"{metrics.coverage(test, y[350:], 0.9):.1%}",
        f"{seconds:.1f} s",
    ]


def classification() -> list[str]:
    """Scikit-learn's 1,797 handwritten digits, 1,400 of them for training."""
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

    figure, axes = plt.subplots(1, 2, figsize=(11, 4))
    plots.reliability(test, y[1400:], ax=axes[0])
    doubt = 1 - test.probs.max(-1).values
    most = doubt.argsort(descending=True)[:8]
    tiles = [x[1400:][i].reshape(8, 8) for i in most]
    axes[1].imshow(torch.cat([torch.cat(tiles[:4], 1), torch.cat(tiles[4:], 1)]), cmap="gray_r")
    axes[1].set_title("The eight digits it is least sure of")
    axes[1].axis("off")
    for place, i in enumerate(most.tolist()):
        text = f"{int(test.labels[i])} ({1 - float(doubt[i]):.0%})"
        axes[1].text(8 * (place % 4), 8 * (place // 4) + 0.8, text, color="tab:red", fontsize=9)
    figure.savefig(OUT / "classification.png", dpi=150, bbox_inches="tight")

    sure = test.probs.max(-1).values > 0.9
    return [
        "digits",
        f"error {metrics.error_rate(test, y[1400:]):.1%}",
        f"{metrics.nll(test, y[1400:]):.3f}",
        f"{(test.labels == y[1400:])[sure].float().mean():.1%} right when > 90 % sure",
        f"{seconds:.1f} s",
    ]


def main() -> None:
    """Train both, print the table."""
    torch.set_num_threads(1)  # small networks are fastest on one thread
    OUT.mkdir(exist_ok=True)
    rows = [regression(), classification()]
    header = ["task", "test error", "test NLL", "90 % interval covers", "training"]
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    for row in [header, ["-" * width for width in widths], *rows]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))
    print(f"figures: {OUT / 'regression.png'}, {OUT / 'classification.png'}")


if __name__ == "__main__":
    main()
