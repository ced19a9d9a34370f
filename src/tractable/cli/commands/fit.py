"""``tractable fit``: learn from a CSV file, test on rows it has not seen, and keep both."""

from __future__ import annotations

import sys
import time
from typing import Any

import torch

from tractable.cli import output
from tractable.cli.errors import CommandError, UsageError, one_line
from tractable.cli.folder import atomic_folder
from tractable.cli.tables import evaluation, report_sections
from tractable.cli.tables.importance import permutation_importance
from tractable.cli.tables.likelihood_choice import AUTO, choose_likelihood
from tractable.cli.tables.model_file import MODEL, TableModel, estimator_class
from tractable.cli.tables.prepare import Choices, PreparedTable, prepare
from tractable.errors import InvalidTarget
from tractable.report import RESULTS, Chart, Comparison, Results, Section, write_report
from tractable.report.formatting import format_number
from tractable.report.provenance import command_line, peak_memory_mib, versions
from tractable.sklearn.targets import NORMAL


def widths(text: str | None) -> tuple[int, ...] | None:
    """Widths of hidden layers; an empty text means a linear model, None leaves it to the learner.

    >>> widths("64,32"), widths(""), widths(None)
    ((64, 32), (), None)
    """
    if text is None:
        return None
    try:
        return tuple(int(word) for word in text.replace(",", " ").split())
    except ValueError:
        raise UsageError(f"--hidden wants widths such as 64,64, got {text!r}") from None


def levels(text: str | None) -> tuple[str, ...]:
    """Levels of an ordinal target, from the lowest.

    >>> levels("low, mid,high"), levels(None)
    (('low', 'mid', 'high'), ())
    """
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())


def run(json: bool, **chosen: Any) -> None:
    """Fit, and print a summary."""
    choices = Choices(**chosen, progress=sys.stderr.isatty() and not json)
    results = fit(choices)
    folder = choices.out
    if json:
        output.print_json(
            {
                "model": str(folder / MODEL),
                "report": str(folder / "report.html"),
                "task": results.settings["task"],
                "likelihood": results.settings["likelihood"],
                "learner": choices.learner,
                "notes": results.notes,
                "metrics": results.metrics,
            }
        )
        return
    _show(results)
    if results.calibration is not None and results.calibration.kind == "coverage":
        stated, observed = next(iter(results.calibration.curves.values()))
        pairs = zip(stated, observed, strict=True)
        parts = [f"{100 * s:.0f} %: {100 * (o or 0):.0f} %" for s, o in pairs]
        output.print_line(f"intervals cover (stated: observed)  {', '.join(parts)}")
    output.print_line(f"model: {folder / MODEL}")
    output.print_line(f"report: {folder / 'report.html'}")


def _show(results: Results) -> None:
    """The notes and metrics of a run."""
    for note in results.notes:
        output.print_line(note)
    for warning in (line for part in results.sections for line in part.warnings):
        output.print_line(f"Mind: {warning}")
    if not results.comparison:
        return
    cells = [[row.name, _with_unit(row), row.note] for row in results.comparison]
    output.print_table(["held-out rows", "", ""], cells)


def _with_unit(row: Comparison) -> str:
    return format_number(row.ours) + (f" {row.unit}" if row.unit and row.ours is not None else "")


def fit(choices: Choices) -> Results:
    """Do all of it; ``choices.out`` then holds the model, the results and the report."""
    choices.check()
    with atomic_folder(choices.out, force=choices.force) as folder:
        prepared = prepare(choices)
        started = time.monotonic()
        torch.set_num_threads(choices.threads)
        x, y = prepared.rows(prepared.train)
        estimator = _estimator(choices, prepared)
        try:
            estimator.fit(x, y)
        except InvalidTarget as error:
            raise UsageError(f"the target {choices.target!r}: {one_line(error)}") from error
        except (ArithmeticError, RuntimeError) as error:
            raise CommandError(f"training failed: {one_line(error)}") from error
        model = TableModel(
            estimator, choices.learner, prepared.target.task, choices.target, prepared.columns,
            choices.ids, choices.missing,
        )  # fmt: skip
        model.save(folder / MODEL)
        results = _results(choices, prepared, estimator, time.monotonic() - started)
        results.write(folder / RESULTS)
        write_report(results, folder)
    return results


def _estimator(choices: Choices, prepared: PreparedTable) -> Any:
    options: dict[str, Any] = {"random_state": choices.seed, **prepared.meaning.options()}
    given = {"hidden_layer_sizes": choices.hidden, "epochs": choices.epochs}
    options |= {name: value for name, value in given.items() if value is not None}
    kind = estimator_class(choices.learner, prepared.target.task)
    return kind(**options, verbose=int(choices.progress))


def _results(choices: Choices, prepared: PreparedTable, estimator: Any, seconds: float) -> Results:
    score = _score(choices, prepared, estimator)
    sizes = f"{len(prepared.train)} rows to learn from, {len(prepared.test)} held out to test"
    width = sum(column.width for column in prepared.columns)
    inputs = f"{len(prepared.columns)} columns, {width} inputs of the network"
    chosen = getattr(estimator, "best_params_", None)
    hidden = choices.hidden if chosen is None else chosen["hidden_layer_sizes"]
    return Results(
        name=f"fit {choices.data.name}",
        title=f"{choices.target} of {choices.data.name}",
        command=command_line("tractable.cli"),
        seeds=[choices.seed],
        settings={
            "learner": f"{choices.learner} ({type(estimator).__name__})",
            "task": prepared.target.task, "likelihood": prepared.meaning.name,
            "hidden": hidden if hidden is None else list(hidden),
            "epochs": choices.epochs if chosen is None else chosen["epochs"],
            "test": choices.test, "seed": choices.seed,
            "missing": choices.missing, "id": list(choices.ids),
            "drop": list(choices.drop), "categorical": list(choices.categorical),
        },
        comparison=[] if score is None else score.rows,
        charts=_charts(estimator, choices.learner),
        calibration=None if score is None else score.calibration,
        notes=[
            f"{sizes}; {inputs}.", *prepared.notes, *_hint(choices, prepared),
            *_learnt(prepared, estimator),
        ],
        metrics={} if score is None else score.metrics,
        seconds=round(seconds, 1),
        peak_memory_mib=peak_memory_mib(),
        threads=choices.threads,
        versions=versions(),
        kind="table",
        sections=_sections(choices, prepared, estimator, score),
    )  # fmt: skip


def _hint(choices: Choices, prepared: PreparedTable) -> list[str]:
    """A likelihood that the target suggests, where the user named none."""
    if choices.likelihood or prepared.meaning.name != NORMAL or choices.learner == "laplace":
        return []
    seen = choose_likelihood(prepared.target, AUTO, (), *prepared.rows(prepared.train))
    if seen.name == NORMAL:
        return []
    return [f"Seen in {choices.target}: {seen.reason}; --likelihood {seen.name} takes it so."]


def _score(
    choices: Choices, prepared: PreparedTable, estimator: Any
) -> evaluation.Evaluation | None:
    if not prepared.test:
        return None
    evaluate = (
        evaluation.evaluate_regression
        if prepared.target.task == "regression"
        else evaluation.evaluate_classification
    )
    train = prepared.rows(prepared.train)
    return evaluate(estimator, *prepared.rows(prepared.test), train, choices.learner)


def _sections(
    choices: Choices, prepared: PreparedTable, estimator: Any, score: evaluation.Evaluation | None
) -> list[Section]:
    """What a person asks of the model."""
    settings = report_sections.model_selection_section(estimator)
    tail = [] if settings is None else [settings]
    if score is None:
        words = "No row was held out (--test 0), so how good it is, is not known."
        return [Section("How good is it?", warnings=[words]), *tail]
    x, y = prepared.rows(prepared.test)
    numbers = [prepared.table.numbers[i] for i in prepared.test]
    labels = prepared.target.task == "classification"
    found = [
        report_sections.accuracy_section(score.compared, score.baselines, choices.target, len(y))
    ]
    if labels:
        shares = score.predictive.probs.numpy()
        classes = estimator.classes_
        train = prepared.target.values[prepared.train]
        found.append(report_sections.confusion_section(shares, y, classes, train))
        listed = report_sections.classification_rows(shares, y, classes, numbers)
    else:
        found.append(report_sections.predicted_vs_observed(score.predictive, y, choices.target))
        listed = report_sections.regression_rows(score.predictive, y, numbers)
    matters = permutation_importance(estimator, prepared.columns, x, y, choices.seed)
    found.append(report_sections.importance_section(matters, choices.target, labels=labels))
    odd = report_sections.unusual_rows(score.predictive, prepared, estimator)
    return [*found, *listed, *([] if odd is None else [odd]), *tail]


def _learnt(prepared: PreparedTable, estimator: Any) -> list[str]:
    """What the estimator has to say of the data and of itself."""
    notes, at = [], 0
    for column in prepared.columns:
        wild = int(estimator.n_clipped_[at : at + column.width].sum())
        at += column.width
        if wild:
            one = wild == 1
            values = "1 value lies" if one else f"{wild} values lie"
            count = "counts" if one else "count"
            notes.append(f"{column.name!r}: {values} far from all others, and {count} as less far.")
    chosen = getattr(estimator, "best_params_", None)
    if chosen is not None and estimator.cv_results_["params"]:
        layers = " and ".join(map(str, chosen["hidden_layer_sizes"]))
        model = f"hidden layers of {layers} units" if layers else "a linear model"
        weighed = ", columns weighed by how much they matter" if chosen["relevance"] else ""
        varies = getattr(estimator, "noise_model_", None) is not None
        noise = ", a noise that depends on the inputs" if varies else ""
        logs = getattr(estimator, "target_log_transform_", None) is not None
        log = ", the logarithm of the target" if logs else ""
        notes.append(
            f"chosen on held-out rows: {model}, {chosen['epochs']} epochs{weighed}{noise}{log}."
        )
    outliers = getattr(estimator.learner_, "outliers", None)
    if outliers is not None and outliers.count:
        notes.append(f"{outliers.count} outlying targets were down-weighted (over all epochs).")
    return notes


def _charts(estimator: Any, learner: str) -> list[Chart]:
    """What held-out rows said by the number of epochs, and whatever the learner recorded."""
    history = estimator.learner_.history
    keys = {key: None for record in history for key in record if key not in ("epoch", "seconds")}
    charts = []
    for key in keys:
        held = [(n, record[key]) for n, record in enumerate(history, 1) if key in record]
        epochs, values = map(list, zip(*held, strict=True))
        words = key.replace("_", " ")
        charts.append(Chart(f"{words} by epoch", "epoch", words, {learner: (epochs, values)}))
    results = getattr(estimator, "cv_results_", None)
    found = []
    if results is not None:
        columns = (results["params"], results["n_estimators"], results["mean_test_score"])
        found = [
            (params["epochs"], float(score))
            for params, n_estimators, score in zip(*columns, strict=True)
            if params["hidden_layer_sizes"] and not params["relevance"] and n_estimators == 1
        ]
    if len(found) > 1:
        epochs, values = map(list, zip(*sorted(found), strict=True))
        title = "Log-likelihood of rows set apart, by the number of passes"
        charts.append(Chart(title, "passes", "log-likelihood", {"a network": (epochs, values)}))
    return charts
