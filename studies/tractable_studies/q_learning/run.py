"""Q-learning: TAGI compared with DQN, A2C and PPO of Stable-Baselines3.

All agents learn in one harness, with the same number of steps, the same evaluation (twenty episodes
without exploration) and processor time for the clock.  ``QAgent`` has its defaults everywhere
(``one-pass`` goes without its replay memory); the baselines have the settings that their zoo tuned
for each environment.  Two more parts ask what uncertainty is good for: finding and keeping a rare
reward (the deep sea), and learning from a log.

    python -m tractable_studies.q_learning.run
    python -m tractable_studies.q_learning.run --env LunarLander-v3 --methods tagi --seed 0 1
    python -m tractable_studies.q_learning.run --quick
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tractable.cli.output import print_line, print_table
from tractable.report.results import Chart, Comparison
from tractable_studies.framework.options import (
    StudyOptions,
    option,
    parse,
    resume_option,
    seed_option,
    settings,
)
from tractable_studies.framework.progress import PartsProgress
from tractable_studies.framework.record import RunRecord
from tractable_studies.q_learning import STUDY, baselines
from tractable_studies.q_learning.logged import PESSIMISM, judge
from tractable_studies.q_learning.runs import METHODS, run
from tractable_studies.q_learning.sparse import KINDS, dive

STEPS = {
    "CartPole-v1": 50_000, "Acrobot-v1": 100_000, "MountainCar-v0": 150_000,
    "LunarLander-v3": 500_000,
}  # fmt: skip
TARGETS = {
    "CartPole-v1": 475.0, "Acrobot-v1": -91.0, "MountainCar-v0": -140.0, "LunarLander-v3": 200.0,
}  # fmt: skip
USUAL = ("tagi", *baselines.METHODS)
PARTS = ("acting", "sea", "log")
HEADER = ["environment", "method", "last 100", "sure", "each seed, sure", "steps/s", "steps"]


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    """Options: methods, environments and number of steps."""

    seed: list[int] = seed_option((0, 1, 2, 3, 4), quick=[0])
    resume: bool = resume_option()
    parts: list[str] = option(list(PARTS), "parts of the study", choices=PARTS)
    env: list[str] = option(list(STEPS), "environments", quick=["CartPole-v1"])
    methods: list[str] = option(list(USUAL), choices=METHODS, quick=["tagi", "a2c"])
    steps: int | None = option(None, "by default 50,000 to 500,000", quick=10_000, min_value=1)
    episodes: int = option(1_000, "in the deep sea", quick=200, min_value=100)


def main(argv: Sequence[str] | None = None) -> Path:
    """Run all agents and compare them."""
    options = parse(Options, STUDY, argv, __doc__)
    runs = options.out / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    if not options.resume:
        for old in runs.iterdir():
            old.unlink()
    record = RunRecord(STUDY, seeds=options.seed, settings=settings(options), argv=argv)
    jobs = _jobs(options, runs)
    with PartsProgress(len(jobs), "runs") as parts:
        for what, function, arguments in jobs:
            function(*arguments)
            parts.step(what)
    # Includes all results in the folder, those of earlier commands too.
    kept = {p.name: json.loads(p.read_text()) for p in sorted(runs.glob("*.json"))}
    record.metrics = {
        "acting": _acting([r for r in kept.values() if "method" in r]),
        "sea": _sea([r for name, r in kept.items() if name.startswith("sea-")]),
        "log": [r for name, r in kept.items() if name.startswith("log-")],
    }
    rows = _report(record, options.out)
    path = record.write(options.out)
    print_table(HEADER, rows)
    _show_rest(record)
    print_line(f"written to {path}")
    return path


def _jobs(options: Options, runs: Path) -> list[tuple[str, Any, tuple[Any, ...]]]:
    jobs: list[tuple[str, Any, tuple[Any, ...]]] = []
    if "acting" in options.parts:
        for env in options.env:
            steps = options.steps or STEPS.get(env, 100_000)
            for method in options.methods:
                jobs += [
                    (f"{method} {env} seed {s}", run, (method, env, s, steps, runs))
                    for s in options.seed
                ]
    if "sea" in options.parts:
        jobs += [
            (f"deep sea, {kind}, seed {s}", dive, (kind, s, runs, options.episodes))
            for kind in KINDS
            for s in options.seed
        ]
    if "log" in options.parts:
        jobs += [(f"log of seed {s}", judge, (s, runs)) for s in options.seed]
    return jobs


def _acting(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Aggregate metrics over seeds, by environment and method."""
    metrics: dict[str, Any] = {}
    for one in sorted(found, key=lambda r: (r["env"], METHODS.index(r["method"]), r["seed"])):
        entry = metrics.setdefault(one["env"], {}).setdefault(one["method"], {"runs": []})
        entry["runs"].append({k: v for k, v in one.items() if k not in ("env", "method")})
    for methods in metrics.values():
        for entry in methods.values():
            for key in ("last_100", "sure", "steps_per_second"):
                values = [r[key] for r in entry["runs"]]
                entry[key] = float(np.mean(values))
                entry[f"{key}_sd"] = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return metrics


def _sea(found: list[dict[str, Any]]) -> dict[str, Any]:
    metrics: dict[str, Any] = {}
    for kind in KINDS:
        ours = [r for r in found if r["kind"] == kind]
        if ours:
            metrics[kind] = {
                "runs": ours,
                "found": sum(r["first"] is not None for r in ours),
                "kept": sum(r["sure"] > 0.5 for r in ours),
                "last_100": float(np.mean([r["last_100"] for r in ours])),
            }
    return metrics


def _report(record: RunRecord, folder: Path) -> list[list[str]]:
    """Fill table, charts and figure of the record; return the rows of the printed table."""
    rows = []
    for env, methods in record.metrics["acting"].items():
        curves = {}
        for method, entry in methods.items():
            target = TARGETS.get(env) if method == "tagi" else None
            record.comparison.append(
                Comparison(f"{env}, {method}, sure", target, entry["sure"], better="larger")
            )
            rows.append(
                [
                    env,
                    method,
                    f"{entry['last_100']:.0f} ± {entry['last_100_sd']:.0f}",
                    f"{entry['sure']:.1f} ± {entry['sure_sd']:.1f}",
                    " ".join(f"{r['sure']:.0f}" for r in entry["runs"]),
                    f"{entry['steps_per_second']:.0f}",
                    str(entry["runs"][0]["steps"]),
                ]
            )
            for one in entry["runs"]:
                line = one["curve"]
                curves[f"{method}, seed {one['seed']}"] = (line["steps"], line["reward"])
        record.charts.append(
            Chart(title=env, curves=curves, x_label="steps", y_label="mean return of 50 episodes")
        )
    if record.metrics["acting"]:
        record.picture(folder, _picture(record.metrics["acting"]), caption="Learning curves")
    record.notes.append(
        "The column of what is published holds what was asked for, not another's figure. Steps a "
        "second are of processor time, environments included; A2C and PPO step 8 or 16 "
        "environments at once."
    )
    return rows


def _picture(metrics: dict[str, Any]) -> Any:
    """Plot the mean over seeds in every environment, and each seed in a lighter color."""
    from matplotlib.figure import Figure

    sheet = Figure(figsize=(4 * len(metrics), 3.4), layout="constrained")
    axes = sheet.subplots(1, len(metrics), squeeze=False)[0]
    for ax, (env, methods) in zip(axes, metrics.items(), strict=True):
        for method, entry in methods.items():
            color = f"C{METHODS.index(method)}"
            for one in entry["runs"]:
                ax.plot(one["curve"]["steps"], one["curve"]["reward"], color=color, alpha=0.25)
            grid = np.linspace(0, entry["runs"][0]["steps"], 100)
            lines = [
                np.interp(grid, r["curve"]["steps"], r["curve"]["reward"]) for r in entry["runs"]
            ]
            ax.plot(grid, np.mean(lines, 0), color=color, label=f"{method}, of {len(lines)}")
        ax.set(title=env, xlabel="steps")
        ax.locator_params(axis="x", nbins=4)
        ax.legend(fontsize=8)
    axes[0].set_ylabel("mean return of 50 episodes")
    return sheet


def _show_rest(record: RunRecord) -> None:
    sea = record.metrics["sea"]
    if sea:
        print_table(
            ["deep sea", "found", "known in the end", "last 100", "first, each seed"],
            [
                [
                    kind,
                    f"{entry['found']} of {len(entry['runs'])}",
                    f"{entry['kept']} of {len(entry['runs'])}",
                    f"{entry['last_100']:.2f}",
                    " ".join(str(r["first"]) for r in entry["runs"]),
                ]
                for kind, entry in sea.items()
            ],
        )
    if record.metrics["log"]:
        print_table(
            ["log of seed", "behaviour", *(f"pessimism {p:g}" for p in PESSIMISM)],
            [
                [
                    str(r["seed"]),
                    f"{r['behaviour']:.0f}",
                    *(f"{r[f'{p:g}']:.0f}" for p in PESSIMISM),
                ]
                for r in record.metrics["log"]
            ],
        )


if __name__ == "__main__":
    main()
