"""Options that several commands have, and the name that their results have by default."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

TABLE = "A table with a header line: CSV (or .csv.gz), Excel or Parquet."
FILE = ".csv, .csv.gz, .xlsx or .parquet; by default standard output."

Json = Annotated[bool, typer.Option("--json", help="JSON on standard output, for machines.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Data = Annotated[Path, typer.Argument(metavar="DATA", help=TABLE)]
Out = Annotated[Path | None, typer.Option("-o", "--out", metavar="OUT", help=FILE)]
Target = Annotated[str, typer.Option(help="The column to predict.")]
Task = Annotated[
    str | None, typer.Option(help="regression or classification; by default inferred.")
]
Drop = Annotated[list[str] | None, typer.Option(help="Column to leave out; repeatable.")]
OneHot = Annotated[list[str] | None, typer.Option(help="Column to one-hot encode; repeatable.")]
Names = Annotated[
    list[str] | None, typer.Option(help="Column of numbers that are names; repeatable.")
]
Copied = Annotated[
    list[str] | None, typer.Option("--id", help="Column to copy, not to model; repeatable.")
]
Decimal = Annotated[
    str | None, typer.Option(help="The sign in 12,5 or 12.5; by default seen in the file.")
]
Encoding = Annotated[
    str | None, typer.Option(help="Of text that is not UTF-8: latin-1, cp1252, utf-16, ...")
]
Seed = Annotated[int, typer.Option(help="Of all that is drawn by chance.")]
Threads = Annotated[int, typer.Option(help="Of torch.")]
Force = Annotated[bool, typer.Option("--force", help="Replace what is in the folder.")]


def stem(data: Path) -> str:
    """The name of a file without its endings.

    >>> stem(Path("a/b.csv.gz")), stem(Path("x.y.xlsx"))
    ('b', 'x.y')
    """
    return Path(data.stem).stem if data.suffix == ".gz" else data.stem
