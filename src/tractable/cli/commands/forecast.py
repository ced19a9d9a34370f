"""``tractable forecast``: forecasts of time series in a table, with a backtest and a report."""

from __future__ import annotations

import time as clock
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tractable.cli import output
from tractable.cli.errors import CommandError, UsageError, one_line, unknown_name
from tractable.cli.folder import atomic_folder
from tractable.cli.tables import reader, writer
from tractable.cli.tables.cell_formats import (
    check_decimal,
)
from tractable.cli.tables.series import (
    ForecastOptions,
    FutureRows,
    TableColumns,
    read_series,
    timestamps,
)
from tractable.errors import InvalidInput, TractableError
from tractable.forecast import Backtest, Forecast, Forecaster
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


def run(json: bool, **values: Any) -> None:
    """Run the command and print a summary."""
    options = ForecastOptions(**values)
    results, forecast = forecast_file(options)
    folder = options.out
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
    output.print_table(["backtest metric", "value", "baseline"], rows)
    header, lines = _lines(forecast, options.level)
    shown = [[str(cell) for cell in line] for line in lines[:5]]
    output.print_table(header, shown)
    output.print_line(f"{len(lines)} rows: {folder / TABLE}")
    output.print_line(f"model: {folder / MODEL}")
    output.print_line(f"report: {folder / 'report.html'}")


def forecast_file(options: ForecastOptions) -> tuple[Results, Forecast]:
    """Fit, test and forecast; write model, forecast and report to ``options.out``."""
    if not 0 < options.test < 1:
        raise UsageError(f"--test must lie between 0 and 1, got {options.test}")
    if not 0 < options.level < 1:
        raise UsageError(f"--level must lie between 0 and 1, got {options.level}")
    if options.learner.lower() not in LEARNERS:
        raise unknown_name("learner", options.learner, LEARNERS)
    check_decimal(options.decimal)
    table = reader.read_table(options.data, encoding=options.encoding)
    frame, future = read_series(table, options)
    with atomic_folder(options.out, force=options.force) as folder:
        started = clock.monotonic()
        torch.set_num_threads(options.threads)
        try:
            forecaster, tested = _fitted(options, frame)
            forecast, words = _forecast(forecaster, future)
        except TractableError as error:
            raise UsageError(f"{options.data.name}: {one_line(error)}") from error
        except (ArithmeticError, RuntimeError) as error:
            raise CommandError(f"training failed: {one_line(error)}") from error
        forecaster.save(folder / MODEL)
        writer.write_csv(folder / TABLE, *_lines(forecast, options.level))
        _draw(options, frame, forecast, folder)
        seconds = clock.monotonic() - started
        notes = (*table.notes, *words)
        results = _results(options, forecaster, forecast, tested, seconds, notes)
        results.write(folder / RESULTS)
        write_report(results, folder)
    return results, forecast


def _fitted(options: ForecastOptions, frame: TableColumns) -> tuple[Forecaster, Backtest]:
    """Return a forecaster of all values, and the backtest of one fitted without the end."""
    columns: dict[str, Any] = {
        "time_col": options.time, "id_col": options.id,
        "future_covariates": options.future_covariates,
        "past_covariates": options.past_covariates,
        "target_cols": options.target[0] if len(options.target) == 1 else list(options.target),
    }  # fmt: skip
    made: dict[str, Any] = {
        "horizon": options.horizon, "season_length": options.season_length,
        "transform": options.transform,
        "learner": LEARNERS[options.learner.lower()], "seed": options.seed,
    }  # fmt: skip
    stamps = timestamps(frame, options)
    times = np.unique(stamps)
    # At least the horizon: otherwise values of the fit would be scored.
    held_out = max(len(times) - int((1 - options.test) * len(times)), options.horizon)
    if held_out >= len(times):
        raise InvalidInput(
            f"the horizon of {options.horizon} steps is too long for a series of {len(times)} "
            f"values"
        )
    cut = times[len(times) - held_out - 1]
    tested = Forecaster(**made).fit(frame.at(stamps <= cut), **columns).backtest(frame, **columns)
    return Forecaster(**made).fit(frame, **columns), tested


def _forecast(forecaster: Forecaster, future: FutureRows | None) -> tuple[Forecast, list[str]]:
    """Return the forecast and the warnings that it raised."""
    state = forecaster.state_
    for stamps in () if future is None else future.stamps:
        expected = state.now + 1 + np.arange(len(stamps))
        wrong = state.grid.steps_from_start(stamps) != expected
        if wrong.any():
            due = state.grid.stamps(int(expected[wrong.argmax()]), 1)[0]
            raise InvalidInput(
                f"--future-covariate needs a row for every time after the last target; "
                f"there is none for {due}"
            )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        forecast = forecaster.predict(
            future_covariates=None if future is None else future.covariates
        )
    return forecast, [str(warning.message) for warning in caught]


def _lines(forecast: Forecast, level: float) -> tuple[list[str], list[list[Any]]]:
    low, high = forecast.interval(level)
    parts = [forecast.mean, forecast.std, low, high]
    times = [str(t) for t in forecast.times]
    for ending in ("T00:00:00.000000", ".000000"):  # the same format for all
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


def _draw(options: ForecastOptions, frame: TableColumns, forecast: Forecast, folder: Path) -> None:
    """Draw the end of the series and the forecast."""
    from matplotlib.figure import Figure

    from tractable import plots
    from tractable.forecast.data_frames import ColumnRoles
    from tractable.forecast.panel import read_panel

    target = options.target[0] if len(options.target) == 1 else list(options.target)
    roles = ColumnRoles(
        options.time, target, options.id, options.future_covariates, options.past_covariates
    )
    panel = read_panel(frame, roles)
    shown = min(len(forecast.series_names), _SHOWN)
    figure = Figure((8, 2.8 * shown + 0.6), layout="constrained")
    last = slice(-max(_BEFORE * options.horizon, 24), None)
    for k, ax in enumerate(np.atleast_1d(figure.subplots(shown, 1, sharex=True))):
        plots.forecast(
            forecast, history=(panel.stamps[last], panel.values[last, k]), series=k, ax=ax
        )
        if k < shown - 1:
            ax.set_xlabel("")
    with atomic_file(folder / PICTURE) as scratch:
        figure.savefig(scratch, dpi=110)


def _results(
    options: ForecastOptions, forecaster: Forecaster, forecast: Forecast, tested: Backtest,
    seconds: float, notes: tuple[str, ...],
) -> Results:  # fmt: skip
    found, setting = tested.summary(), forecaster.best_params_
    ours, naive = found["model"], found["seasonal naive"]
    words = (
        ("mean squared error", "mse", "smaller", None),
        ("mean absolute error", "mae", "smaller", None),
        ("mean test log-likelihood", "log_likelihood", "larger", None),
        ("coverage of 90 % intervals", "coverage_90", "nearer", 0.9),
    )
    levels = list(tested.model.coverage)
    shares = [tested.coverage(level) for level in levels]
    gap = float(np.mean(np.abs(np.array(levels) - shares)))
    layers = " and ".join(map(str, setting["hidden_layer_sizes"]))
    network = f"hidden layers of {layers} units" if layers else "a linear model"
    state = forecaster.state_
    return Results(
        name=f"forecast {options.data.name}",
        title=f"The next {options.horizon} steps of {', '.join(options.target)}",
        command=command_line("tractable.cli"),
        seeds=[options.seed],
        settings={k: str(v) if isinstance(v, Path) else v for k, v in asdict(options).items()
                  if v not in (None, ()) and k not in ("data", "out", "force")},
        comparison=[
            Comparison(name, None, ours[key], better=better, goal=goal,  # type: ignore[arg-type]
                       learner=options.learner, note=f"seasonal naive: {format_number(naive[key])}")
            for name, key, better, goal in words
        ],
        calibration=Calibration(
            "coverage", {options.learner: (levels, shares)}, {options.learner: gap}
        ),
        images=[ImageFile(PICTURE, "end of the series and forecast")],
        notes=[
            f"{len(state.series_names)} series, time step {state.grid.step_name}, season length "
            f"{state.season_length}; scores are of {len(tested.origins)} forecasts of the test "
            f"period.",
            *notes,
            f"Selected on validation windows: {network}, windows of {setting['lags']} values, "
            f"normalized by the {setting['normalize_by']} value.",
        ],
        metrics=found,
        seconds=round(seconds, 1),
        peak_memory_mib=peak_memory_mib(),
        threads=options.threads,
        versions=versions(),
        kind="table",
        sections=[
            _metrics_section(options, found, len(tested.origins)),
            _forecast_section(options, forecast),
        ],
    )  # fmt: skip


def _metrics_section(
    options: ForecastOptions, found: dict[str, dict[str, float]], origins: int
) -> Section:
    """Return the section with the metrics of the model and of the seasonal naive baseline."""
    ours, naive = found["model"], found["seasonal naive"]
    rows = [
        [name, *(f"{100 * v:.1f} %" if key == "coverage_90" else format_number(v)
                 for v in (ours[key], naive[key])), better]
        for name, key, better in (
            ("mean absolute error", "mae", "smaller"), ("mean squared error", "mse", "smaller"),
            ("mean test log-likelihood", "log_likelihood", "larger"),
            ("coverage of 90 % intervals", "coverage_90", "90 %"),
        )
    ]  # fmt: skip
    words = (
        f"Forecasts of 1 to {options.horizon} steps were made at {origins} times in the test "
        f"period at the end of the series, which a first fit did not use. Their mean absolute "
        f"error is {format_number(ours['mae'])}; repeating the last season has "
        f"{format_number(naive['mae'])}."
    )
    warnings = []
    if ours["mae"] >= naive["mae"]:
        warnings.append("The model is no better than the seasonal naive forecast.")
    header = ["metric", "this model", "seasonal naive", "better"]
    return Section("Backtest metrics", [words], header, rows, warnings=warnings)


def _forecast_section(options: ForecastOptions, forecast: Forecast) -> Section:
    """Return the section with the first steps of the forecast."""
    header, lines = _lines(forecast, options.level)
    shown = [[format_number(cell) for cell in line] for line in lines[:_STEPS]]
    words = f"The next time steps with {100 * options.level:g} % prediction intervals"
    rest = f"; all {len(lines)} are in {TABLE}." if len(lines) > _STEPS else "."
    return Section("Forecast", [words + rest], header, shown)
