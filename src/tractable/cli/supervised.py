"""Commands about a column of a table: learn it, predict it, study it, forecast it."""

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
    Json,
    OneHot,
    Out,
    Seed,
    Target,
    Task,
    Threads,
    stem,
)


def fit(
    data: Data,
    target: Target,
    learner: Annotated[
        str,
        typer.Option(
            help="tagi (closed form), bbb (sampled), net (point estimate) or laplace (around it)."
        ),
    ] = "tagi",
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for model and report; out/DATA.")
    ] = None,
    task: Task = None,
    likelihood: Annotated[
        str | None,
        typer.Option(
            help="What the target means: auto looks at it; normal, heteroscedastic, laplace, "
            "student_t, mixture, poisson, negative_binomial, von_mises, categorical, ordinal."
        ),
    ] = None,
    order: Annotated[
        str | None, typer.Option(help="Levels of an ordinal target from the lowest: low,mid,high.")
    ] = None,
    id_: Annotated[
        list[str] | None, typer.Option("--id", help="Column to copy to predictions; repeatable.")
    ] = None,
    drop: Drop = None,
    categorical: OneHot = None,
    missing: Annotated[
        str,
        typer.Option(
            help="infer: unknown, inferred from the other columns, and the doubt shows; drop the "
            "rows; mean: filled in; refuse."
        ),
    ] = "infer",
    decimal: Decimal = None,
    encoding: Encoding = None,
    test: Annotated[
        float, typer.Option(help="Share of rows held out to test; 0 to learn from all rows.")
    ] = 0.2,
    hidden: Annotated[
        str | None,
        typer.Option(help="Widths of the hidden layers, '' for a linear model; by default chosen."),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the rows.")] = None,
    seed: Seed = 0,
    threads: Threads = 1,
    force: Force = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Train on a table, test on held-out rows, save model and report.

    Numbers are used as they are, dates as time goes; text columns of at most 20 kinds are one-hot
    encoded; others are refused until you say --drop, --id or --categorical.
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
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model file, or its folder.")],
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="Rows to predict for: CSV, Excel or Parquet.")
    ],
    out: Out = None,
    keep: Annotated[
        str | None, typer.Option(help="Columns of DATA to copy beside: all, or a,b.")
    ] = None,
    level: Annotated[float, typer.Option(help="Of the intervals lower..upper.")] = 0.9,
    missing: Annotated[
        str | None, typer.Option(help="infer (the doubt shows), mean (fill in) or refuse.")
    ] = None,
    unknown: Annotated[
        str, typer.Option(help="What categories not seen in training are: missing, or refuse.")
    ] = "missing",
    encoding: Encoding = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Predict the rows of another table with a saved model.

    Writes mean, std, lower and upper, or label and probabilities; and novelty: how unlike the
    training rows a row is.
    """
    from tractable.cli.commands import predict as command

    choices = command.Choices(level, missing, unknown, keep, encoding)
    command.run(model, data, out, choices, json=json)


def diagnose(
    data: Data,
    target: Target,
    learner: Annotated[str, typer.Option(help="tagi, bbb, net or laplace, as for fit.")] = "tagi",
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the page; out/DATA-diagnostics.")
    ] = None,
    task: Task = None,
    id_: Annotated[
        list[str] | None, typer.Option("--id", help="Column to leave out; repeatable.")
    ] = None,
    drop: Drop = None,
    categorical: OneHot = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    hidden: Annotated[int, typer.Option(help="Units of the hidden layer.")] = 50,
    rows: Annotated[int, typer.Option(help="At most so many rows, by chance.")] = 5000,
    quick: Annotated[bool, typer.Option("--quick", help="Within two minutes.")] = False,
    seed: Seed = 0,
    workers: Annotated[
        int | None, typer.Option(help="Fits at once; by default as many as there are cores.")
    ] = None,
    force: Force = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Learn why a model errs, and what would help.

    Fits many networks on all cores; writes a page that begins with advice.
    """
    from tractable.cli.commands import diagnose as command

    command.run(
        json, data=data, target=target, learner=learner,
        out=out or Path("out") / f"{stem(data)}-diagnostics", task=task, ids=tuple(id_ or ()),
        drop=tuple(drop or ()), categorical=tuple(categorical or ()), decimal=decimal,
        encoding=encoding, hidden=hidden, most=rows, quick=quick, seed=seed,
        workers=workers, force=force,
    )  # fmt: skip


def forecast(
    data: Data,
    target: Annotated[list[str], typer.Option(help="Column to forecast; repeatable.")],
    horizon: Annotated[int, typer.Option(help="Steps to forecast.")],
    time: Annotated[
        str | None, typer.Option(help="Column of time stamps; by default rows are even steps.")
    ] = None,
    id_: Annotated[
        str | None, typer.Option("--id", help="Column that tells series apart, in long tables.")
    ] = None,
    known: Annotated[
        list[str] | None,
        typer.Option(help="Covariate whose future is known, in rows after the last; repeatable."),
    ] = None,
    past: Annotated[
        list[str] | None, typer.Option(help="Covariate known up to now; repeatable.")
    ] = None,
    season: Annotated[int | None, typer.Option(help="Steps; by default of the stamps.")] = None,
    transform: Annotated[str | None, typer.Option(help="log, log1p or sqrt.")] = None,
    learner: Annotated[str, typer.Option(help="tagi, bbb or net, as for fit.")] = "tagi",
    decimal: Decimal = None,
    encoding: Encoding = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for all; out/DATA-forecast.")
    ] = None,
    test: Annotated[float, typer.Option(help="Share of the end to test a first fit on.")] = 0.2,
    level: Annotated[float, typer.Option(help="Of the intervals lower..upper.")] = 0.9,
    seed: Seed = 0,
    threads: Threads = 1,
    force: Force = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Forecast a time series: table, picture, model and report.

    Missing values may be empty; time stamps must be even, but for gaps.
    """
    from tractable.cli.commands import forecast as command

    command.run(
        json, data=data, time=time, target=tuple(target), horizon=horizon,
        out=out or Path("out") / f"{stem(data)}-forecast", season=season, id=id_,
        known=tuple(known or ()), past=tuple(past or ()), transform=transform, learner=learner,
        decimal=decimal, encoding=encoding,
        test=test, level=level, seed=seed, threads=threads, force=force,
    )  # fmt: skip
