"""``tractable fit``: learn from a CSV file, test on rows it has not seen, and keep both."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import torch

from tractable.cli import output
from tractable.cli.errors import BadUse, FailedWork, one_line
from tractable.cli.folder import whole_folder
from tractable.cli.table import scores
from tractable.cli.table.model_file import MODEL, TableModel, estimator_class
from tractable.cli.table.prepare import Choices, Prepared, prepare
from tractable.errors import InvalidTarget
from tractable.report import RESULTS, Chart, Comparison, Results, write_report
from tractable.report.provenance import command, commit, peak_memory_mib, versions
from tractable.report.words import number


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
        raise BadUse(f"--hidden wants widths such as 64,64, got {text!r}") from None


def levels(text: str | None) -> tuple[str, ...]:
    """Levels of an ordinal target, from the lowest.

    >>> levels("low, mid,high"), levels(None)
    (('low', 'mid', 'high'), ())
    """
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())


def stem(data: Path) -> str:
    """The name of a file without its endings.

    >>> stem(Path("a/b.csv.gz")), stem(Path("x.y.xlsx"))
    ('b', 'x.y')
    """
    return Path(data.stem).stem if data.suffix == ".gz" else data.stem


def run(json: bool, **chosen: Any) -> None:
    """Fit, and print a summary."""
    choices = Choices(**chosen, progress=sys.stderr.isatty() and not json)
    results = fit(choices)
    folder = choices.out
    if json:
        output.as_json(
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
        output.say(f"intervals cover (stated: observed)  {', '.join(parts)}")
    output.say(f"model: {folder / MODEL}")
    output.say(f"report: {folder / 'report.html'}")


def _show(results: Results) -> None:
    """The notes and metrics of a run."""
    for note in results.notes:
        output.say(note)
    cells = [[row.name, _with_unit(row), row.note] for row in results.comparison]
    output.show_table(["held-out rows", "", ""], cells)


def _with_unit(row: Comparison) -> str:
    return number(row.ours) + (f" {row.unit}" if row.unit and row.ours is not None else "")


def fit(choices: Choices) -> Results:
    """Do all of it; ``choices.out`` then holds the model, the results and the report."""
    choices.check()
    with whole_folder(choices.out, force=choices.force) as folder:
        prepared = prepare(choices)
        started = time.monotonic()
        torch.set_num_threads(choices.threads)
        x, y = prepared.rows(prepared.train)
        estimator = _estimator(choices, prepared)
        try:
            estimator.fit(x, y)
        except InvalidTarget as error:
            raise BadUse(f"the target {choices.target!r}: {one_line(error)}") from error
        except (ArithmeticError, RuntimeError) as error:
            raise FailedWork(f"training failed: {one_line(error)}") from error
        model = TableModel(
            estimator, choices.learner, prepared.target.task, choices.target, prepared.columns,
            choices.ids, choices.missing,
        )  # fmt: skip
        model.save(folder / MODEL)
        results = _results(choices, prepared, estimator, time.monotonic() - started)
        results.write(folder / RESULTS)
        write_report(results, folder)
    return results


def _estimator(choices: Choices, prepared: Prepared) -> Any:
    options: dict[str, Any] = {"random_state": choices.seed, **prepared.meaning.options()}
    given = {"hidden": choices.hidden, "epochs": choices.epochs}
    options |= {name: value for name, value in given.items() if value is not None}
    kind = estimator_class(choices.learner, prepared.target.task)
    return kind(**options, verbose=int(choices.progress))


def _results(choices: Choices, prepared: Prepared, estimator: Any, seconds: float) -> Results:
    x, y = prepared.rows(prepared.test)
    seen = prepared.target.values[prepared.train]
    score = scores.of_numbers if prepared.target.task == "regression" else scores.of_labels
    metrics, rows, calibration = score(estimator, x, y, seen, choices.learner)
    sizes = f"{len(prepared.train)} rows to learn from, {len(prepared.test)} held out to test"
    inputs = f"{len(prepared.columns)} columns, {x.shape[1]} inputs of the network"
    return Results(
        experiment=f"fit {choices.data.name}",
        title=f"{choices.target} of {choices.data.name} by {type(estimator).__name__}",
        command=command("tractable.cli"),
        seeds=[choices.seed],
        settings={
            "learner": choices.learner, "task": prepared.target.task,
            "likelihood": prepared.meaning.name,
            "hidden": list(choices.hidden) if choices.hidden is not None else None,
            "epochs": choices.epochs, "test": choices.test,
            "missing": choices.missing, "id": list(choices.ids),
            "drop": list(choices.drop), "categorical": list(choices.categorical),
        },
        comparison=rows,
        charts=_charts(estimator, choices.learner),
        calibration=calibration,
        notes=[f"{sizes}; {inputs}.", *prepared.notes, *_learnt(prepared, estimator)],
        metrics=metrics,
        seconds=round(seconds, 1),
        peak_memory_mib=peak_memory_mib(),
        threads=choices.threads,
        commit=commit(),
        versions=versions(),
    )  # fmt: skip


def _learnt(prepared: Prepared, estimator: Any) -> list[str]:
    """What the estimator has to say of the data and of itself."""
    notes, at = [], 0
    for column in prepared.columns:
        wild = int(estimator.clipped_[at : at + column.width].sum())
        at += column.width
        if wild:
            values = "1 value lies" if wild == 1 else f"{wild} values lie"
            notes.append(f"{column.name!r}: {values} far from all others, and count as less far.")
    chosen = getattr(estimator, "chosen_", None)
    if chosen is not None and estimator.tried_:
        layers = " and ".join(map(str, chosen.hidden))
        model = f"hidden layers of {layers} units" if chosen.hidden else "a linear model"
        weighed = ", columns weighed by how much they matter" if chosen.rounds else ""
        varies = getattr(estimator, "noise_model_", None) is not None
        noise = ", a noise that depends on the inputs" if varies else ""
        logs = getattr(estimator, "log_scale_", None) is not None
        log = ", the logarithm of the target" if logs else ""
        notes.append(
            f"chosen on held-out rows: {model}, {chosen.epochs} epochs{weighed}{noise}{log}."
        )
    surprises = getattr(estimator.learner_, "surprises", None)
    if surprises is not None and surprises.count:
        notes.append(
            f"{surprises.count} times a target lay beyond what could be believed, and counted for "
            f"less (over all epochs)."
        )
    return notes


def _charts(estimator: Any, learner: str) -> list[Chart]:
    """Whatever the learner recorded by epoch."""
    history = estimator.learner_.history
    keys = {key: None for record in history for key in record if key not in ("epoch", "seconds")}
    charts = []
    for key in keys:
        held = [(n, record[key]) for n, record in enumerate(history, 1) if key in record]
        epochs, values = map(list, zip(*held, strict=True))
        words = key.replace("_", " ")
        charts.append(Chart(f"{words} by epoch", "epoch", words, {learner: (epochs, values)}))
    return charts
