"""``tractable forecast``: the next values of a series in a table, with a report."""

from __future__ import annotations

import time as clock
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from tractable.cli import output
from tractable.cli.errors import CommandError, UsageError, one_line, unknown_name
from tractable.cli.folder import atomic_folder
from tractable.cli.tables import reader, writer
from tractable.cli.tables.columns import Column, numeric_column
from tractable.cli.tables.formats import (
    check_decimal,
    infer_date_format,
    parse_date_as,
    parse_number,
)
from tractable.cli.tables.reader import TextTable
from tractable.errors import InvalidInput, TractableError
from tractable.forecast import Backtest, Forecast, Forecaster
from tractable.forecast.scaling import TRANSFORMS, Transform, forward
from tractable.persistence.atomic import atomic_file
from tractable.report import (
    RESULTS,
    Calibration,
    Comparison,
    ImageFile,
    Results,
    Section,
    write_report,
)
from tractable.report.formatting import format_number
from tractable.report.provenance import command_line, peak_memory_mib, versions

MODEL, TABLE, PICTURE = "model.tr", "forecast.csv", "forecast.png"
LEARNERS = {
    "tagi": "TAGI", "bbb": "BayesByBackprop", "net": "Backprop",
    "bayesbybackprop": "BayesByBackprop", "backprop": "Backprop",
}  # fmt: skip
_SHOWN = 4  # series in the picture
_STEPS = 12  # in the report's table
_BEFORE = 4  # horizons of the past in it


@dataclass(frozen=True)
class Choices:
    """What the user asked for."""

    data: Path
    time: str | None
    target: tuple[str, ...]
    horizon: int
    out: Path
    season: int | None = None
    id: str | None = None
    known: tuple[str, ...] = ()
    past: tuple[str, ...] = ()
    transform: str | None = None
    learner: str = "tagi"
    decimal: str | None = None
    encoding: str | None = None
    test: float = 0.2
    level: float = 0.9
    seed: int = 0
    threads: int = 1
    force: bool = False


class Table:
    """The columns of a CSV file, as a forecaster takes them.

    Args:
        parts: by name.
    """

    index = None

    def __init__(self, parts: dict[str, Any]) -> None:
        self.parts, self.columns = parts, list(parts)

    def __getitem__(self, name: str) -> Any:
        return self.parts[name]

    def at(self, rows: Any) -> Table:
        """Some rows."""
        return Table({name: part[rows] for name, part in self.parts.items()})


@dataclass(frozen=True)
class Future:
    """Rows after the last value.

    Attributes:
        known: known covariates, as ``Forecaster.predict`` takes them.
        stamps: the times of these rows, of each series.
    """

    known: Any
    stamps: list[Any]


def run(json: bool, **chosen: Any) -> None:
    """Forecast, and print a summary."""
    choices = Choices(**chosen)
    results, forecast = forecast_file(choices)
    folder = choices.out
    if json:
        output.print_json({
            "model": str(folder / MODEL), "forecast": str(folder / TABLE),
            "report": str(folder / "report.html"), "notes": results.notes,
            "metrics": results.metrics,
        })  # fmt: skip
        return
    for note in results.notes:
        output.print_line(note)
    rows = [[r.name, format_number(r.ours), r.note] for r in results.comparison]
    output.print_table(["forecasts of the past", "", ""], rows)
    header, lines = _lines(forecast, choices.level)
    shown = [[str(cell) for cell in line] for line in lines[:5]]
    output.print_table(header, shown)
    output.print_line(f"{len(lines)} rows: {folder / TABLE}")
    output.print_line(f"model: {folder / MODEL}")
    output.print_line(f"report: {folder / 'report.html'}")


def forecast_file(choices: Choices) -> tuple[Results, Forecast]:
    """Do all of it; ``choices.out`` then holds the model, the forecast and the report."""
    if not 0 < choices.test < 1:
        raise UsageError(f"--test is a share between 0 and 1, got {choices.test}")
    if not 0 < choices.level < 1:
        raise UsageError(f"--level must lie between 0 and 1, got {choices.level}")
    if choices.learner.lower() not in LEARNERS:
        raise unknown_name("learner", choices.learner, LEARNERS)
    check_decimal(choices.decimal)
    table = reader.read_table(choices.data, encoding=choices.encoding)
    frame, future = _frame(table, choices)
    with atomic_folder(choices.out, force=choices.force) as folder:
        started = clock.monotonic()
        torch.set_num_threads(choices.threads)
        try:
            forecaster, tested = _fitted(choices, frame)
            forecast, words = _forecast(forecaster, future)
        except TractableError as error:
            raise UsageError(f"{choices.data.name}: {one_line(error)}") from error
        except (ArithmeticError, RuntimeError) as error:
            raise CommandError(f"training failed: {one_line(error)}") from error
        forecaster.save(folder / MODEL)
        writer.write_csv(folder / TABLE, *_lines(forecast, choices.level))
        _draw(choices, frame, forecast, folder)
        seconds = clock.monotonic() - started
        notes = (*table.notes, *words)
        results = _results(choices, forecaster, forecast, tested, seconds, notes)
        results.write(folder / RESULTS)
        write_report(results, folder)
    return results, forecast


def _fitted(choices: Choices, frame: Table) -> tuple[Forecaster, Backtest]:
    """A forecaster of the whole series, and how one of its beginning forecasts the end."""
    columns: dict[str, Any] = {
        "time_col": choices.time, "id_col": choices.id, "future_covariates": choices.known,
        "past_covariates": choices.past,
        "target_cols": choices.target[0] if len(choices.target) == 1 else list(choices.target),
    }  # fmt: skip
    made: dict[str, Any] = {
        "horizon": choices.horizon, "season_length": choices.season,
        "transform": choices.transform,
        "learner": LEARNERS[choices.learner.lower()], "seed": choices.seed,
    }  # fmt: skip
    stamps = _stamps(frame, choices)
    times = np.unique(stamps)
    # At least as many as are forecast at once: otherwise values of the fit would be scored.
    held_out = max(len(times) - int((1 - choices.test) * len(times)), choices.horizon)
    if held_out >= len(times):
        raise InvalidInput(
            f"a horizon of {choices.horizon} steps is longer than the series has room for: it has "
            f"{len(times)} values"
        )
    cut = times[len(times) - held_out - 1]
    tested = Forecaster(**made).fit(frame.at(stamps <= cut), **columns).backtest(frame, **columns)
    return Forecaster(**made).fit(frame, **columns), tested


def _forecast(forecaster: Forecaster, future: Future | None) -> tuple[Forecast, list[str]]:
    """The next values, and what the user should know of them."""
    state = forecaster.state_
    for stamps in () if future is None else future.stamps:
        wanted = state.now + 1 + np.arange(len(stamps))
        wrong = state.grid.steps_from_start(stamps) != wanted
        if wrong.any():
            due = state.grid.stamps(int(wanted[wrong.argmax()]), 1)[0]
            raise InvalidInput(
                f"--known needs a row for every time after the last value, and there is none for "
                f"{due}"
            )
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        forecast = forecaster.predict(future_covariates=None if future is None else future.known)
    return forecast, [str(warning.message) for warning in said]


def _stamps(frame: Table, choices: Choices) -> Any:
    from tractable.forecast.time_index import to_timestamps

    if choices.time is None:
        return np.arange(len(frame[choices.target[0]]))
    return to_timestamps(frame[choices.time], choices.time)


def _frame(table: TextTable, choices: Choices) -> tuple[Table, Future | None]:
    """The rows up to the last value, and the known covariates of those after it."""
    one = [name for name in (choices.time, choices.id) if name is not None]
    numeric = [*choices.target, *choices.known, *choices.past]
    table.require([*one, *numeric])
    if choices.id is not None and choices.time is None:
        raise UsageError("--id needs --time: which rows of different series belong together?")
    parts: dict[str, Any] = {name: np.array(table.column(name)) for name in one}
    if choices.time is not None:
        parts[choices.time] = _times(table, choices.time)
    parts |= {name: _numbers(table, name, choices.decimal) for name in numeric}
    frame = Table(parts)
    there = ~np.all([np.isnan(parts[name]) for name in choices.target], axis=0)
    if not there.any():
        raise UsageError(f"{table.path.name}: {', '.join(choices.target)} has no values")
    try:
        stamps = _stamps(frame, choices)
    except TractableError as error:
        raise UsageError(f"{table.path.name}: {table.in_file(one_line(error))}") from error
    _check_transform(table, frame, choices)
    later = stamps > stamps[there].max()
    if not choices.known:
        return frame.at(~later), None
    return frame.at(~later), _ahead(frame, stamps, later, choices)


def _check_transform(table: TextTable, frame: Table, choices: Choices) -> None:
    """Refuse a value that the transform cannot take, by its row in the file."""
    for name in choices.target if choices.transform in TRANSFORMS else ():
        try:
            forward(cast("Transform", choices.transform), frame[name])
        except InvalidInput as error:
            raise UsageError(
                f"{table.path.name}, column {name!r}: {table.in_file(one_line(error))}"
            ) from error


def _ahead(frame: Table, stamps: Any, later: Any, choices: Choices) -> Future:
    """Known covariates of the steps to come, in the order of time (and series)."""
    names = [""] if choices.id is None else list(dict.fromkeys(frame[choices.id].tolist()))
    found, times = [], []
    for name in names:
        mine = later if choices.id is None else later & (frame[choices.id] == name)
        rows = np.flatnonzero(mine)[np.argsort(stamps[mine], kind="stable")][: choices.horizon]
        if len(rows) < choices.horizon:
            whose = f" of {name!r}" if name else ""
            raise UsageError(
                f"--known needs the next {choices.horizon} values of {', '.join(choices.known)}"
                f"{whose}, in rows after the last {choices.target[0]}: there are {len(rows)}"
            )
        found.append(np.stack([frame[column][rows] for column in choices.known], axis=1))
        times.append(stamps[rows])
    return Future(found[0] if choices.id is None else np.stack(found, axis=1), times)


def _times(table: TextTable, name: str) -> Any:
    """Time stamps, dates as ISO 8601 has them."""
    cells = table.column(name)
    try:
        plain = all(parse_number(cell) is not None for cell in cells)
        form = None if plain else infer_date_format(cells)
    except ValueError as error:
        raise UsageError(f"{table.path.name}, column {name!r}: {error}") from None
    if form is None:
        return np.array(cells)
    when = [parse_date_as(cell, form) for cell in cells]
    iso = [c if w is None else w.isoformat() for c, w in zip(cells, when, strict=True)]
    return np.array(iso)


def _numbers(table: TextTable, name: str, decimal: str | None) -> Any:
    """Values, NaN where they are missing, in whatever way they are written."""
    try:
        column = numeric_column(table, name, decimal) or Column(name, "numeric")
    except ValueError as error:
        raise UsageError(f"{table.path.name}, column {name!r}: {error}") from None
    return column.encode(table)[:, 0]


def _lines(forecast: Forecast, level: float) -> tuple[list[str], list[list[Any]]]:
    low, high = forecast.interval(level)
    parts = [forecast.mean, forecast.std, low, high]
    times = [str(t) for t in forecast.times]
    for ending in ("T00:00:00.000000", ".000000"):  # all in one way
        if all(t.endswith(ending) for t in times):
            times = [t.removesuffix(ending) for t in times]
    cells = [part.reshape(len(forecast), -1) for part in parts]
    rows = [
        [
            times[i],
            *([] if forecast.squeezed else [name]),
            *(float(f"{c[i, k]:.6g}") for c in cells),
        ]
        for i in range(len(forecast))
        for k, name in enumerate(forecast.series_names)
    ]
    names = ["time", *([] if forecast.squeezed else ["series"]), "mean", "std", "lower", "upper"]
    return names, rows


def _draw(choices: Choices, frame: Table, forecast: Forecast, folder: Path) -> None:
    """The end of the series and what comes after it."""
    from matplotlib.figure import Figure

    from tractable import plots
    from tractable.forecast.data_frames import ColumnRoles
    from tractable.forecast.panel import read_panel

    target = choices.target[0] if len(choices.target) == 1 else list(choices.target)
    roles = ColumnRoles(choices.time, target, choices.id, choices.known, choices.past)
    panel = read_panel(frame, roles)
    shown = min(len(forecast.series_names), _SHOWN)
    figure = Figure((8, 2.8 * shown + 0.6), layout="constrained")
    last = slice(-max(_BEFORE * choices.horizon, 24), None)
    for k, ax in enumerate(np.atleast_1d(figure.subplots(shown, 1, sharex=True))):
        plots.forecast(
            forecast, history=(panel.stamps[last], panel.values[last, k]), series=k, ax=ax
        )
        if k < shown - 1:
            ax.set_xlabel("")
    with atomic_file(folder / PICTURE) as scratch:
        figure.savefig(scratch, dpi=110)


def _results(
    choices: Choices, forecaster: Forecaster, forecast: Forecast, tested: Backtest,
    seconds: float, notes: tuple[str, ...],
) -> Results:  # fmt: skip
    found, setting = tested.summary(), forecaster.best_params_
    ours, naive = found["model"], found["seasonal naive"]
    words = (
        ("mean squared error", "mse", "smaller", None),
        ("mean absolute error", "mae", "smaller", None),
        ("log-likelihood of a value", "log_likelihood", "larger", None),
        ("share in 90 % intervals", "coverage_90", "nearer", 0.9),
    )
    levels = list(tested.model.coverage)
    shares = [tested.coverage(level) for level in levels]
    gap = float(np.mean(np.abs(np.array(levels) - shares)))
    layers = " and ".join(map(str, setting["hidden_layer_sizes"]))
    network = f"hidden layers of {layers} units" if layers else "a linear model"
    state = forecaster.state_
    return Results(
        name=f"forecast {choices.data.name}",
        title=f"The next {choices.horizon} steps of {', '.join(choices.target)}",
        command=command_line("tractable.cli"),
        seeds=[choices.seed],
        settings={k: str(v) if isinstance(v, Path) else v for k, v in asdict(choices).items()
                  if v not in (None, ()) and k not in ("data", "out", "force")},
        comparison=[
            Comparison(name, None, ours[key], better=better, goal=goal,  # type: ignore[arg-type]
                       learner=choices.learner, note=f"seasonal naive: {format_number(naive[key])}")
            for name, key, better, goal in words
        ],
        calibration=Calibration(
            "coverage", {choices.learner: (levels, shares)}, {choices.learner: gap}
        ),
        images=[ImageFile(PICTURE, "the end of the series, and what is forecast")],
        notes=[
            f"{len(state.series_names)} series, a step of {state.grid.step_name}, a season of "
            f"{state.season_length}; scores are of {len(tested.origins)} forecasts of what a first "
            f"fit had not seen.",
            *notes,
            f"chosen on held-out windows: {network}, windows of {setting['lags']} values measured "
            f"from their {setting['normalize_by']} value.",
        ],
        metrics=found,
        seconds=round(seconds, 1),
        peak_memory_mib=peak_memory_mib(),
        threads=choices.threads,
        versions=versions(),
        kind="table",
        sections=[_answer(choices, found, len(tested.origins)), _next(choices, forecast)],
    )  # fmt: skip


def _answer(choices: Choices, found: dict[str, dict[str, float]], origins: int) -> Section:
    """The model beside repeating the last season, on the end of the series."""
    ours, naive = found["model"], found["seasonal naive"]
    rows = [
        [name, *(f"{100 * v:.1f} %" if key == "coverage_90" else format_number(v)
                 for v in (ours[key], naive[key])), better]
        for name, key, better in (
            ("mean absolute error", "mae", "smaller"), ("mean squared error", "mse", "smaller"),
            ("log density of what came", "log_likelihood", "larger"),
            ("90 % intervals hold", "coverage_90", "90 %"),
        )
    ]  # fmt: skip
    words = (
        f"Forecasts of 1 to {choices.horizon} steps were made at {origins} times at the end of the "
        f"series that a first fit had not seen. They are off by {format_number(ours['mae'])} on "
        f"average; repeating the last season is off by {format_number(naive['mae'])}."
    )
    warnings = []
    if ours["mae"] >= naive["mae"]:
        warnings.append("It is no better than repeating the last season.")
    header = ["on these values", "this model", "repeating the last season", "better is"]
    return Section("How good is it?", [words], header, rows, warnings=warnings)


def _next(choices: Choices, forecast: Forecast) -> Section:
    """The first steps of the forecast."""
    header, lines = _lines(forecast, choices.level)
    shown = [[format_number(cell) for cell in line] for line in lines[:_STEPS]]
    words = f"The next steps, and between what {100 * choices.level:g} % of them should lie"
    rest = f"; all {len(lines)} are in {TABLE}." if len(lines) > _STEPS else "."
    return Section("What comes next?", [words + rest], header, shown)
