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

from tractable.cli.errors import report_error
from tractable.cli.options import Debug, Json
from tractable.cli.supervised import diagnose, fit, forecast, predict
from tractable.cli.unsupervised import compare, density, impute, sample


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
            code = report_error(error)
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


for _command in (fit, predict, diagnose, forecast, density, sample, impute, compare):
    app.command()(_command)


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
