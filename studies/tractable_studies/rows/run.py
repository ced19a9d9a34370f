"""MNIST as sequences of 28 rows, by an LSTM and a transformer encoder: TAGI and Adam.

Each learner has one setting, the best on 2,000 validation images with the first seed and all other
images: the rate of Adam (on a fifth of the images a larger one is best, which trails on all), the
noise of decisions of TAGI.  Both have the same passes over all images.

    python -m tractable_studies.rows.run
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import tractable as tr
from tractable.cli.output import print_line, print_table
from tractable.data import mnist
from tractable.likelihoods import Categorical, Softmax
from tractable.report.results import Comparison
from tractable_studies.framework.options import StudyOptions, option, parse, seed_option, settings
from tractable_studies.framework.progress import PartsProgress
from tractable_studies.framework.record import RunRecord
from tractable_studies.rows import STUDY

CLASSES = 10
BATCH = 16
VALIDATION = 2000
RATES = (3e-4, 1e-3, 3e-3, 1e-2)
SIGMAS = (0.2, 0.3, 0.5)
Rows = tuple[Tensor, Tensor]


class LSTM(nn.Module):
    """One LSTM layer, and a head on its last state."""

    def __init__(self, outputs: int, units: int = 64) -> None:
        super().__init__()
        self.layer = nn.LSTM(28, units, batch_first=True)
        self.head = nn.Linear(units, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs of the head."""
        z: Tensor = self.head(self.layer(x)[0][:, -1])
        return z


class Encoder(nn.Module):
    """One pre-norm attention layer, and a head on the mean over rows."""

    def __init__(self, outputs: int, width: int = 64) -> None:
        super().__init__()
        self.embed = nn.Linear(28, width)
        self.place = nn.Parameter(0.1 * torch.randn(28, width))
        self.layer = nn.TransformerEncoderLayer(
            width, 4, 2 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.head = nn.Linear(width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs of the head."""
        z: Tensor = self.head(self.layer(self.embed(x) + self.place).mean(1))
        return z


NETS: dict[str, Callable[[int], nn.Module]] = {"lstm": LSTM, "encoder": Encoder}


@dataclass(frozen=True)
class Sets:
    """Training, validation and test images."""

    train: Rows
    validation: Rows
    test: Rows

    @classmethod
    def load(cls, images: int) -> Sets:
        """Load standardized images; the last training images are also the validation images."""
        data = mnist()
        mean, std = data.train_images.mean(), data.train_images.std()
        x, test = ((part.squeeze(1) - mean) / std for part in (data.train_images, data.test_images))
        y = data.train_labels
        return cls(
            (x[:images], y[:images]),
            (x[-VALIDATION:], y[-VALIDATION:]),
            (test, data.test_labels),
        )

    @property
    def others(self) -> Rows:
        """Return the training images without the validation images."""
        n = min(len(self.train[0]), 60_000 - VALIDATION)
        return self.train[0][:n], self.train[1][:n]


def tagi(name: str, rows: Rows, epochs: int, seed: int, sigma: float) -> tr.Learner:
    """Fit TAGI with its defaults and a given decision noise."""
    likelihood = Categorical(CLASSES, sigma=sigma)
    torch.manual_seed(seed)
    model = tr.TAGI(NETS[name](likelihood.outputs), likelihood, seed=seed)
    return model.fit(*rows, epochs=epochs, batch_size=BATCH, distance_aware=False)


def adam(name: str, rows: Rows, epochs: int, seed: int, rate: float) -> tr.Learner:
    """Fit Adam with torch's default initialization and a cosine schedule to zero."""
    torch.manual_seed(seed)
    model = tr.Backprop(NETS[name](CLASSES), Softmax(CLASSES), lr=rate, seed=seed)
    return model.fit(*rows, epochs=epochs, batch_size=BATCH, distance_aware=False)


WAYS: dict[str, Callable[..., tr.Learner]] = {"TAGI": tagi, "Adam": adam}
SETTINGS = {"TAGI": SIGMAS, "Adam": RATES}


def score(model: tr.Learner, rows: Rows) -> dict[str, float]:
    """Return accuracy and negative log-likelihood."""
    predictive = model.predict(rows[0])
    return {
        "accuracy": tr.metrics.accuracy(predictive, rows[1]),
        "nll": tr.metrics.nll(predictive, rows[1]),
    }


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    """Options of the study."""

    seed: list[int] = seed_option([0, 1, 2], quick=[0])
    nets: list[str] = option(list(NETS), "networks", choices=list(NETS))
    images: int = option(60_000, "to learn from", quick=600, min_value=100)
    epochs: int = option(1, "passes over them", quick=1, min_value=1)


def run(name: str, options: Options, sets: Sets, parts: Any) -> dict[str, Any]:
    """Run both learners: the selected setting, with every seed."""
    found: dict[str, Any] = {}
    for way, learn in WAYS.items():
        tried = judged(name, way, options, sets)
        best = max(tried, key=lambda c: tried[c]["accuracy"])
        runs = []
        for seed in options.seed:
            model = learn(name, sets.train, options.epochs, seed, best)
            runs.append(score(model, sets.test))
            parts.step(f"{name}, {way}: accuracy {runs[-1]['accuracy']:.4f}")
        found[way] = {
            "chosen": best,
            "validation": {str(k): v for k, v in tried.items()},
            "seeds": runs,
            **_means(runs),
        }
    return found


def judged(name: str, way: str, options: Options, sets: Sets) -> dict[float, dict[str, float]]:
    """Return the validation scores of each setting of a learner."""
    found = {}
    for setting in SETTINGS[way]:
        model = WAYS[way](name, sets.others, options.epochs, options.seed[0], setting)
        found[setting] = score(model, sets.validation)
    return found


def _means(runs: list[dict[str, float]]) -> dict[str, float]:
    return {k: float(f"{sum(r[k] for r in runs) / len(runs):.4g}") for k in runs[0]}


def main(argv: Sequence[str] | None = None) -> Path:
    """Run both networks and print one table; the file is written after each network."""
    options = parse(Options, STUDY, argv, __doc__)
    record = RunRecord(STUDY, seeds=options.seed, settings=settings(options), argv=argv)
    record.notes += _NOTES
    sets, path, lines = Sets.load(options.images), options.out, []
    with PartsProgress(len(options.nets) * len(options.seed) * len(WAYS), "fits") as parts:
        for name in options.nets:
            found = record.metrics[name] = run(name, options, sets, parts)
            record.comparison += [
                Comparison(
                    f"{name}, {key}", found["Adam"][key], found["TAGI"][key],
                    better="larger" if key == "accuracy" else "smaller", learner="TAGI",
                    measure=name,
                )
                for key in ("accuracy", "nll")
            ]  # fmt: skip
            lines += [
                [name, way, f"{found[way]['accuracy']:.4f}", f"{found[way]['nll']:.4f}"]
                for way in WAYS
            ]
            path = record.write(options.out)
    print_table(["network", "learner", "accuracy", "NLL"], lines)
    print_line(f"written to {path}")
    return path


_NOTES = [
    "In the table of comparisons, 'paper' is Adam with the softmax.",
    f"Settings by accuracy on the last {VALIDATION} training images after learning from the "
    "others; with 60,000 images those are learnt from afterwards, too.",
]


if __name__ == "__main__":
    main()
