"""The command ``tractable``.

The code of a command is imported when it is called, so that ``--help`` does not import torch.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tractable.cli.errors import report_error
from tractable.cli.options import Debug, Json
from tractable.cli.supervised import diagnose, fit, forecast, predict
from tractable.cli.unsupervised import compare, density, impute, sample


class OneLineErrors(TyperGroup):
    """A group of commands that shows errors in one line, or with a traceback for ``--debug``."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command and exit with 0, 1 (the command failed) or 2 (invalid usage)."""
        words = list(sys.argv[1:] if args is None else args) or ["--help"]
        try:
            code = super().main(words, prog_name, complete_var, False, windows_expand_args, **extra)
        except Exception as error:
            if "--debug" in words:
                traceback.print_exception(error, file=sys.stderr)
            code = report_error(error)
        sys.exit(code if isinstance(code, int) else 0)


app = typer.Typer(
    name="tractable",
    cls=OneLineErrors,
    help="Bayesian neural networks for tables, time series and more.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        typer.echo(f"tractable {version('tractable')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Bayesian neural networks for tables, time series and more."""


for _command in (fit, predict, diagnose, forecast, density, sample, impute, compare):
    app.command()(_command)


@app.command()
def info(
    net: Annotated[
        str | None,
        typer.Argument(metavar="[NET]", help="Network, as module:name or file.py:name."),
    ] = None,
    input_: Annotated[
        list[str] | None,
        typer.Option(
            "--input", help="Shape of an input batch, e.g. 4,3,32,32 or 4,16:int; repeatable."
        ),
    ] = None,
    moments: Annotated[
        str, typer.Option(help="Moments of activations: linear or exact.")
    ] = "linear",
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show versions and data sets, or the moment rules that a network needs.

    NET is a torch.nn.Module, or a function that returns one, in a module or a file. The module or
    file is imported.
    """
    from tractable.cli.commands import info as command

    if net is None:
        command.show(json)
    else:
        command.show_network(net, input_ or [], moments, json)


@app.command()
def report(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Folder with results.json files, also in subfolders."),
    ],
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Write the HTML reports of all results below a folder, and an index page."""
    from tractable.cli.commands import report as command

    command.report(folder, json)


@app.command("list")
def list_(json: Json = False, debug: Debug = False) -> None:
    """List the installed studies."""
    from tractable.cli.commands import studies

    studies.show(json)


@app.command(
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def run(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of a study; see `tractable list`.")],
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Run a study; write results.json and report.html to its folder.

    All studies take --quick, --seed N, --out DIR and --threads N, those with checkpoints also
    --resume (the default) and --no-resume; `tractable run NAME --help` shows the rest.
    """
    from tractable.cli.commands import studies

    if name in ("-h", "--help"):
        typer.echo(context.get_help())
        return
    studies.run(name, context.args, json)
