"""Options that several commands share, and the default name of their results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

TABLE = "Table with a header line: CSV (also .csv.gz), Excel (.xlsx) or Parquet."
FILE = "Output file: .csv, .csv.gz, .xlsx or .parquet. Default: standard output."

Json = Annotated[bool, typer.Option("--json", help="Print JSON to standard output.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Data = Annotated[Path, typer.Argument(metavar="DATA", help=TABLE)]
Out = Annotated[Path | None, typer.Option("-o", "--out", metavar="OUT", help=FILE)]
Target = Annotated[str, typer.Option(help="Name of the column to predict.")]
Learner = Annotated[
    str,
    typer.Option(
        help="Learning method: tagi (closed-form Gaussian inference), bbb (Bayes by Backprop), net "
        "(point estimate) or laplace (Laplace approximation)."
    ),
]
Task = Annotated[
    str | None,
    typer.Option(help="regression or classification. Default: inferred from the target."),
]
LikelihoodName = Annotated[
    str | None,
    typer.Option(
        help="Distribution of the target: normal, heteroscedastic, laplace, student_t, "
        "mixture, poisson, negative_binomial, von_mises, categorical or ordinal; auto selects "
        "one from the target. Default: normal or categorical."
    ),
]
Order = Annotated[
    str | None,
    typer.Option(help="Levels of an ordinal target in increasing order, e.g. low,mid,high."),
]
FutureCovariates = Annotated[
    list[str] | None,
    typer.Option(
        help="Covariate whose future values are in rows after the last target; repeatable."
    ),
]
PastCovariates = Annotated[
    list[str] | None,
    typer.Option(help="Covariate whose future values are unknown; repeatable."),
]
Drop = Annotated[list[str] | None, typer.Option(help="Column to ignore; repeatable.")]
OneHot = Annotated[list[str] | None, typer.Option(help="Column to one-hot encode; repeatable.")]
Categorical = Annotated[
    list[str] | None,
    typer.Option(help="Column of numbers to treat as categories; repeatable."),
]
Id = Annotated[
    list[str] | None,
    typer.Option("--id", help="Column to copy to the output without modeling it; repeatable."),
]
Decimal = Annotated[
    str | None,
    typer.Option(help="Decimal separator, ',' or '.'. Default: inferred from the file."),
]
Encoding = Annotated[
    str | None,
    typer.Option(help="Text encoding, e.g. latin-1, cp1252 or utf-16. Default: UTF-8."),
]
Seed = Annotated[int, typer.Option(help="Random seed.")]
Threads = Annotated[int, typer.Option(help="Number of torch threads.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the content of the output folder.")]


def stem(data: Path) -> str:
    """Return the name of a file without its suffixes.

    >>> stem(Path("a/b.csv.gz")), stem(Path("x.y.xlsx"))
    ('b', 'x.y')
    """
    return Path(data.stem).stem if data.suffix == ".gz" else data.stem
