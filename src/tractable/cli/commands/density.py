"""``tractable density``: how unlike the others each row of a table is, and a model of its rows."""

from __future__ import annotations

import sys
import time as clock
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tractable.cli import output
from tractable.cli.errors import CommandError, UsageError, one_line
from tractable.cli.folder import atomic_folder
from tractable.cli.tables import reader, row_table, writer
from tractable.cli.tables.formats import check_decimal
from tractable.cli.tables.reader import TextTable
from tractable.cli.tables.row_table import MODEL, Array, RowTable
from tractable.errors import TractableError
from tractable.generative import GaussianMixture
from tractable.generative.column_scaler import ColumnScaler
from tractable.generative.em import MixtureParams
from tractable.persistence.atomic import atomic_file
from tractable.report import RESULTS, ImageFile, Results, Section, write_report
from tractable.report.formatting import format_number
from tractable.report.provenance import command_line, peak_memory_mib, versions

TABLE, PICTURE = "novelty.csv", "novelty.png"
_FOLDS = 5
_SHOWN = 10
_FEWEST = 10
_COMPARED = 2_000  # rows that another is compared with


@dataclass(frozen=True)
class Choices:
    """What the user asked for."""

    data: Path
    out: Path
    ids: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    decimal: str | None = None
    encoding: str | None = None
    components: int | None = None
    level: float = 0.99
    seed: int = 0
    threads: int = 1
    force: bool = False


@dataclass(frozen=True)
class Scored:
    """What models that had not seen a row say of it.

    Attributes:
        log_density: nats, in the units of the table.
        novelty: share of the other rows that are more likely, in the columns that the row has.
        column: number of the column that is least likely given the others, against what is usual.
    """

    log_density: Array
    novelty: Array
    column: Array


def run(json: bool, **chosen: Any) -> None:
    """Score the rows, and print a summary."""
    choices = Choices(**chosen)
    results, table, made, scored = density(choices)
    folder, strange = choices.out, results.metrics["unusual_rows"]
    if json:
        output.print_json({
            "model": str(folder / MODEL), "novelty": str(folder / TABLE),
            "report": str(folder / "report.html"), **results.metrics,
        })  # fmt: skip
        return
    for note in results.notes:
        output.print_line(note)
    header, lines = _lines(table, made, scored)
    order = np.argsort(-scored.novelty, kind="stable")[:_SHOWN]
    output.print_table(header, [[_cell(c) for c in lines[i]] for i in order])
    output.print_line(
        f"{strange} of {len(table)} rows above {choices.level:g}; all: {folder / TABLE}"
    )
    output.print_line(f"model: {folder / MODEL}")
    output.print_line(f"report: {folder / 'report.html'}")


def density(choices: Choices) -> tuple[Results, TextTable, RowTable, Scored]:
    """Do all of it; ``choices.out`` then holds model, table, picture and report."""
    if not 0 < choices.level < 1:
        raise UsageError(f"--level must lie between 0 and 1, got {choices.level}")
    if choices.components is not None and choices.components < 1:
        raise UsageError(f"--components must be at least 1, got {choices.components}")
    check_decimal(choices.decimal)
    table = reader.read_table(choices.data, encoding=choices.encoding)
    if len(table) < _FEWEST:
        raise UsageError(f"{table.path.name} has {len(table)} rows: wanted at least {_FEWEST}")
    made = row_table.infer_columns(
        table, ids=choices.ids, drop=choices.drop, categorical=choices.categorical,
        decimal=choices.decimal,
    )  # fmt: skip
    values = made.encode(table)
    with atomic_folder(choices.out, force=choices.force) as folder:
        started = clock.monotonic()
        torch.set_num_threads(choices.threads)
        try:
            model = mixture(made, choices.components, choices.seed).fit(values)
            scored = score(model, made, values, choices.seed)
        except TractableError as error:
            raise UsageError(f"{choices.data.name}: {made.named(one_line(error))}") from error
        except (ArithmeticError, RuntimeError) as error:
            raise CommandError(f"learning failed: {one_line(error)}") from error
        row_table.save(folder / MODEL, model, made)
        writer.write_csv(folder / TABLE, *_lines(table, made, scored))
        _draw(choices, scored, folder)
        results = _results(choices, model, made, table, scored, clock.monotonic() - started)
        results.write(folder / RESULTS)
        write_report(results, folder)
    return results, table, made, scored


def mixture(made: RowTable, components: int | None, seed: int, members: int = 1) -> GaussianMixture:
    """A new model of such rows."""
    return GaussianMixture(
        components,
        dequantize=True,
        dtype=torch.float64,
        seed=seed,
        validation_fraction=0.0,
        n_estimators=members,
    )


def score(model: GaussianMixture, made: RowTable, values: Array, seed: int) -> Scored:
    """Every row by a model of the others: fitted without its fifth of the table."""
    assert model.mixture_ is not None
    number = len(model.mixture_.weights)
    order = np.random.default_rng(seed).permutation(len(values))
    fold, parts = np.empty(len(values), dtype=int), list[GaussianMixture]()
    log_density, column = np.empty(len(values)), np.zeros(len(values))
    for k in range(min(_FOLDS, len(values))):
        held = order[k::_FOLDS]
        kept = np.setdiff1d(order, held)
        part = mixture(made, min(number, len(kept)), seed).fit(values[kept])
        log_density[held] = _log_density(part, values[held])
        column[held] = _strangest(part, values[held], values[kept])
        fold[held] = k
        parts.append(part)
    return Scored(log_density, _novelty(parts, fold, values), column)


def _inside(model: GaussianMixture) -> tuple[ColumnScaler, MixtureParams]:
    assert model.mixture_ is not None
    return model.fitted_scaler(), model.mixture_


def _log_density(model: GaussianMixture, rows_: Array) -> Array:
    """Log density in the units of the table, of the values that each row has."""
    columns, mixture_ = _inside(model)
    z = columns.to_model(torch.from_numpy(rows_), torch.float64)
    scale = columns.units.scale[columns.varying].log()
    found = mixture_.log_joint(z).logsumexp(1) - torch.where(z.isnan(), 0.0, scale).sum(1)
    return found.numpy()


def _novelty(parts: Sequence[GaussianMixture], fold: Array, values: Array) -> Array:
    """The share of the other rows that are more likely, each by the model that has not seen it.

    Rows that a model has learnt from are more likely under it than new ones, so they are no
    reference: the share is even over 0 to 1 only if all rows are judged alike.  Rows with holes are
    compared with all others in the columns that they have.  Where a column is constant in all but
    one part of the table, models have different columns, and only those of the same ones are
    compared.

    Args:
        parts: a model for each part of the table, fitted to all other parts.
        fold: the part that each row is in.
        values: rows.
    """
    has, novelty = ~np.isnan(values), np.empty(len(values))
    columns = [_inside(part)[0] for part in parts]
    _, alike = np.unique([c.varying.numpy() for c in columns], axis=0, return_inverse=True)
    group = alike.reshape(-1)[fold]
    for pattern in np.unique(has, axis=0):
        for each in np.unique(group):
            mine = np.flatnonzero((has == pattern).all(1) & (group == each))
            others = np.flatnonzero(has[:, pattern].all(1) & (group == each))
            most = min(len(others), max(_COMPARED, len(mine)))
            seen = others[np.linspace(0, len(others) - 1, most).astype(int)]
            at = np.union1d(mine, seen)
            found = np.empty(len(values))
            for k, part in enumerate(parts):
                own = at[fold[at] == k]
                if len(own):
                    found[own] = _log_density(part, np.where(pattern, values[own], np.nan))
            reference = np.sort(found[seen])
            higher = len(seen) - np.searchsorted(reference, found[mine], side="right")
            # Its own place among them: the middle of a step, so that no level is favored.
            novelty[mine] = (higher + 0.5) / (len(seen) + (~np.isin(mine, seen)))
    for k, c in enumerate(columns):
        own = torch.from_numpy(values[fold == k])
        possible = c.matches_constants(torch.where(own.isnan(), c.units.mean, own)).numpy()
        novelty[fold == k] = np.where(possible, novelty[fold == k], 1.0)
    return novelty


def _strangest(model: GaussianMixture, new: Array, seen: Array) -> Array:
    """The column of each row that is least likely given the others, against what is usual."""
    columns, mixture_ = _inside(model)
    some = seen[np.linspace(0, len(seen) - 1, min(len(seen), _COMPARED)).astype(int)]
    there, old = (columns.to_model(torch.from_numpy(v), torch.float64) for v in (new, some))
    usual = _given_others(mixture_, old)
    off = (usual.nanmedian(0).values - _given_others(mixture_, there)) / _spread(usual)
    worst = torch.nan_to_num(off, nan=-float("inf")).argmax(1).numpy()
    return columns.varying.nonzero().flatten().numpy()[worst]


def _given_others(mixture_: MixtureParams, x: Tensor) -> Tensor:
    """Log density of every value given the others of its row; NaN for holes."""
    whole = mixture_.log_joint(x).logsumexp(1)
    found = torch.full_like(x, float("nan"))
    for k in range(x.shape[1]):
        without = x.clone()
        without[:, k] = float("nan")
        found[:, k] = whole - mixture_.log_joint(without).logsumexp(1)
    return torch.where(x.isnan(), float("nan"), found)


def _spread(values: Tensor) -> Tensor:
    middle = values.nanmedian(0).values
    return (values - middle).abs().nanmedian(0).values.clamp_min(0.1)


def _lines(table: TextTable, made: RowTable, scored: Scored) -> tuple[list[str], list[list[Any]]]:
    ids = [table.column(name) for name in made.ids]
    lines = []
    for i in range(len(table)):
        name = made.names[int(scored.column[i])]
        value = table.rows[i][table.header.index(name)]
        lines.append([
            *(column[i] for column in ids), table.numbers[i], round(float(scored.novelty[i]), 4),
            round(float(scored.log_density[i]), 4), name, value,
        ])  # fmt: skip
    header = [*made.ids, "row", "novelty", "log_density", "strangest_column", "its_value"]
    return header, lines


def _cell(value: Any) -> str:
    return f"{value:.3f}".replace("-", "−") if isinstance(value, float) else str(value)


def _draw(choices: Choices, scored: Scored, folder: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure((7, 2.8), layout="constrained")
    ax = figure.subplots()
    strange = scored.novelty > choices.level
    bins = np.histogram_bin_edges(scored.log_density, bins=40).tolist()
    ax.hist(scored.log_density[~strange], bins, color="#4477aa", label="rows like the others")
    ax.hist(
        scored.log_density[strange], bins, color="#cc3311", label=f"novelty above {choices.level:g}"
    )
    ax.set(xlabel="log density of a row, by a model of the others (nats)", ylabel="rows")
    ax.set_yscale("symlog", linthresh=10)
    ax.yaxis.set_major_formatter("{x:g}")
    ax.legend(frameon=False)
    with atomic_file(folder / PICTURE) as scratch:
        figure.savefig(scratch, dpi=110)


def _results(
    choices: Choices, model: GaussianMixture, made: RowTable, table: TextTable, scored: Scored,
    seconds: float,
) -> Results:  # fmt: skip
    assert model.mixture_ is not None
    strange = int((scored.novelty > choices.level).sum())
    notes = [
        f"{len(table)} rows of {len(made.columns)} columns: a mixture of "
        f"{len(model.mixture_.weights)} normal distributions.",
        *made.notes,
    ]
    texts = [f"{c.name} ({len(c.levels)})" for c in made.columns if c.levels]
    if texts:
        notes.append(f"Text columns, with their kinds: {', '.join(texts)}.")
    gaps = table.missing(made.names)
    if gaps:
        notes.append(
            f"Missing values of {', '.join(gaps)} are integrated out: nothing is filled in."
        )
    order = np.argsort(-scored.novelty, kind="stable")[:_SHOWN]
    most = [
        {"row": table.numbers[i], "novelty": float(scored.novelty[i]),
         "strangest_column": made.names[int(scored.column[i])]}
        for i in order
    ]  # fmt: skip
    return Results(
        name=f"density {choices.data.name}",
        title=f"Unusual rows of {choices.data.name}",
        command=command_line("tractable.cli"),
        seeds=[choices.seed],
        settings={k: v for k, v in asdict(choices).items()
                  if v not in (None, ()) and k not in ("data", "out", "force")},
        images=[ImageFile(PICTURE, "rows by their density, each under a model of the others")],
        notes=notes,
        metrics={
            "rows": len(table), "unusual_rows": strange,
            "log_density": float(np.mean(scored.log_density)),
            "components": len(model.mixture_.weights), "most_unusual": most,
        },
        seconds=round(seconds, 1),
        peak_memory_mib=peak_memory_mib(),
        threads=choices.threads,
        versions=versions(),
        kind="table",
        sections=[_answer(choices, made, table, scored, strange)],
    )  # fmt: skip


def _answer(
    choices: Choices, made: RowTable, table: TextTable, scored: Scored, strange: int
) -> Section:
    """The rows that a person should look at first."""
    share = format_number(100 * (1 - choices.level))
    words = [
        f"{strange} of {len(table)} rows have a novelty above {choices.level:g}. Novelty is the "
        f"share of the other rows that are more likely than this one, each under a model that has "
        f"not seen it: about {share} % of the rows of any table lie above that level. How far its "
        f"log density lies below the others tells how strange a row is.",
        "Look at these first: the column named is the least likely one, given the rest of its row.",
    ]
    header, lines = _lines(table, made, scored)
    order = np.argsort(-scored.novelty, kind="stable")[:_SHOWN]
    shown = [[_cell(cell) for cell in lines[i]] for i in order]
    plain = {"row": "row of the file", "log_density": "log density",
             "strangest_column": "strangest column", "its_value": "its value"}  # fmt: skip
    return Section(
        "Which rows do not belong?", words, [plain.get(name, name) for name in header], shown
    )


# --- tractable sample --------------------------------------------------------------------------

_MOST = 10_000_000


def sample(model: Path, number: int, out: Path | None, *, seed: int, json: bool) -> None:
    """Draw rows, and write or print them."""
    if not 1 <= number <= _MOST:
        raise UsageError(f"-n must be from 1 to {_MOST}, got {number}")
    if out is not None:
        writer.check_output_path(out)
    held, table = row_table.load(model)
    generator = torch.Generator().manual_seed(seed)
    drawn = held.predict().sample(number, generator).double().numpy()
    lines = table.decode(drawn)
    if out is not None:
        ways = {c.name: c.notation for c in table.columns if not c.levels}
        writer.write_table(out, table.names, writer.typed_rows(table.names, lines, ways, out))
        if json:
            output.print_json({"rows": number, "columns": table.names, "out": str(out)})
        else:
            output.print_line(f"{number} new rows to {out}")
    elif json:
        output.print_json([dict(zip(table.names, line, strict=True)) for line in lines])
    else:
        writer.write_csv_rows(sys.stdout, table.names, lines)
