"""Default estimators compared with CatBoost, NGBoost, forests, linear models and GPs.

Sixteen tables with numbers to predict and sixteen with classes, all of which ship inside Python
packages; five folds.  Half of the tables may be looked at while defaults are chosen (``choosing``),
the other half is for reporting (``reporting``).  In addition there are random labels, and a
target with many unrelated columns (``toy``).

    python -m tractable_studies.tables.run
    python -m tractable_studies.tables.run --methods tagi --again

Every finished fold is kept in ``folds.json`` in the folder and not computed again; ``--again``
computes the chosen methods again on the chosen tables and leaves the rest as it is.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tractable.cli.output import print_line, print_table
from tractable.report.results import Comparison
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
from tractable_studies.tables import STUDY, scores
from tractable_studies.tables.kept import Fold, Kept
from tractable_studies.tables.methods import METHODS, OURS, check_installed, quiet
from tractable_studies.tables.ranks import Means, everywhere, mean, mean_ranks, mean_scores
from tractable_studies.tables.rows import FOLDS, TABLES, Array, folds, rows

QUICK = ["diabetes", "iris"]
MEASURES = {"regression": scores.REGRESSION, "classes": scores.CLASSES}
GROUPS = ("choosing", "reporting")


def run_fold(table: str, method: str, x: Array, y: Array, number: int, seed: int = 0) -> Fold:
    """Fit a method to all folds but one; return its scores there and the durations."""
    train, test = folds(table, y)[number]
    chosen = METHODS[method]
    started = time.perf_counter()
    if TABLES[table].task == "regression":
        predictive = quiet(lambda: chosen.regress(x[train], y[train], x[test], seed + number))
        seconds = time.perf_counter() - started
        found = scores.of_regression(predictive, y[test], float(y.std()))
    else:
        probs = quiet(lambda: chosen.classify(x[train], y[train], x[test], seed + number))
        seconds = time.perf_counter() - started
        found = scores.of_classes(probs, y[test])
    return found | {"seconds": seconds}


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    """Options: tables and methods."""

    seed: int = seed_option(0)
    resume: bool = resume_option()
    tables: list[str] = option(list(TABLES), choices=TABLES, quick=QUICK)
    methods: list[str] = option(list(METHODS), choices=METHODS, quick=[OURS, "forest", "linear"])
    again: bool = option(
        False, "compute the chosen methods again, and keep the results of the others"
    )

    def check(self) -> None:
        """Check that all packages are installed."""
        check_installed(self.methods, self.tables)


Job = tuple[str, str, int]


def jobs(options: Options, kept: Kept) -> list[Job]:
    """Return the unfinished jobs: table, method, fold."""
    todo = []
    for table in options.tables:
        count = len(rows(table)[0])
        for method in options.methods:
            most = METHODS[method].most_rows
            if most is None or count <= most:
                done = len(kept.of(table, method))
                todo += [(table, method, number) for number in range(done, FOLDS)]
    return todo


def compute(todo: list[Job], kept: Kept, seed: int) -> None:
    """Run the jobs and store each fold."""
    held: tuple[str, Array, Array] | None = None
    with PartsProgress(len(todo), "folds") as parts:
        for table, method, number in todo:
            if held is None or held[0] != table:
                held = (table, *rows(table))
            found = run_fold(table, method, *held[1:], number, seed)
            kept.add(table, method, found)
            parts.step(f"{table}, {method}, fold {number}: {found['seconds']:.2g} s")


def finished(kept: Kept, tables: Sequence[str]) -> Means:
    """Return means of the methods with all folds finished."""
    means: Means = {}
    for table in tables:
        own = {
            method: mean(kept.of(table, method))
            for method in METHODS
            if len(kept.of(table, method)) == FOLDS
        }
        if own:
            means[table] = own
    return means


def summary(means: Means, task: str, group: str) -> dict[str, dict[str, dict[str, float]]]:
    """Return mean ranks and scores of a group, and on the tables that all methods support."""
    mine = [t for t in means if TABLES[t].task == task and TABLES[t].group == group]
    small = [t for t in mine if set(means[t]) >= set(METHODS)]
    found: dict[str, dict[str, dict[str, float]]] = {}
    for title, tables in (("all", mine), ("small", small)):
        methods = everywhere(means, tables)
        if not methods:
            continue
        measures = [score for score in MEASURES[task] if score != "coverage"]
        found[f"{title}, rank"] = {
            score: mean_ranks(means, tables, methods, score) for score in measures
        }
        found[f"{title}, mean"] = {
            score: mean_scores(means, tables, methods, score)
            for score in (*MEASURES[task], "seconds")
        }
        found[f"{title}, tables"] = {"count": {method: float(len(tables)) for method in methods}}
    return found


def compare(means: Means) -> list[Comparison]:
    """Compare ours with the best other method, by the first score of every table."""
    lines = []
    for table, own in means.items():
        score, title = next(iter(MEASURES[TABLES[table].task].items()))
        others = {method: found[score] for method, found in own.items() if method != OURS}
        if OURS in own and others:
            best = min(others, key=others.__getitem__)
            lines.append(
                Comparison(
                    f"{table}, {title}",
                    others[best],
                    own[OURS][score],
                    better="smaller",
                    learner="TAGI",
                    note=f"{TABLES[table].group}; against {METHODS[best].title}",
                )
            )
    return lines


def show(means: Means, summaries: dict[str, dict[str, dict[str, dict[str, float]]]]) -> None:
    """Print the first score of every table, then mean ranks."""
    for task, measures in MEASURES.items():
        score, title = next(iter(measures.items()))
        header = [title, *(METHODS[m].title for m in METHODS)]
        lines = [
            [table, *(f"{own[m][score]:.3f}" if m in own else "" for m in METHODS)]
            for table, own in means.items()
            if TABLES[table].task == task
        ]
        if lines:
            print_table(header, lines)
    for name, found in summaries.items():
        for part in [key for key in found if key.endswith("rank")]:
            ranks = found[part]
            methods = list(next(iter(ranks.values())))
            print_table(
                [f"{name}, {part}", *(METHODS[m].title for m in methods)],
                [[score, *(f"{r[m]:.2f}" for m in methods)] for score, r in ranks.items()],
            )


def main(argv: Sequence[str] | None = None) -> Path:
    """Run the unfinished jobs, and print scores and ranks."""
    options = parse(Options, STUDY, argv, __doc__)
    record = RunRecord(STUDY, seeds=[options.seed], settings=settings(options, "again"), argv=argv)
    record.notes += _NOTES
    options.out.mkdir(parents=True, exist_ok=True)
    kept = Kept(options.out, resume=options.resume)
    if options.again:
        for table in options.tables:
            for method in options.methods:
                kept.drop(table, method)
    compute(jobs(options, kept), kept, options.seed)
    means = finished(kept, list(TABLES))
    summaries = {
        f"{task}, {group}": found
        for task in MEASURES
        for group in GROUPS
        if (found := summary(means, task, group))
    }
    record.metrics = {"summaries": summaries, "tables": means}
    record.comparison = compare(means)
    path = record.write(options.out)
    show(means, summaries)
    print_line(f"written to {path}")
    return path


_NOTES = [
    "The seed of a fold is --seed plus its number. Scores are means over five folds; less is "
    "better but for the coverage of 90 % intervals.",
    "NLL, CRPS, interval score and RMSE in units of the standard deviation of the target.",
    "In the table of comparisons, 'paper' is the best rival of that table.",
    "Ranks 'all' are among the methods that were run on all tables of the group, 'small' among "
    "all methods on the tables that all could take.",
    *(f"{method.title}: {method.settings}." for method in METHODS.values()),
]


if __name__ == "__main__":
    main()
