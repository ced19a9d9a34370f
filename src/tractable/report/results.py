"""What a run found, as one JSON file: written by studies and ``fit``, read by the report.

Files written before a field existed stay readable: what is missing is empty.
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
from tractable.report import checks, sections
from tractable.report.sections import Section

RESULTS = "results.json"
"""The file in the folder of a run."""

Better = Literal["smaller", "larger", "nearer", ""]
Verdict = Literal["better", "worse", "equal", ""]
Curves = Mapping[str, tuple[Sequence[float], Sequence[float | None]]]


@dataclass(frozen=True)
class Comparison:
    """One row of the table *paper | ours*.

    Args:
        name: what is measured.
        paper: the published number; None where there is none.
        ours: the number of this run; None where it diverged.
        unit: of both.
        better: which of two numbers is the better one; ``"nearer"`` to ``goal``; empty where
            neither is.
        goal: the true value, for ``"nearer"``.
        spread: standard deviation (or error) of ours over seeds or splits.
        learner: the method that gave ours.
        measure: the name without the learner, for comparing learners; by default the name.
        note: anything else that a reader should know.
    """

    name: str
    paper: float | None
    ours: float | None
    unit: str = ""
    better: Better = ""
    goal: float | None = None
    spread: float | None = None
    learner: str = ""
    measure: str = ""
    note: str = ""

    @property
    def verdict(self) -> Verdict:
        """How ours stands to the paper's; empty where that cannot be said.

        Equal also means: no farther apart than the spread of ours.

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
        if self.spread is not None and abs(ours - paper) <= self.spread:
            return "equal"  # no farther apart than seeds are
        return "better" if (ours < paper) == (self.better != "larger") else "worse"

    @property
    def difference(self) -> float | None:
        """Ours less the paper's."""
        return None if self.paper is None or self.ours is None else self.ours - self.paper


@dataclass(frozen=True)
class Chart:
    """Curves that share their axes: name of the curve to its places and values.

    A value of None (or one that is not finite) is a gap.
    """

    title: str
    x_label: str
    y_label: str
    curves: Curves
    log: bool = False

    def __post_init__(self) -> None:
        """Refuse curves whose halves do not fit."""
        for name, (x, y) in self.curves.items():
            if len(x) != len(y):
                raise ValueError(f"curve {name!r} has {len(x)} places and {len(y)} values")


@dataclass(frozen=True)
class Calibration:
    """How far stated and observed frequencies agree.

    Args:
        kind: ``"coverage"``: levels of central intervals and the share of targets inside;
            ``"reliability"``: mean confidence of the chosen class and its accuracy, in bins.
        curves: name of the model to stated and observed frequencies.
        error: name of the model to its mean gap (for ``"reliability"`` the expected calibration
            error, bins weighted by their rows).
    """

    kind: Literal["coverage", "reliability"]
    curves: Curves
    error: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Picture:
    """An image file in the folder of the results."""

    file: str
    caption: str = ""


@dataclass
class Results:
    """Everything a run leaves, apart from its models.

    Of the kind ``"table"`` it is of a user's own data, and ``sections`` answer a user's questions.
    ``metrics`` are all numbers, in any nesting of dicts and lists; files that call them ``figures``
    are read as well.
    """

    experiment: str
    title: str = ""
    command: str = ""
    seeds: list[int] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    comparison: list[Comparison] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    calibration: Calibration | None = None
    pictures: list[Picture] = field(default_factory=list)
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
        """Write the file, replacing an older one only when the new one is complete."""
        content = _plain(asdict(self))
        return write_text(Path(path), json.dumps(content, indent=1, allow_nan=False) + "\n")

    @classmethod
    def read(cls, path: str | Path) -> Results:
        """The results in a file.

        Raises:
            InvalidResults: the file is not JSON, or not of results, or holds a value of another
                kind than is wanted there.
        """
        path = Path(path)
        content = _content(path)
        if not isinstance(content, dict) or not isinstance(content.get("experiment"), str):
            raise InvalidResults(f"{path} does not hold the results of a run: no 'experiment'")
        content.setdefault("metrics", content.get("figures", {}))
        held = {f.name: content[f.name] for f in fields(cls) if f.name in content}
        try:
            return _results()(held, "")
        except checks.WrongValue as error:
            raise InvalidResults(
                f"{path} does not hold results as they are now: {error}"
            ) from error


def _content(path: Path) -> Any:
    """What is in a JSON file, all of whose texts can be written again."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        json.dumps(content, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise InvalidResults(f"{path} is not a JSON file: {error}") from error
    return content


@cache
def _results() -> checks.Check:
    """The check of a whole file."""
    text, gap = checks.text, checks.gap
    curves = checks.dict_of(checks.curve)
    comparison = checks.record(
        Comparison, name=text, paper=gap, ours=gap, unit=text,
        better=checks.one_of("smaller", "larger", "nearer", ""), goal=gap, spread=gap,
        learner=text, measure=text, note=text,
    )  # fmt: skip
    chart = checks.record(
        Chart, title=text, x_label=text, y_label=text, curves=curves, log=checks.flag
    )
    calibration = checks.record(
        Calibration, kind=checks.one_of("coverage", "reliability"), curves=curves,
        error=checks.numbers,
    )  # fmt: skip
    return checks.record(
        Results,
        experiment=text,
        title=text,
        command=text,
        seeds=checks.list_of(checks.whole),
        settings=checks.dict_of(checks.anything),
        comparison=checks.list_of(comparison),
        charts=checks.list_of(chart),
        calibration=checks.optional(calibration),
        pictures=checks.list_of(checks.record(Picture, file=text, caption=text)),
        notes=checks.list_of(text),
        metrics=checks.dict_of(checks.anything),
        seconds=checks.number,
        peak_memory_mib=gap,
        threads=checks.optional(checks.whole),
        commit=checks.optional(text),
        versions=checks.dict_of(text),
        kind=checks.one_of("study", "table"),
        sections=checks.list_of(sections.check()),
    )


def result_path(folder: str | Path, experiment: str) -> Path:
    """Where an experiment writes in a folder, without touching another experiment's results.

    In a folder of its own: ``results.json``.  In a folder that already holds the results of others,
    such as the one of committed copies: ``<experiment>.json``.
    """
    folder = Path(folder)
    own = folder / RESULTS
    if _experiment_of(own) == experiment:
        return own
    others = [path for path in folder.glob("*.json") if path.stem != experiment]
    shared = any(_experiment_of(path) not in (None, experiment) for path in others)
    return folder / f"{experiment}.json" if shared else own


def _experiment_of(path: Path) -> str | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    found = content.get("experiment") if isinstance(content, dict) else None
    return found if isinstance(found, str) else None


def _plain(value: Any) -> Any:
    """JSON values: no tuples, no numbers that JSON cannot hold."""
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
    raise TypeError(f"results hold plain values only, got {type(value).__name__}: {value!r}")
