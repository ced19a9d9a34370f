"""Out-of-distribution images by an ensemble of autoencoders: density and uncertainty.

Trained on binarized MNIST: on the digits 0 to 7, with 8 and 9 out of distribution; and on all
digits, with gray CIFAR-10 out of distribution.  Scores: minus the log density of one member (plain
likelihood), minus that of the mixture, and the disagreement of the members (``log_prob_std``).
The area under the ROC curve is that of test images against out-of-distribution images.

    python -m tractable_studies.novelty.run
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from tractable.cli.output import print_table
from tractable.data import cifar10, mnist
from tractable.generative import VAE
from tractable.likelihoods import Bernoulli
from tractable.metrics.two_sample import area_under_roc
from tractable.report.results import Comparison
from tractable_studies.framework.options import StudyOptions, option, parse, seed_option, settings
from tractable_studies.framework.record import RunRecord
from tractable_studies.novelty import STUDY

LATENT = 20


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    """Options: amounts of data and training."""

    seed: int = seed_option(0)
    rows: int = option(10_000, "training images", quick=1_000, min_value=100)
    test: int = option(1_000, "test images of either kind", quick=200, min_value=10)
    epochs: int = option(15, "over them", quick=2, min_value=1)
    members: int = option(3, "number of networks of the ensemble", quick=2, min_value=2)
    bound: int = option(50, "draws of the latent for a log density", quick=10, min_value=1)


def binarised(images: Tensor, seed: int) -> Tensor:
    """Return pixels drawn once from their Bernoulli distributions."""
    noise = torch.rand(images.shape, generator=torch.Generator().manual_seed(seed))
    return (noise < images).float()


def trained(images: Tensor, options: Options) -> VAE:
    """Fit an ensemble of small autoencoders."""

    def net(inputs: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(nn.Linear(inputs, 200), nn.ELU(), nn.Linear(200, outputs))

    model = VAE(
        net(784, 2 * LATENT), net(LATENT, 784), Bernoulli("logit"), latent_dim=LATENT,
        binarize=True, n_estimators=options.members, learner_kwargs={"lr": 2e-3},
        validation_fraction=0.0, seed=options.seed,
    )  # fmt: skip
    return model.fit(images, epochs=options.epochs, batch_size=100)


def areas(model: VAE, usual: Tensor, strange: Tensor, options: Options) -> dict[str, float]:
    """Return the AUROC of each score; 1 if all out-of-distribution images score higher."""
    density = model.predict(n_importance_samples=options.bound).density
    found = [density.log_prob_by_weights(images) for images in (usual, strange)]
    scores = {
        "plain likelihood": [-parts[0] for parts in found],
        "likelihood of the ensemble": [-parts.logsumexp(0) for parts in found],
        "disagreement of the members": [parts.std(0, correction=0) for parts in found],
    }
    return {name: area_under_roc(other, own)[0] for name, (own, other) in scores.items()}


def main(argv: Sequence[str] | None = None) -> Path:
    """Run both parts and print the comparison."""
    options = parse(Options, STUDY, argv)
    record = RunRecord(STUDY, seeds=[options.seed], settings=settings(options), argv=argv)
    data = mnist()
    train, test = data.train_images.flatten(1), data.test_images.flatten(1)
    low = data.train_labels < 8
    grey = cifar10().test_images.mean(1)[:, 2:30, 2:30].flatten(1)
    tasks = {
        "digits 0-7 against 8 and 9": (
            train[low], test[data.test_labels < 8], test[data.test_labels >= 8]
        ),
        "MNIST against grey CIFAR-10": (train, test, grey),
    }  # fmt: skip
    lines = []
    for name, (learn, usual, strange) in tasks.items():
        model = trained(learn[: options.rows], options)
        own, other = (
            binarised(part[: options.test], options.seed + 1) for part in (usual, strange)
        )
        found = areas(model, own, other, options)
        record.metrics[name] = found
        plain = found["plain likelihood"]
        for score in list(found)[1:]:
            record.comparison.append(
                Comparison(f"{name}: AUROC by {score}", plain, found[score], better="larger")
            )
        lines += [[name, score, f"{value:.3f}"] for score, value in found.items()]
    record.notes.append("The column 'paper' is the plain likelihood of one member in the same run.")
    print_table(["task", "score", "AUROC"], lines, right=1)
    return record.write(options.out)


if __name__ == "__main__":
    main()
