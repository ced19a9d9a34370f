"""``tractable density`` and ``tractable sample``: a density model of the rows of a table."""

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
from tractable.cli.tables.cell_formats import check_decimal
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
_MIN_ROWS = 10
_COMPARED = 2_000  # maximum number of rows that a row is compared with


@dataclass(frozen=True)
class DensityOptions:
    """Options of ``tractable density``."""

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
class RowScores:
    """Scores of the rows, each by a model that was fitted without it.

    Attributes:
        log_density: log density in nats, in the units of the table.
        novelty: fraction of the other rows with a higher density, in the columns that the row has.
        column: index of the least likely column, given the others.
    """

    log_density: Array
    novelty: Array
    column: Array


def run(json: bool, **values: Any) -> None:
    """Run the command and print a summary."""
    options = DensityOptions(**values)
    results, table, made, scores = density(options)
    folder, unusual = options.out, results.metrics["unusual_rows"]
    if json:
        output.print_json({
            "model": str(folder / MODEL), "novelty": str(folder / TABLE),
            "report": str(folder / "report.html"), **results.metrics,
        })  # fmt: skip
        return
    for note in results.notes:
        output.print_line(note)
    header, lines = _lines(table, made, scores)
    order = np.argsort(-scores.novelty, kind="stable")[:_SHOWN]
    output.print_table(header, [[_cell(c) for c in lines[i]] for i in order])
    output.print_line(
        f"{unusual} of {len(table)} rows have a novelty_share above {options.level:g}; all rows: "
        f"{folder / TABLE}"
    )
    output.print_line(f"model: {folder / MODEL}")
    output.print_line(f"report: {folder / 'report.html'}")


def density(options: DensityOptions) -> tuple[Results, TextTable, RowTable, RowScores]:
    """Fit and score; write model, table, figure and report to ``options.out``."""
    if not 0 < options.level < 1:
        raise UsageError(f"--level must lie between 0 and 1, got {options.level}")
    if options.components is not None and options.components < 1:
        raise UsageError(f"--components must be at least 1, got {options.components}")
    check_decimal(options.decimal)
    table = reader.read_table(options.data, encoding=options.encoding)
    if len(table) < _MIN_ROWS:
        raise UsageError(f"{table.path.name} has {len(table)} rows: expected at least {_MIN_ROWS}")
    made = row_table.infer_columns(
        table, ids=options.ids, drop=options.drop, categorical=options.categorical,
        decimal=options.decimal,
    )  # fmt: skip
    values = made.encode(table)
    with atomic_folder(options.out, force=options.force) as folder:
        started = clock.monotonic()
        torch.set_num_threads(options.threads)
        try:
            model = mixture(made, options.components, options.seed).fit(values)
            scores = score_rows(model, made, values, options.seed)
        except TractableError as error:
            raise UsageError(
                f"{options.data.name}: {made.with_column_names(one_line(error))}"
            ) from error
        except (ArithmeticError, RuntimeError) as error:
            raise CommandError(f"training failed: {one_line(error)}") from error
        row_table.save(folder / MODEL, model, made)
        writer.write_csv(folder / TABLE, *_lines(table, made, scores))
        _draw(options, scores, folder)
        results = _results(options, model, made, table, scores, clock.monotonic() - started)
        results.write(folder / RESULTS)
        write_report(results, folder)
    return results, table, made, scores


def mixture(made: RowTable, components: int | None, seed: int, members: int = 1) -> GaussianMixture:
    """Return an untrained model of such rows."""
    return GaussianMixture(
        components,
        dequantize=True,
        dtype=torch.float64,
        seed=seed,
        validation_fraction=0.0,
        n_estimators=members,
    )


def score_rows(model: GaussianMixture, made: RowTable, values: Array, seed: int) -> RowScores:
    """Return the scores of all rows by 5-fold cross-validation."""
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
        column[held] = _least_likely_column(part, values[held], values[kept])
        fold[held] = k
        parts.append(part)
    return RowScores(log_density, _novelty(parts, fold, values), column)


def _inside(model: GaussianMixture) -> tuple[ColumnScaler, MixtureParams]:
    assert model.mixture_ is not None
    return model.fitted_scaler(), model.mixture_


def _log_density(model: GaussianMixture, rows_: Array) -> Array:
    """Return the log density of the observed values of each row, in the units of the table."""
    columns, mixture_ = _inside(model)
    z = columns.to_model(torch.from_numpy(rows_), torch.float64)
    scale = columns.units.scale[columns.varying].log()
    found = mixture_.log_joint(z).logsumexp(1) - torch.where(z.isnan(), 0.0, scale).sum(1)
    return found.numpy()


def _novelty(parts: Sequence[GaussianMixture], fold: Array, values: Array) -> Array:
    """Return the fraction of the other rows with a higher density, by cross-validation.

    Training rows have a higher density than new rows, so that all rows must be scored by models
    that were fitted without them; only then the fraction is uniformly distributed.  Rows with
    missing values are compared in their observed columns.  If a column is constant in all but one
    fold, models have different columns, and only rows of models with the same columns are compared.

    Args:
        parts: a model for each fold, fitted to the other folds.
        fold: fold of each row.
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
            n_compared = min(len(others), max(_COMPARED, len(mine)))
            reference = others[np.linspace(0, len(others) - 1, n_compared).astype(int)]
            at = np.union1d(mine, reference)
            found = np.empty(len(values))
            for k, part in enumerate(parts):
                own = at[fold[at] == k]
                if len(own):
                    found[own] = _log_density(part, np.where(pattern, values[own], np.nan))
            higher = len(reference) - np.searchsorted(
                np.sort(found[reference]), found[mine], side="right"
            )
            # The middle of a step of the empirical distribution.
            novelty[mine] = (higher + 0.5) / (len(reference) + (~np.isin(mine, reference)))
    for k, c in enumerate(columns):
        own = torch.from_numpy(values[fold == k])
        possible = c.matches_constants(torch.where(own.isnan(), c.units.mean, own)).numpy()
        novelty[fold == k] = np.where(possible, novelty[fold == k], 1.0)
    return novelty


def _least_likely_column(model: GaussianMixture, new: Array, train: Array) -> Array:
    """Return the least likely column of each row given the others."""
    columns, mixture_ = _inside(model)
    some = train[np.linspace(0, len(train) - 1, min(len(train), _COMPARED)).astype(int)]
    there, old = (columns.to_model(torch.from_numpy(v), torch.float64) for v in (new, some))
    usual = _given_others(mixture_, old)
    off = (usual.nanmedian(0).values - _given_others(mixture_, there)) / _median_deviation(usual)
    worst = torch.nan_to_num(off, nan=-float("inf")).argmax(1).numpy()
    return columns.varying.nonzero().flatten().numpy()[worst]


def _given_others(mixture_: MixtureParams, x: Tensor) -> Tensor:
    """Return the log density of every value given the others of its row; NaN if missing."""
    whole = mixture_.log_joint(x).logsumexp(1)
    found = torch.full_like(x, float("nan"))
    for k in range(x.shape[1]):
        without = x.clone()
        without[:, k] = float("nan")
        found[:, k] = whole - mixture_.log_joint(without).logsumexp(1)
    return torch.where(x.isnan(), float("nan"), found)


def _median_deviation(values: Tensor) -> Tensor:
    middle = values.nanmedian(0).values
    return (values - middle).abs().nanmedian(0).values.clamp_min(0.1)


def _lines(
    table: TextTable, made: RowTable, scores: RowScores
) -> tuple[list[str], list[list[Any]]]:
    ids = [table.column(name) for name in made.ids]
    lines = []
    for i in range(len(table)):
        name = made.names[int(scores.column[i])]
        value = table.rows[i][table.header.index(name)]
        lines.append([
            *(column[i] for column in ids), table.numbers[i], round(float(scores.novelty[i]), 4),
            round(float(scores.log_density[i]), 4), name, value,
        ])  # fmt: skip
    header = [*made.ids, "row", "novelty_share", "log_density", "least_likely_column", "value"]
    return header, lines


def _cell(value: Any) -> str:
    return f"{value:.3f}".replace("-", "−") if isinstance(value, float) else str(value)


def _draw(options: DensityOptions, scores: RowScores, folder: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure((7, 2.8), layout="constrained")
    ax = figure.subplots()
    unusual = scores.novelty > options.level
    bins = np.histogram_bin_edges(scores.log_density, bins=40).tolist()
    ax.hist(scores.log_density[~unusual], bins, color="#4477aa", label="other rows")
    ax.hist(
        scores.log_density[unusual],
        bins,
        color="#cc3311",
        label=f"novelty_share above {options.level:g}",
    )
    ax.set(xlabel="log density of a row (nats)", ylabel="rows")
    ax.set_yscale("symlog", linthresh=10)
    ax.yaxis.set_major_formatter("{x:g}")
    ax.legend(frameon=False)
    with atomic_file(folder / PICTURE) as scratch:
        figure.savefig(scratch, dpi=110)


def _results(
    options: DensityOptions, model: GaussianMixture, made: RowTable, table: TextTable,
    scores: RowScores, seconds: float,
) -> Results:  # fmt: skip
    assert model.mixture_ is not None
    unusual = int((scores.novelty > options.level).sum())
    notes = [
        f"{len(table)} rows of {len(made.columns)} columns: a mixture of "
        f"{len(model.mixture_.weights)} normal distributions.",
        *made.notes,
    ]
    texts = [f"{c.name} ({len(c.levels)})" for c in made.columns if c.levels]
    if texts:
        notes.append(f"Text columns (number of levels): {', '.join(texts)}.")
    gaps = table.missing(made.names)
    if gaps:
        notes.append(f"Missing values of {', '.join(gaps)} are integrated out.")
    order = np.argsort(-scores.novelty, kind="stable")[:_SHOWN]
    most = [
        {"row": table.numbers[i], "novelty_share": float(scores.novelty[i]),
         "least_likely_column": made.names[int(scores.column[i])]}
        for i in order
    ]  # fmt: skip
    return Results(
        name=f"density {options.data.name}",
        title=f"Unusual rows of {options.data.name}",
        command=command_line("tractable.cli"),
        seeds=[options.seed],
        settings={k: v for k, v in asdict(options).items()
                  if v not in (None, ()) and k not in ("data", "out", "force")},
        images=[ImageFile(PICTURE, "log densities of the rows")],
        notes=notes,
        metrics={
            "rows": len(table), "unusual_rows": unusual,
            "log_density": float(np.mean(scores.log_density)),
            "components": len(model.mixture_.weights), "most_unusual": most,
        },
        seconds=round(seconds, 1),
        peak_memory_mib=peak_memory_mib(),
        threads=options.threads,
        versions=versions(),
        kind="table",
        sections=[_unusual_rows_section(options, made, table, scores, unusual)],
    )  # fmt: skip


def _unusual_rows_section(
    options: DensityOptions, made: RowTable, table: TextTable, scores: RowScores, unusual: int
) -> Section:
    """Return the section with the most unusual rows."""
    share = format_number(100 * (1 - options.level))
    words = [
        f"{unusual} of {len(table)} rows have a novelty share above {options.level:g}. The novelty "
        f"share is the fraction of the other rows with a higher density, each under a model that "
        f"was fitted without it: about {share} % of the rows of any table are above this level. "
        f"Compare their log densities with those of the other rows.",
        "The column is the least likely one, given the other values of the row.",
    ]
    header, lines = _lines(table, made, scores)
    order = np.argsort(-scores.novelty, kind="stable")[:_SHOWN]
    shown = [[_cell(cell) for cell in lines[i]] for i in order]
    plain = {"row": "row of the file", "log_density": "log density",
             "novelty_share": "novelty share",
             "least_likely_column": "least likely column"}  # fmt: skip
    return Section("Unusual rows", words, [plain.get(name, name) for name in header], shown)


# --- tractable sample --------------------------------------------------------------------------

_MAX_SAMPLES = 10_000_000


def sample(model: Path, n_samples: int, out: Path | None, *, seed: int, json: bool) -> None:
    """Sample rows, and write or print them."""
    if not 1 <= n_samples <= _MAX_SAMPLES:
        raise UsageError(f"--n-samples must be from 1 to {_MAX_SAMPLES}, got {n_samples}")
    if out is not None:
        writer.check_output_path(out)
    held, table = row_table.load(model)
    generator = torch.Generator().manual_seed(seed)
    drawn = held.predict().sample(n_samples, generator).double().numpy()
    lines = table.decode(drawn)
    if out is not None:
        formats = {c.name: c.notation for c in table.columns if not c.levels}
        writer.write_table(out, table.names, writer.typed_rows(table.names, lines, formats, out))
        if json:
            output.print_json({"rows": n_samples, "columns": table.names, "out": str(out)})
        else:
            output.print_line(f"{n_samples} rows written to {out}")
    elif json:
        output.print_json([dict(zip(table.names, line, strict=True)) for line in lines])
    else:
        writer.write_csv_rows(sys.stdout, table.names, lines)
