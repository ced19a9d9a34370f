"""Commands that model all columns of a table: density, sample, impute and compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tractable.cli.options import (
    TABLE,
    Categorical,
    Data,
    Debug,
    Decimal,
    Drop,
    Encoding,
    Force,
    Id,
    Json,
    Out,
    Seed,
    Threads,
    stem,
)


def density(
    data: Data,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Output folder. Default: out/DATA-density."),
    ] = None,
    id_: Id = None,
    drop: Drop = None,
    categorical: Categorical = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    components: Annotated[
        int | None,
        typer.Option(help="Number of mixture components. Default: selected on held-out rows."),
    ] = None,
    level: Annotated[
        float,
        typer.Option(help="Report rows whose novelty_share, from 0 to 1, is above this level."),
    ] = 0.99,
    seed: Seed = 0,
    threads: Threads = 1,
    force: Force = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Fit a density to the rows of a table and find unusual rows.

    Writes the novelty_share and the least likely column of every row, the model, and a report.

    Every row is scored by a model that was fitted without it. Missing values are integrated out.
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
        Path,
        typer.Argument(metavar="MODEL", help="Model of `tractable density`: a file or its folder."),
    ],
    n_samples: Annotated[
        int, typer.Option("-n", "--n-samples", help="Number of rows to sample.")
    ] = 1000,
    out: Out = None,
    seed: Seed = 0,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Sample synthetic rows from a model of `tractable density`."""
    from tractable.cli.commands import density as command

    command.sample(model, n_samples, out, seed=seed, json=json)


def impute(
    data: Data,
    out: Out = None,
    model: Annotated[
        Path | None,
        typer.Option(help="Model of `tractable density`. Default: fitted to this table."),
    ] = None,
    id_: Id = None,
    drop: Annotated[list[str] | None, typer.Option(help="Column not to model; repeatable.")] = None,
    categorical: Categorical = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    n_samples: Annotated[
        int,
        typer.Option("--n-samples", help="Number of samples per missing value that are averaged."),
    ] = 100,
    sample: Annotated[
        bool,
        typer.Option("--sample", help="Impute one sample, which preserves the variance."),
    ] = False,
    level: Annotated[
        float | None,
        typer.Option(help="Add columns with prediction intervals of this coverage, e.g. 0.9."),
    ] = None,
    seed: Seed = 0,
    threads: Threads = 1,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Impute the missing values of a table."""
    from tractable.cli.commands import impute as command

    command.run(
        data, model, out, ids=tuple(id_ or ()), drop=tuple(drop or ()),
        categorical=tuple(categorical or ()), decimal=decimal,
        encoding=encoding, n_samples=n_samples, sample=sample, level=level, seed=seed,
        threads=threads, json=json,
    )  # fmt: skip


def compare(
    first: Annotated[Path, typer.Argument(metavar="A", help=TABLE)],
    second: Annotated[Path, typer.Argument(metavar="B", help="Table with the same columns.")],
    drop: Drop = None,
    categorical: Categorical = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    level: Annotated[
        float, typer.Option(help="Coverage of the intervals; 1 - level is the significance level.")
    ] = 0.95,
    seed: Seed = 0,
    threads: Threads = 1,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Test whether two tables have the same distribution, and list the columns that differ."""
    from tractable.cli.commands import compare as command

    command.run(
        first, second, drop=tuple(drop or ()), categorical=tuple(categorical or ()), level=level,
        decimal=decimal, encoding=encoding,
        seed=seed, threads=threads, json=json,
    )  # fmt: skip
