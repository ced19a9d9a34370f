"""Commands about whole rows of tables: odd ones, new ones, full ones, other ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tractable.cli.options import (
    TABLE,
    Copied,
    Data,
    Debug,
    Decimal,
    Drop,
    Encoding,
    Force,
    Json,
    Names,
    Out,
    Seed,
    Threads,
    stem,
)


def density(
    data: Data,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for all; out/DATA-density.")
    ] = None,
    id_: Copied = None,
    drop: Drop = None,
    categorical: Names = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    components: Annotated[
        int | None, typer.Option(help="Of the mixture; by default chosen on held-out rows.")
    ] = None,
    level: Annotated[float, typer.Option(help="Novelty above which a row is unusual.")] = 0.99,
    seed: Seed = 0,
    threads: Threads = 1,
    force: Force = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Find the rows of a table that are unlike the others.

    Writes novelty and the strangest column of every row, a model of the rows, and a report.

    Every row is judged by a model that has not seen it. Missing values may be empty.
    """
    from tractable.cli.commands import density as command

    command.run(
        json, data=data, out=out or Path("out") / f"{stem(data)}-density", ids=tuple(id_ or ()),
        drop=tuple(drop or ()), categorical=tuple(categorical or ()), components=components,
        decimal=decimal, encoding=encoding,
        level=level, seed=seed, threads=threads, force=force,
    )  # fmt: skip


def sample(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Of `tractable density`: a file or its folder.")
    ],
    number: Annotated[int, typer.Option("-n", "--number", help="Rows to make.")] = 1000,
    out: Out = None,
    seed: Seed = 0,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Make new rows like those of a table (after `density`)."""
    from tractable.cli.commands import density as command

    command.sample(model, number, out, seed=seed, json=json)


def impute(
    data: Data,
    out: Out = None,
    model: Annotated[
        Path | None,
        typer.Option(help="Of `tractable density`; by default one is fitted to this table."),
    ] = None,
    id_: Copied = None,
    drop: Annotated[list[str] | None, typer.Option(help="Column not to model; repeatable.")] = None,
    categorical: Names = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    draws: Annotated[int, typer.Option(help="Times every hole is filled, to average.")] = 100,
    draw: Annotated[
        bool, typer.Option("--draw", help="One draw instead of the mean: keeps the spread.")
    ] = False,
    level: Annotated[
        float | None, typer.Option(help="Add columns lower..upper that hold this share.")
    ] = None,
    seed: Seed = 0,
    threads: Threads = 1,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Fill the empty cells of a table, given their rows."""
    from tractable.cli.commands import impute as command

    command.run(
        data, model, out, ids=tuple(id_ or ()), drop=tuple(drop or ()),
        categorical=tuple(categorical or ()), decimal=decimal,
        encoding=encoding, draws=draws, draw=draw, level=level, seed=seed,
        threads=threads, json=json,
    )  # fmt: skip


def compare(
    first: Annotated[Path, typer.Argument(metavar="A", help=TABLE)],
    second: Annotated[Path, typer.Argument(metavar="B", help="One with the same columns.")],
    drop: Drop = None,
    categorical: Names = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    level: Annotated[float, typer.Option(help="Of the intervals, and of the verdict.")] = 0.95,
    seed: Seed = 0,
    threads: Threads = 1,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Tell whether two tables differ, and in which columns."""
    from tractable.cli.commands import compare as command

    command.run(
        first, second, drop=tuple(drop or ()), categorical=tuple(categorical or ()), level=level,
        decimal=decimal, encoding=encoding,
        seed=seed, threads=threads, json=json,
    )  # fmt: skip
