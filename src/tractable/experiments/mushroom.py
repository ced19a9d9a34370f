"""Contextual bandit on mushrooms: Bayes by Backprop, TAGI and ε-greedy agents.

Section 4.3 of "Weight uncertainty in neural networks" (a replication of Bayes by Backprop), figures
23 to 27.  All agents of a seed meet the same mushrooms with the same luck, after the same 4,096
random actions.  The figures of the source are not printed as numbers; what its text says is
compared.  A killed run goes on from its checkpoints and gives the same curves.

    python -m tractable.experiments.mushroom
    python -m tractable.experiments.mushroom --quick
    python -m tractable.experiments.mushroom --variations 10000
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tractable.agents import History
from tractable.experiments import mushroom_figures, options
from tractable.experiments.mushroom_agents import AGENTS, NAMES, SETTINGS, VARIATIONS
from tractable.experiments.mushroom_runs import Job, run_all
from tractable.experiments.progress import say
from tractable.experiments.record import Record, table
from tractable.report.results import Chart, Comparison
from tractable.training.parallel import cores

_CHANCE = 0.5 * (4208 * 5 + 3916 * 15) / 8124
"""Expected regret of a random action."""


def summary(histories: Sequence[History], steps: int) -> dict[str, Any]:
    """Figures of one agent over its seeds, of the first ``steps`` steps."""
    runs = [_figures(history, steps) for history in histories]
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


def _figures(history: History, steps: int) -> dict[str, float]:
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


def compare(figures: dict[str, Any], steps: int) -> list[Comparison]:
    """What the source says, beside ours."""
    made = []
    for name, found in figures.items():
        floor = {"eps-1": 0.01, "eps-5": 0.05}.get(name)
        note = "" if floor is None else f"chance alone costs {floor * _CHANCE * steps:,.0f}"
        made.append(
            Comparison(
                f"cumulative regret, {NAMES[name]}", None, round(found["regret"], 1),
                better="smaller", spread=found["regret_standard_error"], learner=NAMES[name],
                measure="cumulative regret", note=note,
            )
        )  # fmt: skip
    return made


def report(figures: dict[str, Any]) -> str:
    """The table *paper | ours*: the source's text has orders, not numbers."""
    rows = []
    for name, found in figures.items():
        error = found["regret_standard_error"]
        rows.append(
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
    header = [
        "agent", "paper (text)", "ours: regret", "as received", "eats", "FP / FN", "CPU ms/step"
    ]  # fmt: skip
    return table(rows, header)


_PAPER = {
    "bbb": "converges faster than greedy",
    "greedy": "more FP than BBB, eats as often",
    "eps-1": "linear in the steps",
    "eps-5": "linear, steeper",
}


def check(argv: Sequence[str] | None) -> Any:
    """The command line."""
    parser = options.parser("mushroom", __doc__, seed=(0, 1, 2), resume=True)
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--agents", nargs="+", choices=list(AGENTS), default=list(AGENTS))
    parser.add_argument(
        "--variations", type=int, default=0, metavar="STEPS",
        help="also compare learning rates, priors and draws, with the first seed, this long",
    )  # fmt: skip
    parser.add_argument(
        "--runs", type=Path, metavar="DIR", help="folder for the checkpoints of the runs; OUT/runs"
    )
    parser.add_argument("--jobs", type=int, default=cores(), help="processes side by side")
    args = options.parse(parser, argv, {"seed": [0], "steps": 1500, "jobs": 1})
    for name in ("steps", "jobs"):
        if getattr(args, name) < 1:
            parser.error(f"--{name} must be at least 1, got {getattr(args, name)}")
    if args.variations < 0:
        parser.error(f"--variations must not be negative, got {args.variations}")
    return args


def main(argv: Sequence[str] | None = None) -> None:
    """Run all agents, print the table, write results and figures."""
    args = check(argv)
    seeds, folder = list(args.seed), args.runs or args.out / "runs"
    record = Record(
        "mushroom",
        seeds=seeds,
        settings={**options.settings(args, "jobs", "runs"), **SETTINGS},
        argv=argv,
    )
    jobs = {name: [Job(name, seed, args.steps, folder) for seed in seeds] for name in args.agents}
    varied = {name: [Job(name, seeds[0], args.variations, folder)] for name in VARIATIONS}
    everything = [job for group in jobs.values() for job in group]
    if args.variations:
        everything += [job for group in varied.values() for job in group]
    if not args.resume:
        for job in everything:
            job.path.unlink(missing_ok=True)
    record.earlier = sum(job.history().seconds for job in everything if job.path.is_file())
    run_all(everything, args.jobs, args.threads)
    histories = {name: [job.history() for job in group] for name, group in jobs.items()}
    figures = {name: summary(runs, args.steps) for name, runs in histories.items()}
    record.figures.update(figures)
    record.comparison = compare(figures, args.steps)
    record.charts = [_chart(histories, args.steps)]
    record.notes += _NOTES
    mushroom_figures.draw(record, args.out, histories, args.steps)
    if args.variations:
        others = {name: [job.history() for job in group] for name, group in varied.items()}
        for name in {"bbb", "tagi"} & histories.keys():
            others[name] = histories[name][:1]
        length = min(len(h) for runs in others.values() for h in runs)
        found = {name: summary(runs, length) for name, runs in others.items()}
        record.figures["variations"] = found
        mushroom_figures.draw_variations(record, args.out, others, length)
        say(f"one seed, {length:,} steps:\n{report(found)}\n")
    spent = sum(h.seconds for runs in histories.values() for h in runs)
    record.figures["cpu_seconds_of_all_runs"] = round(spent, 1)
    path = record.write(args.out)
    say(f"mean of {len(seeds)} seeds, {args.steps:,} steps:\n{report(figures)}")
    say(f"written to {path}")


def _chart(histories: dict[str, list[History]], steps: int) -> Chart:
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
    "The source prints no regrets; what its text says is in the table that the command prints.",
]


if __name__ == "__main__":
    main()
