"""The commands and their options.  What they do is imported when they are called.

So ``--help`` does not wait for torch.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tractable.cli.errors import tell
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
    OneHot,
    Out,
    Seed,
    Target,
    Task,
    Threads,
)


class OneLineErrors(TyperGroup):
    """A group of commands that never shows a traceback, unless asked with ``--debug``."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command; leaves with 0, 1 (failed work) or 2 (bad use)."""
        words = list(sys.argv[1:] if args is None else args) or ["--help"]
        try:
            code = super().main(words, prog_name, complete_var, False, windows_expand_args, **extra)
        except Exception as error:
            if "--debug" in words:
                traceback.print_exception(error, file=sys.stderr)
            code = tell(error)
        sys.exit(code if isinstance(code, int) else 0)


app = typer.Typer(
    name="tractable",
    cls=OneLineErrors,
    help="Neural networks that know what they don't know.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"tractable {version('tractable')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Neural networks that know what they don't know."""


def stem(data: Path) -> str:
    """The name of a file without its endings.

    >>> stem(Path("a/b.csv.gz")), stem(Path("x.y.xlsx"))
    ('b', 'x.y')
    """
    return Path(data.stem).stem if data.suffix == ".gz" else data.stem


@app.command()
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


@app.command()
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


@app.command()
def study(
    data: Data,
    target: Target,
    learner: Annotated[str, typer.Option(help="tagi, bbb, net or laplace, as for fit.")] = "tagi",
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the page; out/DATA-study.")
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
    from tractable.cli.commands import study as command

    command.run(
        json, data=data, target=target, learner=learner,
        out=out or Path("out") / f"{stem(data)}-study", task=task, ids=tuple(id_ or ()),
        drop=tuple(drop or ()), categorical=tuple(categorical or ()), decimal=decimal,
        encoding=encoding, hidden=hidden, most=rows, quick=quick, seed=seed,
        workers=workers, force=force,
    )  # fmt: skip


@app.command()
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


@app.command()
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


@app.command()
def synth(
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
    from tractable.cli.commands import synth as command

    command.run(model, number, out, seed=seed, json=json)


@app.command()
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


@app.command()
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


@app.command()
def info(
    net: Annotated[
        str | None,
        typer.Argument(metavar="[NET]", help="module:name or file.py:name of a network."),
    ] = None,
    input_: Annotated[
        list[str] | None,
        typer.Option("--input", help="Shape of a batch, 4,3,32,32 or 4,16:int; repeatable."),
    ] = None,
    moments: Annotated[str, typer.Option(help="linear or exact, as TAGI takes it.")] = "linear",
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show versions and data sets; or what a network needs.

    NET names a torch.nn.Module or a function that makes one, in a module or a file, which is
    imported.
    """
    from tractable.cli.commands import info as command

    if net is None:
        command.show(json)
    else:
        command.show_network(net, input_ or [], moments, json)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where results.json files are.")],
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Join the results below a folder into one page."""
    from tractable.cli.commands import report as command

    command.report(folder, json)


@app.command("list")
def list_(json: Json = False, debug: Debug = False) -> None:
    """List the studies that `run` can repeat."""
    from tractable.cli.commands import studies

    studies.show(json)


@app.command(
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def run(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="As `tractable list` has it.")],
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Repeat a study: results.json and report.html in its folder.

    All studies take --quick, --seed N, --out DIR and --threads N, those with checkpoints also
    --resume (the default) and --no-resume; `tractable run NAME --help` shows the rest.
    """
    from tractable.cli.commands import studies

    if name in ("-h", "--help"):
        typer.echo(context.get_help())
        return
    studies.run(name, context.args, json)
