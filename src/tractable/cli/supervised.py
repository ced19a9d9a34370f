"""Commands that model a target column: fit, predict, diagnose and forecast."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tractable.cli.options import (
    Data,
    Debug,
    Decimal,
    Drop,
    Encoding,
    Force,
    FutureCovariates,
    Id,
    Json,
    Learner,
    LikelihoodName,
    OneHot,
    Order,
    Out,
    PastCovariates,
    Seed,
    Target,
    Task,
    Threads,
    stem,
)


def fit(
    data: Data,
    target: Target,
    learner: Learner = "tagi",
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Output folder for model and report. Default: out/DATA."),
    ] = None,
    task: Task = None,
    likelihood: LikelihoodName = None,
    order: Order = None,
    id_: Id = None,
    drop: Drop = None,
    categorical: OneHot = None,
    missing: Annotated[
        str,
        typer.Option(
            help="Missing inputs: infer (impute from the other columns; intervals widen "
            "accordingly), mean (replace by the mean), drop (drop the rows) or refuse."
        ),
    ] = "infer",
    decimal: Decimal = None,
    encoding: Encoding = None,
    test: Annotated[
        float,
        typer.Option(help="Fraction of rows held out as a test set; 0 trains on all rows."),
    ] = 0.2,
    hidden: Annotated[
        str | None,
        typer.Option(
            help="Widths of the hidden layers, e.g. 64,64; '' for a linear model. Default: "
            "selected on held-out rows."
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(help="Number of passes over the data. Default: selected on held-out rows."),
    ] = None,
    seed: Seed = 0,
    threads: Threads = 1,
    force: Force = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Fit a model to a table, evaluate it on held-out rows, and save model and report.

    Numeric columns are used as they are, dates as calendar features, and text columns with at most
    20 distinct values are one-hot encoded. For other text columns choose --drop, --id or
    --categorical.
    """
    from tractable.cli.commands import fit as command

    command.run(
        json, data=data, target=target, learner=learner,
        out=out or Path("out") / stem(data),
        task=task, likelihood=likelihood, order=command.levels(order), ids=tuple(id_ or ()),
        drop=tuple(drop or ()),
        categorical=tuple(categorical or ()), missing=missing, decimal=decimal,
        encoding=encoding, test=test,
        hidden=command.widths(hidden), epochs=epochs, seed=seed, threads=threads, force=force,
    )  # fmt: skip


def predict(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Model of `tractable fit`: a file or folder.")
    ],
    data: Annotated[
        Path,
        typer.Argument(metavar="DATA", help="Table of the rows to predict: CSV, Excel or Parquet."),
    ],
    out: Out = None,
    keep: Annotated[
        str | None,
        typer.Option(help="Columns of DATA to copy to the output: all, or names such as a,b."),
    ] = None,
    level: Annotated[
        float, typer.Option(help="Coverage of the prediction intervals, e.g. 0.9.")
    ] = 0.9,
    missing: Annotated[
        str | None,
        typer.Option(
            help="Missing inputs: infer (impute from the other columns; intervals widen "
            "accordingly), mean (replace by the mean) or refuse. Default: as in fit."
        ),
    ] = None,
    unknown: Annotated[
        str,
        typer.Option(help="Categories that are not in the training data: missing or refuse."),
    ] = "missing",
    encoding: Encoding = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Predict the rows of a table with a saved model.

    Writes mean, std, lower and upper, or label and class probabilities; and distance, the distance
    of a row to the training data in standard deviations (0 inside the data).
    """
    from tractable.cli.commands import predict as command

    options = command.PredictOptions(level, missing, unknown, keep, encoding)
    command.run(model, data, out, options, json=json)


def diagnose(
    data: Data,
    target: Target,
    learner: Learner = "tagi",
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Output folder. Default: out/DATA-diagnostics."),
    ] = None,
    task: Task = None,
    id_: Annotated[
        list[str] | None, typer.Option("--id", help="Column to ignore; repeatable.")
    ] = None,
    drop: Drop = None,
    categorical: OneHot = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    hidden: Annotated[int, typer.Option(help="Number of units of the hidden layer.")] = 50,
    rows: Annotated[
        int, typer.Option(help="Maximum number of rows; more are subsampled at random.")
    ] = 5000,
    quick: Annotated[
        bool, typer.Option("--quick", help="Use fewer rows and fits; takes at most two minutes.")
    ] = False,
    seed: Seed = 0,
    workers: Annotated[
        int | None, typer.Option(help="Number of parallel fits. Default: number of CPU cores.")
    ] = None,
    force: Force = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Find the sources of a model's error and recommend improvements.

    Fits many networks in parallel and writes a page that begins with a recommendation.
    """
    from tractable.cli.commands import diagnose as command

    command.run(
        json, data=data, target=target, learner=learner,
        out=out or Path("out") / f"{stem(data)}-diagnostics", task=task, ids=tuple(id_ or ()),
        drop=tuple(drop or ()), categorical=tuple(categorical or ()), decimal=decimal,
        encoding=encoding, hidden=hidden, max_rows=rows, quick=quick, seed=seed,
        workers=workers, force=force,
    )  # fmt: skip


def forecast(
    data: Data,
    target: Annotated[list[str], typer.Option(help="Name of the column to forecast; repeatable.")],
    horizon: Annotated[int, typer.Option(help="Number of time steps to forecast.")],
    time: Annotated[
        str | None,
        typer.Option(help="Column of timestamps. Default: one row per time step."),
    ] = None,
    id_: Annotated[
        str | None, typer.Option("--id", help="Column with the name of the series of each row.")
    ] = None,
    future_covariate: FutureCovariates = None,
    past_covariate: PastCovariates = None,
    season_length: Annotated[
        int | None,
        typer.Option(help="Length of the season in time steps. Default: from the timestamps."),
    ] = None,
    transform: Annotated[
        str | None, typer.Option(help="Transformation of the target: log, log1p or sqrt.")
    ] = None,
    learner: Annotated[
        str, typer.Option(help="Learning method: tagi, bbb or net, as for fit.")
    ] = "tagi",
    decimal: Decimal = None,
    encoding: Encoding = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Output folder. Default: out/DATA-forecast.")
    ] = None,
    test: Annotated[
        float,
        typer.Option(
            help="Fraction of the time steps, at the end, on which a first fit is tested."
        ),
    ] = 0.2,
    level: Annotated[
        float, typer.Option(help="Coverage of the prediction intervals, e.g. 0.9.")
    ] = 0.9,
    seed: Seed = 0,
    threads: Threads = 1,
    force: Force = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Forecast time series: table, figure, model and report.

    Values may be missing. Timestamps must be equally spaced, except for gaps.
    """
    from tractable.cli.commands import forecast as command

    command.run(
        json, data=data, time=time, target=tuple(target), horizon=horizon,
        out=out or Path("out") / f"{stem(data)}-forecast", season_length=season_length, id=id_,
        future_covariates=tuple(future_covariate or ()),
        past_covariates=tuple(past_covariate or ()), transform=transform, learner=learner,
        decimal=decimal, encoding=encoding,
        test=test, level=level, seed=seed, threads=threads, force=force,
    )  # fmt: skip
