"""Contextual bandit on mushrooms: Bayes by Backprop, TAGI and ε-greedy agents.

Section 4.3 of "Weight uncertainty in neural networks" (a replication of Bayes by Backprop), figures
23 to 27.  All agents of a seed meet the same mushrooms with the same luck, after the same 4,096
random actions.  The figures of the source are not printed as numbers; its statements are
compared.  A killed run goes on from its checkpoints and gives the same curves.

    python -m tractable_studies.mushroom.run
    python -m tractable_studies.mushroom.run --quick
    python -m tractable_studies.mushroom.run --variations 10000
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tractable.agents import BanditHistory
from tractable.cli.output import print_line, print_table
from tractable.report.results import Chart, Comparison
from tractable.training.parallel import n_cores
from tractable_studies.framework.options import (
    StudyOptions,
    option,
    parse,
    resume_option,
    seed_option,
    settings,
)
from tractable_studies.framework.record import RunRecord
from tractable_studies.mushroom import STUDY, plots
from tractable_studies.mushroom.agents import AGENTS, NAMES, SETTINGS, VARIATIONS
from tractable_studies.mushroom.jobs import Job, run_all

_CHANCE = 0.5 * (4208 * 5 + 3916 * 15) / 8124
"""Expected regret of a random action."""

HEADER = [
    "agent", "paper (text)", "ours: regret", "as received", "eats", "FP / FN", "CPU ms/step"
]  # fmt: skip


def summary(histories: Sequence[BanditHistory], steps: int) -> dict[str, Any]:
    """Return metrics of one agent over its seeds, for the first ``steps`` steps."""
    runs = [_metrics(history, steps) for history in histories]
    regrets = [run["regret"] for run in runs]
    error = float(np.std(regrets, ddof=1) / math.sqrt(len(runs))) if len(runs) > 1 else None
    mean = {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}
    return {
        "seeds": len(runs),
        "steps": steps,
        **{key: round(value, 4) for key, value in mean.items()},
        "regret_standard_error": None if error is None else round(error, 1),
        "regret_of_each_seed": regrets,
    }


def _metrics(history: BanditHistory, steps: int) -> dict[str, float]:
    eaten = np.array(history.actions[:steps])
    edible = np.array(history.oracle[:steps])
    regret = history.cumulative_regret[:steps]
    return {
        "regret": float(regret[-1]),
        "regret_received": float(5 * edible.sum() - np.sum(history.rewards[:steps])),
        "regret_of_the_last_tenth": float(regret[-1] - regret[-max(steps // 10, 1)]),
        "false_positives": int((eaten > edible).sum()),
        "false_negatives": int((eaten < edible).sum()),
        "eating_rate": float(eaten.mean()),
        "edible_rate": float(edible.mean()),
        "cpu_milliseconds_per_step": 1000 * history.seconds / len(history),
    }


def compare(metrics: dict[str, Any], steps: int) -> list[Comparison]:
    """Compare the results with the statements of the source."""
    made = []
    for name, found in metrics.items():
        floor = {"eps-1": 0.01, "eps-5": 0.05}.get(name)
        note = "" if floor is None else f"chance alone costs {floor * _CHANCE * steps:,.0f}"
        made.append(
            Comparison(
                f"cumulative regret, {NAMES[name]}", None, round(found["regret"], 1),
                better="smaller", std_error=found["regret_standard_error"], learner=NAMES[name],
                measure="cumulative regret", note=note,
            )
        )  # fmt: skip
    return made


def rows(metrics: dict[str, Any]) -> list[list[str]]:
    """Return the printed table; the text of the source has orders, not numbers."""
    made = []
    for name, found in metrics.items():
        error = found["regret_standard_error"]
        made.append(
            [
                NAMES[name],
                _PAPER.get(name, "-"),
                f"{found['regret']:,.0f}" + ("" if error is None else f" ± {error:,.0f}"),
                f"{found['regret_received']:,.0f}",
                f"{found['eating_rate']:.1%}",
                f"{found['false_positives']:,.0f} / {found['false_negatives']:,.0f}",
                f"{found['cpu_milliseconds_per_step']:.2f}",
            ]
        )
    return made


_PAPER = {
    "bbb": "converges faster than greedy",
    "greedy": "more FP than BBB, eats as often",
    "eps-1": "linear in the steps",
    "eps-5": "linear, steeper",
}


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    """Options: agents and number of steps."""

    seed: list[int] = seed_option((0, 1, 2), quick=[0])
    resume: bool = resume_option()
    steps: int = option(50_000, "number of steps of each agent", quick=1500, min_value=1)
    agents: list[str] = option(list(AGENTS), choices=AGENTS)
    variations: int = option(
        0,
        "also compare learning rates, priors and draws, with the first seed, this long",
        min_value=0,
        metavar="STEPS",
    )
    runs: Path | None = option(
        None, "folder for the checkpoints of the runs; OUT/runs", metavar="DIR"
    )
    jobs: int = option(n_cores(), "processes side by side", quick=1, min_value=1)


Histories = dict[str, list[BanditHistory]]


def main(argv: Sequence[str] | None = None) -> Path:
    """Run all agents, print the table, write results and plots."""
    options = parse(Options, STUDY, argv, __doc__)
    record = RunRecord(
        STUDY,
        seeds=options.seed,
        settings={**settings(options, "jobs", "runs"), **SETTINGS},
        argv=argv,
    )
    histories, varied = run_jobs(record, options)
    record.metrics.update({n: summary(runs, options.steps) for n, runs in histories.items()})
    table = rows(record.metrics)
    record.comparison = compare(record.metrics, options.steps)
    record.charts = [_chart(histories, options.steps)]
    record.notes += _NOTES
    plots.draw(record, options.out, histories, options.steps)
    if varied:
        vary(record, options, varied)
    spent = sum(h.seconds for runs in histories.values() for h in runs)
    record.metrics["cpu_seconds_of_all_runs"] = round(spent, 1)
    path = record.write(options.out)
    print_line(f"mean of {len(options.seed)} seeds, {options.steps:,} steps:")
    print_table(HEADER, table)
    print_line(f"written to {path}")
    return path


def run_jobs(record: RunRecord, options: Options) -> tuple[Histories, Histories]:
    """Run all agents and variations with all seeds; return their histories."""
    folder, first = options.runs or options.out / "runs", options.seed[0]
    jobs = {
        n: [Job(n, seed, options.steps, folder) for seed in options.seed] for n in options.agents
    }
    varied = {n: [Job(n, first, options.variations, folder)] for n in VARIATIONS}
    groups = [*jobs.values(), *(varied.values() if options.variations else ())]
    everything = [job for group in groups for job in group]
    if not options.resume:
        for job in everything:
            job.path.unlink(missing_ok=True)
    record.earlier = sum(job.history().seconds for job in everything if job.path.is_file())
    run_all(everything, options.jobs, options.threads)
    histories = {name: [job.history() for job in group] for name, group in jobs.items()}
    if not options.variations:
        return histories, {}
    others = {name: [job.history() for job in group] for name, group in varied.items()}
    for name in {"bbb", "tagi"} & histories.keys():
        others[name] = histories[name][:1]
    return histories, others


def vary(record: RunRecord, options: Options, histories: Histories) -> None:
    """Write metrics, plots and table of the variations."""
    length = min(len(h) for runs in histories.values() for h in runs)
    found = {name: summary(runs, length) for name, runs in histories.items()}
    record.metrics["variations"] = found
    plots.draw_variations(record, options.out, histories, length)
    print_line(f"one seed, {length:,} steps:")
    print_table(HEADER, rows(found))


def _chart(histories: dict[str, list[BanditHistory]], steps: int) -> Chart:
    every = max(steps // 100, 1)
    at = list(range(every, steps + 1, every))
    curves = {}
    for name, runs in histories.items():
        mean = np.mean([h.cumulative_regret[:steps] for h in runs], axis=0)
        curves[NAMES[name]] = (at, [round(float(mean[i - 1]), 1) for i in at])
    return Chart("Cumulative regret, mean over seeds (figure 23)", "step", "regret", curves)


_NOTES = [
    "Regret is the oracle's expected reward less that of the action taken: a poisonous bite costs "
    "15 whether or not it was lucky. Counted by rewards received it is in regret_received.",
    "The source prints no regrets; the printed table compares the statements of its text.",
]


if __name__ == "__main__":
    main()
