"""Long data streams: plasticity of models and coverage of their intervals.

* ``jump``: after 500,000 updates the function jumps.  A model with ``memory_rows=1000`` against an
  untrained one on the same rows: the ratio of their errors 2,000 and 10,000 updates later.
* ``drift``: a million rows of a slowly varying function; coverage of 90 % intervals along it.
* ``change``: a change without a given memory: rows until the error is small again, with the
  safeguards of a robust learner and without.

    python -m tractable_studies.streams.run
    python -m tractable_studies.streams.run --parts drift
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import tractable as tr
from tractable import metrics
from tractable.cli.output import print_line, print_table
from tractable.report.results import Comparison
from tractable_studies.framework.options import StudyOptions, option, parse, seed_option, settings
from tractable_studies.framework.progress import PartsProgress
from tractable_studies.framework.record import RunRecord
from tractable_studies.streams import STUDY, worlds

MEMORY = 1000
SIGMAS = {"noise known": worlds.NOISE, "noise inferred": None}
LATER = {2_000: 1.5, 10_000: 1.1}
"""Number of updates after the jump, and the largest accepted ratio of errors there."""
LOOKS = 10
"""Number of evaluations in a mean error, fifty updates apart, since errors fluctuate."""
LEVEL, COVERED = 0.9, (0.85, 0.95)
BEFORE_CHANGE = 5_000
SMALL = 0.3
"""Error below which a model has adapted to a change."""
LONGEST = 20_000
"""Maximum number of rows for the adaptation."""

Metrics = dict[str, Any]


def jump(sigma: float | None, seed: int, updates: int) -> Metrics:
    """Return errors of an old and an untrained model after a jump, both with a memory."""
    old_truth, new_truth = worlds.sine(0.0), worlds.sine(2.0)
    old = worlds.model(sigma, 2, seed)
    worlds.learn(old, old_truth, updates, 1, _generator(seed), MEMORY)
    fresh = worlds.model(sigma, 2, seed + 100)
    found: Metrics = {"before": worlds.rmse(old, old_truth)}
    for name, learner in (("old", old), ("fresh", fresh)):
        generator, done = _generator(seed + 1), 0
        for later in LATER:
            worlds.learn(learner, new_truth, later - done, 1, generator, MEMORY)
            looks = []
            for _ in range(LOOKS):
                looks.append(worlds.rmse(learner, new_truth))
                worlds.learn(learner, new_truth, 50, 1, generator, MEMORY)
            found[f"{name}, {later}"] = float(np.mean(looks))
            done = later + 50 * LOOKS
    return found


def drift(sigma: float | None, seed: int, rows: int, turn: int) -> Metrics:
    """Return coverage and error along a drifting stream, after its first tenth."""
    truth, generator, tests = worlds.turning(turn), _generator(seed), _generator(seed + 1)
    learner, step = worlds.model(sigma, 2, seed), max(rows // 100, 10)
    interval_coverage, errors = [], []
    for first in range(0, rows, step):
        worlds.learn(learner, truth, step, 10, generator, MEMORY, first)
        x, y = worlds.observed(truth, 1000, first + step, tests)
        interval_coverage.append(metrics.coverage(learner.predict(x), y, LEVEL))
        errors.append(worlds.rmse(learner, truth, first + step))
    late = slice(len(interval_coverage) // 10, None)
    return {
        "coverage": float(np.mean(interval_coverage[late])),
        "lowest": float(np.min(interval_coverage[late])),
        "highest": float(np.max(interval_coverage[late])),
        "rmse": float(np.mean(errors[late])),
    }


def rows_to_follow(learner: tr.TAGI, truth: worlds.Truth, batch: int, seed: int) -> int:
    """Return the number of rows after a change until the error is small."""
    generator, every = _generator(seed), max(20, batch)
    for seen in range(every, LONGEST + 1, every):
        worlds.learn(learner, truth, every, batch, generator, None)
        if worlds.rmse(learner, truth) < SMALL:
            return seen
    return LONGEST


def change(sigma: float | None, hidden: int, batch: int, seeds: Sequence[int]) -> Metrics:
    """Return median rows to adapt to each change, with and without the safeguards."""
    counts: dict[str, dict[bool, list[int]]] = {c: {True: [], False: []} for c in worlds.CHANGES}
    for seed in seeds:
        for robust in (True, False):
            for name, truth in worlds.CHANGES.items():
                learner = worlds.model(sigma, hidden, seed, robust=robust)
                generator = _generator(seed)
                worlds.learn(learner, worlds.sine(0.0), BEFORE_CHANGE, batch, generator, None)
                counts[name][robust].append(rows_to_follow(learner, truth, batch, seed + 1))
    return {
        name: {
            "robust": float(np.median(own[True])),
            "plain": float(np.median(own[False])),
            "ratio": float(np.median(own[True]) / np.median(own[False])),
        }
        for name, own in counts.items()
    }


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    """Options: lengths of the streams and seeds."""

    seed: list[int] = seed_option([0, 1, 2], quick=[0])
    parts: list[str] = option(["jump", "drift", "change"], choices=["jump", "drift", "change"])
    updates: int = option(500_000, "before the jump", quick=5_000, min_value=1)
    rows: int = option(
        1_000_000, "number of rows of the drifting stream", quick=20_000, min_value=100
    )
    turn: int = option(
        100_000, "rows of a full turn of the drifting truth", quick=20_000, min_value=1
    )


Job = tuple[str, str, Callable[[], Metrics]]


def jobs(options: Options) -> list[Job]:
    """Return the jobs to run, each with a part, a name and a function."""
    made: list[Job] = []
    for noise, sigma in SIGMAS.items():
        if "jump" in options.parts:
            made.append(("jump", noise, _repeated(jump, sigma, options.seed, options.updates)))
        if "drift" in options.parts:
            ran = _repeated(drift, sigma, options.seed[:1], options.rows, options.turn)
            made.append(("drift", noise, ran))
        if "change" in options.parts:
            for hidden in (1, 2):
                for batch in (1, 32):
                    name = f"{noise}, {hidden} hidden, batch {batch}"
                    made.append(("change", name, _change(sigma, hidden, batch, options.seed)))
    return made


def compare(found: dict[str, dict[str, Metrics]]) -> list[Comparison]:
    """Compare the results with the targets."""
    rows = []
    for noise, own in found.get("jump", {}).items():
        for later, most in LATER.items():
            ratio = own[f"old, {later}"] / own[f"fresh, {later}"]
            name = f"jump, {noise}: error to a fresh model's, {later:,} updates on"
            rows.append(Comparison(name, most, _short(ratio), better="smaller", learner="TAGI"))
    for noise, own in found.get("drift", {}).items():
        name = f"drift, {noise}: coverage"
        note = f"between {own['lowest']:.1%} and {own['highest']:.1%}"
        rows.append(
            Comparison(
                name, LEVEL, own["coverage"], better="nearer", goal=LEVEL, learner="TAGI", note=note
            )
        )
    for case, own in found.get("change", {}).items():
        for kind, one in own.items():
            name = f"change {kind}, {case}: rows to follow, of those without guards"
            note = f"{one['robust']:.0f} rows against {one['plain']:.0f}"
            rows.append(
                Comparison(
                    name, 2.0, _short(one["ratio"]), better="smaller", learner="TAGI", note=note
                )
            )
    return rows


def main(argv: Sequence[str] | None = None) -> Path:
    """Run all parts and print a comparison with the targets."""
    options = parse(Options, STUDY, argv, __doc__)
    record = RunRecord(STUDY, seeds=options.seed, settings=settings(options), argv=argv)
    record.notes += _NOTES
    todo = jobs(options)
    with PartsProgress(len(todo), "parts") as parts:
        for part, name, action in todo:
            record.metrics.setdefault(part, {})[name] = action()
            record.comparison = compare(record.metrics)
            parts.step(f"{part}, {name}")
            path = record.write(options.out)
    lines = [[row.name, f"{row.paper:g}", f"{row.ours:.3g}", row.note] for row in record.comparison]
    print_table(["", "target", "found", ""], lines)
    print_line(f"written to {path}")
    return path


def _repeated(
    action: Callable[..., Metrics], sigma: float | None, seeds: Sequence[int], *sizes: int
) -> Callable[[], Metrics]:
    """Return means over seeds."""

    def run() -> Metrics:
        found = [action(sigma, seed, *sizes) for seed in seeds]
        return {key: _short(float(np.mean([one[key] for one in found]))) for key in found[0]}

    return run


def _change(
    sigma: float | None, hidden: int, batch: int, seeds: Sequence[int]
) -> Callable[[], Metrics]:
    return lambda: change(sigma, hidden, batch, seeds)


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _short(value: float) -> float:
    return float(f"{value:.4g}")


_NOTES = [
    f"A sine of one input with a noise of {worlds.NOISE}; layers of {worlds.WIDTH} units, gain 1; "
    f"memory of {MEMORY} rows in jump and drift, none in change.",
    "In the table of comparisons, 'paper' is the target: an upper bound, except for the coverage.",
    f"Rows to follow: until the error is below {SMALL}, at most {LONGEST:,}; medians over seeds.",
]


if __name__ == "__main__":
    main()
