"""Character language model on Shakespeare: one transformer with TAGI, BBB and Backprop.

Training uses the first nine tenths of the text, in windows of 64 characters; the last tenth is
used for validation, in nats per character.  The rate of Backprop is the best of those given.

    python -m tractable_studies.characters.run
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import tractable as tr
from tractable.cli.output import print_line, print_table
from tractable.likelihoods import Categorical, PerStep, Softmax
from tractable.nn import CausalTransformer
from tractable.predictive import StepsPredictive
from tractable.report.results import Comparison
from tractable_studies.characters import STUDY
from tractable_studies.framework.options import StudyOptions, option, parse, seed_option, settings
from tractable_studies.framework.progress import PartsProgress
from tractable_studies.framework.record import RunRecord

TARGET = 1.9
"""Validation NLL in nats that Backprop should reach with such a network."""


@dataclass(frozen=True)
class Text:
    """Training and validation windows of the text, as numbers."""

    letters: str
    train: Tensor
    validation: Tensor

    @classmethod
    def load(cls, context: int, windows: int, n_validation: int) -> Text:
        """Load evenly spread windows: ``windows`` for training, ``n_validation`` for validation."""
        path = Path(os.environ.get("TRACTABLE_DATA", "data")) / "text" / "tinyshakespeare.txt"
        text = path.read_text()
        letters = "".join(sorted(set(text)))
        codes = {letter: i for i, letter in enumerate(letters)}
        numbers = torch.tensor([codes[letter] for letter in text])
        cut = int(0.9 * len(numbers))
        parts = []
        for part, n in ((numbers[:cut], windows), (numbers[cut:], n_validation)):
            found = part.unfold(0, context + 1, context)
            at = torch.linspace(0, len(found) - 1, min(n, len(found))).long()
            parts.append(found[at])
        return cls(letters, *parts)


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    """Options: size of the network and amount of training."""

    seed: int = seed_option(0)
    width: int = option(64, "features of a character", quick=16, min_value=4)
    layers: int = option(2, "blocks", quick=1, min_value=1)
    context: int = option(64, "characters in a window", quick=16, min_value=2)
    windows: int = option(15_684, "to learn from", quick=64, min_value=8)
    judged: int = option(600, "windows of the validation text", quick=20, min_value=4)
    epochs: int = option(3, "passes over them", quick=1, min_value=1)
    batch: int = option(16, "windows in a batch", quick=8, min_value=1)
    rates: list[float] = option([3e-3], "learning rates of Backprop")
    learners: list[str] = option(
        ["Backprop", "TAGI", "BayesByBackprop"], "to compare",
        choices=["Backprop", "TAGI", "BayesByBackprop"],
    )  # fmt: skip


def fitted(kind: str, text: Text, options: Options, rate: float) -> tr.Learner:
    """Fit one learner."""
    classes = len(text.letters)
    torch.manual_seed(options.seed)
    part: Any = Categorical(classes, link="probit") if kind == "TAGI" else Softmax(classes)
    net = CausalTransformer(
        classes, part.outputs_needed, d_model=options.width, n_heads=4, n_layers=options.layers,
        context_length=options.context,
    )  # fmt: skip
    more: dict[str, Any] = {} if kind == "TAGI" else {"lr": rate}
    if kind == "BayesByBackprop":
        more["init"] = "he"
    model: tr.Learner = getattr(tr, kind)(net, PerStep(part), seed=options.seed, **more)
    x, y = text.train[:, :-1], text.train[:, 1:]
    return model.fit(x, y, epochs=options.epochs, batch_size=options.batch, distance_aware=False)


def nats(model: tr.Learner, text: Text) -> float:
    """Return the negative log-likelihood per character."""
    found = []
    for rows in text.validation.split(50):
        p = model.predict(rows[:, :-1])
        assert isinstance(p, StepsPredictive)
        found.append(-p.step_log_prob(rows[:, 1:]))
    return float(torch.cat(found).mean())


def main(argv: Sequence[str] | None = None) -> Path:
    """Run the learners and print one table; the file is written after each learner."""
    options = parse(Options, STUDY, argv, __doc__)
    record = RunRecord(STUDY, seeds=[options.seed], settings=settings(options), argv=argv)
    text = Text.load(options.context, options.windows, options.judged)
    path, lines = options.out, []
    with PartsProgress(len(options.learners) + len(options.rates) - 1, "fits") as parts:
        best = options.rates[0]
        for kind in options.learners:
            tried = {}
            for rate in options.rates if kind == "Backprop" else [best]:
                tried[rate] = nats(fitted(kind, text, options, rate), text)
                parts.step(f"{kind}: {tried[rate]:.3f} nats")
            if kind == "Backprop":
                best = min(tried, key=lambda r: tried[r])
            found = min(tried.values())
            record.metrics[kind] = {"nats": found, "tried": {str(r): v for r, v in tried.items()}}
            record.comparison.append(
                Comparison("validation nats per character", TARGET, found, better="smaller",
                           learner=kind, measure="nats")
            )  # fmt: skip
            lines.append([kind, f"{found:.3f}"])
            path = record.write(options.out)
    print_table(["learner", "nats per character"], lines)
    print_line(f"written to {path}")
    return path


if __name__ == "__main__":
    main()
