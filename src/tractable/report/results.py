"""Results of a run as one JSON file, written by studies, ``fit`` and others, read by the report.

Files that lack a field stay readable: the field has its default.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal

from tractable.errors import InvalidResults
from tractable.persistence.atomic import write_text
from tractable.report import json_validation as schema

RESULTS = "results.json"
"""Name of the file in the folder of a run."""
_STORED_NAMES = {
    "Results": {"experiment": "name", "figures": "metrics", "pictures": "images"},
    "Comparison": {"spread": "std_error"},
    "Section": {"words": "paragraphs", "points": "scatter"},
}
"""Former names of fields in stored files, by class."""

Better = Literal["smaller", "larger", "nearer", ""]
Verdict = Literal["better", "worse", "equal", ""]
Curves = Mapping[str, tuple[Sequence[float], Sequence[float | None]]]
Numbers = Sequence[float | None]


@dataclass(frozen=True)
class Comparison:
    """One metric, with the published value if there is one.

    Args:
        name: name of the metric.
        paper: published value; None if there is none.
        ours: value of this run; None if the run diverged.
        unit: unit of both values.
        better: which values are better; empty if they cannot be ranked.
        goal: ideal value, for ``better="nearer"``.
        std_error: standard error (or deviation) of ``ours`` over seeds or splits.
        learner: name of the learner.
        measure: name of the metric without the learner, to compare learners; default: ``name``.
        note: remark for the reader.
    """

    name: str
    paper: float | None
    ours: float | None
    unit: str = ""
    better: Better = ""
    goal: float | None = None
    std_error: float | None = None
    learner: str = ""
    measure: str = ""
    note: str = ""

    @property
    def verdict(self) -> Verdict:
        """Whether ``ours`` is better than ``paper``; empty if they cannot be compared.

        Values that differ by at most the standard error count as equal.

        >>> Comparison("error", paper=0.64, ours=0.52, unit="%", better="smaller").verdict
        'better'
        >>> Comparison("optimum", paper=0.96, ours=1.10, better="nearer", goal=1.0).verdict
        'worse'
        """
        if self.paper is None or self.ours is None or not self.better:
            return ""
        paper, ours = self.paper, self.ours
        if self.better == "nearer":
            if self.goal is None:
                return ""
            paper, ours = abs(paper - self.goal), abs(ours - self.goal)
        if math.isclose(paper, ours, rel_tol=1e-9, abs_tol=1e-12):
            return "equal"
        if self.std_error is not None and abs(ours - paper) <= self.std_error:
            return "equal"
        return "better" if (ours < paper) == (self.better != "larger") else "worse"

    @property
    def difference(self) -> float | None:
        """``ours - paper``; None if either is unknown."""
        return None if self.paper is None or self.ours is None else self.ours - self.paper


@dataclass(frozen=True)
class Chart:
    """Curves with common axes.

    Attributes:
        title: heading.
        x_label: label of the horizontal axis.
        y_label: label of the vertical axis.
        curves: x and y values of each curve, by name; a curve is interrupted where y is None or
            not finite.
        log: whether the vertical axis is logarithmic.
    """

    title: str
    x_label: str
    y_label: str
    curves: Curves
    log: bool = False

    def __post_init__(self) -> None:
        """Refuse curves whose x and y differ in length."""
        for name, (x, y) in self.curves.items():
            if len(x) != len(y):
                raise ValueError(f"curve {name!r} has {len(x)} x values and {len(y)} y values")


@dataclass(frozen=True)
class Calibration:
    """Expected and observed frequencies.

    Args:
        kind: ``"coverage"``: nominal and observed coverage of central intervals;
            ``"reliability"``: mean confidence of the predicted class and accuracy, in bins.
        curves: expected and observed frequencies, by name of the model.
        error: mean absolute difference by name of the model, or the expected calibration error.
    """

    kind: Literal["coverage", "reliability"]
    curves: Curves
    error: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ImageFile:
    """An image file in the folder of the results."""

    file: str
    caption: str = ""


@dataclass(frozen=True)
class ScatterData:
    """Predicted against observed values with error bars; None for numbers that are not finite."""

    x_label: str
    y_label: str
    x: Numbers
    y: Numbers
    low: Numbers = ()
    high: Numbers = ()


@dataclass(frozen=True)
class BarData:
    """Named values with standard errors; None for numbers that are not finite."""

    x_label: str
    names: Sequence[str]
    values: Numbers
    errors: Numbers = ()


@dataclass(frozen=True)
class Section:
    """A section of a page.

    Attributes:
        title: heading.
        paragraphs: text.
        header: column names of the table.
        rows: cells of the table as text; the first cell of a row is its name.
        scatter: scatter plot.
        bars: bar chart.
        warnings: highlighted text above the others.
    """

    title: str
    paragraphs: Sequence[str] = ()
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    scatter: ScatterData | None = None
    bars: BarData | None = None
    warnings: Sequence[str] = field(default=())


@dataclass
class Results:
    """All results of a run, except its models.

    Attributes:
        name: name of the study or command.
        title: what was computed, in one line.
        command: command line.
        seeds: random seeds.
        settings: options.
        comparison: metrics, with published values if there are any.
        charts: curves.
        calibration: expected and observed frequencies.
        images: image files.
        notes: remarks.
        metrics: all numbers, in nested dicts and lists.
        seconds: duration.
        peak_memory_mib: peak memory in MiB.
        threads: number of torch threads.
        commit: commit of the source tree.
        versions: versions of packages.
        kind: ``"study"``, or ``"table"`` for commands on a user's own data.
        sections: sections of the page.
    """

    name: str
    title: str = ""
    command: str = ""
    seeds: list[int] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    comparison: list[Comparison] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    calibration: Calibration | None = None
    images: list[ImageFile] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    metrics: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    peak_memory_mib: float | None = None
    threads: int | None = None
    commit: str | None = None
    versions: dict[str, str] = field(default_factory=dict)
    kind: Literal["study", "table"] = "study"
    sections: list[Section] = field(default_factory=list)

    def write(self, path: str | Path) -> Path:
        """Write the file atomically; return its path."""
        content = _plain(asdict(self))
        return write_text(Path(path), json.dumps(content, indent=1, allow_nan=False) + "\n")

    @classmethod
    def read(cls, path: str | Path) -> Results:
        """Return the results in a file.

        Raises:
            InvalidResults: the file is not JSON, holds no results, or has a value of a wrong type.
        """
        path = Path(path)
        content = _content(path)
        if _name_in(content) is None:
            raise InvalidResults(f"{path} does not hold results: no 'name' and 'metrics'")
        content = _with_new_names(content, "Results")
        held = {f.name: content[f.name] for f in fields(cls) if f.name in content}
        try:
            return _results()(held, "")
        except schema.InvalidValue as error:
            raise InvalidResults(f"{path} has an invalid value: {error}") from error


def _with_new_names(content: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return an object of a file with the current names of its fields."""
    names = _STORED_NAMES[kind]
    former = {names[key]: entry for key, entry in content.items() if key in names}
    return former | {key: entry for key, entry in content.items() if key not in names}


def _content(path: Path) -> Any:
    """Return the content of a JSON file; refuse strings that cannot be encoded."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        json.dumps(content, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise InvalidResults(f"{path} is not a JSON file: {error}") from error
    return content


@cache
def _results() -> schema.Check:
    """Return the check of a file."""
    string, number = schema.string, schema.finite_or_none
    curves = schema.dict_of(schema.curve)
    comparison = schema.record(
        Comparison, name=string, paper=number, ours=number, unit=string,
        better=schema.one_of("smaller", "larger", "nearer", ""), goal=number, std_error=number,
        learner=string, measure=string, note=string,
    )  # fmt: skip
    chart = schema.record(
        Chart,
        title=string,
        x_label=string,
        y_label=string,
        curves=curves,
        log=schema.boolean,
    )
    calibration = schema.record(
        Calibration, kind=schema.one_of("coverage", "reliability"), curves=curves,
        error=schema.numbers,
    )  # fmt: skip
    return schema.record(
        Results,
        name=string,
        title=string,
        command=string,
        seeds=schema.list_of(schema.integer),
        settings=schema.dict_of(schema.anything),
        comparison=schema.list_of(_renamed(comparison, "Comparison")),
        charts=schema.list_of(chart),
        calibration=schema.optional(calibration),
        images=schema.list_of(schema.record(ImageFile, file=string, caption=string)),
        notes=schema.list_of(string),
        metrics=schema.dict_of(schema.anything),
        seconds=schema.number,
        peak_memory_mib=number,
        threads=schema.optional(schema.integer),
        commit=schema.optional(string),
        versions=schema.dict_of(string),
        kind=schema.one_of("study", "table"),
        sections=schema.list_of(_renamed(_section(), "Section")),
    )


def _renamed(check: schema.Check, kind: str) -> schema.Check:
    """Return a check that also accepts the former names of the fields."""

    def with_new_names(value: Any, where: str) -> Any:
        return check(_with_new_names(value, kind) if isinstance(value, dict) else value, where)

    return with_new_names


def _section() -> schema.Check:
    """Return the check of a section."""
    string, strings = schema.string, schema.list_of(schema.string)
    numbers = schema.list_of(schema.finite_or_none)
    scatter = schema.record(
        ScatterData, x_label=string, y_label=string, x=numbers, y=numbers, low=numbers,
        high=numbers,
    )  # fmt: skip
    bars = schema.record(BarData, x_label=string, names=strings, values=numbers, errors=numbers)
    section = schema.record(
        Section, title=string, paragraphs=strings, header=strings, rows=schema.list_of(strings),
        scatter=schema.optional(scatter), bars=schema.optional(bars), warnings=strings,
    )  # fmt: skip

    def check(value: object, where: str) -> Section:
        found: Section = section(value, where)
        data = found.scatter
        if data is not None and len({len(data.x), len(data.y)}) > 1:
            raise schema.InvalidValue(where, "as many x as y values", len(data.y))
        for ends in () if data is None else (data.low, data.high):
            if data is not None and len(ends) not in (0, len(data.x)):
                raise schema.InvalidValue(where, "as many interval ends as values", len(ends))
        lengths = found.bars
        if lengths is not None and not (
            len(lengths.names) == len(lengths.values)
            and len(lengths.errors) in (0, len(lengths.values))
        ):
            raise schema.InvalidValue(where, "as many names as values", len(lengths.names))
        return found

    return check


def result_path(folder: str | Path, name: str) -> Path:
    """Return where to write the results of a run, without replacing those of another study.

    ``results.json``, or ``<name>.json`` in a folder with the results of other studies.
    """
    folder = Path(folder)
    own = folder / RESULTS
    if _name_of(own) == name:
        return own
    others = [path for path in folder.glob("*.json") if path.stem != name]
    shared = any(_name_of(path) not in (None, name) for path in others)
    return folder / f"{name}.json" if shared else own


def _name_of(path: Path) -> str | None:
    """Return the name of the study whose results a file holds; None if it holds none."""
    try:
        return _name_in(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None


def _name_in(content: Any) -> str | None:
    """Return the name in the content of a file; None if it is not that of results.

    A "name" alone is not sufficient, because many other JSON files have one.
    """
    if not isinstance(content, dict):
        return None
    name = content.get("experiment", content.get("name") if "metrics" in content else None)
    return name if isinstance(name, str) else None


def _plain(value: Any) -> Any:
    """Convert tuples and paths to JSON values, and numbers that are not finite to None."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, bool) or value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"results must consist of JSON values, got {type(value).__name__}: {value!r}")
