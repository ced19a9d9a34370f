"""``tractable fit``: train a model on a table, evaluate it on test rows, write model and report."""

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
from tractable.cli.tables.prepare import FitOptions, PreparedTable, prepare
from tractable.errors import InvalidTarget
from tractable.report import RESULTS, Chart, Comparison, Results, Section, write_report
from tractable.report.formatting import format_number
from tractable.report.provenance import command_line, peak_memory_mib, versions
from tractable.sklearn.targets import NORMAL


def widths(text: str | None) -> tuple[int, ...] | None:
    """Return widths of hidden layers; none for a linear model, None to select them.

    >>> widths("64,32"), widths(""), widths(None)
    ((64, 32), (), None)
    """
    if text is None:
        return None
    try:
        return tuple(int(word) for word in text.replace(",", " ").split())
    except ValueError:
        raise UsageError(f"--hidden must be widths such as 64,64, got {text!r}") from None


def levels(text: str | None) -> tuple[str, ...]:
    """Return the levels of an ordinal target in increasing order.

    >>> levels("low, mid,high"), levels(None)
    (('low', 'mid', 'high'), ())
    """
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())


def run(json: bool, **values: Any) -> None:
    """Run the command and print a summary."""
    options = FitOptions(**values, progress=sys.stderr.isatty() and not json)
    results = fit(options)
    folder = options.out
    if json:
        output.print_json(
            {
                "model": str(folder / MODEL),
                "report": str(folder / "report.html"),
                "task": results.settings["task"],
                "likelihood": results.settings["likelihood"],
                "learner": options.learner,
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
        output.print_line(f"coverage of intervals (nominal: observed)  {', '.join(parts)}")
    output.print_line(f"model: {folder / MODEL}")
    output.print_line(f"report: {folder / 'report.html'}")


def _show(results: Results) -> None:
    """Print notes, warnings and metrics."""
    for note in results.notes:
        output.print_line(note)
    for warning in (line for part in results.sections for line in part.warnings):
        output.print_line(f"Warning: {warning}")
    if not results.comparison:
        return
    cells = [[row.name, _with_unit(row), row.note] for row in results.comparison]
    output.print_table(["test metric", "value", "baselines"], cells)


def _with_unit(row: Comparison) -> str:
    return format_number(row.ours) + (f" {row.unit}" if row.unit and row.ours is not None else "")


def fit(options: FitOptions) -> Results:
    """Fit and evaluate; write model, results and report to ``options.out``."""
    options.check()
    with atomic_folder(options.out, force=options.force) as folder:
        prepared = prepare(options)
        started = time.monotonic()
        torch.set_num_threads(options.threads)
        x, y = prepared.arrays(prepared.train)
        estimator = _estimator(options, prepared)
        try:
            estimator.fit(x, y)
        except InvalidTarget as error:
            raise UsageError(f"the target {options.target!r}: {one_line(error)}") from error
        except (ArithmeticError, RuntimeError) as error:
            raise CommandError(f"training failed: {one_line(error)}") from error
        model = TableModel(
            estimator, options.learner, prepared.target.task, options.target, prepared.columns,
            options.ids, options.missing,
        )  # fmt: skip
        model.save(folder / MODEL)
        results = _results(options, prepared, estimator, time.monotonic() - started)
        results.write(folder / RESULTS)
        write_report(results, folder)
    return results


def _estimator(options: FitOptions, prepared: PreparedTable) -> Any:
    arguments: dict[str, Any] = {"random_state": options.seed, **prepared.likelihood.options()}
    given = {"hidden_layer_sizes": options.hidden, "epochs": options.epochs}
    arguments |= {name: value for name, value in given.items() if value is not None}
    kind = estimator_class(options.learner, prepared.target.task)
    return kind(**arguments, verbose=int(options.progress))


def _results(
    options: FitOptions, prepared: PreparedTable, estimator: Any, seconds: float
) -> Results:
    score = _score(options, prepared, estimator)
    sizes = f"{len(prepared.train)} training rows, {len(prepared.test)} test rows"
    width = sum(column.width for column in prepared.columns)
    inputs = f"{len(prepared.columns)} columns, {width} inputs of the network"
    chosen = getattr(estimator, "best_params_", None)
    hidden = options.hidden if chosen is None else chosen["hidden_layer_sizes"]
    return Results(
        name=f"fit {options.data.name}",
        title=f"{options.target} of {options.data.name}",
        command=command_line("tractable.cli"),
        seeds=[options.seed],
        settings={
            "learner": f"{options.learner} ({type(estimator).__name__})",
            "task": prepared.target.task, "likelihood": prepared.likelihood.name,
            "hidden": hidden if hidden is None else list(hidden),
            "epochs": options.epochs if chosen is None else chosen["epochs"],
            "test": options.test, "seed": options.seed,
            "missing": options.missing, "id": list(options.ids),
            "drop": list(options.drop), "categorical": list(options.categorical),
        },
        comparison=[] if score is None else score.rows,
        charts=_charts(estimator, options.learner),
        calibration=None if score is None else score.calibration,
        notes=[
            f"{sizes}; {inputs}.", *prepared.notes, *_hint(options, prepared),
            *_model_notes(prepared, estimator),
        ],
        metrics={} if score is None else score.metrics,
        seconds=round(seconds, 1),
        peak_memory_mib=peak_memory_mib(),
        threads=options.threads,
        versions=versions(),
        kind="table",
        sections=_sections(options, prepared, estimator, score),
    )  # fmt: skip


def _hint(options: FitOptions, prepared: PreparedTable) -> list[str]:
    """Return a note on a likelihood that fits the target better, if the user chose none."""
    if options.likelihood or prepared.likelihood.name != NORMAL or options.learner == "laplace":
        return []
    found = choose_likelihood(prepared.target, AUTO, (), *prepared.arrays(prepared.train))
    if found.name == NORMAL:
        return []
    return [f"{options.target}: {found.reason}; consider --likelihood {found.name}."]


def _score(
    options: FitOptions, prepared: PreparedTable, estimator: Any
) -> evaluation.Evaluation | None:
    if not prepared.test:
        return None
    evaluate = (
        evaluation.evaluate_regression
        if prepared.target.task == "regression"
        else evaluation.evaluate_classification
    )
    train = prepared.arrays(prepared.train)
    return evaluate(estimator, *prepared.arrays(prepared.test), train, options.learner)


def _sections(
    options: FitOptions,
    prepared: PreparedTable,
    estimator: Any,
    score: evaluation.Evaluation | None,
) -> list[Section]:
    """Return the sections of the report."""
    settings = report_sections.model_selection_section(estimator)
    tail = [] if settings is None else [settings]
    if score is None:
        warning = "No rows were held out (--test 0), so the model was not evaluated."
        return [Section("Test metrics", warnings=[warning]), *tail]
    x, y = prepared.arrays(prepared.test)
    numbers = [prepared.table.numbers[i] for i in prepared.test]
    labels = prepared.target.task == "classification"
    found = [
        report_sections.accuracy_section(score.compared, score.baselines, options.target, len(y))
    ]
    if labels:
        shares = score.predictive.probs.numpy()
        classes = estimator.classes_
        train = prepared.target.values[prepared.train]
        found.append(report_sections.confusion_section(shares, y, classes, train))
        listed = report_sections.classification_rows(shares, y, classes, numbers)
    else:
        found.append(report_sections.predicted_vs_observed(score.predictive, y, options.target))
        listed = report_sections.regression_rows(score.predictive, y, numbers)
    importances = permutation_importance(estimator, prepared.columns, x, y, options.seed)
    found.append(report_sections.importance_section(importances, options.target, labels=labels))
    unusual = report_sections.unusual_rows(score.predictive, prepared, estimator)
    return [*found, *listed, *([] if unusual is None else [unusual]), *tail]


def _model_notes(prepared: PreparedTable, estimator: Any) -> list[str]:
    """Return notes on clipped values, selected settings and outliers."""
    notes, at = [], 0
    for column in prepared.columns:
        clipped = int(estimator.n_clipped_[at : at + column.width].sum())
        at += column.width
        if clipped:
            notes.append(f"Column {column.name!r}: {_count(clipped, 'outlying value')} clipped.")
    chosen = getattr(estimator, "best_params_", None)
    if chosen is not None and estimator.cv_results_["params"]:
        layers = " and ".join(map(str, chosen["hidden_layer_sizes"]))
        model = f"hidden layers of {layers} units" if layers else "a linear model"
        weighted = ", columns weighted by relevance" if chosen["relevance"] else ""
        varies = getattr(estimator, "noise_model_", None) is not None
        noise = ", input-dependent noise" if varies else ""
        logs = getattr(estimator, "target_log_transform_", None) is not None
        log = ", log-transformed target" if logs else ""
        notes.append(
            f"Selected on held-out rows: {model}, {chosen['epochs']} epochs{weighted}{noise}{log}."
        )
    outliers = getattr(estimator.learner_, "outliers", None)
    if outliers is not None and outliers.count:
        notes.append(f"{outliers.count} outlying targets were down-weighted (over all epochs).")
    return notes


def _count(number: int, name: str) -> str:
    """Return a number with a noun in singular or plural."""
    return f"{number} {name}" if number == 1 else f"{number} {name}s"


def _charts(estimator: Any, learner: str) -> list[Chart]:
    """Return the learner's history and the validation log-likelihood, by number of epochs."""
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
        title = "Validation log-likelihood by number of epochs"
        charts.append(Chart(title, "epochs", "log-likelihood", {"one network": (epochs, values)}))
    return charts
