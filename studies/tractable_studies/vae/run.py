"""Autoencoders of binarized MNIST: the ELBO and the importance-weighted bound.

Training pixels are sampled in every epoch; test images are drawn once.  The log-likelihood
of some test images is estimated by 5,000 draws of the latent.  The estimate for all images is the
mean over all images of the bound by 100 draws, plus the mean
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
from tractable.cli.errors import UsageError
from tractable.cli.output import print_line, print_table
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

PUBLISHED = {"elbo": 86.76, "importance-5": 85.54, "importance-50": 84.78}
LATENT = 50
_SHOWN = 8


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    """Options: training and number of samples."""

    seed: int = seed_option(0)
    epochs: int = option(500, "number of epochs with the ELBO", quick=1, min_value=1)
    importance_epochs: list[int] = option(
        [60, 20], "of the weighted one, after it, in stages", quick=[1, 1], min_value=0
    )
    samples: list[int] = option(
        [5, 50], "number of samples of each stage", quick=[2, 5], min_value=2
    )
    batch_size: int = option(100, "images of an update", min_value=1)
    lr: float = option(3e-3, "learning rate of Adam, to zero by a cosine")
    importance_lr: float = option(1e-3, "learning rate of every stage of the weighted bound")
    importance_batch: list[int] = option(
        [100, 20], "images of an update of it, by stage", min_value=1
    )
    rows: int = option(60_000, "training images", quick=2_000, min_value=100)
    test: int = option(10_000, "test images", quick=200, min_value=10)
    exact: int = option(500, "test images for 5,000 draws", quick=20, min_value=2)
    draws: int = option(5_000, "number of samples of the latent, for those", quick=200, min_value=2)
    resume: bool = resume_option()

    def check(self) -> None:
        """Check that every stage has a value of each option."""
        lists = self.samples, self.importance_epochs, self.importance_batch
        if len({len(given) for given in lists}) > 1:
            raise UsageError(
                "--samples, --importance-epochs and --importance-batch take a number for each "
                f"stage: got {', '.join(str(len(given)) for given in lists)} of them"
            )


def network(inputs: int, outputs: int) -> nn.Sequential:
    """Return two hidden layers of 200."""
    return nn.Sequential(
        nn.Linear(inputs, 200), nn.ELU(), nn.Linear(200, 200), nn.ELU(), nn.Linear(200, outputs)
    )


def binarised(images: Tensor, seed: int) -> Tensor:
    """Return pixels drawn once from their Bernoulli distributions."""
    noise = torch.rand(images.shape, generator=torch.Generator().manual_seed(seed))
    return (noise < images).float()


@dataclass(frozen=True)
class Stage:
    """A stage of training, which starts from the result of the stage before."""

    name: str
    epochs: int
    lr: float
    batch_size: int
    bound: dict[str, Any]


def stages(options: Options) -> list[Stage]:
    """Return the stages: the ELBO, then the importance-weighted bound with more samples."""
    found = [Stage("elbo", options.epochs, options.lr, options.batch_size, {})]
    weighted = zip(
        options.samples, options.importance_epochs, options.importance_batch, strict=True
    )
    for samples, epochs, batch in weighted:
        bound = {
            "n_latent_samples": samples, "objective": "iwae",
            "estimator": "doubly_reparameterized",
        }  # fmt: skip
        if epochs:
            name = f"importance-{samples}"
            found.append(Stage(name, epochs, options.importance_lr, batch, bound))
    return found


def trained(options: Options, images: Tensor, folder: Path) -> dict[str, VAE]:
    """Return the model of each stage, trained or loaded from an earlier run."""
    common: dict[str, Any] = {"latent_dim": LATENT, "binarize": True, "validation_fraction": 0.0,
                              "seed": options.seed}  # fmt: skip
    encoder: nn.Module = network(784, 2 * LATENT)
    decoder: nn.Module = network(LATENT, 784)
    found: dict[str, VAE] = {}
    for stage in stages(options):
        file = folder / f"{stage.name}.tr"
        if options.resume and file.is_file():
            model = VAE.load(file)
        else:
            how = {"lr": stage.lr, "init": "net" if found else "fresh"}
            likelihood = Bernoulli("logit")
            model = VAE(encoder, decoder, likelihood, learner_kwargs=how, **stage.bound, **common)
            checkpoint = folder / f"{stage.name}-checkpoint.tr"
            resumed: dict[str, Any] = {"resume": checkpoint} if options.resume else {}
            model.fit(images, epochs=stage.epochs, batch_size=stage.batch_size,
                      callbacks=[Checkpoint(checkpoint)], **resumed)  # fmt: skip
            model.save(file)
        found[stage.name] = model
        net = model.to_module()
        encoder, decoder = net.encoder, net.decoder
    return found


def scored(model: VAE, images: Tensor, options: Options) -> dict[str, float]:
    """Return nats per image: the bound, and the estimated negative log-likelihood."""
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
    return model.predict(n_importance_samples=draws).log_prob(images).double()


def picture(model: VAE) -> Any:
    """Draw new images: the probability of every pixel for draws of the latent."""
    from matplotlib.figure import Figure

    net = model.to_module()
    z = torch.randn(_SHOWN * _SHOWN, LATENT, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        pixels = torch.sigmoid(net.decoder(z)).reshape(_SHOWN, _SHOWN, 28, 28)
    figure = Figure((4, 4), layout="constrained")
    ax = figure.subplots()
    tiles = pixels.permute(0, 2, 1, 3).reshape(28 * _SHOWN, -1)
    ax.imshow(tiles.numpy(), cmap="gray_r", vmin=0, vmax=1)
    ax.set_axis_off()
    return figure


def main(argv: Sequence[str] | None = None) -> Path:
    """Train, estimate and compare."""
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
        samples = name.removeprefix("importance-")
        words = "evidence lower bound" if name == "elbo" else f"{samples} weighted samples"
        published = PUBLISHED.get(name)
        record.comparison.append(
            Comparison(f"{words}: -log p of a test image, nats", published, found["nll"],
                       better="smaller")
        )  # fmt: skip
        rows.append([words, f"{published or '-'}", f"{found['nll']:.2f}",
                     f"{found['nll_of_estimate']:.2f}", f"{found['bound_1']:.2f}"])  # fmt: skip
        record.picture(options.out, picture(model), name, f"new images, {words}")
    print_table(["nats per image", "paper", "ours", "+-", "bound by one draw"], rows, right=4)
    passes = ", ".join(f"{stage.name} {stage.epochs}" for stage in stages(options))
    print_line(f"epochs: {passes}; the paper has 3,280")
    return record.write(options.out)


if __name__ == "__main__":
    main()
