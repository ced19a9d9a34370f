"""Predictions of three learners for the same data: the figure of the README.

python examples/three_learners.py docs/three_learners.png
"""

import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import torch
from torch import nn

import tractable as tr
from tractable import plots


def main(path: Path) -> None:
    """Fit a sine function observed in two intervals with three learners and plot the results."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    x = torch.cat(
        [
            torch.rand(150, 1, generator=generator) - 1.1,
            torch.rand(150, 1, generator=generator) + 0.3,
        ]
    )
    y = torch.sin(4 * x) + 0.1 * torch.randn(x.shape, generator=generator)
    net = nn.Sequential(nn.Linear(1, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    learners = {
        "TAGI (closed form)": tr.TAGI(net, tr.likelihoods.Normal(), gain=1.0).fit(x, y),
        "Bayes by Backprop": tr.BayesByBackprop(
            net, tr.likelihoods.Normal(0.1), estimator="local", init="he", lr=5e-3
        ).fit(x, y, epochs=300, batch_size=50),
        "Backprop (point estimate)": tr.Backprop(net, tr.likelihoods.Normal(0.1), lr=5e-3).fit(
            x, y, epochs=300, batch_size=50
        ),
    }
    grid = torch.linspace(-2.2, 2.4, 400).unsqueeze(1)
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.6), sharey=True, layout="constrained")
    for ax, (name, learner) in zip(axes, learners.items(), strict=True):
        plots.prediction_bands(
            grid, learner.predict(grid), data=(x, y), truth=torch.sin(4 * grid), ax=ax
        )
        ax.set(title=name, ylim=(-4, 4))
        if ax is not axes[0]:
            ax.set_ylabel("")
            ax.get_legend().remove()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "three_learners.png"))
