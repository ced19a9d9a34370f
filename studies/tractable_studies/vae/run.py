"""Binarised MNIST by a 784-200-200-50 autoencoder: the usual bound and the importance-weighted one.

Pixels are drawn anew as 0 or 1 at every pass; the test images are drawn once.  The log-likelihood
of a test image is estimated by 5,000 draws of the latent for some images, and carried over to all
of them by what 100 draws say: the mean over all images of the bound by 100 draws, plus the mean
over some of the difference of both, with the standard error of that difference.

    python -m tractable_studies.vae.run
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tractable import Checkpoint
from tractable.cli.output import say, show_table
from tractable.data import mnist
from tractable.generative import VAE
from tractable.likelihoods import Bernoulli
from tractable.report.results import Comparison
from tractable_studies.framework.options import (
    StudyOptions,
    option,
    parse,
    resume_option,
    seed_option,
    settings,
)
from tractable_studies.framework.record import RunRecord
from tractable_studies.vae import STUDY

PUBLISHED = {"elbo": 86.76, "importance": 84.78}
LATENT = 50
_SHOWN = 8


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    """How long, how many samples."""

    seed: int = seed_option(0)
    epochs: int = option(60, "of the usual bound", quick=1, least=1)
    importance_epochs: int = option(2, "of the importance-weighted one, after it", quick=1, least=0)
    samples: int = option(50, "of the importance-weighted bound", quick=5, least=2)
    batch_size: int = option(100, "images of an update", least=1)
    lr: float = option(3e-3, "of Adam, to zero by a cosine")
    importance_lr: float = option(5e-4, "of the importance-weighted bound")
    rows: int = option(60_000, "training images", quick=2_000, least=100)
    test: int = option(10_000, "test images", quick=200, least=10)
    exact: int = option(500, "test images for 5,000 draws", quick=20, least=2)
    draws: int = option(5_000, "of the latent, for those", quick=200, least=2)
    resume: bool = resume_option()


def network(inputs: int, outputs: int) -> nn.Sequential:
    """Two hidden layers of 200."""
    return nn.Sequential(
        nn.Linear(inputs, 200), nn.ELU(), nn.Linear(200, 200), nn.ELU(), nn.Linear(200, outputs)
    )


def binarised(images: Tensor, seed: int) -> Tensor:
    """Every pixel drawn once."""
    noise = torch.rand(images.shape, generator=torch.Generator().manual_seed(seed))
    return (noise < images).float()


def trained(options: Options, images: Tensor, folder: Path) -> dict[str, VAE]:
    """The model of the usual bound; and one that goes on from it with the other."""
    common: dict[str, Any] = {"latent": LATENT, "binarize": True, "held_out": 0.0,
                              "seed": options.seed}  # fmt: skip
    encoder: nn.Module = network(784, 2 * LATENT)
    decoder: nn.Module = network(LATENT, 784)
    found: dict[str, VAE] = {}
    plans: list[tuple[str, int, float, dict[str, Any]]] = [
        ("elbo", options.epochs, options.lr, {}),
        ("importance", options.importance_epochs, options.importance_lr,
         {"samples": options.samples, "bound": "importance"}),
    ]  # fmt: skip
    for name, epochs, lr, more in plans:
        if not epochs:
            continue
        file = folder / f"{name}.tr"
        if options.resume and file.is_file():
            found[name] = VAE.load(file)
            continue
        how = {"lr": lr, "init": "net" if found else "fresh"}
        if found:
            net = found["elbo"].module()
            encoder, decoder = net.encoder, net.decoder
        model = VAE(encoder, decoder, Bernoulli("logit"), options=how, **more, **common)
        checkpoint = folder / f"{name}-checkpoint.tr"
        resumed: dict[str, Any] = {"resume": checkpoint} if options.resume else {}
        model.fit(images, epochs=epochs, batch_size=options.batch_size,
                  callbacks=[Checkpoint(checkpoint)], **resumed)  # fmt: skip
        model.save(file)
        found[name] = model
    return found


def scored(model: VAE, images: Tensor, options: Options) -> dict[str, float]:
    """Nats per image: the bound, and the estimate of the negative log-likelihood."""
    some = images[: options.exact]
    every = _log_prob(model, images, 100)
    few, many = every[: len(some)], _log_prob(model, some, options.draws)
    gap = many - few
    spread = float(every.std()) / math.sqrt(len(every))
    return {
        "nll": -float(every.mean() + gap.mean()),
        "nll_of_estimate": float(gap.std()) / math.sqrt(len(gap)),
        "nll_of_test_images": spread,
        "bound_1": -float(_log_prob(model, images, 1).mean()),
        "bound_100": -float(every.mean()),
        "some_images": -float(many.mean()),
    }


def _log_prob(model: VAE, images: Tensor, draws: int) -> Tensor:
    return model.predict(bound=draws).log_prob(images).double()


def picture(model: VAE) -> Any:
    """New images: the probability of every pixel at draws of the latent."""
    from matplotlib.figure import Figure

    net = model.module()
    z = torch.randn(_SHOWN * _SHOWN, LATENT, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        pixels = torch.sigmoid(net.decoder(z)).reshape(_SHOWN, _SHOWN, 28, 28)
    figure = Figure((4, 4), layout="constrained")
    ax = figure.subplots()
    ax.imshow(pixels.permute(0, 2, 1, 3).reshape(28 * _SHOWN, -1), cmap="gray_r", vmin=0, vmax=1)
    ax.set_axis_off()
    return figure


def main(argv: Sequence[str] | None = None) -> Path:
    """Train, estimate, compare."""
    options = parse(Options, STUDY, argv)
    record = RunRecord(STUDY, seeds=[options.seed], settings=settings(options), argv=argv)
    data = mnist()
    train = data.train_images.flatten(1)[: options.rows]
    test = binarised(data.test_images.flatten(1)[: options.test], options.seed + 1)
    options.out.mkdir(parents=True, exist_ok=True)
    models = trained(options, train, options.out)
    rows = []
    for name, model in models.items():
        found = scored(model, test, options)
        record.metrics[name] = found
        words = "evidence lower bound" if name == "elbo" else f"{options.samples} weighted samples"
        record.comparison.append(
            Comparison(f"{words}: -log p of a test image, nats", PUBLISHED[name], found["nll"],
                       better="smaller")
        )  # fmt: skip
        rows.append([words, f"{PUBLISHED[name]:.2f}", f"{found['nll']:.2f}",
                     f"{found['nll_of_estimate']:.2f}", f"{found['bound_1']:.2f}"])  # fmt: skip
        record.picture(options.out, picture(model), name, f"new images, {words}")
    show_table(["nats per image", "paper", "ours", "+-", "bound by one draw"], rows, right=4)
    say(f"{options.epochs} and {options.importance_epochs} epochs; the paper has 3,280")
    return record.write(options.out)


if __name__ == "__main__":
    main()
